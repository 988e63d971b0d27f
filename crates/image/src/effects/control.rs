//! Where an instruction goes next.

use iced_x86::{Code, FlowControl, Instruction, Mnemonic};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Control {
    /// To the next instruction.
    #[default]
    None,
    Jump(u64),
    /// To the target or to the next instruction.
    Branch(u64),
    IndirectJump,
    Call(u64),
    IndirectCall,
    Return,
    Syscall,
    /// Into a handler: `int3`, `int n`.
    Trap,
    /// Raises a fault always: `ud2`, `hlt`, bytes that are no instruction.
    Undefined,
    /// To another code segment, out of a transaction, back from an interrupt.
    Other,
}

impl Control {
    pub fn of(instruction: &Instruction) -> Control {
        let target = instruction.near_branch_target();
        match instruction.flow_control() {
            FlowControl::Next => match instruction.mnemonic() {
                Mnemonic::Hlt => Control::Undefined,
                _ => Control::None,
            },
            FlowControl::UnconditionalBranch if instruction.is_jmp_far() => Control::Other,
            FlowControl::UnconditionalBranch => Control::Jump(target),
            FlowControl::ConditionalBranch => Control::Branch(target),
            FlowControl::IndirectBranch if instruction.is_jmp_far_indirect() => Control::Other,
            FlowControl::IndirectBranch => Control::IndirectJump,
            FlowControl::Call => match instruction.mnemonic() {
                Mnemonic::Syscall => Control::Syscall,
                Mnemonic::Call if !instruction.is_call_far() => Control::Call(target),
                _ => Control::Other,
            },
            FlowControl::IndirectCall if instruction.is_call_far_indirect() => Control::Other,
            FlowControl::IndirectCall => Control::IndirectCall,
            FlowControl::Return => match instruction.code() {
                Code::Retnq | Code::Retnw | Code::Retnq_imm16 | Code::Retnw_imm16 => {
                    Control::Return
                }
                _ => Control::Other,
            },
            FlowControl::Interrupt => match instruction.mnemonic() {
                Mnemonic::Syscall => Control::Syscall,
                _ => Control::Trap,
            },
            FlowControl::XbeginXabortXend => Control::Other,
            FlowControl::Exception => Control::Undefined,
        }
    }

    /// Whether the next instruction in memory can be executed after this one (a call returns).
    pub fn falls_through(self) -> bool {
        !matches!(
            self,
            Control::Jump(_) | Control::IndirectJump | Control::Return | Control::Undefined
        )
    }
}
