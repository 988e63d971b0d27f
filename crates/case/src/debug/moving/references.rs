//! What in code refers to variables that are moved.
//!
//! An address in an instruction belongs to the variable that it is in. One that is where a variable ends and another
//! begins may mean either: the beginning of the second, or, as loops have it, the end of the first. What is done with
//! it tells: an end is compared, a beginning is not.

use guest::{Operand, Reference, UserRegs};
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use image::Memory;
use rustc_hash::FxHashMap;

use crate::Error;
use crate::debug::Session;

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
    i.virtual_address(operand, 0, |register, _, _| {
        let known = register.is_gpr64();
        known.then(|| *guest::register_mut(&mut regs, register.number() as u8))
    })
}

/// All that refers to the pieces of a layout. `address` is what an instruction refers to.
pub(super) fn find(
    insns: &[Instruction],
    layout: &Layout,
    address: &dyn Fn(&Instruction) -> Option<u64>,
) -> Result<Vec<Reference>, String> {
    let mut out = Vec::new();
    for (n, i) in insns.iter().enumerate() {
        if let Some(at) = address(i) {
            let done = match i.mnemonic() {
                // Also a copy of the stack pointer.
                Mnemonic::Lea | Mnemonic::Mov
                    if !has_memory(i) || i.mnemonic() == Mnemonic::Lea =>
                {
                    what_becomes_of(i.op0_register(), &insns[n + 1..])
                }
                _ => Use::Access(i.memory_size().size() as u64),
            };
            let by = layout.distance(at, done).map_err(|what| {
                format!("`{i}` at {:#x} is about more than one variable ({what}): they cannot be parted", i.ip())
            })?;
            if by != 0 {
                out.push(Reference {
                    pc: i.ip(),
                    operand: Operand::Memory,
                    by,
                });
            }
        }
        if let Some((value, done)) = immediate(i, &insns[n + 1..])
            && let Ok(by) = layout.distance(value, done)
            && by != 0
        {
            out.push(Reference {
                pc: i.ip(),
                operand: Operand::Immediate,
                by,
            });
        }
    }
    Ok(out)
}

/// An immediate operand that may be an address.
fn immediate(i: &Instruction, behind: &[Instruction]) -> Option<(u64, Use)> {
    let last = i.op_count().checked_sub(1)?;
    let wide = match i.op_kind(last) {
        OpKind::Immediate32to64 | OpKind::Immediate64 => true,
        OpKind::Immediate32 => false,
        _ => return None,
    };
    let to_register = i.op0_kind() == OpKind::Register;
    let done = match i.mnemonic() {
        // Also the short form of a pointer below 4 GiB.
        Mnemonic::Mov if to_register => what_becomes_of(i.op0_register(), behind),
        Mnemonic::Mov | Mnemonic::Push | Mnemonic::Add | Mnemonic::Sub if wide => Use::Pointer,
        Mnemonic::Cmp if wide => Use::Compared,
        _ => return None,
    };
    Some((i.immediate(last), done))
}

/// Whether a pointer that was made is compared or used as one, as far as the code behind it tells.
fn what_becomes_of(register: Register, behind: &[Instruction]) -> Use {
    let register = register.full_register();
    let mut factory = InstructionInfoFactory::new();
    for i in behind.iter().take(AHEAD) {
        let info = factory.info(i);
        let mut touches = info
            .used_registers()
            .iter()
            .filter(|u| u.register().full_register() == register);
        let addresses = |r: Register| r.full_register() == register;
        if addresses(i.memory_base()) || addresses(i.memory_index()) {
            return Use::Pointer;
        }
        let Some(used) = touches.next() else {
            continue;
        };
        let read = !matches!(used.access(), OpAccess::Write | OpAccess::CondWrite);
        if i.mnemonic() == Mnemonic::Cmp && read {
            return Use::Compared;
        }
        return Use::Pointer;
    }
    Use::Pointer
}

impl Session {
    /// The address that each instruction works on when it is first executed: what an index leads to, the instruction
    /// alone does not tell.
    pub(super) fn first_addresses(
        &mut self,
        insns: &[Instruction],
        address: impl Fn(&UserRegs, &Instruction) -> Option<u64>,
    ) -> Result<FxHashMap<u64, u64>, Error> {
        let mut out = FxHashMap::default();
        if insns.is_empty() {
            return Ok(out);
        }
        let back = self.step()?;
        self.go(0)?;
        let mut left: Vec<Instruction> = insns.to_vec();
        while !left.is_empty() {
            let at: Vec<u64> = left.iter().map(Instruction::ip).collect();
            if !self.find_nth(&at, 1)? {
                break;
            }
            let regs = self.replay.regs();
            left.retain(|i| {
                if i.ip() != regs.rip {
                    return true;
                }
                if let Some(a) = address(&regs, i) {
                    out.insert(i.ip(), a);
                }
                false
            });
        }
        self.go(back)?;
        Ok(out)
    }
}
