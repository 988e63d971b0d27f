//! Memory operands, and registers that an instruction leaves free.

use iced_x86::{Instruction, InstructionInfoFactory, MemoryOperand, Register};

pub(super) fn reaches(target: u64, from: u64) -> bool {
    (target.wrapping_sub(from) as i64).unsigned_abs() < 0x7fff_0000
}

pub(super) fn memory_of(i: &Instruction) -> MemoryOperand {
    MemoryOperand::new(
        i.memory_base(),
        i.memory_index(),
        i.memory_index_scale(),
        i.memory_displacement64() as i64,
        i.memory_displ_size(),
        false,
        i.segment_prefix(),
    )
}

pub(super) fn unused_register(i: &Instruction) -> Register {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(i);
    let candidates = [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSI,
        Register::RDI,
    ];
    let used = |r: Register| {
        info.used_registers()
            .iter()
            .any(|u| u.register().full_register() == r)
    };
    candidates
        .into_iter()
        .find(|&r| !used(r))
        .expect("no instruction uses all six registers")
}
