//! Guest code to a superblock: what is executed in a row, and how control leaves it.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register, RflagsBits,
};

use super::MAX_INSNS;
use rustc_hash::FxHashMap;
use tape::Measures;

/// Registers by their numbers: rdi, rsi, rdx, rcx, r8 and r9, and rsp, where the return address is.
const ARGUMENTS: u16 = 0b11_1101_0110;
/// rax and rsp.
const RESULT: u16 = 0b1_0001;
/// rsp.
const STACK: u16 = 0b1_0000;

/// Instructions that a loop is unrolled to, about.
const UNROLLED: usize = 32;

/// Less than this is little: a tight loop is unrolled to the full length of a superblock.
const SHORT: usize = 12;

/// How far ahead an instruction that sets the flags is looked for.
pub(crate) const MOST_BLIND: u8 = 8;

/// The six arithmetic flags, as iced names them.
const ARITHMETIC: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// Source of guest code bytes.
pub(crate) trait Fetch {
    /// Executable bytes from `pc` on: as many as are at hand, at most to a little past the end of
    /// the page, empty if `pc` cannot be executed.
    fn fetch(&mut self, pc: u64) -> &[u8];

    /// Eight bytes of data that the guest cannot change as long as their page stays what it is; `None` if it can.
    fn constant(&mut self, addr: u64) -> Option<u64>;
}

/// How control goes on after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Jump {
        target: u64,
    },
    Call {
        target: u64,
    },
    /// `jcc`; `condition` is the low nibble of its opcode, `otherwise` where it leads if that does
    /// not hold.
    Branch {
        condition: u8,
        target: u64,
        otherwise: u64,
    },
    /// `loop`, `loope`, `loopne`, `jrcxz`, `jecxz`.
    CountBranch {
        target: u64,
    },
    Return {
        pop: u16,
    },
    IndirectJump,
    IndirectCall,
    Syscall,
}

impl Flow {
    /// Control may leave the superblock here.
    pub(crate) fn leaves(self) -> bool {
        !matches!(self, Flow::Next | Flow::Jump { .. } | Flow::Call { .. })
    }

    pub(crate) fn is_indirect(self) -> bool {
        matches!(
            self,
            Flow::Return { .. } | Flow::IndirectJump | Flow::IndirectCall
        )
    }

    /// Nothing follows in the superblock by itself; what comes next is in the translation.
    pub(crate) fn ends(self) -> bool {
        !matches!(self, Flow::Next)
    }
}

/// One guest instruction.
#[derive(Clone, Debug)]
pub(crate) struct Insn {
    pub(crate) pc: u64,
    pub(crate) bytes: [u8; 15],
    pub(crate) len: u8,
    /// How many of `bytes` it is: not `len` if it was made to refer to something else.
    pub(crate) size: u8,
    pub(crate) flow: Flow,
    /// Offset of a rip-relative displacement in `bytes`; 0 for none.
    pub(crate) rip_offset: u8,
    /// Overwrites all six arithmetic flags and reads none of them.
    pub(crate) sets_all_flags: bool,
    /// Of a branch, in how many instructions from its target on all flags have been overwritten,
    /// none having been read; 0 if that is not known.
    pub(crate) blind: u8,
    pub(crate) may_fault: bool,
    /// What it works on is logged before it is executed.
    pub(crate) observed: bool,
    /// General registers, a bit each, whose values before it the tape must tell.
    pub(crate) told: u16,
    /// Strings that the tape must tell the length of.
    pub(crate) measures: Measures,
    pub(crate) decoded: Instruction,
}

/// Guest code that is executed in a row.
#[derive(Clone, Debug)]
pub(crate) struct Superblock {
    pub(crate) pc: u64,
    pub(crate) insns: Vec<Insn>,
    /// Where control goes on when the last instruction neither jumps nor returns.
    pub(crate) end: u64,
    /// The instruction at `end` is one that the tracer carries out.
    pub(crate) special: Option<u64>,
    /// In how many instructions all flags have been overwritten, none having been read; 0 if that is not known.
    pub(crate) blind: u8,
    /// Guest byte ranges that were read.
    pub(crate) ranges: Vec<(u64, u64)>,
}

/// Decodes at most `limit` instructions from `pc`. `is_stop` says where a stop is armed: a
/// superblock ends before it. An empty superblock without `special` means that `pc` cannot be
/// executed. `insns` is room for them, from a superblock that is not needed any more.
pub(crate) fn decode(
    pc: u64,
    limit: usize,
    mut insns: Vec<Insn>,
    code: &mut dyn Fetch,
    is_stop: &dyn Fn(u64) -> bool,
) -> Superblock {
    let limit = limit.min(MAX_INSNS);
    insns.clear();
    let mut block = Superblock {
        pc,
        insns,
        end: pc,
        special: None,
        blind: 0,
        ranges: Vec::with_capacity(2),
    };
    let mut at = pc;
    // Rounds left of the loop that the superblock is; 0 as long as it is not known to be one.
    let mut rounds = 0;
    'pieces: loop {
        let bytes = code.fetch(at);
        if bytes.is_empty() {
            break;
        }
        let begin = at;
        let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
        loop {
            if block.insns.len() >= limit || (!block.insns.is_empty() && is_stop(at)) {
                block.note(begin, at);
                break 'pieces;
            }
            let offset = (at - begin) as usize;
            // Near the end of what was fetched an instruction might be cut off.
            if offset > 0 && bytes.len() - offset < 15 {
                block.note(begin, at);
                continue 'pieces;
            }
            let decoded = decoder.decode();
            if decoded.is_invalid() {
                block.note(begin, at + 1);
                block.special = Some(at);
                break 'pieces;
            }
            let len = decoded.len();
            let Some(flow) = flow(&decoded) else {
                block.note(begin, at + len as u64);
                block.special = Some(at);
                break 'pieces;
            };
            let mut insn = Insn {
                pc: at,
                bytes: [0; 15],
                len: len as u8,
                size: len as u8,
                flow,
                rip_offset: 0,
                sets_all_flags: sets_all_flags(&decoded),
                blind: 0,
                may_fault: may_fault(&decoded),
                observed: false,
                told: 0,
                measures: Measures::default(),
                decoded,
            };
            insn.bytes[..len].copy_from_slice(&bytes[offset..offset + len]);
            if decoded.is_ip_rel_memory_operand() {
                insn.rip_offset =
                    decoder.get_constant_offsets(&decoded).displacement_offset() as u8;
            }
            block.insns.push(insn);
            at += len as u64;
            block.end = at;
            match flow {
                Flow::Next | Flow::CountBranch { .. } => {}
                Flow::Jump { target } | Flow::Call { target } => {
                    block.note(begin, at);
                    if is_stop(target) || !block.goes_on_at(target, limit, code) {
                        break 'pieces;
                    }
                    at = target;
                    block.end = at;
                    continue 'pieces;
                }
                Flow::Branch {
                    target, condition, ..
                } if target == pc && !is_stop(pc) => {
                    // A short loop goes round several times in one superblock.
                    block.note(begin, at);
                    let body = block.insns.len();
                    if rounds == 0 {
                        let most = if body < SHORT { MAX_INSNS } else { UNROLLED };
                        rounds = (most / body).max(1);
                    }
                    rounds -= 1;
                    if rounds == 0 {
                        break 'pieces;
                    }
                    let last = block.insns.last_mut().expect("just pushed");
                    last.flow = Flow::Branch {
                        condition: condition ^ 1,
                        target: at,
                        otherwise: pc,
                    };
                    at = pc;
                    block.end = at;
                    continue 'pieces;
                }
                // A backward branch is a loop, and what follows it the rare way: not worth much code.
                Flow::Branch { target, .. } => {
                    if target < at && block.insns.len() >= SHORT {
                        block.note(begin, at);
                        break 'pieces;
                    }
                }
                Flow::IndirectJump | Flow::IndirectCall => {
                    block.note(begin, at);
                    // What the dynamic linker has settled is as good as direct.
                    let Some(target) = block.settle_last(code) else {
                        break 'pieces;
                    };
                    if is_stop(target) || !block.goes_on_at(target, limit, code) {
                        break 'pieces;
                    }
                    at = target;
                    block.end = at;
                    continue 'pieces;
                }
                Flow::Return { .. } | Flow::Syscall => {
                    block.note(begin, at);
                    break 'pieces;
                }
            }
        }
    }
    block
}

impl Superblock {
    /// The superblock can go on at the target of its last instruction.
    fn goes_on_at(&self, target: u64, limit: usize, code: &mut dyn Fetch) -> bool {
        let is_call = |i: &&Insn| matches!(i.flow, Flow::Call { .. });
        let calls = self.insns.iter().filter(is_call).count();
        let too_deep = calls > 2 && self.insns.last().as_ref().is_some_and(is_call);
        // Going round a loop inside one superblock would only copy it.
        let loops = self.insns.iter().any(|i| i.pc == target);
        !loops && !too_deep && self.insns.len() < limit && !code.fetch(target).is_empty()
    }

    /// Makes an indirect branch at the end a direct one, if its target is in memory that does not change: a slot of
    /// the global offset table after relocation. That counts as read by this superblock.
    fn settle_last(&mut self, code: &mut dyn Fetch) -> Option<u64> {
        let last = self.insns.last_mut()?;
        if last.rip_offset == 0 || last.decoded.memory_base() != Register::RIP {
            return None;
        }
        let slot = last.decoded.ip_rel_memory_address();
        let target = code.constant(slot)?;
        last.flow = match last.flow {
            Flow::IndirectCall => Flow::Call { target },
            _ => Flow::Jump { target },
        };
        self.note(slot, slot + 8);
        Some(target)
    }

    /// Where the calls in it return to.
    pub(crate) fn return_sites(&self) -> impl Iterator<Item = u64> + '_ {
        let calls = |i: &&Insn| matches!(i.flow, Flow::Call { .. } | Flow::IndirectCall);
        self.insns
            .iter()
            .filter(calls)
            .map(|i| i.pc + u64::from(i.len))
    }

    /// Turns the branches in `flipped` round.
    pub(crate) fn flip(&mut self, flipped: &rustc_hash::FxHashSet<u64>) {
        if flipped.is_empty() {
            return;
        }
        for i in &mut self.insns {
            if let Flow::Branch { condition, .. } = &mut i.flow
                && flipped.contains(&i.pc)
            {
                *condition ^= 1;
            }
        }
    }

    /// Has the tape tell the arguments at these addresses, and how long strings are, the result at every return, and the stack pointer
    /// where it is moved.
    pub(crate) fn probe(&mut self, entries: &FxHashMap<u64, Measures>) {
        for i in &mut self.insns {
            if i.decoded.flow_control() == FlowControl::Return {
                i.told |= RESULT;
            }
            // Where the stack grows, and from where.
            if i.decoded.op_count() == 2 && i.decoded.op0_register() == Register::RSP {
                i.told |= STACK;
            }
            if let Some(measures) = entries.get(&i.pc) {
                i.told |= ARGUMENTS;
                i.measures = *measures;
            }
        }
    }

    /// Marks the instructions in `ranges`, which are sorted, as observed.
    pub(crate) fn observe(&mut self, ranges: &[(u64, u64)]) {
        if ranges.is_empty() {
            return;
        }
        for i in &mut self.insns {
            let at = ranges.partition_point(|r| r.1 <= i.pc);
            i.observed = ranges.get(at).is_some_and(|r| r.0 <= i.pc);
        }
    }

    /// Finds out where the branches lead to code that does not need the flags. What was read for
    /// that counts as read by this superblock: it is made anew when that changes.
    pub(crate) fn look_for_dead_flags(
        &mut self,
        code: &mut dyn Fetch,
        is_stop: &dyn Fn(u64) -> bool,
    ) {
        let (blind, end) = until_flags_set(self.pc, code, is_stop);
        if blind > 0 {
            self.blind = blind;
            self.note_near(self.pc, end);
        }
        let mut known: Option<(u64, u8)> = None;
        // At the last instruction all of the superblock is done, and there is nothing to correct.
        for n in 0..self.insns.len().saturating_sub(1) {
            let (Flow::Branch { target, .. } | Flow::CountBranch { target }) = self.insns[n].flow
            else {
                continue;
            };
            let blind = match known {
                // An unrolled loop has one target over and over.
                Some((pc, blind)) if pc == target => blind,
                _ => {
                    let (blind, end) = until_flags_set(target, code, is_stop);
                    if blind > 0 {
                        self.note_near(target, end);
                    }
                    blind
                }
            };
            known = Some((target, blind));
            self.insns[n].blind = blind;
        }
    }

    /// Like `note`, for what is read in passing: there are many of these, and mostly on a page
    /// that code was read from, so that a range there is extended instead.
    fn note_near(&mut self, begin: u64, end: u64) {
        let near = |r: &&mut (u64, u64)| r.0 >> 12 == begin >> 12 && (end - 1) >> 12 == r.0 >> 12;
        match self.ranges.iter_mut().find(near) {
            Some(r) => *r = (r.0.min(begin), r.1.max(end)),
            None => self.note(begin, end),
        }
    }

    fn note(&mut self, begin: u64, end: u64) {
        if end > begin {
            self.ranges.push((begin, end));
        }
    }
}

/// How many instructions from `pc` on, and up to where, until all arithmetic flags have been
/// overwritten without one being read; 0 if that cannot be seen in a few.
pub(crate) fn until_flags_set(
    pc: u64,
    code: &mut dyn Fetch,
    is_stop: &dyn Fn(u64) -> bool,
) -> (u8, u64) {
    let bytes = code.fetch(pc);
    let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
    for n in 1..=MOST_BLIND {
        let at = decoder.ip();
        // Not over the end of what was fetched: the way there is what costs.
        if decoder.max_position() - decoder.position() < 15 || is_stop(at) {
            break;
        }
        let decoded = decoder.decode();
        if decoded.is_invalid()
            || flow(&decoded) != Some(Flow::Next)
            || decoded.rflags_read() & ARITHMETIC != 0
        {
            break;
        }
        if sets_all_flags(&decoded) {
            return (n, decoder.ip());
        }
    }
    (0, pc)
}

/// `None` for an instruction that cannot run from the code cache.
fn flow(i: &Instruction) -> Option<Flow> {
    if i.has_segment_prefix() && i.segment_prefix() == Register::GS && uses_memory(i) {
        return None;
    }
    match i.flow_control() {
        FlowControl::Next => match i.mnemonic() {
            Mnemonic::Rdtsc
            | Mnemonic::Rdtscp
            | Mnemonic::Cpuid
            | Mnemonic::Rdrand
            | Mnemonic::Rdseed
            | Mnemonic::Rdpid
            | Mnemonic::Rdgsbase
            | Mnemonic::Wrgsbase
            | Mnemonic::Lgs => None,
            Mnemonic::Mov | Mnemonic::Pop
                if i.op0_kind() == OpKind::Register && i.op0_register() == Register::GS =>
            {
                None
            }
            _ => Some(Flow::Next),
        },
        FlowControl::UnconditionalBranch if i.is_jmp_short_or_near() => Some(Flow::Jump {
            target: i.near_branch_target(),
        }),
        FlowControl::ConditionalBranch => {
            let target = i.near_branch_target();
            if i.is_jcc_short_or_near() {
                // The order of the condition codes is that of the hardware's.
                let condition = i.condition_code() as u8;
                Some(Flow::Branch {
                    condition: HARDWARE_CONDITION[condition as usize],
                    target,
                    otherwise: i.next_ip(),
                })
            } else {
                Some(Flow::CountBranch { target })
            }
        }
        FlowControl::Call if i.is_call_near() => Some(Flow::Call {
            target: i.near_branch_target(),
        }),
        FlowControl::Call if i.mnemonic() == Mnemonic::Syscall => Some(Flow::Syscall),
        FlowControl::IndirectBranch if i.is_jmp_near_indirect() && wide(i) => {
            Some(Flow::IndirectJump)
        }
        FlowControl::IndirectCall if i.is_call_near_indirect() && wide(i) => {
            Some(Flow::IndirectCall)
        }
        FlowControl::Return
            if i.mnemonic() == Mnemonic::Ret && i.stack_pointer_increment() >= 8 =>
        {
            let pop = if i.op_count() > 0 { i.immediate16() } else { 0 };
            Some(Flow::Return { pop })
        }
        // ud0, ud1, ud2 raise their fault wherever they stand.
        FlowControl::Exception => Some(Flow::Next),
        _ => None,
    }
}

/// From iced's order of condition codes (none, o, no, b, ae, e, ne, be, a, s, ns, p, np, l, ge,
/// le, g) to the low nibble of the opcode.
pub(crate) const HARDWARE_CONDITION: [u8; 17] =
    [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

fn wide(i: &Instruction) -> bool {
    match i.op0_kind() {
        OpKind::Register => i.op0_register().is_gpr64(),
        _ => i.memory_size().size() == 8,
    }
}

fn uses_memory(i: &Instruction) -> bool {
    (0..i.op_count()).any(|n| {
        matches!(
            i.op_kind(n),
            OpKind::Memory
                | OpKind::MemorySegSI
                | OpKind::MemorySegESI
                | OpKind::MemorySegRSI
                | OpKind::MemorySegDI
                | OpKind::MemorySegEDI
                | OpKind::MemorySegRDI
        )
    })
}

fn may_fault(i: &Instruction) -> bool {
    (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory)
}

/// A list, not iced's flag sets: an "undefined" flag is in practice some function of the operands
/// for these, but an old value for others, and a shift by `cl` may write nothing.
fn sets_all_flags(i: &Instruction) -> bool {
    match i.mnemonic() {
        Mnemonic::Add
        | Mnemonic::Sub
        | Mnemonic::Cmp
        | Mnemonic::Neg
        | Mnemonic::And
        | Mnemonic::Or
        | Mnemonic::Xor
        | Mnemonic::Test
        | Mnemonic::Popcnt
        | Mnemonic::Xadd
        | Mnemonic::Ptest
        | Mnemonic::Vptest
        | Mnemonic::Comiss
        | Mnemonic::Comisd
        | Mnemonic::Ucomiss
        | Mnemonic::Ucomisd
        | Mnemonic::Vcomiss
        | Mnemonic::Vcomisd
        | Mnemonic::Vucomiss
        | Mnemonic::Vucomisd => true,
        Mnemonic::Shl | Mnemonic::Shr | Mnemonic::Sar => {
            i.op1_kind() == OpKind::Immediate8 && i.immediate8() & 31 != 0
        }
        _ => false,
    }
}
