//! What a reader of the tape wants to know of a superblock, worked out once.

use std::sync::Arc;

use crate::codes::{InsnId, Way, unchanged};
use crate::reader::FrameId;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use image::effects::{self, Access, Control, Effects, Place, RegRange, Segment, Size};
use tape::{Code, Known, Term, What, slot};

/// An instruction with what the tape tells about it.
#[derive(Clone)]
pub struct Step {
    pub pc: u64,
    pub id: InsnId,
    pub len: u8,
    pub effects: Arc<Effects>,
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
    /// From one slot to the next in bytes: [`Values::UNIT`], or less in records that are read as one.
    pub unit: u8,
}

impl Values<'_> {
    /// What a value has on the tape.
    pub const UNIT: u8 = 8;

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
                let at = tape::RECORD_HEAD + self.unit as usize * n as usize;
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
    fn empty() -> Plan {
        Plan {
            steps: Vec::new(),
            calls: Vec::new(),
            stores: Vec::new(),
            branches: Vec::new(),
            branch_bits: 0,
            writes: 0,
        }
    }

    /// Adds the instruction that is next; with where the return address goes, if it is a call.
    fn push(&mut self, i: u8, step: Step, call: Option<Term>) {
        self.calls.extend(call.map(|slot| (i, slot)));
        for spot in step.spots.iter().filter(|s| s.access.writes) {
            self.stores.push((i, *spot));
        }
        if step.may_branch {
            self.branches.push((i, step.pc));
        }
        self.writes |= step.writes;
        self.steps.push(step);
    }

    pub fn of(code: &Code) -> Plan {
        let mut plan = Plan::empty();
        plan.steps.reserve(code.insns.len());
        for (i, insn) in code.insns.iter().enumerate() {
            let known: Vec<Known> = code
                .known
                .iter()
                .filter(|k| k.insn as usize == i)
                .copied()
                .collect();
            let step = Step::of(insn, &known);
            let calls = matches!(
                step.effects.control,
                Control::Call(_) | Control::IndirectCall
            );
            let rsp = find(&known, What::Before(4)).filter(|_| calls);
            let call = rsp.map(|rsp| Term {
                slot: rsp.slot,
                offset: rsp.offset - 8,
            });
            plan.push(i as u8, step, call);
        }
        plan.branch_bits = crate::asked::bits(plan.branches.iter().map(|b| b.1));
        plan
    }
}

/// Where the values of a record are in a row of records that is read as one.
struct Shift {
    /// How far its beginning is from that of the row, and its own unit.
    bytes: usize,
    unit: u8,
    rsp: Term,
    rbp: Term,
}

/// From one slot to the next in a row of records, in bytes: their heads are shorter than a value.
const ROW_UNIT: usize = tape::RECORD_HEAD;

impl Shift {
    /// What a term of the record is in the row, if that can be said.
    fn term(&self, t: Term) -> Option<Term> {
        let to = match t.slot {
            slot::ZERO => return Some(t),
            slot::RSP => self.rsp,
            slot::RBP => self.rbp,
            n => {
                let slot = (self.bytes + self.unit as usize * n as usize) / ROW_UNIT;
                Term {
                    slot: u8::try_from(slot).ok().filter(|n| *n < slot::VALUES)?,
                    offset: 0,
                }
            }
        };
        Some(Term {
            slot: to.slot,
            offset: to.offset.wrapping_add(t.offset),
        })
    }

    /// The same for what there may be.
    fn maybe(&self, t: Option<Term>) -> Option<Option<Term>> {
        match t {
            Some(t) => self.term(t).map(Some),
            None => Some(None),
        }
    }

    fn step(&self, s: &Step) -> Option<Step> {
        let spot = |spot: &Spot| {
            Some(Spot {
                access: spot.access,
                base: self.maybe(spot.base)?,
                index: self.maybe(spot.index)?,
                bit: self.maybe(spot.bit)?,
                after: self.maybe(spot.after)?,
                vector: self.maybe(spot.vector)?,
            })
        };
        Some(Step {
            spots: s.spots.iter().map(spot).collect::<Option<_>>()?,
            condition: self.maybe(s.condition)?,
            ..s.clone()
        })
    }
}

/// Two ways, one after the other, as one. Nothing if what is on the tape cannot be named then.
pub(crate) fn join(ways: [(&Plan, &Way); 2]) -> Option<(Plan, Way)> {
    let mut shift = Shift {
        bytes: 0,
        unit: 0,
        rsp: unchanged(slot::RSP),
        rbp: unchanged(slot::RBP),
    };
    let mut plan = Plan::empty();
    let mut last = None;
    for (part, way) in ways {
        shift.unit = way.unit;
        let begin = plan.steps.len() as u8;
        for (i, s) in part.steps[..way.executed as usize].iter().enumerate() {
            let call = part.calls.iter().find(|c| c.0 as usize == i);
            let call = shift.maybe(call.map(|c| c.1))?;
            plan.push(begin + i as u8, shift.step(s)?, call);
        }
        (shift.rsp, shift.rbp) = (shift.term(way.rsp)?, shift.term(way.rbp)?);
        shift.bytes += way.record_len as usize;
        last = way.last;
    }
    plan.branch_bits = crate::asked::bits(plan.branches.iter().map(|b| b.1));
    let way = Way {
        plan: 0,
        record_len: shift.bytes.try_into().ok()?,
        executed: plan.steps.len() as u8,
        calls: plan.calls.len() as u8,
        rsp: shift.rsp,
        rbp: shift.rbp,
        last,
        unit: ROW_UNIT as u8,
    };
    Some((plan, way))
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
            effects: Arc::new(effects),
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
