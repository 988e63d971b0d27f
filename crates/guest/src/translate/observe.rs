//! Logging what instructions work on.
//!
//! Before an observed instruction, translated code writes a record: its address, its step, the
//! value of its memory operand and all general registers ([`seen`]). The registers after it are
//! those before the next one. Nothing here touches the flags, and the guest is stopped before the
//! log is full by running it in stretches of fewer steps than there is room for records.
//!
//! Writing only the registers that the instruction names was rejected: it saves a third of the
//! stores, and the reader would have to know the shape of each record.

use iced_x86::{
    Code as Opcode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use super::{Gpr, Insn, Saved, Translator, memory_of, reaches};
use crate::layout::{seen, slot};

impl Translator<'_> {
    pub(super) fn observe(&mut self, insn: &Insn, uncounted: i32) {
        let at = |word: usize| (word as i32 * 8 - seen::BIAS as i32) as i8;
        self.code.save(Gpr::RDX, slot::RDX);
        self.note(insn.pc, uncounted, Saved(2));
        if let Some(load) = load_operand(&insn.decoded) {
            self.load_observed(&insn.decoded, load);
        }
        self.code.save(Gpr::RDX, slot::OBSERVED);
        self.code.save(Gpr::RCX, slot::RCX);
        self.note(insn.pc, uncounted, Saved::RCX_RDX);
        self.code.load(Gpr::RDX, slot::BASE);
        for lane in 0..slot::LANES {
            self.code.load(Gpr::RCX, slot::COUNT + 8 * lane);
            self.code
                .sum_rdx(if lane == 0 { uncounted as i8 } else { 0 });
        }
        self.code.load(Gpr::RCX, slot::OBSERVE_AT);
        self.code.store_at_rcx(at(seen::STEP), Gpr::RDX);
        self.code.imm64(Gpr::RDX, insn.pc);
        self.code.store_at_rcx(at(seen::PC), Gpr::RDX);
        for (word, from) in [
            (seen::MEMORY, slot::OBSERVED),
            (seen::REGS + 1, slot::RCX),
            (seen::REGS + 2, slot::RDX),
        ] {
            self.code.load(Gpr::RDX, from);
            self.code.store_at_rcx(at(word), Gpr::RDX);
        }
        for n in (0..16).filter(|n| !matches!(n, 1 | 2)) {
            self.code.store_at_rcx(at(seen::REGS + n), Gpr(n as u8));
        }
        self.code.advance_rcx(seen::SIZE as i32);
        self.code.save(Gpr::RCX, slot::OBSERVE_AT);
        self.code.load(Gpr::RCX, slot::RCX);
        self.code.load(Gpr::RDX, slot::RDX);
        self.note(insn.pc, uncounted, Saved::default());
    }

    /// Adds to the record what the instruction has written to its memory operand.
    pub(super) fn observe_after(&mut self, insn: &Insn, uncounted: i32) {
        if !writes_operand(&insn.decoded) {
            return;
        }
        let Some(load) = load_operand(&insn.decoded) else {
            return;
        };
        // The instruction is done: what is left of its superblock begins behind it.
        let next = insn.pc + u64::from(insn.len);
        self.note(next, uncounted + 1, Saved::default());
        self.code.save(Gpr::RDX, slot::RDX);
        self.note(next, uncounted + 1, Saved(2));
        self.load_observed(&insn.decoded, load);
        self.code.save(Gpr::RCX, slot::RCX);
        self.note(next, uncounted + 1, Saved(3));
        self.code.load(Gpr::RCX, slot::OBSERVE_AT);
        let at = seen::AFTER as i32 * 8 - (seen::BIAS + seen::SIZE) as i32;
        self.code.store_at_rcx(at as i8, Gpr::RDX);
        self.code.load(Gpr::RCX, slot::RCX);
        self.code.load(Gpr::RDX, slot::RDX);
    }

    fn load_observed(&mut self, i: &Instruction, mut load: Instruction) {
        if i.is_ip_rel_memory_operand() {
            let target = i.ip_rel_memory_address();
            if reaches(target, self.code.here()) {
                load.set_memory_displacement64(target);
            } else {
                self.code.imm64(Gpr::RDX, target);
                load.set_memory_base(Register::RDX);
                load.set_memory_displacement64(0);
                load.set_memory_displ_size(0);
            }
        }
        self.encode(load);
    }
}

/// The instruction writes its memory operand and leaves the registers that address it alone.
fn writes_operand(i: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(i);
    let writes = |a: OpAccess| {
        matches!(
            a,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    let [base, index] = [i.memory_base(), i.memory_index()].map(|r| r.full_register());
    let moved = info.used_registers().iter().any(|u| {
        let r = u.register().full_register();
        writes(u.access()) && r != Register::None && (r == base || r == index)
    });
    !moved && (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory && writes(info.op_access(n)))
}

/// A load of the memory operand, as a number, to rdx. None if there is no operand of a register's
/// size, or it is only named and not accessed.
fn load_operand(i: &Instruction) -> Option<Instruction> {
    if !(0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory)
        || matches!(i.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
        || !matches!(i.memory_index(), Register::None) && !i.memory_index().is_gpr()
    {
        return None;
    }
    let (code, register) = match i.memory_size().size() {
        1 => (Opcode::Movzx_r32_rm8, Register::EDX),
        2 => (Opcode::Movzx_r32_rm16, Register::EDX),
        4 => (Opcode::Mov_r32_rm32, Register::EDX),
        8 => (Opcode::Mov_r64_rm64, Register::RDX),
        _ => return None,
    };
    Instruction::with2(code, register, memory_of(i)).ok()
}
