//! What a faulting instruction wanted to do, in words.
//!
//! The kernel says where an access failed, seldom whether it was a read or a write, and nothing at
//! all for addresses that no program can have. The instruction and the registers say the rest.

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register};
use image::Registers;

use crate::moment::Moment;
use crate::position::decode;

/// One memory operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// The pointer that the address was computed from.
    base: Option<u64>,
}

impl Access {
    fn verb(&self) -> &'static str {
        match (self.read, self.write) {
            (false, true) => "write",
            (true, true) => "read and write",
            _ => "read",
        }
    }
}

pub(crate) fn register(r: &Registers, register: Register) -> Option<u64> {
    let full = match register.full_register() {
        Register::RAX => r.rax,
        Register::RBX => r.rbx,
        Register::RCX => r.rcx,
        Register::RDX => r.rdx,
        Register::RSI => r.rsi,
        Register::RDI => r.rdi,
        Register::RBP => r.rbp,
        Register::RSP => r.rsp,
        Register::R8 => r.r8,
        Register::R9 => r.r9,
        Register::R10 => r.r10,
        Register::R11 => r.r11,
        Register::R12 => r.r12,
        Register::R13 => r.r13,
        Register::R14 => r.r14,
        Register::R15 => r.r15,
        Register::FS => r.fs_base?,
        Register::DS | Register::ES | Register::SS | Register::CS => 0,
        _ => return None,
    };
    Some(match register.size() {
        4 => full & 0xffff_ffff,
        _ => full,
    })
}

/// The memory operands of the instruction at hand.
pub(crate) fn accesses(m: &Moment<'_>) -> Vec<Access> {
    let Some(insn) = decode(m, m.regs.rip) else {
        return Vec::new();
    };
    operands(&insn, &m.registers())
}

/// The memory operands of an instruction, explicit and implied.
pub(crate) fn operands(insn: &Instruction, registers: &Registers) -> Vec<Access> {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(insn);
    info.used_memory()
        .iter()
        .filter_map(|u| {
            let address = u.virtual_address(0, |reg, _, _| register(registers, reg))?;
            let (read, write) = match u.access() {
                OpAccess::Read | OpAccess::CondRead => (true, false),
                OpAccess::Write | OpAccess::CondWrite => (false, true),
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                _ => return None,
            };
            Some(Access {
                address,
                size: (u.memory_size().size() as u64).max(1),
                read,
                write,
                base: register(registers, u.base()),
            })
        })
        .collect()
}

fn is_canonical(address: u64) -> bool {
    matches!(address >> 47, 0 | 0x1_ffff)
}

/// What the instruction tried. `address` is what the kernel named, if it named one.
/// `beyond_file`: the kernel says that there is a mapping, but nothing in the file to map.
pub(crate) fn explain(
    m: &Moment<'_>,
    code: i32,
    address: u64,
    beyond_file: bool,
) -> Option<String> {
    const KERNEL: i32 = 0x80;
    const NEAR_NULL: u64 = 0x1_0000;
    let all = accesses(m);
    if code == KERNEL {
        return Some(match all.iter().find(|a| !is_canonical(a.address)) {
            Some(a) => format!(
                "tried to {} address {:#x}, which is outside what any program can address",
                a.verb(),
                a.address
            ),
            None => "the processor refused the instruction (general protection fault)".to_owned(),
        });
    }
    // A string instruction may have got some way into its operand.
    let near = |a: &&Access| address.wrapping_sub(a.address) < a.size.max(64);
    let access = all.iter().find(near);
    let verb = access.map_or("access", Access::verb);
    if let Some(overflow) = stack_overflow(m, address) {
        return Some(overflow);
    }
    let place = match access.and_then(|a| a.base) {
        Some(0) if address < NEAR_NULL => "through a null pointer".to_owned(),
        _ if beyond_file => match m.mapping(address).and_then(|map| name_of(m, map, address)) {
            Some(name) => format!("which lies beyond the end of {name}"),
            None => "which has no memory behind it".to_owned(),
        },
        _ => place(m, address),
    };
    Some(format!("tried to {verb} address {address:#x}, {place}"))
}

/// What there is at an address that cannot be used.
pub(crate) fn place(m: &Moment<'_>, address: u64) -> String {
    let Some(map) = m.mapping(address) else {
        return "which is not mapped".to_owned();
    };
    let p = map.protection;
    let may = match (p.read, p.write, p.execute) {
        (false, false, false) => "may not be touched",
        (true, false, false) => "may only be read",
        (true, true, false) => "may be read and written but not executed",
        (true, false, true) => "is code: it may be read and executed but not written",
        _ => "does not permit that",
    };
    match name_of(m, map, address) {
        Some(name) => format!("which {may} (in {name})"),
        None => format!("which {may}"),
    }
}

fn name_of(m: &Moment<'_>, map: &guest::Mapping, address: u64) -> Option<String> {
    let known = m.file_at(address).or_else(|| m.known_name(map))?;
    let text = known.to_string_lossy().into_owned();
    // The engine keeps some of the guest's memory in files of its own.
    (!text.is_empty() && !text.starts_with("/memfd:")).then_some(text)
}

/// An access just below a stack that cannot grow any further.
fn stack_overflow(m: &Moment<'_>, address: u64) -> Option<String> {
    const FRAME: u64 = 4 << 20;
    const GUARD: u64 = 2 << 20;
    let sp = m.regs.rsp;
    let near_sp = address.wrapping_add(FRAME).wrapping_sub(sp) < 2 * FRAME;
    let above = m
        .mappings
        .iter()
        .find(|map| map.start > address && map.protection.write)?;
    // The kernel lets the first stack grow down to its limit; others have a guard page below.
    let is_main = above.name.as_os_str() == "[stack]";
    let is_other = (above.start..above.end).contains(&sp) && above.start - address <= GUARD;
    let usable = m
        .mapping(address)
        .is_some_and(|map| map.protection.read || map.protection.write);
    (near_sp && (is_main || is_other) && !usable).then(|| {
        format!(
            "the stack overflowed: all of its {} KiB are in use",
            (above.end - address) >> 10
        )
    })
}
