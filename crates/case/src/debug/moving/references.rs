//! What in code refers to variables that are moved.
//!
//! An address in an instruction belongs to the variable that it is in, with two exceptions. `table[c - 48]` has one in
//! front of its table, to which an index is added; and where one variable ends and another begins, an address may mean
//! either: the beginning of the second, or, as loops have it, the end of the first. There the recording is asked: what
//! the index led to, and with what the address was compared.

use guest::{Operand, Reference, UserRegs};
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use image::Memory;
use rustc_hash::FxHashMap;

use crate::Error;
use crate::debug::Session;
use crate::moment::Guest;

/// How far ahead it is looked what becomes of a pointer.
const AHEAD: usize = 64;
/// From how far away an index may lead into a variable: `table[c - 48]`.
const NEAR: u64 = 4096;

/// A stretch of memory that is moved as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) to: u64,
}

impl Piece {
    fn by(&self) -> i64 {
        self.to.wrapping_sub(self.begin) as i64
    }
}

/// What is done with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// So many bytes there are read or written.
    Access(u64),
    /// A pointer is made.
    Pointer,
    /// Something is compared with it.
    Compared,
}

/// Where everything is that is moved.
pub(super) struct Layout {
    /// In the order of addresses.
    pub(super) pieces: Vec<Piece>,
    /// Variables that stay.
    others: Vec<(u64, u64)>,
}

impl Layout {
    pub(super) fn new(mut pieces: Vec<Piece>, others: Vec<(u64, u64)>) -> Layout {
        pieces.sort_by_key(|p| p.begin);
        Layout { pieces, others }
    }

    pub(super) fn containing(&self, address: u64) -> Option<&Piece> {
        let after = self.pieces.partition_point(|p| p.begin <= address);
        let last = self.pieces.get(after.checked_sub(1)?)?;
        (address < last.end).then_some(last)
    }

    /// An index may lead from there to something that is moved.
    pub(super) fn is_near(&self, address: u64) -> bool {
        let mut all = self.pieces.iter();
        all.any(|p| (p.begin.saturating_sub(NEAR)..=p.end.saturating_add(NEAR)).contains(&address))
    }

    fn owner(&self, address: u64, done: Use) -> Option<&Piece> {
        let inside = self.containing(address);
        let behind = || self.pieces.iter().find(|p| p.end == address);
        match done {
            Use::Access(_) => inside,
            Use::Pointer => inside.or_else(|| {
                let begins = self.others.iter().any(|o| o.0 == address);
                behind().filter(|_| !begins)
            }),
            Use::Compared => behind().or_else(|| {
                let ends = self.others.iter().any(|o| o.1 == address);
                inside.filter(|p| p.begin != address || !ends)
            }),
        }
    }

    /// Where an address leads now, if that is elsewhere.
    pub(super) fn follow(&self, address: u64, done: Use) -> Option<u64> {
        let piece = self.owner(address, done)?;
        Some(address.wrapping_add_signed(piece.by())).filter(|to| *to != address)
    }

    /// One variable ends there and another begins.
    fn is_boundary(&self, address: u64) -> bool {
        let mut pieces = self.pieces.iter();
        let mut others = self.others.iter();
        let ends = pieces.any(|p| p.end == address) || others.any(|o| o.1 == address);
        let mut pieces = self.pieces.iter();
        let mut others = self.others.iter();
        ends && (pieces.any(|p| p.begin == address) || others.any(|o| o.0 == address))
    }

    /// How far off what is meant by an address is, by what is known of it.
    fn meant(&self, address: u64, done: Use, told: Option<&Told>) -> Result<i64, String> {
        match told {
            Some(Told::To(to)) => Ok(self.containing(*to).map_or(0, Piece::by)),
            Some(Told::With(other)) => {
                // A pointer that runs through what ends there.
                let into = |begin: u64, end: u64| end == address && (begin..end).contains(other);
                let runs = self.pieces.iter().any(|p| into(p.begin, p.end))
                    || self.others.iter().any(|o| into(o.0, o.1));
                self.distance(address, if runs { Use::Compared } else { Use::Pointer })
            }
            None => self.distance(address, done),
        }
    }

    /// How far off what is meant by an address is; what is wrong if that is not the same for all of it.
    fn distance(&self, address: u64, done: Use) -> Result<i64, String> {
        let by = self.owner(address, done).map_or(0, Piece::by);
        if let Use::Access(size) = done {
            let end = address.saturating_add(size);
            let after = self.pieces.partition_point(|p| p.end <= address);
            let reached = self.pieces[after..].iter().take_while(|p| p.begin < end);
            let mut at = address;
            let mut parted = false;
            for p in reached {
                parted |= p.by() != by || (at < p.begin && by != 0);
                at = p.end;
            }
            if parted || (at < end && at != address && by != 0) {
                return Err(format!("{size} bytes from {address:#x} on"));
            }
        }
        Ok(by)
    }
}

/// The instructions of a stretch of code.
pub(super) fn decode(memory: &dyn Memory, begin: u64, end: u64) -> Vec<Instruction> {
    let mut bytes = vec![0; end.saturating_sub(begin) as usize];
    if !memory.read(begin, &mut bytes) {
        return Vec::new();
    }
    let decoder = Decoder::with_ip(64, &bytes, begin, DecoderOptions::NONE);
    decoder.into_iter().filter(|i| !i.is_invalid()).collect()
}

/// `mov REGISTER, rsp`: a pointer to what is at the end of the frame.
pub(super) fn copies_stack_pointer(i: &Instruction) -> bool {
    i.mnemonic() == Mnemonic::Mov
        && i.op0_kind() == OpKind::Register
        && i.op1_kind() == OpKind::Register
        && i.op1_register() == Register::RSP
}

fn has_memory(i: &Instruction) -> bool {
    (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory)
}

/// The address that is in an instruction, an index and a base aside.
pub(super) fn absolute(i: &Instruction) -> Option<u64> {
    let thread = matches!(i.segment_prefix(), Register::FS | Register::GS);
    if !has_memory(i) || thread {
        return None;
    }
    // Of a rip-relative operand that is what it leads to.
    Some(i.memory_displacement64())
}

/// The address that an instruction that is next works on.
pub(super) fn effective(regs: &UserRegs, i: &Instruction) -> Option<u64> {
    let mut regs = *regs;
    let operand = (0..i.op_count()).find(|n| i.op_kind(*n) == OpKind::Memory)?;
    i.virtual_address(operand, 0, |register, _, _| match register {
        r if r.is_gpr64() => Some(*guest::register_mut(&mut regs, r.number() as u8)),
        Register::FS | Register::GS => None,
        r if r.is_segment_register() => Some(0),
        _ => None,
    })
}

/// What only a run tells about an address in an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// What it led to.
    To(u64),
    /// What it was compared with.
    With(u64),
}

/// An address in an instruction of which the instruction alone does not tell what is meant.
pub(super) struct Question {
    pc: u64,
    /// The instruction that uses it.
    used: Instruction,
    /// The operand with which it is compared there.
    compared: Option<u32>,
}

/// How an address in an instruction is used.
enum Made<'a> {
    /// By the instruction itself.
    Here,
    /// As a pointer in a register, first by this instruction.
    Pointer(Option<&'a Instruction>),
}

fn made<'a>(i: &Instruction, behind: &'a [Instruction]) -> Made<'a> {
    match i.mnemonic() {
        Mnemonic::Lea => Made::Pointer(first_use(i.op0_register(), behind)),
        _ if copies_stack_pointer(i) => Made::Pointer(first_use(i.op0_register(), behind)),
        _ => Made::Here,
    }
}

/// The instruction that first reads a register, as far as the code in a row tells.
fn first_use(register: Register, behind: &[Instruction]) -> Option<&Instruction> {
    let register = register.full_register();
    let mut factory = InstructionInfoFactory::new();
    for i in behind.iter().take(AHEAD) {
        let info = factory.info(i);
        let mut used = info.used_registers().iter();
        let Some(used) = used.find(|u| u.register().full_register() == register) else {
            continue;
        };
        let read = !matches!(used.access(), OpAccess::Write | OpAccess::CondWrite);
        return read.then_some(i);
    }
    None
}

/// An index is added to something.
fn is_indexed(i: &Instruction) -> bool {
    i.memory_index() != Register::None
}

/// The operand that another one is compared with, which is this register, or else an immediate.
fn compared_with(i: &Instruction, register: Option<Register>) -> Option<u32> {
    let is = |n: u32| match register {
        Some(r) => i.op_kind(n) == OpKind::Register && i.op_register(n).full_register() == r,
        None => n == 1,
    };
    let n = (0..2).find(|n| is(*n))?;
    (i.mnemonic() == Mnemonic::Cmp).then_some(1 - n)
}

/// What has to be asked about the references to a layout.
pub(super) fn questions(
    insns: &[Instruction],
    layout: &Layout,
    address: &dyn Fn(&Instruction) -> Option<u64>,
) -> Vec<Question> {
    let mut out = Vec::new();
    for (n, i) in insns.iter().enumerate() {
        let behind = &insns[n + 1..];
        let mut ask = |used: &Instruction, compared| {
            out.push(Question {
                pc: i.ip(),
                used: *used,
                compared,
            });
        };
        if let Some(at) = address(i).filter(|a| layout.is_near(*a)) {
            let register = i.op0_register().full_register();
            match made(i, behind) {
                _ if is_indexed(i) => ask(i, None),
                Made::Pointer(Some(used)) if is_indexed(used) => ask(used, None),
                Made::Pointer(Some(used)) if layout.is_boundary(at) => {
                    let with = compared_with(used, Some(register));
                    with.into_iter().for_each(|n| ask(used, Some(n)));
                }
                _ => {}
            }
        }
        if let Some(at) = immediate(i).filter(|a| layout.is_near(*a)) {
            let register = i.op0_register().full_register();
            let used = match i.mnemonic() {
                Mnemonic::Mov => first_use(register, behind),
                _ => None,
            };
            match used {
                Some(used) if is_indexed(used) => ask(used, None),
                Some(used) if layout.is_boundary(at) => {
                    let with = compared_with(used, Some(register));
                    with.into_iter().for_each(|n| ask(used, Some(n)));
                }
                None if layout.is_boundary(at) => {
                    let with = compared_with(i, None);
                    with.into_iter().for_each(|n| ask(i, Some(n)));
                }
                _ => {}
            }
        }
    }
    out
}

/// All that refers to the pieces of a layout. `address` is what an instruction refers to.
pub(super) fn find(
    insns: &[Instruction],
    layout: &Layout,
    told: &FxHashMap<u64, Told>,
    address: &dyn Fn(&Instruction) -> Option<u64>,
) -> Result<Vec<Reference>, String> {
    let mut out = Vec::new();
    for (n, i) in insns.iter().enumerate() {
        let behind = &insns[n + 1..];
        let mut refer = |operand, by: i64| {
            if by != 0 {
                out.push(Reference {
                    pc: i.ip(),
                    operand,
                    by,
                });
            }
        };
        let told = told.get(&i.ip());
        if let Some(at) = address(i) {
            let done = match made(i, behind) {
                Made::Here => Use::Access(i.memory_size().size() as u64),
                Made::Pointer(used) => {
                    let register = i.op0_register().full_register();
                    let compared = used.and_then(|u| compared_with(u, Some(register)));
                    compared.map_or(Use::Pointer, |_| Use::Compared)
                }
            };
            let by = layout.meant(at, done, told).map_err(|what| {
                format!(
                    "`{i}` at {:#x} is about more than one variable ({what}): they cannot be parted",
                    i.ip()
                )
            })?;
            refer(Operand::Memory, by);
        }
        if let Some(at) = immediate(i) {
            let done = match i.mnemonic() {
                Mnemonic::Cmp => Use::Compared,
                _ => Use::Pointer,
            };
            refer(Operand::Immediate, layout.meant(at, done, told)?);
        }
    }
    Ok(out)
}

/// An immediate operand that may be an address.
fn immediate(i: &Instruction) -> Option<u64> {
    let last = i.op_count().checked_sub(1)?;
    let wide = match i.op_kind(last) {
        OpKind::Immediate32to64 | OpKind::Immediate64 => true,
        OpKind::Immediate32 => false,
        _ => return None,
    };
    let to_register = i.op0_kind() == OpKind::Register;
    let may_be = match i.mnemonic() {
        // Also the short form of a pointer below 4 GiB.
        Mnemonic::Mov => wide || to_register,
        Mnemonic::Push | Mnemonic::Add | Mnemonic::Sub | Mnemonic::Cmp => wide,
        _ => false,
    };
    may_be.then(|| i.immediate(last))
}

impl Session {
    /// Asks the recording: the first time that each instruction is executed tells. `place` makes of an address what
    /// it is in the layout.
    pub(super) fn ask(
        &mut self,
        questions: Vec<Question>,
        place: impl Fn(&UserRegs, &Instruction, u64) -> Option<u64>,
    ) -> Result<FxHashMap<u64, Told>, Error> {
        let mut out = FxHashMap::default();
        if questions.is_empty() {
            return Ok(out);
        }
        let back = self.step()?;
        self.go(0)?;
        let mut left = questions;
        while !left.is_empty() {
            let mut at: Vec<u64> = left.iter().map(|q| q.used.ip()).collect();
            at.sort_unstable();
            at.dedup();
            if !self.find_nth(&at, 1)? {
                break;
            }
            let regs = self.replay.regs();
            let (now, later) = left.into_iter().partition(|q| q.used.ip() == regs.rip);
            left = later;
            for q in now {
                let answer = match q.compared {
                    None => effective(&regs, &q.used).map(|a| (a, false)),
                    Some(n) => self.operand(&regs, &q.used, n).map(|a| (a, true)),
                };
                let Some((address, compared)) = answer else {
                    continue;
                };
                if let Some(address) = place(&regs, &q.used, address) {
                    let told = if compared { Told::With } else { Told::To };
                    out.insert(q.pc, told(address));
                }
            }
        }
        self.go(back)?;
        Ok(out)
    }

    /// What is in an operand of an instruction that is next.
    fn operand(&self, regs: &UserRegs, i: &Instruction, n: u32) -> Option<u64> {
        let mut regs = *regs;
        match i.op_kind(n) {
            OpKind::Register if i.op_register(n).is_gpr64() => Some(*guest::register_mut(
                &mut regs,
                i.op_register(n).number() as u8,
            )),
            OpKind::Memory => {
                let mut word = [0; 8];
                let read = Guest(&self.replay).read(effective(&regs, i)?, &mut word);
                read.then(|| u64::from_le_bytes(word))
            }
            _ => None,
        }
    }
}
