//! Which values are addresses, by where they come from.
//!
//! An address means something in its own run only, so it must not be replaced by one of another run. The number
//! itself does not tell: a hash may look like an address, and a null pointer does not. So every register and every
//! cell of eight bytes has a mark that follows what the instructions do: the stack pointer, and what is computed from
//! the instruction pointer, are addresses; an address plus a number is one, the distance of two is none; copies take
//! the mark along. What comes from code that is not observed (`malloc`, `memcpy`, system calls) has no history: it is
//! noticed by its value, which is not the one that was left there, and is an address if memory is mapped there.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use rustc_hash::FxHashMap;

use crate::profile::{Address, Event};
use crate::shape::{Operand, Place, Shape};

/// How it is known that an operand holds addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// The variable has a pointer type.
    Type,
    /// Memory is accessed through it.
    Use,
    /// It has held a value that is an address by its history.
    Origin,
}

const RSP: usize = 4;
const RBP: usize = 5;

/// Marks of one run.
#[derive(Default)]
pub(crate) struct Origins {
    /// The value that a register had when it was marked.
    values: [u64; 16],
    marks: [bool; 16],
    /// By address: the value that was stored and its mark. Cells that were never marked are not there.
    cells: FxHashMap<u64, (u64, bool)>,
    begun: bool,
}

impl Origins {
    /// Registers that have changed since the last instruction were changed by somebody else.
    pub(crate) fn arrive(&mut self, event: &Event, addresses: &dyn Address) {
        for n in 0..16 {
            if !self.begun || self.values[n] != event.regs[n] {
                self.values[n] = event.regs[n];
                self.marks[n] = addresses.is_address(event.regs[n]);
            }
        }
        self.begun = true;
        self.marks[RSP] = true;
    }

    /// Does this operand, which has this value before the instruction, hold an address?
    pub(crate) fn used(&self, o: Operand, value: u64, at: u64, addresses: &dyn Address) -> bool {
        match o.place {
            Place::Register {
                number, size: 8, ..
            } => self.marks[usize::from(number & 15)],
            Place::Memory { size: 8 } => self.cell(at, value, addresses),
            _ => false,
        }
    }

    fn cell(&self, at: u64, value: u64, addresses: &dyn Address) -> bool {
        match self.cells.get(&at) {
            Some(&(stored, mark)) if stored == value => mark,
            _ => addresses.is_address(value),
        }
    }

    /// What the instruction makes: an address or not. `None` if its operation says nothing.
    fn result(&self, shape: &Shape, event: &Event, addresses: &dyn Address) -> Option<bool> {
        let insn = shape.instruction();
        let at = shape.address(&event.regs);
        let operand = |n: u32| match insn.op_kind(n) {
            OpKind::Register => {
                let r = insn.op_register(n);
                r.is_gpr64() && self.marks[r.number() & 15]
            }
            OpKind::Memory => {
                insn.memory_size().size() == 8 && self.cell(at, event.memory, addresses)
            }
            _ => false,
        };
        Some(match insn.mnemonic() {
            Mnemonic::Mov => match insn.op1_kind() {
                // Code that is not position-independent has addresses of 32 bits.
                OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64 => {
                    let value = insn.immediate(1);
                    insn.op0_kind() == OpKind::Register && addresses.is_address(value)
                }
                _ => operand(1),
            },
            Mnemonic::Lea => insn.op0_register().is_gpr64() && self.addressing(insn),
            Mnemonic::Add => operand(0) != operand(1),
            Mnemonic::Sub => operand(0) && !operand(1),
            Mnemonic::Inc | Mnemonic::Dec => operand(0),
            // Rounding to an alignment; other masks take a part.
            Mnemonic::And => {
                operand(0) && insn.op1_kind() != OpKind::Register && {
                    let mask = insn.immediate(1) as i64;
                    mask < 0
                }
            }
            Mnemonic::Imul
            | Mnemonic::Mul
            | Mnemonic::Idiv
            | Mnemonic::Div
            | Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Neg
            | Mnemonic::Not
            | Mnemonic::Xor
            | Mnemonic::Cdqe
            | Mnemonic::Cqo
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd => false,
            _ => return None,
        })
    }

    /// The memory operand is computed from an address.
    fn addressing(&self, insn: &Instruction) -> bool {
        let marked = |r: Register| {
            matches!(r, Register::RIP | Register::RSP)
                || r.is_gpr64() && self.marks[r.number() & 15]
        };
        marked(insn.memory_base()) || marked(insn.memory_index())
    }

    /// Moves the marks as the instruction moves values; `after` has the registers behind it. Says of each operand
    /// that it defines whether that is an address.
    pub(crate) fn pass(
        &mut self,
        shape: &Shape,
        event: &Event,
        after: &[u64; 16],
        addresses: &dyn Address,
    ) -> [bool; crate::shape::MOST] {
        let result = self.result(shape, event, addresses);
        let at = shape.address(&event.regs);
        let mut out = [false; crate::shape::MOST];
        for (i, o) in shape.defines.iter().enumerate() {
            let value = o.value(after, event.after);
            // Half a register is cleared above it, and may be an address all the same.
            let wide = match o.place {
                Place::Register { size, .. } => size >= 4,
                Place::Memory { size } => size == 8,
            };
            out[i] = wide && result.unwrap_or_else(|| addresses.is_address(value));
            match o.place {
                Place::Register { number, .. } => {
                    let n = usize::from(number & 15);
                    self.values[n] = after[n];
                    self.marks[n] = out[i];
                }
                Place::Memory { .. } => {
                    self.cells.insert(at, (value, out[i]));
                }
            }
        }
        // The frame pointer is set by instructions that have no operands here.
        if self.values[RBP] != after[RBP] {
            self.values[RBP] = after[RBP];
            self.marks[RBP] = addresses.is_address(after[RBP]);
        }
        out
    }
}

/// The only register that an access is made through: whatever it holds is used as an address.
pub(crate) fn sole_base(insn: &Instruction) -> Option<u8> {
    let has_memory = (0..insn.op_count()).any(|n| insn.op_kind(n) == OpKind::Memory);
    let base = insn.memory_base();
    let accesses = has_memory && insn.mnemonic() != Mnemonic::Lea;
    (accesses && base.is_gpr64() && insn.memory_index() == Register::None)
        .then(|| base.number() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Mapped;

    impl Address for Mapped {
        fn is_address(&self, value: u64) -> bool {
            (0x1000..0x2000).contains(&value)
        }
    }

    /// Runs one instruction and says what it defines: addresses or not.
    #[track_caller]
    fn check(
        origins: &mut Origins,
        code: &[u8],
        before: [u64; 16],
        memory: u64,
        after: [u64; 16],
    ) -> bool {
        let shape = Shape::decode(0x1800, code).expect("an instruction");
        let event = Event {
            pc: 0x1800,
            step: 0,
            memory,
            regs: before,
            after: before[0],
        };
        origins.arrive(&event, &Mapped);
        origins.pass(&shape, &event, &after, &Mapped)[0]
    }

    fn regs(list: &[(usize, u64)]) -> [u64; 16] {
        let mut all = [0; 16];
        for &(n, value) in list {
            all[n] = value;
        }
        all
    }

    #[test]
    fn arithmetic() {
        let mut o = Origins::default();
        // lea rax, [rip+1]: an address, wherever it leads.
        let at = regs(&[(0, 0x9999)]);
        assert!(check(
            &mut o,
            &[0x48, 0x8d, 0x05, 1, 0, 0, 0],
            regs(&[]),
            0,
            at
        ));
        // add rax, rcx, where rcx is a number; sub rax, rdx, where rdx is one.
        let next = regs(&[(0, 0x999d), (1, 4)]);
        let with = regs(&[(0, 0x9999), (1, 4)]);
        assert!(check(&mut o, &[0x48, 0x01, 0xc8], with, 0, next));
        // mov rcx, rax copies it; sub rax, rcx is a distance.
        let both = regs(&[(0, 0x999d), (1, 0x999d)]);
        assert!(check(&mut o, &[0x48, 0x89, 0xc1], next, 0, both));
        let none = regs(&[(1, 0x999d)]);
        assert!(!check(&mut o, &[0x48, 0x29, 0xc8], both, 0, none));
        // imul rax, rcx is no address even if it looks like one.
        let product = regs(&[(0, 0x1234), (1, 0x999d)]);
        assert!(!check(&mut o, &[0x48, 0x0f, 0xaf, 0xc1], none, 0, product));
        // What changes without an instruction comes from elsewhere, and is judged by its value.
        let malloced = regs(&[(0, 0x1500), (1, 0x1500)]);
        assert!(check(
            &mut o,
            &[0x48, 0x89, 0xc1],
            regs(&[(0, 0x1500)]),
            0,
            malloced
        ));
    }

    #[test]
    fn memory() {
        let mut o = Origins::default();
        // lea rax, [rip+1]; mov [rdi], rax; mov rcx, [rdi]
        let at = regs(&[(0, 0x9999), (7, 0x1100)]);
        let before = regs(&[(7, 0x1100)]);
        assert!(check(
            &mut o,
            &[0x48, 0x8d, 0x05, 1, 0, 0, 0],
            before,
            0,
            at
        ));
        assert!(check(&mut o, &[0x48, 0x89, 0x07], at, 0, at));
        let loaded = regs(&[(0, 0x9999), (1, 0x9999), (7, 0x1100)]);
        assert!(check(&mut o, &[0x48, 0x8b, 0x0f], at, 0x9999, loaded));
        // Somebody has written another value there.
        let other = regs(&[(0, 0x9999), (1, 0x77), (7, 0x1100)]);
        assert!(!check(&mut o, &[0x48, 0x8b, 0x0f], at, 0x77, other));
    }

    #[test]
    fn bases() {
        let base = |code: &[u8]| sole_base(Shape::decode(0, code).expect("code").instruction());
        assert_eq!(base(&[0x8b, 0x07]), Some(7)); // mov eax, [rdi]
        assert_eq!(base(&[0x8b, 0x04, 0x07]), None); // mov eax, [rdi+rax]
        assert_eq!(base(&[0x48, 0x8d, 0x47, 0x08]), None); // lea rax, [rdi+8]
        assert_eq!(base(&[0x8b, 0x05, 0, 0, 0, 0]), None); // mov eax, [rip]
    }
}
