//! Transfer functions made: from what the instructions of a superblock do to operations on the shadow.

use flow::Step;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use image::effects::{self, Control, Place, Size, Transfer};
use rustc_hash::FxHashMap;
use tape::{Code, Known, Term, UNMEASURED, What};

use super::RED_ZONE;
use super::operands::{bits, copied_unit, gpr, mask_is_flags, touches, units};
use super::plan::*;
use flow::Spot;

mod compute;
mod measure;

struct Maker<'a> {
    variables: &'a mut dyn Variables,
    plan: Plan,
    trackers: Trackers,
    entries: &'a FxHashMap<u64, u16>,
    stubs: &'a FxHashMap<u64, u16>,
    i: u8,
    /// First spot of the instruction at hand.
    spot: u16,
    scratch: u16,
    judged: bool,
    /// Numbers in vector registers are followed.
    numbers: bool,
    /// The last operation on flags that nobody has looked at yet, and which flags.
    pending: Option<(usize, u8)>,
    dead: Vec<usize>,
    /// Memory that is set aside on the stack.
    aside: Option<measure::Aside>,
}

impl Plan {
    /// `judged` says of an address how much of what is done there is held against the program.
    pub(crate) fn of(
        code: &Code,
        trackers: Trackers,
        (entries, stubs): (&FxHashMap<u64, u16>, &FxHashMap<u64, u16>),
        variables: &mut dyn Variables,
        judged: impl Fn(u64) -> Judged,
    ) -> Plan {
        let mut maker = Maker {
            variables,
            plan: Plan::for_insns(code.insns.len()),
            trackers,
            entries,
            stubs,
            i: 0,
            spot: 0,
            scratch: SCRATCH,
            judged: false,
            numbers: false,
            pending: None,
            dead: Vec::new(),
            aside: None,
        };
        for (i, insn) in code.insns.iter().enumerate() {
            let known: Vec<Known> = code
                .known
                .iter()
                .filter(|k| k.insn as usize == i)
                .copied()
                .collect();
            maker.plan.first.push(maker.plan.ops.len() as u32);
            maker.plan.pcs.push(insn.pc);
            maker.i = i as u8;
            let judged = judged(insn.pc);
            maker.judged = trackers.unwritten && judged != Judged::Nothing;
            maker.numbers = trackers.unwritten && judged == Judged::All;
            maker.instruction(insn, code.insns.get(i + 1), &known);
        }
        maker.plan.first.push(maker.plan.ops.len() as u32);
        maker.bury();
        let changed = maker.plan.ops.iter().filter_map(|(_, op)| op.changes());
        maker.plan.writes = changed.fold(0, |m, unit| m | super::fast::group(unit));
        let ops = maker.plan.ops.iter().enumerate();
        let calls = ops.filter(|(_, (_, op))| op.is_call());
        maker.plan.calls = calls.map(|(n, _)| n as u32).collect();
        maker.plan.trim();
        maker.plan
    }
}

impl Maker<'_> {
    /// Adds an operation, or makes it part of the one before.
    fn op(&mut self, op: Op) {
        let same = |i: u8| i == self.i;
        match (&op, self.plan.ops.last_mut()) {
            (
                Op::Clear { to, mask },
                Some((
                    i,
                    Op::Clear {
                        to: last,
                        mask: known,
                    },
                )),
            ) if same(*i) && to == last => {
                *known |= mask;
                return;
            }
            (
                Op::Clear { to, mask: 0xf0 },
                Some((
                    i,
                    Op::Load {
                        to: last,
                        to_at: 0,
                        len: 4,
                        whole,
                        ..
                    }
                    | Op::Part {
                        to: last,
                        to_at: 0,
                        len: 4,
                        whole,
                        ..
                    },
                )),
            ) if same(*i) && to == last => {
                *whole = true;
                return;
            }
            (
                Op::Mix {
                    to: FLAGS,
                    mask,
                    mix,
                    ..
                },
                Some((
                    i,
                    Op::Mix {
                        to: FLAGS,
                        mask: known,
                        mix: last,
                        ..
                    },
                )),
            ) if same(*i) && mix == last => {
                *known |= mask;
                return;
            }
            _ => {}
        }
        self.plan.ops.push((self.i, op));
    }

    /// Removes what is of no interest.
    fn bury(&mut self) {
        let dead = &self.dead;
        let mut n = 0;
        self.plan.ops.retain(|_| {
            n += 1;
            dead.binary_search(&(n - 1)).is_err()
        });
        for first in &mut self.plan.first {
            *first -= dead.partition_point(|d| *d < *first as usize) as u32;
        }
    }

    /// Flags that nothing looks at before they are set again are of no interest.
    fn flags(&mut self, step: &Step) {
        let reads = step.effects.registers_read();
        if step.may_branch
            || step.condition.is_some()
            || reads.iter().any(|r| effects::FLAGS.overlaps(*r))
        {
            self.pending = None;
        }
        let Some((
            i,
            Op::Mix {
                to: FLAGS, mask, ..
            },
        )) = self.plan.ops.last()
        else {
            return;
        };
        if *i != self.i {
            return;
        }
        let (n, mask) = (self.plan.ops.len() - 1, *mask);
        if let Some((last, known)) = self.pending
            && known & !mask == 0
        {
            self.dead.push(last);
        }
        self.pending = Some((n, mask));
    }

    fn instruction(&mut self, insn: &tape::Insn, next: Option<&tape::Insn>, known: &[Known]) {
        let before = |r: u8| {
            known
                .iter()
                .find(|k| k.what == What::Before(r))
                .map(|k| k.term)
        };
        // Code that was translated before the function was asked for does not tell the arguments.
        if let Some(&function) = self.entries.get(&insn.pc)
            && let Some(slot) = before(4)
            && let [Some(a), Some(b), Some(c), Some(d), Some(e), Some(f)] =
                [7, 6, 2, 1, 8, 9].map(before)
        {
            let arguments = [a, b, c, d, e, f];
            let measured = std::array::from_fn(|n| {
                let what = What::Measured(n as u8);
                let told = known.iter().find(|k| k.what == what);
                let unknown = Term {
                    slot: tape::slot::ZERO,
                    offset: UNMEASURED as i64,
                };
                told.map_or(unknown, |k| k.term)
            });
            self.op(Op::Enter(Box::new(Entry {
                function,
                arguments,
                measured,
                slot,
            })));
        }
        if let (Some(&function), Some(slot)) = (self.stubs.get(&insn.pc), before(4)) {
            self.op(Op::Asks { function, slot });
        }
        let mut decoder = Decoder::with_ip(64, insn.code(), insn.pc, DecoderOptions::NONE);
        let decoded = decoder.decode();
        let step = Step::of(insn, known);
        self.spot = self.plan.spots.len() as u16;
        self.plan.spots.extend(step.spots.iter().copied());
        let addresses = step.spots.iter().map(Address::of);
        self.plan.addresses.extend(addresses);
        self.scratch = SCRATCH;
        if self.trackers.blocks || self.trackers.unwritten {
            self.checks(&step, insn.pc, before(4), before(5));
            self.decision(&step);
            self.grow(&decoded, before(4));
            self.called(&step, before(4));
            self.transfers(&decoded, &step);
            if !self.sets_aside(&decoded, next, &step, (before(4), before(5))) {
                self.points(&decoded, insn.pc, before(4), before(5));
            }
            self.flags(&step);
        }
        if step.returns
            && let (Some(slot), Some(result)) = (before(4), before(0))
        {
            self.op(Op::Return { slot, result });
        }
    }

    /// `lea` of a variable, or a copy of the stack pointer where one begins.
    fn points(&mut self, i: &Instruction, pc: u64, rsp: Option<Term>, rbp: Option<Term>) {
        if i.mnemonic() == Mnemonic::Mov
            && i.op1_kind() == OpKind::Register
            && i.op1_register() == Register::RSP
            && let Some(to) = gpr(i.op0_register()).filter(|to| *to != RBP)
        {
            self.variable(to, pc, RSP, 0, rsp, rbp);
            return;
        }
        let index = i.memory_index();
        if i.mnemonic() != Mnemonic::Lea || !i.op0_register().is_gpr64() || index != Register::None
        {
            return;
        }
        // A stack that is put back to where a variable begins is no pointer to it.
        let Some(to) = gpr(i.op0_register()).filter(|to| *to != RSP) else {
            return;
        };
        let (base, displacement) = match i.is_ip_rel_memory_operand() {
            true => (NO_UNIT, i.ip_rel_memory_address() as i64),
            false => (
                gpr(i.memory_base()).unwrap_or(ZERO),
                i.memory_displacement64() as i64,
            ),
        };
        self.variable(to, pc, base, displacement, rsp, rbp);
    }

    /// Has `to` point to the variable that is there, if there is one.
    fn variable(
        &mut self,
        to: u16,
        pc: u64,
        base: u16,
        displacement: i64,
        rsp: Option<Term>,
        rbp: Option<Term>,
    ) -> bool {
        if !self.trackers.variables {
            return false;
        }
        let term = match base {
            NO_UNIT => {
                let block = self.variables.global(pc, displacement as u64);
                if let Some(block) = block {
                    self.op(Op::Global { to, block });
                }
                return block.is_some();
            }
            RSP => rsp,
            RBP => rbp,
            _ => None,
        };
        let Some(term) = term else { return false };
        let local = self.variables.local(pc, base, displacement);
        if let Some(local) = local {
            let offset = term.offset.wrapping_add(displacement);
            let address = Term { offset, ..term };
            self.op(Op::Local { to, address, local });
        }
        local.is_some()
    }

    fn checks(&mut self, step: &Step, pc: u64, rsp: Option<Term>, rbp: Option<Term>) {
        for (n, spot) in step.spots.iter().enumerate() {
            let a = &spot.access.address;
            let unit = |r: Option<u8>| r.map_or(NO_UNIT, u16::from);
            let (mut base, index) = (unit(a.base), unit(a.index));
            // An element of an array.
            if index != NO_UNIT && matches!(base, NO_UNIT | RSP | RBP) && a.segment.is_none() {
                let unit = self.scratch;
                if self.variable(unit, pc, base, a.displacement as i64, rsp, rbp) {
                    self.scratch += 1;
                    base = unit;
                }
            }
            let constant = index == NO_UNIT && base == NO_UNIT && a.segment.is_none();
            if let (true, Size::Fixed(len)) =
                (constant && self.trackers.variables, spot.access.size)
                && let Some(block) = self.variables.left(pc, a.displacement, len.into())
            {
                base = self.scratch;
                self.scratch += 1;
                self.op(Op::Global { to: base, block });
            }
            // The stack pointer points to the stack.
            if index == NO_UNIT && (base == RSP || base == NO_UNIT) {
                continue;
            }
            // An index counts elements; it is no pointer.
            if a.scale != 1 && base == NO_UNIT && !self.judged {
                continue;
            }
            let spot = self.spot + n as u16;
            let bytes = a.scale == 1;
            self.op(Op::Check {
                spot,
                base,
                index,
                bytes,
            });
        }
    }

    fn decision(&mut self, step: &Step) {
        if !self.judged || !step.may_branch {
            return;
        }
        let mut mask = 0;
        for place in &step.effects.decided_by {
            if let Place::Register(r) = place
                && r.at / 8 == FLAGS
            {
                mask |= bits(r.at % 8, r.len);
            }
        }
        if mask != 0 {
            self.op(Op::Decide { mask });
        }
    }

    /// What lies below the return address is the callee's, and nothing yet.
    fn called(&mut self, step: &Step, rsp: Option<Term>) {
        let calls = matches!(
            step.effects.control,
            Control::Call(_) | Control::IndirectCall
        );
        if let (true, Some(rsp)) = (calls && self.trackers.unwritten, rsp) {
            let from = Term {
                slot: rsp.slot,
                offset: rsp.offset - 8 + RED_ZONE as i64,
            };
            self.op(Op::Grow {
                from,
                by: RED_ZONE as u32,
            });
        }
    }

    /// `sub rsp, n` and its like.
    fn grow(&mut self, i: &Instruction, from: Option<Term>) {
        let Some(from) = from.filter(|_| self.trackers.unwritten) else {
            return;
        };
        if i.op_count() < 2 || i.op0_kind() != OpKind::Register || i.op0_register() != Register::RSP
        {
            return;
        }
        let constant = i.try_immediate(1).map(|n| n as i64);
        let by = match (i.mnemonic(), constant) {
            (Mnemonic::Sub, Ok(n)) => n,
            (Mnemonic::Add, Ok(n)) => n.wrapping_neg(),
            (Mnemonic::Lea, _)
                if i.memory_base() == Register::RSP && i.memory_index() == Register::None =>
            {
                (i.memory_displacement64() as i64).wrapping_neg()
            }
            _ => return,
        };
        if (1..1 << 20).contains(&by) {
            self.op(Op::Grow {
                from,
                by: by as u32,
            });
        }
    }

    fn transfers(&mut self, i: &Instruction, step: &Step) {
        if self.strings(i, step) || self.conditional(i, step) {
            return;
        }
        let list: Vec<&Transfer> = step
            .effects
            .transfers
            .iter()
            .filter(|t| !matches!(t.to, Place::Register(r) if r.at / 8 == RSP))
            .filter(|t| self.judged || !mask_is_flags(t))
            .collect();
        // Something is read after something was written: through scratch units then.
        let conflict = list.len() > 1
            && list.iter().enumerate().any(|(n, t)| {
                list[..n]
                    .iter()
                    .any(|earlier| t.from.iter().any(|s| touches(earlier.to, s.place)))
            });
        let mut late = Vec::new();
        for t in list {
            match t.to {
                Place::Register(r) => {
                    for (unit, at, len, offset) in units(r) {
                        let to = if conflict { self.scratch() } else { unit };
                        let to_at = if conflict { 0 } else { at };
                        self.value(i, t, offset, len, to, to_at);
                        if conflict {
                            late.push(Op::Part {
                                to: unit,
                                to_at: at,
                                from: to,
                                from_at: 0,
                                len,
                                whole: false,
                            });
                        }
                    }
                }
                Place::Memory { access, at, len } => {
                    let spot = self.spot + u16::from(access);
                    let mut offset = 0;
                    while offset < len {
                        let n = (len - offset).min(8) as u8;
                        let at = (at + offset) as u8;
                        let unit = if t.from.is_empty() {
                            Some(ZERO)
                        } else {
                            copied_unit(t, offset, n).filter(|_| !conflict)
                        };
                        if let Some(unit) = unit {
                            self.op(Op::Store {
                                from: unit,
                                spot,
                                at,
                                len: n,
                            });
                        } else {
                            let to = self.scratch();
                            self.value(i, t, offset, n, to, 0);
                            late.push(Op::Store {
                                from: to,
                                spot,
                                at,
                                len: n,
                            });
                        }
                        offset += u16::from(n);
                    }
                }
                Place::Whole(access) => {
                    let spot = self.spot + u16::from(access);
                    if self.plan.spots[spot as usize].access.writes {
                        self.op(Op::Overwrite { spot });
                    }
                }
            }
        }
        for op in late {
            self.op(op);
        }
    }

    fn scratch(&mut self) -> u16 {
        let unit = self.scratch;
        self.scratch += 1;
        if usize::from(self.scratch) >= UNITS {
            // Wide vectors that are computed; nothing of them is followed.
            self.scratch = SCRATCH;
        }
        self.op(Op::Clear {
            to: unit,
            mask: 0xff,
        });
        unit
    }

    /// `len` bytes of what a transfer writes, from its byte `offset` on, to a unit.
    fn value(&mut self, i: &Instruction, t: &Transfer, offset: u16, len: u8, to: u16, to_at: u8) {
        let mask = bits(u16::from(to_at), u16::from(len));
        if t.from.is_empty() {
            return self.op(Op::Clear { to, mask });
        }
        let copy = t
            .copied(offset, u16::from(len))
            .filter(|_| i.mnemonic() != Mnemonic::Not);
        if let Some(place) = copy {
            self.copy(place, to, to_at, len);
            if matches!(i.mnemonic(), Mnemonic::And | Mnemonic::Or) {
                // Some of the bits are known now.
                self.op(Op::Mix {
                    to,
                    mask,
                    mix: Mix::Never,
                    sources: Box::new([]),
                });
            }
            return;
        }
        self.computed(i, t, offset, len, to, mask);
    }

    fn copy(&mut self, place: Place, to: u16, to_at: u8, len: u8) {
        match place {
            Place::Register(r) => {
                let (from, from_at) = (r.at / 8, (r.at % 8) as u8);
                if len == 8 && from_at == 0 && to_at == 0 {
                    return self.op(Op::Copy { to, from });
                }
                let first = len.min(8 - from_at);
                for (to_at, from, from_at, len) in [
                    (to_at, from, from_at, first),
                    (to_at + first, from + 1, 0, len - first),
                ] {
                    if len > 0 {
                        self.op(Op::Part {
                            to,
                            to_at,
                            from,
                            from_at,
                            len,
                            whole: false,
                        });
                    }
                }
                return;
            }
            Place::Memory { access, at, .. } => {
                let spot = self.spot + u16::from(access);
                return self.op(Op::Load {
                    to,
                    to_at,
                    spot,
                    at: at as u8,
                    len,
                    whole: false,
                });
            }
            Place::Whole(_) => {}
        }
        let mask = bits(u16::from(to_at), u16::from(len));
        self.op(Op::Clear { to, mask });
    }

    fn conditional(&mut self, i: &Instruction, step: &Step) -> bool {
        let Some(condition) = step.condition else {
            return false;
        };
        let Some(to) = gpr(i.op0_register()) else {
            return false;
        };
        let wide = i.op0_register().is_gpr64();
        let from = match gpr(i.op1_register()) {
            Some(unit) if i.op1_kind() == OpKind::Register => unit,
            _ => {
                let unit = self.scratch();
                let len = i.op0_register().size() as u8;
                self.op(Op::Load {
                    to: unit,
                    to_at: 0,
                    spot: self.spot,
                    at: 0,
                    len,
                    whole: false,
                });
                unit
            }
        };
        self.op(Op::Move {
            to,
            from,
            condition,
            wide,
        });
        true
    }

    /// String instructions, whose accesses have a size only when they happen.
    fn strings(&mut self, i: &Instruction, step: &Step) -> bool {
        let repeated = |s: &Spot| matches!(s.access.size, Size::Repeat { .. });
        if !step.spots.iter().any(repeated) {
            return false;
        }
        let write = step.spots.iter().position(|s| s.access.writes);
        let read = step
            .spots
            .iter()
            .position(|s| s.access.reads && !s.access.writes);
        let moves = matches!(
            i.mnemonic(),
            Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq
        );
        match (write, read) {
            (Some(to), Some(from)) if moves => self.op(Op::CopyMemory {
                to: self.spot + to as u16,
                from: self.spot + from as u16,
            }),
            (Some(to), _) => self.op(Op::Overwrite {
                spot: self.spot + to as u16,
            }),
            _ => {}
        }
        // rsi, rdi and rcx move on; where the pointers came from stays.
        true
    }
}
