//! Translation of guest code to code-cache code.
//!
//! The unit is a superblock: straight-line guest code that follows direct jumps and calls and
//! falls through conditional branches, whose taken sides leave it. The guest's own instructions
//! are copied as they are; only control transfers are rewritten, rip-relative displacements
//! adjusted, and the step counter kept. Translation is a pure function of the code bytes, the
//! place of the output and the armed stops, so every run of a program is cut the same way.
//!
//! How steps are counted is in `count.rs`.
//!
//! **Indirect branches** carry their target in rcx and jump through a table indexed by its low 16
//! bits to a prologue at the target, which checks that it is the one meant. Guest return addresses
//! are always the guest's own.

mod count;
mod decode;
mod displace;
pub(crate) mod emit;
mod landing;
pub(crate) mod measure;
mod observe;
mod operands;
mod spilled;
pub(crate) mod tape;

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code as Opcode, Instruction, InstructionBlock,
    InstructionInfoFactory, Mnemonic, Register,
};

use self::tape::{Moment, Taped, Taping};
use crate::layout::{Layout, slot};
pub(crate) use count::{Correction, Counted};
use count::{NOT_NEGATIVE, place_to_count};
pub(crate) use decode::{Fetch, Flow, Insn, MOST_BLIND, Superblock, decode, until_flags_set};
pub(crate) use displace::{Displacement, displaced_at};
use emit::{Code, Gpr};
use landing::check_target;
pub(crate) use landing::{LANDING, thunk};
use operands::{memory_of, reaches, unused_register};

/// The longest superblock, in guest instructions.
pub(crate) const MAX_INSNS: usize = 64;

/// The longest that is observed: logging takes some 250 bytes of code per instruction.
pub(crate) const MAX_OBSERVED: usize = 32;

/// Addresses of the routines that every code region has a copy of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routines {
    pub(crate) miss: u64,
    pub(crate) syscall: u64,
    pub(crate) measure: measure::Entries,
}

/// A place in translated code where the guest stops for the tracer.
#[derive(Clone, Debug)]
pub(crate) enum Point {
    /// A direct way out that is not linked yet. `site` is the displacement to patch.
    Exit {
        target: u64,
        site: u64,
        stub: u64,
        linked: Option<crate::cache::BlockId>,
        /// What it does to the count on the way, if the flags do not matter at the target.
        correction: Option<Correction>,
    },
    /// The step budget ran out before the instruction at `pc`.
    Budget {
        pc: u64,
        uncounted: i32,
        /// Instructions until the flags are the guest's again; 0: they are.
        blind: u8,
        saved: Saved,
        open: Open,
        again: Option<Again>,
    },
    /// An instruction that the tracer carries out: `rdtsc`, `cpuid`, ...
    Special { pc: u64, uncounted: i32 },
    /// An armed stop has counted down.
    Armed { pc: u64 },
    /// A bounded run has come to `pc` after `executed` instructions.
    Bound { pc: u64, executed: u32 },
    /// A bounded run ended in an indirect branch, target in rcx; rcx and rdx are saved.
    BoundIndirect { executed: u32 },
}

/// How far the superblock at hand is written to the tape: up to which instruction, and the register
/// that holds the cursor. `None` on a way out, when its record is complete.
pub(crate) type Open = Option<(u8, Gpr)>;

/// How translated code goes on where its budget ran out, once that is filled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Again {
    /// What is behind the stop.
    pub(crate) host: u64,
    /// rcx has to be taken back from its slot.
    pub(crate) rcx: bool,
}

/// What is needed to turn a stop inside translated code back into a guest state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapEntry {
    /// Offset of the first host byte that stands for the instruction at `pc`.
    pub(crate) host: u32,
    /// Steps executed beyond those that the counter shows; negative when it runs ahead.
    pub(crate) uncounted: i8,
    /// Which registers are in spill slots here.
    pub(crate) saved: Saved,
    /// Its number in the superblock.
    pub(crate) index: u8,
    /// The register that holds the cursor of the tape, if there is one.
    pub(crate) cursor: Gpr,
    pub(crate) pc: u64,
}

/// Spilled registers: bit 0 rcx, bit 1 rdx, bits 4.. one more than the register in `slot::ANY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved(pub(crate) u8);

impl Saved {
    pub(crate) const RCX: Saved = Saved(1);
    pub(crate) const RCX_RDX: Saved = Saved(3);

    pub(crate) fn rcx(self) -> bool {
        self.0 & 1 != 0
    }
    pub(crate) fn rdx(self) -> bool {
        self.0 & 2 != 0
    }
    pub(crate) fn any(self) -> Option<Gpr> {
        (self.0 >> 4 != 0).then(|| Gpr((self.0 >> 4) - 1))
    }
}

/// How a superblock is to be translated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) host: u64,
    pub(crate) layout: Layout,
    pub(crate) routines: Routines,
    /// Id that the first of the new points will have.
    pub(crate) first_point: u32,
    /// Begin with the prologue that indirect branches enter through.
    pub(crate) prologue: bool,
    /// A stop is armed at the first instruction: its countdown slot.
    pub(crate) armed: Option<u32>,
    /// Not counted, not linked: executes once, then stops.
    pub(crate) bounded: bool,
    /// The tape is written; number of the next way out on it.
    pub(crate) tape: Option<u32>,
}

/// A translated superblock, ready to be copied to `Request::host`.
pub(crate) struct Translation {
    pub(crate) bytes: Vec<u8>,
    /// Offset of the entry for direct jumps.
    pub(crate) entry: u32,
    pub(crate) counted: Option<Counted>,
    pub(crate) points: Vec<Point>,
    pub(crate) map: Vec<MapEntry>,
    pub(crate) taped: Option<Taped>,
}

struct Translator<'a> {
    block: &'a Superblock,
    request: Request,
    code: Code,
    points: Vec<Point>,
    map: Vec<MapEntry>,
    /// Literals to lay down: displacement to fix, value.
    literals: Vec<(u32, u64)>,
    /// Stubs to lay down: displacement to fix, point.
    stubs: Vec<(u32, usize)>,
    /// Steps (all, done before) that the indirect branch at hand has yet to count.
    late_count: Option<(i32, i32)>,
    /// The instruction before which the superblock is counted.
    counted_at: Option<usize>,
    counted: Option<Counted>,
    /// A `jrcxz` (its end) that must reach the stop of this point.
    island: Option<(u32, usize)>,
    /// Registers that wait in their slots, and the place in the code where all do.
    spilled: Saved,
    entered_spilled: Option<u32>,
    factory: Option<InstructionInfoFactory>,
    /// Ways out that have something to do before they leave.
    side_exits: Vec<SideExit>,
    tape: Option<Taping>,
    /// The instruction being translated.
    index: usize,
}

/// A way out before the end of a superblock.
struct SideExit {
    /// The displacement that leads here.
    site: u32,
    /// What the count is off by.
    correction: i32,
    target: u64,
    executed: usize,
    /// As [`Insn::blind`].
    blind: u8,
    spilled: Saved,
    tape: Option<Moment>,
}

pub(crate) fn translate(block: &Superblock, request: Request) -> Translation {
    let mut t = Translator {
        block,
        request,
        code: Code::at(request.host),
        points: Vec::with_capacity(8),
        map: Vec::with_capacity(block.insns.len() + 2),
        literals: Vec::new(),
        stubs: Vec::with_capacity(8),
        late_count: None,
        counted_at: None,
        counted: None,
        island: None,
        spilled: Saved::default(),
        entered_spilled: None,
        factory: None,
        side_exits: Vec::new(),
        tape: request.tape.map(|id| Taping::new(block, id)),
        index: 0,
    };
    let entry = t.begin();
    t.body();
    t.lay_island();
    let entry = entry.unwrap_or_else(|| t.direct_entries());
    t.finish();
    Translation {
        bytes: t.code.bytes,
        entry,
        counted: t.counted.filter(|_| request.armed.is_none()),
        points: t.points,
        map: t.map,
        taped: t.tape.map(|t| t.finish(block)),
    }
}

impl Translator<'_> {
    fn point(&mut self, point: Point) -> usize {
        self.points.push(point);
        self.points.len() - 1
    }

    fn id(&self, point: usize) -> u32 {
        self.request.first_point + point as u32
    }

    /// What stands before the first instruction. Returns the entry for direct jumps, if that is here.
    fn begin(&mut self) -> Option<u32> {
        let request = self.request;
        let plain = request.armed.is_some() || self.block.insns.iter().any(|i| i.observed);
        if request.prologue && !plain {
            check_target(&mut self.code, self.block.pc, request.routines);
            self.spilled = Saved::RCX_RDX;
            self.entered_spilled = Some(self.code.offset());
            return None;
        }
        if request.prologue {
            check_target(&mut self.code, self.block.pc, request.routines);
            self.load_spilled(Saved::RCX_RDX);
        }
        let entry = self.code.offset();
        if let Some(n) = request.armed {
            self.armed_stop(n);
        }
        Some(entry)
    }

    /// Counts an armed stop down and stops at zero. The countdown is in the thread's page, so a
    /// checkpoint takes it along.
    fn armed_stop(&mut self, n: u32) {
        let at = slot::STOPS + n * 8;
        self.note(self.block.pc, 0, Saved::RCX);
        self.code.save(Gpr::RCX, slot::RCX);
        self.code.load(Gpr::RCX, at);
        self.code.add_rcx(-1);
        self.code.save(Gpr::RCX, at);
        self.code.jrcxz(9 + 2);
        self.code.load(Gpr::RCX, slot::RCX);
        self.code.raw(&[0xeb, 9 + 8]);
        self.code.load(Gpr::RCX, slot::RCX);
        let p = self.point(Point::Armed { pc: self.block.pc });
        let id = self.id(p);
        self.code.stop(id);
    }

    fn note(&mut self, pc: u64, uncounted: i32, saved: Saved) {
        let host = self.code.offset();
        let cursor = self.tape.as_ref().map_or(tape::HOME, |t| t.cursor);
        self.map.push(MapEntry {
            host,
            uncounted: uncounted as i8,
            saved: Saved(saved.0 | self.spilled.0),
            index: self.index as u8,
            cursor,
            pc,
        });
    }

    fn body(&mut self) {
        let block = self.block;
        let insns = &block.insns;
        let n = insns.len() as i32;
        let bounded = self.request.bounded;
        if !bounded && block.blind > 0 {
            self.counted_at = Some(0);
            self.count_first(n);
        } else if !bounded {
            self.counted_at = place_to_count(insns);
        }
        for (i, insn) in insns.iter().enumerate() {
            let done = i as i32;
            let last = done + 1 == n;
            let mut uncounted = done;
            self.index = i;
            let overwritten = self.settle_for(insn);
            if let Some(tape) = &mut self.tape {
                tape.before(&mut self.code, i, insn, &self.request.routines);
            }
            match self.counted_at {
                _ if bounded => {}
                Some(at) if i == at && self.counted.is_none() => {
                    self.count(insn.pc, n, done, 1);
                    uncounted = done - n;
                }
                Some(at) if i >= at => uncounted = done - n,
                // An indirect branch has rcx saved anyway and counts after that, if that is near.
                None if last && (!insn.flow.is_indirect() || self.tape.is_some()) => {
                    self.count_keeping_flags(insn.pc, n, done);
                    self.counted_at = Some(i);
                    uncounted = done - n;
                }
                _ => {}
            }
            self.note(insn.pc, uncounted, Saved::default());
            if insn.observed {
                self.observe(insn, uncounted);
            }
            self.late_count = (self.counted_at.is_none() && last && !bounded).then_some((n, done));
            self.insn(i, uncounted);
            self.spilled.0 &= !overwritten;
            if insn.observed && insn.flow == Flow::Next {
                self.observe_after(insn, uncounted);
            }
        }
        // A superblock that was cut short, not ended by a transfer, goes on at its end.
        if insns.last().is_none_or(|i| !i.flow.ends()) {
            if let Some(special) = block.special {
                self.settle();
                self.end_record(insns.len());
                let p = self.stop_here(special, 0);
                self.stub_jump(p);
            } else {
                self.exit_jump(block.end);
            }
        }
    }

    fn stop_here(&mut self, pc: u64, uncounted: i32) -> usize {
        if self.request.bounded {
            let executed = self.block.insns.len() as u32;
            self.point(Point::Bound { pc, executed })
        } else {
            self.point(Point::Special { pc, uncounted })
        }
    }

    fn insn(&mut self, i: usize, uncounted: i32) {
        let insn = &self.block.insns[i];
        let next = insn.pc + u64::from(insn.len);
        let counts_late = self.late_count.is_some();
        if let Some(tape) = &mut self.tape
            && insn.flow != Flow::Next
        {
            tape.follow(i, &insn.decoded);
        }
        match insn.flow {
            Flow::Next => {
                self.plain(insn, uncounted);
                if let Some(tape) = &mut self.tape {
                    tape.after(&mut self.code, i, insn);
                }
            }
            Flow::Jump { target } => {
                if i + 1 == self.block.insns.len() {
                    self.exit_jump(target);
                }
            }
            Flow::Call { target } => {
                self.push_return(next);
                if i + 1 == self.block.insns.len() {
                    self.exit_jump(target);
                }
            }
            Flow::Branch {
                condition,
                target,
                otherwise,
            } => {
                let site = self.code.jcc_later(condition);
                self.side_exit(site, target, i);
                if i + 1 == self.block.insns.len() {
                    self.exit_jump(otherwise);
                }
            }
            Flow::CountBranch { target } => {
                // The original opcode with its prefixes, to a jump of full range.
                let opcode = insn.len as usize - 1;
                self.code.raw(&insn.bytes[..opcode]);
                self.code.raw(&[2, 0xeb, 5]);
                let site = self.code.jump_later();
                self.side_exit(site, target, i);
                if i + 1 == self.block.insns.len() {
                    self.exit_jump(next);
                }
            }
            Flow::Return { pop } => {
                self.save_rcx();
                if self.count_with_rcx_saved(insn.pc) {
                    self.note(insn.pc, -1, Saved::RCX);
                }
                self.code.load_return_address();
                self.save_rdx();
                self.code.add_rsp(8 + i32::from(pop));
                self.indirect(i);
            }
            Flow::IndirectJump => {
                self.load_target(insn);
                let uncounted = if counts_late { -1 } else { uncounted };
                self.note(insn.pc, uncounted, Saved::RCX);
                self.save_rdx();
                self.indirect(i);
            }
            Flow::IndirectCall => {
                self.load_target(insn);
                let uncounted = if counts_late { -1 } else { uncounted };
                self.save_rdx();
                self.note(insn.pc, uncounted, Saved::RCX_RDX);
                self.push_return(next);
                self.indirect(i);
            }
            Flow::Syscall => {
                self.settle();
                // The call itself is an event of its own on the tape.
                self.end_record(i);
                if self.tape.is_some() {
                    Taping::park(&mut self.code);
                }
                // The call destroys rcx and r11; a stop before it shows what they were.
                self.code.save(Gpr::RCX, slot::RCX);
                self.code.save(Gpr::R11, slot::ANY);
                self.code.imm64(Gpr::RCX, next);
                let at = self.code.lea_later(Gpr::R11);
                self.code.save(Gpr::R11, slot::CONTINUE);
                self.code.jump(self.request.routines.syscall);
                self.code.land(at);
                if self.tape.is_some() {
                    Taping::unpark(&mut self.code);
                }
                self.linked_jump(next);
            }
        }
    }

    /// Ends the tape's record of this superblock, if there is a tape.
    fn end_record(&mut self, executed: usize) {
        if let Some(tape) = &mut self.tape {
            tape.way_out(&mut self.code, executed);
        }
    }

    /// The code goes on here after a stop, if only a tape has to be made room on.
    fn again(&self, rcx: bool) -> Option<Again> {
        self.tape.as_ref()?;
        let host = self.code.here();
        Some(Again { host, rcx })
    }

    fn open(&self) -> Open {
        let tape = self.tape.as_ref()?;
        Some((self.index as u8, tape.cursor))
    }

    /// `mov rcx, <operand of the branch>`, rcx saved before.
    fn load_target(&mut self, insn: &Insn) {
        self.save_rcx();
        if self.count_with_rcx_saved(insn.pc) {
            // The operand may name rcx.
            self.code.load(Gpr::RCX, slot::RCX);
            self.note(insn.pc, -1, Saved::RCX);
        }
        let i = &insn.decoded;
        let load = if i.op0_kind() == iced_x86::OpKind::Register {
            if i.op0_register() == Register::RCX {
                return;
            }
            Instruction::with2(Opcode::Mov_r64_rm64, Register::RCX, i.op0_register())
        } else {
            Instruction::with2(Opcode::Mov_r64_rm64, Register::RCX, memory_of(i))
        };
        let mut load = load.expect("mov rcx, r/m64 takes any operand of an indirect branch");
        if i.is_ip_rel_memory_operand() {
            if reaches(i.ip_rel_memory_address(), self.code.here()) {
                load.set_memory_displacement64(i.ip_rel_memory_address());
            } else {
                self.code.imm64(Gpr::RCX, i.ip_rel_memory_address());
                self.code.raw(&[0x48, 0x8b, 0x09]); // mov rcx, [rcx]
                return;
            }
        }
        self.encode(load);
    }

    fn encode(&mut self, insn: Instruction) {
        let list = [insn];
        let block = InstructionBlock::new(&list, self.code.here());
        let out = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)
            .expect("an instruction that was decoded can be encoded");
        self.code.raw(&out.code_buffer);
    }

    fn indirect(&mut self, i: usize) {
        self.end_record(i + 1);
        if self.request.bounded {
            let p = self.point(Point::BoundIndirect {
                executed: i as u32 + 1,
            });
            self.stub_jump(p);
            return;
        }
        self.code.low_half_to_edx();
        self.code.jump_table(self.request.layout.table());
    }

    /// Pushes the guest's return address. (Pushing it by a host `call`, so that the CPU predicts the
    /// return, was tried: the additional instructions cost more than the wrong guesses.)
    fn push_return(&mut self, next: u64) {
        let at = self.code.push_literal_later();
        self.literals.push((at, next));
    }

    fn exit_jump(&mut self, target: u64) {
        self.settle();
        self.end_record(self.block.insns.len());
        self.linked_jump(target);
    }

    fn linked_jump(&mut self, target: u64) {
        let site = self.code.jump_later();
        self.exit_at(site, target, None);
    }

    /// A way out after which the count is right.
    fn exit_at(&mut self, site: u32, target: u64, correction: Option<Correction>) {
        let p = if self.request.bounded {
            let executed = self.block.insns.len() as u32;
            self.point(Point::Bound {
                pc: target,
                executed,
            })
        } else {
            let site = self.code.host + u64::from(site);
            self.point(Point::Exit {
                target,
                site,
                stub: 0,
                linked: None,
                correction,
            })
        };
        self.stubs.push((site, p));
    }

    /// A way out behind instruction `i`, perhaps before the end of the superblock.
    fn side_exit(&mut self, site: u32, target: u64, i: usize) {
        let executed = i + 1;
        let tape = self.tape.as_ref().map(Taping::moment);
        let counted = match self.counted_at {
            _ if self.request.bounded => executed,
            Some(at) if at <= i => self.block.insns.len(),
            _ => 0,
        };
        if executed != counted || tape.is_some() || self.spilled != Saved::default() {
            self.side_exits.push(SideExit {
                site,
                correction: executed as i32 - counted as i32,
                target,
                executed,
                blind: self.block.insns[i].blind,
                spilled: self.spilled,
                tape,
            });
        } else if self.request.bounded {
            self.bound(site, target, executed);
        } else {
            self.exit_at(site, target, None);
        }
    }

    fn bound(&mut self, site: u32, target: u64, executed: usize) {
        let p = self.point(Point::Bound {
            pc: target,
            executed: executed as u32,
        });
        self.stubs.push((site, p));
    }

    /// Lays down a way out that writes the tape or corrects the count. The flags may matter at its
    /// target.
    fn lay_down(&mut self, exit: SideExit) {
        let SideExit {
            correction, target, ..
        } = exit;
        let count = self.count_slot();
        self.code.land(exit.site);
        self.load_spilled(exit.spilled);
        if let (Some(tape), Some(moment)) = (&mut self.tape, exit.tape) {
            tape.leave(&mut self.code, exit.executed, moment);
        }
        let mut corrected = None;
        if correction != 0 {
            if exit.blind > 0 {
                let number = correction as i8;
                self.code.add_slot(count, number);
                let site = self.code.here() - 5;
                let stop = self.code.jcc_later(NOT_NEGATIVE);
                let point = self.stop_on_the_way(stop, &exit);
                corrected = Some(Correction {
                    site,
                    lane: count,
                    number,
                    budget: self.id(point),
                });
            } else {
                self.code.save(Gpr::RCX, slot::RCX);
                self.code.load(Gpr::RCX, count);
                self.code.add_rcx(correction as i8);
                self.code.save(Gpr::RCX, count);
                if correction > 0 {
                    self.code.load_byte_ecx(count + 7);
                    self.code.jrcxz(2);
                    self.code.raw(&[0xeb, 5]);
                    let stop = self.code.jump_later();
                    self.stop_on_the_way(stop, &exit);
                }
                self.code.load(Gpr::RCX, slot::RCX);
            }
        }
        if self.request.bounded {
            let site = self.code.jump_later();
            self.bound(site, target, exit.executed);
        } else {
            let site = self.code.jump_later();
            self.exit_at(site, target, corrected);
        }
    }

    /// The budget may run out on a way out, which goes on right here.
    fn stop_on_the_way(&mut self, site: u32, exit: &SideExit) -> usize {
        let p = self.point(Point::Budget {
            pc: exit.target,
            uncounted: 0,
            blind: exit.blind,
            saved: if exit.blind == 0 {
                Saved::RCX
            } else {
                Saved::default()
            },
            open: None,
            // rcx is loaded next in any case.
            again: self.again(false),
        });
        self.stubs.push((site, p));
        p
    }

    fn stub_jump(&mut self, point: usize) {
        let site = self.code.jump_later();
        self.stubs.push((site, point));
    }

    fn plain(&mut self, insn: &Insn, uncounted: i32) {
        if insn.rip_offset == 0 {
            self.code.raw(&insn.bytes[..insn.size as usize]);
            return;
        }
        let target = insn.decoded.ip_rel_memory_address();
        let end = self.code.here() + u64::from(insn.size);
        let disp = target.wrapping_sub(end) as i64;
        if i32::try_from(disp).is_ok() && insn.decoded.memory_base() == Register::RIP {
            let at = self.code.offset() as usize + insn.rip_offset as usize;
            self.code.raw(&insn.bytes[..insn.size as usize]);
            self.code.bytes[at..at + 4].copy_from_slice(&(disp as i32).to_le_bytes());
            return;
        }
        // Out of reach. An address is a constant; what is there goes through a register that the instruction does not
        // use.
        let to = insn.decoded.op0_register();
        if insn.decoded.mnemonic() == Mnemonic::Lea && to.is_gpr64() {
            self.code.imm64(Gpr(to.number() as u8), target);
            return;
        }
        let reg = unused_register(&insn.decoded);
        let gpr = Gpr(reg.number() as u8);
        self.code.save(gpr, slot::ANY);
        self.note(insn.pc, uncounted, Saved((gpr.0 + 1) << 4));
        self.code.imm64(gpr, target);
        let mut copy = insn.decoded;
        copy.set_memory_base(reg);
        copy.set_memory_displacement64(0);
        copy.set_memory_displ_size(0);
        self.encode(copy);
        self.code.load(gpr, slot::ANY);
    }

    /// What a `jrcxz` of the last branch must reach stands right behind that.
    fn lay_island(&mut self) {
        if let Some((from, point)) = self.island.take() {
            let distance = self.code.offset() - from;
            assert!(distance < 128, "an indirect branch takes less than that");
            self.code.bytes[from as usize - 1] = distance as u8;
            self.stub_jump(point);
        }
    }

    fn finish(&mut self) {
        for exit in std::mem::take(&mut self.side_exits) {
            self.lay_down(exit);
        }
        for (site, p) in std::mem::take(&mut self.stubs) {
            self.code.land(site);
            let id = self.id(p);
            let here = self.code.here();
            if let Point::Exit { stub, .. } = &mut self.points[p] {
                *stub = here;
                self.code.far_stop(id);
            } else {
                self.code.stop(id);
            }
        }
        for (at, value) in std::mem::take(&mut self.literals) {
            self.code.land(at);
            self.code.raw(&value.to_le_bytes());
        }
    }
}
