//! Which values an instruction uses and defines.
//!
//! Values are general registers (or parts of them) and memory operands of up to eight bytes.
//! Vector registers do not count as values; what is loaded into them from memory and stored from
//! them does. The stack pointer, flags and what `push`, `call` and their like do to the stack do
//! not count either. The outcome of a conditional branch is a value of its own.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use serde::{Deserialize, Serialize};

/// Most values that are looked at on either side of an instruction.
pub(crate) const MOST: usize = 4;

/// Where an operand is, as far as the instruction says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Place {
    /// A general register by hardware number; `high` for ah and its like.
    Register { number: u8, size: u8, high: bool },
    /// The memory operand.
    Memory { size: u8 },
}

impl Place {
    pub fn size(self) -> u8 {
        match self {
            Place::Register { size, .. } | Place::Memory { size } => size,
        }
    }
}

/// Where a value is in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Location {
    Register { number: u8, size: u8, high: bool },
    Memory { address: u64, size: u8 },
}

/// One value that an instruction works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub place: Place,
    /// It is, or may be, part of an address computation of the same instruction.
    pub addresses: bool,
}

/// An instruction, reduced to the values it works on.
#[derive(Clone, Debug)]
pub struct Shape {
    pub pc: u64,
    pub next: u64,
    pub uses: Vec<Operand>,
    pub defines: Vec<Operand>,
    /// Where a conditional branch leads if taken.
    pub branch: Option<u64>,
    falls_through: bool,
    insn: Instruction,
}

fn reads(a: OpAccess) -> bool {
    matches!(
        a,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn writes(a: OpAccess) -> bool {
    matches!(
        a,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn place(r: Register) -> Option<Place> {
    if !r.is_gpr() {
        return None;
    }
    let high = matches!(r, Register::AH | Register::BH | Register::CH | Register::DH);
    Some(Place::Register {
        number: r.full_register().number() as u8,
        size: r.size() as u8,
        high,
    })
}

/// A write of the low half of a register clears the rest, so it is listed as one of the whole;
/// what the instruction computes is the half.
fn narrowed(insn: &Instruction, written: Register) -> Option<Place> {
    if !written.is_gpr64() {
        return None;
    }
    let operands = (0..insn.op_count()).filter(|&n| insn.op_kind(n) == OpKind::Register);
    let mut registers = operands.map(|n| insn.op_register(n));
    let named = registers.find(|r| r.full_register() == written);
    let half = match (named, insn.mnemonic()) {
        (Some(r), _) => r.is_gpr32(),
        (None, Mnemonic::Cdq | Mnemonic::Cwde) => true,
        (None, Mnemonic::Mul | Mnemonic::Imul | Mnemonic::Div | Mnemonic::Idiv) => {
            match insn.op0_kind() {
                OpKind::Register => insn.op0_register().is_gpr32(),
                _ => insn.memory_size().size() == 4,
            }
        }
        _ => false,
    };
    half.then(|| place(written.full_register32())).flatten()
}

impl Shape {
    /// The instruction at `pc`, whose bytes are given. `None` if there is none.
    pub fn decode(pc: u64, bytes: &[u8]) -> Option<Shape> {
        let insn = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
        if insn.is_invalid() {
            return None;
        }
        let flow = insn.flow_control();
        let mut shape = Shape {
            pc,
            next: insn.next_ip(),
            uses: Vec::new(),
            defines: Vec::new(),
            branch: insn
                .is_jcc_short_or_near()
                .then(|| insn.near_branch_target()),
            falls_through: flow == FlowControl::Next,
            insn,
        };
        // A repeated string instruction works on as many values as it is told to.
        let repeated = insn.has_rep_prefix() || insn.has_repne_prefix();
        if flow == FlowControl::Next && !insn.is_stack_instruction() && !repeated {
            shape.operands();
        }
        Some(shape)
    }

    fn operands(&mut self) {
        let insn = &self.insn;
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(insn);
        let [base, index] = [insn.memory_base(), insn.memory_index()].map(|r| r.full_register());
        // `xor eax, eax` uses nothing.
        let cleared = matches!(insn.mnemonic(), Mnemonic::Xor | Mnemonic::Sub)
            && insn.op1_kind() == OpKind::Register
            && insn.op0_kind() == OpKind::Register
            && insn.op0_register() == insn.op1_register();
        for used in info.used_registers() {
            let full = used.register().full_register();
            let Some(place) = place(used.register()) else {
                continue;
            };
            if full == Register::RSP {
                continue;
            }
            let addresses = full == base || full == index;
            // The frame pointer addresses locals; it is no value.
            if addresses && full == Register::RBP {
                continue;
            }
            let operand = Operand { place, addresses };
            if reads(used.access()) && !cleared && !self.uses.contains(&operand) {
                self.uses.push(operand);
            }
            let place = narrowed(insn, used.register()).unwrap_or(place);
            if writes(used.access()) && !self.defines.iter().any(|d| d.place == place) {
                let addresses = false;
                self.defines.push(Operand { place, addresses });
            }
        }
        let memory = (0..insn.op_count()).find(|&n| insn.op_kind(n) == OpKind::Memory);
        let size = insn.memory_size().size();
        let plain = !matches!(insn.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
            && insn.segment_prefix() == Register::None
            && matches!(size, 1 | 2 | 4 | 8);
        if let (Some(n), true) = (memory, plain) {
            let operand = Operand {
                place: Place::Memory { size: size as u8 },
                addresses: false,
            };
            if reads(info.op_access(n)) {
                self.uses.push(operand);
            }
            if writes(info.op_access(n)) {
                self.defines.push(operand);
            }
        }
        self.uses.truncate(MOST);
        self.defines.truncate(MOST);
    }

    pub fn is_call(&self) -> bool {
        matches!(
            self.insn.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        )
    }

    /// It only copies one of its uses, which is this one.
    pub(crate) fn copies(&self) -> Option<usize> {
        use Mnemonic::{Mov, Movsx, Movsxd, Movzx};
        if !matches!(self.insn.mnemonic(), Mov | Movzx | Movsx | Movsxd) {
            return None;
        }
        let from = match self.insn.op1_kind() {
            OpKind::Register => place(self.insn.op1_register())?,
            OpKind::Memory => Place::Memory {
                size: self.insn.memory_size().size() as u8,
            },
            _ => return None,
        };
        let is_it = |o: &Operand| o.place == from && (from.is_memory() || !o.addresses);
        self.uses.iter().position(is_it)
    }

    /// Behind a call, it reads what the call returns.
    pub(crate) fn takes_result(&self) -> bool {
        let results = [Register::RAX, Register::XMM0, Register::ST0];
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&self.insn);
        let mut used = info.used_registers().iter();
        used.any(|u| {
            let r = u.register();
            let full = if r.is_vector_register() {
                Register::XMM0 + (r.number() as u32)
            } else {
                r.full_register()
            };
            reads(u.access()) && results.contains(&full)
        })
    }

    /// Execution always goes on behind it.
    pub fn falls_through(&self) -> bool {
        self.falls_through
    }

    /// The address of the memory operand; 0 if there is none.
    pub fn address(&self, regs: &[u64; 16]) -> u64 {
        let get = |r: Register| match r {
            Register::None => 0,
            Register::RIP | Register::EIP => 0,
            r => {
                let value = regs[r.full_register().number() & 15];
                if r.size() == 4 {
                    value & 0xffff_ffff
                } else {
                    value
                }
            }
        };
        let i = &self.insn;
        get(i.memory_base())
            .wrapping_add(get(i.memory_index()).wrapping_mul(u64::from(i.memory_index_scale())))
            .wrapping_add(i.memory_displacement64())
    }

    pub fn instruction(&self) -> &Instruction {
        &self.insn
    }
}

impl Operand {
    /// Its value, given the registers and the memory operand.
    pub(crate) fn value(self, regs: &[u64; 16], memory: u64) -> u64 {
        match self.place {
            Place::Register { number, size, high } => {
                let v = regs[usize::from(number & 15)];
                let v = if high { v >> 8 } else { v };
                cut(v, size)
            }
            Place::Memory { size } => cut(memory, size),
        }
    }

    pub fn location(self, address: u64) -> Location {
        match self.place {
            Place::Register { number, size, high } => Location::Register { number, size, high },
            Place::Memory { size } => Location::Memory { address, size },
        }
    }
}

pub(crate) fn cut(value: u64, size: u8) -> u64 {
    if size >= 8 {
        value
    } else {
        value & ((1 << (8 * u32::from(size))) - 1)
    }
}

/// The value as a signed number of `size` bytes.
pub fn signed(value: u64, size: u8) -> i64 {
    let unused = 64 - 8 * u32::from(size.clamp(1, 8));
    ((value << unused) as i64) >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], uses: &str, defines: &str) {
        let shape = Shape::decode(0x1000, bytes).expect("an instruction");
        let text = |list: &[Operand]| {
            let one = |o: &Operand| match o.place {
                Place::Register { number, size, high } => {
                    format!("r{number}:{size}{}", if high { "h" } else { "" })
                }
                Place::Memory { size } => format!("m:{size}"),
            };
            list.iter().map(one).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            (text(&shape.uses), text(&shape.defines)),
            (uses.to_owned(), defines.to_owned()),
        );
    }

    #[test]
    fn operands() {
        check(&[0x8b, 0x45, 0xfc], "m:4", "r0:4"); // mov eax, [rbp-4]
        check(&[0x89, 0x45, 0xfc], "r0:4", "m:4"); // mov [rbp-4], eax
        check(&[0x3b, 0x45, 0xfc], "r0:4 m:4", ""); // cmp eax, [rbp-4]
        check(&[0x31, 0xc0], "", "r0:4"); // xor eax, eax
        check(&[0x0f, 0xb6, 0x04, 0x02], "r2:8 r0:8 m:1", "r0:4"); // movzx eax, [rdx+rax]
        check(&[0x55], "", ""); // push rbp
        check(&[0x01, 0xd0], "r0:4 r2:4", "r0:4"); // add eax, edx
        check(&[0x83, 0x45, 0xfc, 0x01], "m:4", "m:4"); // add dword [rbp-4], 1
        check(&[0x0f, 0x9f, 0xc0], "", "r0:1"); // setg al
        check(&[0xf2, 0x0f, 0x11, 0x45, 0xf8], "", "m:8"); // movsd [rbp-8], xmm0
        check(&[0xf3, 0xa4], "", ""); // rep movsb
    }

    #[test]
    fn numbers_are_signed() {
        assert_eq!(signed(0xff, 1), -1);
        assert_eq!(signed(0x7f, 1), 127);
        assert_eq!(signed(0xffff_fffe, 4), -2);
        assert_eq!(signed(u64::MAX, 8), -1);
    }
}
