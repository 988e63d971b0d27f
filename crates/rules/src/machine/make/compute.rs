//! What is computed: whether it counts as written, and where it came from.

use iced_x86::{Instruction, Mnemonic, OpKind};
use image::effects::{self, Place, Transfer};
use jit::Arith;

use super::super::operands::{
    bits, computes_numbers, gpr, is_of_lanes, mask_is_flags, mix_of, units,
};
use super::super::plan::*;
use super::Maker;

impl Maker<'_> {
    pub(super) fn computed(
        &mut self,
        i: &Instruction,
        t: &Transfer,
        offset: u16,
        len: u8,
        to: u16,
        mask: u8,
    ) {
        let general = matches!(t.to, Place::Memory { .. })
            || matches!(t.to, Place::Register(r) if r.general_number().is_some());
        if !general && !mask_is_flags(t) {
            return self.computed_vector(i, t, offset, len, to, mask);
        }
        let whole = general && len == 8 && mask == 0xff;
        let mut kept = false;
        if whole && self.trackers.blocks {
            kept = self.arithmetic(i, t, to);
        }
        if self.trackers.unwritten {
            // What the loader computes counts as known.
            let mix = match mix_of(i) {
                _ if !self.judged => Mix::Never,
                // The flags are of all of them.
                Mix::Bytes if !general => Mix::Any,
                mix => mix,
            };
            if mix == Mix::Never {
                if kept {
                    let sources = Box::new([]);
                    self.op(Op::Mix {
                        to,
                        mask,
                        mix,
                        sources,
                    });
                } else {
                    self.op(Op::Clear { to, mask });
                }
                return;
            }
            let list = self.sources(t, offset, len);
            self.op(Op::Mix {
                to,
                mask,
                mix,
                sources: list.into(),
            });
            if !kept && general {
                // Mixing leaves alone where it came from.
                self.op(Op::Arith {
                    to,
                    a: NO_UNIT,
                    b: NO_UNIT,
                    kind: Arith::Scale,
                });
            }
        } else if !kept {
            self.op(Op::Clear { to, mask });
        }
    }

    /// Numbers in vectors: each is written if all are that it was computed from.
    fn computed_vector(
        &mut self,
        i: &Instruction,
        t: &Transfer,
        offset: u16,
        len: u8,
        to: u16,
        mask: u8,
    ) {
        let followed = self.numbers
            && matches!(t.to, Place::Register(r) if effects::VECTORS.contains(r.at))
            && is_of_lanes(t)
            && computes_numbers(i);
        if !followed {
            return self.op(Op::Clear { to, mask });
        }
        let lane = match t.lane {
            0 => len,
            lane => len.min(lane as u8),
        };
        for first in (0..len).step_by(usize::from(lane)) {
            let sources = self.sources(t, offset + u16::from(first), lane);
            let at = mask.trailing_zeros() as u16 + u16::from(first);
            self.op(Op::Mix {
                to,
                mask: bits(at, u16::from(lane)),
                mix: Mix::Any,
                sources: sources.into(),
            });
        }
        self.op(Op::Arith {
            to,
            a: NO_UNIT,
            b: NO_UNIT,
            kind: Arith::Scale,
        });
    }

    /// Where the sum or difference of eight bytes came from; false if nothing is known of that.
    fn arithmetic(&mut self, i: &Instruction, t: &Transfer, to: u16) -> bool {
        use Mnemonic as M;
        let registers = |n: u32| {
            (i.op_kind(n) == OpKind::Register)
                .then(|| gpr(i.op_register(n)))
                .flatten()
        };
        if i.mnemonic() == M::Lea {
            let base = gpr(i.memory_base()).unwrap_or(NO_UNIT);
            let index = gpr(i.memory_index()).unwrap_or(NO_UNIT);
            if i.memory_index_scale() == 1 || index == NO_UNIT {
                self.op(Op::Arith {
                    to,
                    a: base,
                    b: index,
                    kind: Arith::Add,
                });
            } else {
                let scaled = self.scratch();
                self.op(Op::Arith {
                    to: scaled,
                    a: index,
                    b: NO_UNIT,
                    kind: Arith::Scale,
                });
                self.op(Op::Arith {
                    to,
                    a: base,
                    b: scaled,
                    kind: Arith::Add,
                });
            }
            return true;
        }
        let immediate =
            i.op_count() > 1 && !matches!(i.op_kind(1), OpKind::Register | OpKind::Memory);
        // The first operand: a register, or memory that has to be fetched.
        let operand = |maker: &mut Self, n: u32| match registers(n) {
            Some(unit) => Some(unit),
            None if i.op_kind(n) == OpKind::Memory => {
                let access = t.from.iter().find_map(|s| match s.place {
                    Place::Memory { access, .. } => Some(access),
                    _ => None,
                })?;
                let unit = maker.scratch();
                let spot = maker.spot + u16::from(access);
                maker.op(Op::Load {
                    to: unit,
                    to_at: 0,
                    spot,
                    at: 0,
                    len: 8,
                    whole: false,
                });
                Some(unit)
            }
            None => None,
        };
        let kind = match i.mnemonic() {
            M::Add if i.op_count() == 2 => Arith::Add,
            M::Sub if i.op_count() == 2 => Arith::Sub,
            M::Inc | M::Dec => Arith::Add,
            M::Neg | M::Not => Arith::Negate,
            M::Shl | M::Sar | M::Shr | M::Imul => Arith::Scale,
            _ => return false,
        };
        let Some(a) = operand(self, 0) else {
            return false;
        };
        let two = matches!(i.mnemonic(), M::Add | M::Sub) && !immediate;
        let b = if two {
            operand(self, 1).unwrap_or(NO_UNIT)
        } else {
            NO_UNIT
        };
        if to != a || b != NO_UNIT || kind != Arith::Add {
            self.op(Op::Arith { to, a, b, kind });
        }
        true
    }

    /// All that bytes of an outcome depend on.
    fn sources(&self, t: &Transfer, offset: u16, len: u8) -> Vec<Source> {
        let mut out: Vec<Source> = Vec::new();
        let lane = t.lane.max(1);
        let mut at = offset;
        while at < offset + u16::from(len) {
            for place in t.sources(at) {
                match place {
                    Place::Register(effects::MXCSR_CONTROL) => {}
                    Place::Register(r) => {
                        for (unit, at, len, _) in units(r) {
                            let mask = bits(u16::from(at), u16::from(len));
                            let old = out.iter_mut().find_map(|s| match s {
                                Source::Unit(u, m) if *u == unit => Some(m),
                                _ => None,
                            });
                            match old {
                                Some(m) => *m |= mask,
                                None => out.push(Source::Unit(unit, mask)),
                            }
                        }
                    }
                    Place::Memory { access, at, len } if len <= 8 => {
                        let spot = self.spot + u16::from(access);
                        let (at, len) = (at as u8, len as u8);
                        let same = |s: &Source| matches!(s, Source::Memory { spot: x, at: y, .. } if *x == spot && *y == at);
                        if !out.iter().any(same) {
                            out.push(Source::Memory { spot, at, len });
                        }
                    }
                    _ => {}
                }
            }
            if t.lane == 0 {
                break;
            }
            at += lane;
        }
        out
    }
}
