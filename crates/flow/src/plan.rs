//! What a reader of the tape wants to know of a superblock, worked out once.

use crate::codes::InsnId;
use crate::reader::FrameId;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use image::effects::{self, Access, Control, Effects, Place, RegRange, Segment, Size};
use tape::{Code, Known, Term, What, slot};

/// An instruction with what the tape tells about it.
pub struct Step {
    pub pc: u64,
    pub id: InsnId,
    pub len: u8,
    pub effects: Effects,
    pub spots: Vec<Spot>,
    /// Where on the tape the condition of a conditional move is.
    pub condition: Option<Term>,
    /// Moves a value between a register and the stack for safe-keeping: whoever wants the one wants
    /// the other, and the instruction itself is of no interest.
    pub keeps: bool,
    /// Sets up the frame pointer.
    pub frames: bool,
    /// Registers it writes, as a [`Mask`].
    pub(crate) writes: Mask,
    /// Writes to memory.
    pub stores: bool,
    pub may_branch: bool,
    /// Goes to where the program says: perhaps out of the function.
    pub leaves: bool,
    pub returns: bool,
}

/// The memory of one access, as terms of the record.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    pub access: Access,
    pub base: Option<Term>,
    pub index: Option<Term>,
    pub bit: Option<Term>,
    /// The base register afterwards, for string instructions.
    pub after: Option<Term>,
    /// First value of the index register of a gather, if it is on the tape.
    pub vector: Option<Term>,
}

/// A summary of registers: a bit for each general and vector register, and a few for the rest.
pub(crate) type Mask = u64;

const FLAGS_BIT: u32 = 16;
const REST_BIT: u32 = 17;
const VECTOR_BIT: u32 = 32;

pub(crate) fn mask(r: RegRange) -> Mask {
    match (r.general_number(), r.vector_number()) {
        (Some(n), _) => 1 << n,
        (_, Some(n)) => 1 << (VECTOR_BIT + u32::from(n)),
        _ if r.at < 136 => 1 << FLAGS_BIT,
        _ => 1 << REST_BIT,
    }
}

/// A superblock.
pub struct Plan {
    pub steps: Vec<Step>,
    /// Calls: the instruction, and where the return address goes.
    pub calls: Vec<(u8, Term)>,
    /// Stores, for a quick look: instruction, access.
    pub stores: Vec<(u8, Spot)>,
    /// Instructions that decide where control goes.
    pub branches: Vec<(u8, u64)>,
    /// The bits of their addresses.
    pub(crate) branch_bits: u64,
    pub(crate) writes: Mask,
}

/// A record's values.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    pub record: &'a [u8],
    pub rsp: u64,
    pub rbp: u64,
    pub fs_base: u64,
}

impl Values<'_> {
    #[inline]
    pub fn get(&self, t: Term) -> u64 {
        self.slot(t.slot).wrapping_add_signed(t.offset)
    }

    #[inline]
    pub(crate) fn slot(&self, slot: u8) -> u64 {
        match slot {
            slot::ZERO => 0,
            slot::RSP => self.rsp,
            slot::RBP => self.rbp,
            n => {
                let at = tape::RECORD_HEAD + 8 * n as usize;
                match self.record.get(at..at + 8) {
                    Some(b) => u64::from_le_bytes(b.try_into().expect("eight bytes")),
                    None => 0,
                }
            }
        }
    }
}

impl Spot {
    /// The pieces of memory that are touched: all of them certainly, or perhaps.
    pub fn stretches(&self, v: &Values<'_>, out: &mut Vec<(u64, u64)>) -> bool {
        let at = self.address(v);
        match self.access.size {
            Size::Fixed(n) => out.push((at, u64::from(n))),
            Size::Repeat { element, .. } => {
                let element = u64::from(element);
                let after = self.after.map_or(at.wrapping_add(element), |t| v.get(t));
                if after >= at {
                    out.push((at, after - at));
                } else {
                    out.push((after.wrapping_add(element), at - after));
                }
                return after.abs_diff(at) > 0;
            }
            Size::Lanes {
                element,
                lanes,
                index_size,
                scale,
                ..
            } => {
                let Some(first) = self.vector else {
                    return false;
                };
                for n in 0..u16::from(lanes) {
                    let bit = n * u16::from(index_size) * 8;
                    let t = Term {
                        slot: first.slot + (bit / 64) as u8,
                        offset: 0,
                    };
                    let word = v.get(t) >> (bit % 64);
                    let index = if index_size == 4 {
                        i64::from(word as u32 as i32)
                    } else {
                        word as i64
                    };
                    let lane = at.wrapping_add_signed(index.wrapping_mul(i64::from(scale)));
                    out.push((lane, u64::from(element)));
                }
                return false;
            }
            Size::Masked { element, lanes, .. } | Size::Packed { element, lanes, .. } => {
                out.push((at, u64::from(element) * u64::from(lanes)));
                return false;
            }
            Size::State(_) => return false,
        }
        true
    }

    #[inline]
    pub fn address(&self, v: &Values<'_>) -> u64 {
        let a = &self.access.address;
        let mut sum = a.displacement;
        if let Some(t) = self.base {
            sum = sum.wrapping_add(v.get(t));
        }
        if let Some(t) = self.index {
            sum = sum.wrapping_add(v.get(t).wrapping_mul(u64::from(a.scale)));
        }
        if let (Some(t), Some(bit)) = (self.bit, a.bit) {
            let bits = u32::from(bit.len) * 8;
            let unused = 64 - bits;
            let number = (v.get(t) << unused) as i64 >> unused;
            let operand = number.div_euclid(i64::from(bits));
            sum = sum.wrapping_add((operand as u64).wrapping_mul(u64::from(bit.len)));
        }
        if a.narrow {
            sum &= 0xffff_ffff;
        }
        match a.segment {
            Some(Segment::Fs) => sum.wrapping_add(v.fs_base),
            _ => sum,
        }
    }
}

/// An address that is a sum of two slots of a record.
pub(crate) struct Sum {
    pub(crate) base: u8,
    pub(crate) index: u8,
    pub(crate) scale: u8,
    pub(crate) at: u64,
}

impl Spot {
    /// The address, where it is no more than a sum.
    pub(crate) fn sum(&self) -> Option<Sum> {
        const NONE: Term = Term {
            slot: slot::ZERO,
            offset: 0,
        };
        let a = &self.access.address;
        if self.bit.is_some() || a.narrow || a.segment == Some(Segment::Fs) {
            return None;
        }
        let (base, index) = (self.base.unwrap_or(NONE), self.index.unwrap_or(NONE));
        let scaled = (index.offset as u64).wrapping_mul(u64::from(a.scale));
        let at = a.displacement.wrapping_add(base.offset as u64);
        Some(Sum {
            base: base.slot,
            index: index.slot,
            scale: a.scale,
            at: at.wrapping_add(scaled),
        })
    }
}

impl Plan {
    pub fn of(code: &Code) -> Plan {
        let mut plan = Plan {
            steps: Vec::with_capacity(code.insns.len()),
            calls: Vec::new(),
            stores: Vec::new(),
            branches: Vec::new(),
            branch_bits: 0,
            writes: 0,
        };
        for (i, insn) in code.insns.iter().enumerate() {
            let known: Vec<Known> = code
                .known
                .iter()
                .filter(|k| k.insn as usize == i)
                .copied()
                .collect();
            let step = Step::of(insn, &known);
            if matches!(
                step.effects.control,
                Control::Call(_) | Control::IndirectCall
            ) && let Some(rsp) = find(&known, What::Before(4))
            {
                let slot = Term {
                    slot: rsp.slot,
                    offset: rsp.offset - 8,
                };
                plan.calls.push((i as u8, slot));
            }
            for spot in step.spots.iter().filter(|s| s.access.writes) {
                plan.stores.push((i as u8, *spot));
            }
            if step.may_branch {
                plan.branches.push((i as u8, step.pc));
            }
            plan.writes |= step.writes;
            plan.steps.push(step);
        }
        plan.branch_bits = crate::asked::bits(plan.branches.iter().map(|b| b.1));
        plan
    }
}

impl Plan {
    /// Whether one of its instructions may write the register.
    pub fn may_write(&self, r: RegRange) -> bool {
        self.writes & mask(r) != 0
    }

    /// rbp before instruction `i` of a record, if the tape tells.
    pub(crate) fn rbp_at(&self, i: usize, values: &Values<'_>) -> Option<u64> {
        const RBP: u8 = 5;
        for s in self.steps[..i].iter().rev() {
            if s.writes >> RBP & 1 != 0 {
                return None;
            }
            let based = |spot: &&Spot| spot.access.address.base == Some(RBP);
            if let Some(base) = s.spots.iter().find(based).and_then(|s| s.base) {
                return Some(values.get(base));
            }
        }
        Some(values.rbp)
    }

    /// The frame in which instruction `i` of a record is executed; `first` is the number of the first
    /// call in it.
    pub fn frame_at(&self, i: usize, frame: FrameId, first: u32) -> FrameId {
        let earlier = self.calls.iter().take_while(|(n, _)| (*n as usize) < i);
        match earlier.count() as u32 {
            0 => frame,
            n => FrameId(first + n - 1),
        }
    }
}

impl Step {
    pub fn of(insn: &tape::Insn, known: &[Known]) -> Step {
        let mut decoder = Decoder::with_ip(64, insn.code(), insn.pc, DecoderOptions::NONE);
        let decoded = decoder.decode();
        let mut effects = Effects::of(&decoded);
        if effects
            .accesses
            .iter()
            .any(|a| matches!(a.size, Size::State(_)))
        {
            // What is saved comes back as it was: for those who look for values, nothing happened.
            effects.transfers.clear();
            effects.accesses.clear();
        }
        let spots = effects.accesses.iter().map(|a| Spot::of(a, known));
        let writes = effects.registers_written().fold(0, |m, r| m | mask(r));
        Step {
            pc: insn.pc,
            id: 0,
            len: insn.len,
            stores: effects.accesses.iter().any(|a| a.writes),
            spots: spots.collect(),
            condition: find(known, What::Condition),
            keeps: keeps(&decoded),
            frames: sets_frame(&decoded),
            writes: writes & !mask(effects::RSP),
            leaves: matches!(effects.control, Control::Return | Control::IndirectJump),
            returns: effects.control == Control::Return,
            // A call decides too: it may throw.
            may_branch: matches!(
                effects.control,
                Control::Branch(_)
                    | Control::IndirectJump
                    | Control::Call(_)
                    | Control::IndirectCall
            ),
            effects,
        }
    }

    /// The bytes of a place that are in registers.
    pub fn register(place: Place) -> Option<RegRange> {
        match place {
            Place::Register(r) => Some(r),
            _ => None,
        }
    }
}

fn find(known: &[Known], what: What) -> Option<Term> {
    known.iter().find(|k| k.what == what).map(|k| k.term)
}

impl Spot {
    fn of(access: &Access, known: &[Known]) -> Spot {
        let a = &access.address;
        let before = |r: Option<u8>| r.and_then(|r| find(known, What::Before(r)));
        let bit = a.bit.and_then(|b| b.general_number()).map(|n| n as u8);
        let vector = match access.size {
            Size::Lanes { index, .. } => index.vector_number().and_then(|n| {
                find(
                    known,
                    What::Vector {
                        register: n as u8,
                        part: 0,
                    },
                )
            }),
            _ => None,
        };
        Spot {
            access: *access,
            base: before(a.base),
            index: before(a.index),
            bit: before(bit),
            after: a.base.and_then(|r| find(known, What::After(r))),
            vector,
        }
    }
}

/// `push` and `pop` of a register that belongs to the caller, and `leave`.
fn keeps(i: &Instruction) -> bool {
    let callers = matches!(
        i.op0_register(),
        Register::RBX
            | Register::RBP
            | Register::R12
            | Register::R13
            | Register::R14
            | Register::R15
    );
    let kept = i.op0_kind() == OpKind::Register && callers;
    match i.mnemonic() {
        Mnemonic::Push | Mnemonic::Pop => kept,
        Mnemonic::Leave => true,
        _ => false,
    }
}

fn sets_frame(i: &Instruction) -> bool {
    match i.mnemonic() {
        Mnemonic::Mov => {
            i.op0_kind() == OpKind::Register
                && i.op0_register() == Register::RBP
                && i.op1_kind() == OpKind::Register
                && i.op1_register() == Register::RSP
        }
        Mnemonic::Lea => i.op0_register() == Register::RBP && i.memory_base() == Register::RSP,
        _ => false,
    }
}
