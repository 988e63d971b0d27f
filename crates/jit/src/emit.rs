//! The encodings that code is made of.
//!
//! Where much code is executed a few times, as when an interpreter starts, making machine code of it is a large part
//! of all work, and a general assembler was most of that. Operands look as they do in assembly; an instruction is
//! here in the forms in which it is used, and a test decodes them back.

#![allow(
    non_upper_case_globals,
    reason = "registers have the names they have in assembly"
)]

use std::ops::{Add, Mul};

/// A general register, all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct R64(u8);

/// Its lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct R32(u8);

/// Its lowest byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct R8(u8);

pub(crate) const rax: R64 = R64(0);
pub(crate) const rcx: R64 = R64(1);
pub(crate) const rdx: R64 = R64(2);
pub(crate) const rbx: R64 = R64(3);
pub(crate) const rsp: R64 = R64(4);
pub(crate) const rbp: R64 = R64(5);
pub(crate) const rsi: R64 = R64(6);
pub(crate) const rdi: R64 = R64(7);
pub(crate) const r8: R64 = R64(8);
pub(crate) const r9: R64 = R64(9);
pub(crate) const r10: R64 = R64(10);
pub(crate) const r11: R64 = R64(11);
pub(crate) const r12: R64 = R64(12);
pub(crate) const r13: R64 = R64(13);
pub(crate) const r14: R64 = R64(14);
pub(crate) const r15: R64 = R64(15);
pub(crate) const eax: R32 = R32(0);
pub(crate) const ecx: R32 = R32(1);
pub(crate) const edx: R32 = R32(2);
pub(crate) const esi: R32 = R32(6);
pub(crate) const edi: R32 = R32(7);
pub(crate) const al: R8 = R8(0);
pub(crate) const cl: R8 = R8(1);
#[cfg(test)]
pub(crate) const sil: R8 = R8(6);

/// A place in memory: `base + index * scale + offset`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    base: R64,
    index: Option<(R64, u8)>,
    offset: i32,
}

impl Add<i32> for R64 {
    type Output = Address;
    fn add(self, offset: i32) -> Address {
        Address {
            base: self,
            index: None,
            offset,
        }
    }
}

impl Add<usize> for R64 {
    type Output = Address;
    fn add(self, offset: usize) -> Address {
        self + i32::try_from(offset).expect("offsets are small")
    }
}

impl Mul<u32> for R64 {
    type Output = (R64, u8);
    fn mul(self, scale: u32) -> (R64, u8) {
        (self, scale as u8)
    }
}

impl Add<(R64, u8)> for R64 {
    type Output = Address;
    fn add(self, index: (R64, u8)) -> Address {
        Address {
            base: self,
            index: Some(index),
            offset: 0,
        }
    }
}

impl Add<R64> for R64 {
    type Output = Address;
    fn add(self, index: R64) -> Address {
        self + (index, 1)
    }
}

impl Add<u32> for Address {
    type Output = Address;
    fn add(self, offset: u32) -> Address {
        Address {
            offset: self.offset + offset as i32,
            ..self
        }
    }
}

/// What an instruction works on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    R64(R64),
    R32(R32),
    R8(R8),
    /// Memory, and how many bytes of it.
    M(Address, u8),
    Imm(i64),
}

impl From<R64> for Operand {
    fn from(r: R64) -> Operand {
        Operand::R64(r)
    }
}

impl From<R32> for Operand {
    fn from(r: R32) -> Operand {
        Operand::R32(r)
    }
}

impl From<R8> for Operand {
    fn from(r: R8) -> Operand {
        Operand::R8(r)
    }
}

impl From<i32> for Operand {
    fn from(n: i32) -> Operand {
        Operand::Imm(n.into())
    }
}

impl From<u32> for Operand {
    fn from(n: u32) -> Operand {
        Operand::Imm(n.into())
    }
}

impl From<i64> for Operand {
    fn from(n: i64) -> Operand {
        Operand::Imm(n)
    }
}

pub(crate) fn qword(at: Address) -> Operand {
    Operand::M(at, 8)
}

pub(crate) fn dword(at: Address) -> Operand {
    Operand::M(at, 4)
}

pub(crate) fn byte(at: Address) -> Operand {
    Operand::M(at, 1)
}

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(u32);

/// Where a jump leads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Label(Label),
    /// Code that is there already.
    Fixed(u64),
}

impl From<Label> for Target {
    fn from(l: Label) -> Target {
        Target::Label(l)
    }
}

impl From<u64> for Target {
    fn from(at: u64) -> Target {
        Target::Fixed(at)
    }
}

/// Conditions by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum If {
    Below = 2,
    NotBelow = 3,
    Zero = 4,
    NotZero = 5,
    Above = 7,
}

/// Operations that have the same forms, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alu {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Instructions on vectors: the map of their opcodes, the prefix that they imply, and the opcode.
const VMOVUPS_FROM: (u8, u8, u8) = (1, 0, 0x10);
const VMOVUPS_TO: (u8, u8, u8) = (1, 0, 0x11);
const VPTEST: (u8, u8, u8) = (2, 1, 0x17);

/// Code under construction for a known address.
pub(crate) struct Emit {
    start: u64,
    bytes: Vec<u8>,
    /// Where each label is.
    labels: Vec<Option<u32>>,
    /// Distances to be filled in: where, of how many bytes, to which label.
    open: Vec<(u32, u8, Label)>,
}

/// The operand that is a register or memory.
#[derive(Clone, Copy)]
enum Place {
    Register(u8),
    Memory(Address),
}

impl Emit {
    pub(crate) fn at(start: u64) -> Emit {
        Emit {
            start,
            bytes: Vec::with_capacity(1024),
            labels: Vec::new(),
            open: Vec::new(),
        }
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// The label is here.
    pub(crate) fn set(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.bytes.len() as u32);
    }

    /// Where a label is, once that is known.
    pub(crate) fn place(&self, label: Label) -> Option<u64> {
        let at = self.labels[label.0 as usize]?;
        Some(self.start + u64::from(at))
    }

    /// All of it, with the labels filled in. None if something is out of reach.
    pub(crate) fn finish(mut self) -> Option<Vec<u8>> {
        for (at, size, label) in &self.open {
            let (at, size) = (*at as usize, usize::from(*size));
            let to = self.labels[label.0 as usize]?;
            let distance = i64::from(to) - (at + size) as i64;
            match size {
                1 => self.bytes[at] = i8::try_from(distance).ok()? as u8,
                _ => {
                    let distance = i32::try_from(distance).ok()?;
                    self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
                }
            }
        }
        Some(self.bytes)
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn put32(&mut self, n: i32) {
        self.put(&n.to_le_bytes());
    }

    /// Prefixes, opcode and operands. `reg` is the register, or what stands in its place.
    fn form(&mut self, wide: bool, opcode: &[u8], reg: u8, place: Place) {
        let (base, index) = match place {
            Place::Register(n) => (n, 0),
            Place::Memory(m) => (m.base.0, m.index.map_or(0, |i| i.0.0)),
        };
        let rex = u8::from(wide) << 3 | (reg >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        // Without one, the lowest byte of rsi is something else.
        let bytes = matches!(opcode, [0x84 | 0xf6] | [0x0f, 0xb6]);
        let byte_register = bytes && matches!(place, Place::Register(4..=7));
        if rex != 0 || byte_register {
            self.put(&[0x40 | rex]);
        }
        self.put(opcode);
        let reg = (reg & 7) << 3;
        match place {
            Place::Register(n) => self.put(&[0xc0 | reg | n & 7]),
            Place::Memory(m) => self.memory(reg, m),
        }
    }

    fn memory(&mut self, reg: u8, m: Address) {
        let base = m.base.0 & 7;
        // rbp and r13 as a base have an offset, if only of zero.
        let mode = match m.offset {
            0 if base != 5 => 0,
            -128..=127 => 0x40,
            _ => 0x80,
        };
        match m.index {
            Some((index, scale)) => {
                debug_assert!(index != rsp && scale.is_power_of_two() && scale <= 8);
                let scale = (scale.trailing_zeros() as u8) << 6;
                self.put(&[mode | reg | 4, scale | (index.0 & 7) << 3 | base]);
            }
            // rsp and r12 as a base take another byte.
            None if base == 4 => self.put(&[mode | reg | 4, 0x24]),
            None => self.put(&[mode | reg | base]),
        }
        match mode {
            0 => {}
            0x40 => self.put(&[m.offset as u8]),
            _ => self.put32(m.offset),
        }
    }

    pub(crate) fn mov(&mut self, to: impl Into<Operand>, from: impl Into<Operand>) {
        use Operand::*;
        match (to.into(), from.into()) {
            (R64(to), R64(from)) => self.form(true, &[0x8b], to.0, Place::Register(from.0)),
            (R32(to), R32(from)) => self.form(false, &[0x8b], to.0, Place::Register(from.0)),
            (R64(to), M(from, 8)) => self.form(true, &[0x8b], to.0, Place::Memory(from)),
            (R32(to), M(from, 4)) => self.form(false, &[0x8b], to.0, Place::Memory(from)),
            (M(to, 8), R64(from)) => self.form(true, &[0x89], from.0, Place::Memory(to)),
            (M(to, size @ (4 | 8)), Imm(n)) => {
                self.form(size == 8, &[0xc7], 0, Place::Memory(to));
                self.put32(n as i32);
            }
            (R64(self::R64(to)) | R32(self::R32(to)), Imm(n)) => self.constant(to, n),
            other => unreachable!("mov {other:?}"),
        }
    }

    fn constant(&mut self, to: u8, n: i64) {
        if u32::try_from(n).is_ok() {
            if to >= 8 {
                self.put(&[0x41]);
            }
            self.put(&[0xb8 | to & 7]);
            self.put32(n as i32);
        } else if let Ok(n) = i32::try_from(n) {
            self.form(true, &[0xc7], 0, Place::Register(to));
            self.put32(n);
        } else {
            self.put(&[0x48 | to >> 3, 0xb8 | to & 7]);
            self.put(&n.to_le_bytes());
        }
    }

    fn alu(&mut self, op: Alu, to: Operand, from: Operand) {
        use Operand::*;
        let number = op as u8;
        if let (M(m, 1), Imm(n)) = (to, from) {
            self.form(false, &[0x80], number, Place::Memory(m));
            return self.put(&[n as u8]);
        }
        let (wide, place) = match to {
            R64(r) => (true, Place::Register(r.0)),
            R32(r) => (false, Place::Register(r.0)),
            M(m, size @ (4 | 8)) => (size == 8, Place::Memory(m)),
            other => unreachable!("{op:?} {other:?}"),
        };
        match (place, from) {
            (_, Imm(n)) => match i8::try_from(n) {
                Ok(n) => {
                    self.form(wide, &[0x83], number, place);
                    self.put(&[n as u8]);
                }
                Err(_) => {
                    self.form(wide, &[0x81], number, place);
                    self.put32(n as i32);
                }
            },
            (Place::Register(to), M(from, size)) => {
                debug_assert_eq!(size, if wide { 8 } else { 4 });
                self.form(wide, &[number << 3 | 3], to, Place::Memory(from));
            }
            (place, R64(self::R64(from)) | R32(self::R32(from))) => {
                self.form(wide, &[number << 3 | 1], from, place);
            }
            (_, other) => unreachable!("{op:?} {to:?}, {other:?}"),
        }
    }

    pub(crate) fn add(&mut self, to: impl Into<Operand>, from: impl Into<Operand>) {
        self.alu(Alu::Add, to.into(), from.into());
    }

    pub(crate) fn or(&mut self, to: impl Into<Operand>, from: impl Into<Operand>) {
        self.alu(Alu::Or, to.into(), from.into());
    }

    pub(crate) fn and(&mut self, to: impl Into<Operand>, from: impl Into<Operand>) {
        self.alu(Alu::And, to.into(), from.into());
    }

    pub(crate) fn sub(&mut self, to: impl Into<Operand>, from: impl Into<Operand>) {
        self.alu(Alu::Sub, to.into(), from.into());
    }

    pub(crate) fn xor(&mut self, to: impl Into<Operand>, from: impl Into<Operand>) {
        self.alu(Alu::Xor, to.into(), from.into());
    }

    pub(crate) fn cmp(&mut self, to: impl Into<Operand>, from: impl Into<Operand>) {
        self.alu(Alu::Cmp, to.into(), from.into());
    }

    pub(crate) fn test(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) {
        use Operand::*;
        match (a.into(), b.into()) {
            (R64(a), R64(b)) => self.form(true, &[0x85], b.0, Place::Register(a.0)),
            (R32(a), R32(b)) => self.form(false, &[0x85], b.0, Place::Register(a.0)),
            (R8(a), R8(b)) => self.form(false, &[0x84], b.0, Place::Register(a.0)),
            (R8(a), Imm(n)) => {
                self.form(false, &[0xf6], 0, Place::Register(a.0));
                self.put(&[n as u8]);
            }
            (M(a, 1), Imm(n)) => {
                self.form(false, &[0xf6], 0, Place::Memory(a));
                self.put(&[n as u8]);
            }
            (R32(a), Imm(n)) => {
                self.form(false, &[0xf7], 0, Place::Register(a.0));
                self.put32(n as i32);
            }
            (M(a, 4), Imm(n)) => {
                self.form(false, &[0xf7], 0, Place::Memory(a));
                self.put32(n as i32);
            }
            other => unreachable!("test {other:?}"),
        }
    }

    pub(crate) fn lea(&mut self, to: R64, from: Address) {
        self.form(true, &[0x8d], to.0, Place::Memory(from));
    }

    /// A byte to a register, with zeros above.
    pub(crate) fn movzx(&mut self, to: R32, from: impl Into<Operand>) {
        let place = match from.into() {
            Operand::R8(r) => Place::Register(r.0),
            Operand::M(m, 1) => Place::Memory(m),
            other => unreachable!("movzx {other:?}"),
        };
        self.form(false, &[0x0f, 0xb6], to.0, place);
    }

    pub(crate) fn shr(&mut self, to: R64, by: u8) {
        self.form(true, &[0xc1], 5, Place::Register(to.0));
        self.put(&[by]);
    }

    /// `shr to, cl`
    pub(crate) fn shr_cl(&mut self, to: R32) {
        self.form(false, &[0xd3], 5, Place::Register(to.0));
    }

    /// `shl to, cl`
    pub(crate) fn shl_cl(&mut self, to: R32) {
        self.form(false, &[0xd3], 4, Place::Register(to.0));
    }

    pub(crate) fn cmov(&mut self, condition: If, to: R64, from: R64) {
        let opcode = [0x0f, 0x40 | condition as u8];
        self.form(true, &opcode, to.0, Place::Register(from.0));
    }

    pub(crate) fn push(&mut self, r: R64) {
        if r.0 >= 8 {
            self.put(&[0x41]);
        }
        self.put(&[0x50 | r.0 & 7]);
    }

    pub(crate) fn pop(&mut self, r: R64) {
        if r.0 >= 8 {
            self.put(&[0x41]);
        }
        self.put(&[0x58 | r.0 & 7]);
    }

    /// `prefetcht0`: has the line of this address come to the caches, if there is memory.
    pub(crate) fn prefetch(&mut self, m: Address) {
        self.form(false, &[0x0f, 0x18], 1, Place::Memory(m));
    }

    pub(crate) fn ret(&mut self) {
        self.put(&[0xc3]);
    }

    /// 16 bytes to xmm0.
    pub(crate) fn load_xmm0(&mut self, from: Address) {
        self.form(false, &[0x0f, 0x10], 0, Place::Memory(from));
    }

    /// 16 bytes of xmm0.
    pub(crate) fn store_xmm0(&mut self, to: Address) {
        self.form(false, &[0x0f, 0x11], 0, Place::Memory(to));
    }

    /// 32 bytes to ymm0.
    pub(crate) fn load_ymm0(&mut self, from: Address) {
        self.vector(VMOVUPS_FROM, true, 0, from);
    }

    /// 32 bytes of ymm0.
    pub(crate) fn store_ymm0(&mut self, to: Address) {
        self.vector(VMOVUPS_TO, true, 0, to);
    }

    /// Its lower 16 bytes, in the form that goes with the others.
    pub(crate) fn store_low_ymm0(&mut self, to: Address) {
        self.vector(VMOVUPS_TO, false, 0, to);
    }

    /// 32 bytes of ymm1.
    pub(crate) fn store_ymm1(&mut self, to: Address) {
        self.vector(VMOVUPS_TO, true, 1, to);
    }

    /// Its lower 16 bytes.
    pub(crate) fn store_low_ymm1(&mut self, to: Address) {
        self.vector(VMOVUPS_TO, false, 1, to);
    }

    /// Whether 32 bytes have none of the bits of ymm0.
    pub(crate) fn test_ymm0(&mut self, m: Address) {
        self.vector(VPTEST, true, 0, m);
    }

    /// The same of 16 bytes and xmm0.
    pub(crate) fn test_low_ymm0(&mut self, m: Address) {
        self.vector(VPTEST, false, 0, m);
    }

    pub(crate) fn zero_ymm1(&mut self) {
        self.put(&[0xc5, 0xf0, 0x57, 0xc9]);
    }

    /// An instruction on a vector register and memory.
    fn vector(
        &mut self,
        (map, prefix, opcode): (u8, u8, u8),
        wide: bool,
        register: u8,
        m: Address,
    ) {
        let high = |r: R64| r.0 >> 3;
        let index = m.index.map_or(0, |i| high(i.0));
        let registers = 0xe0 & !(index << 6) & !(high(m.base) << 5);
        let kind = 0x78 | u8::from(wide) << 2 | prefix;
        self.put(&[0xc4, registers | map, kind, opcode]);
        self.memory(register << 3, m);
    }

    /// Has the upper halves of vectors of 32 bytes zeroed, which others expect.
    pub(crate) fn vzeroupper(&mut self) {
        self.put(&[0xc5, 0xf8, 0x77]);
    }

    fn distance(&mut self, to: Target) {
        let here = self.bytes.len() as u32;
        match to {
            Target::Label(label) => {
                self.open.push((here, 4, label));
                self.put32(0);
            }
            // The code is within 2 GiB, all of it.
            Target::Fixed(at) => {
                let next = self.start.wrapping_add(u64::from(here) + 4);
                self.put32(at.wrapping_sub(next) as i32);
            }
        }
    }

    pub(crate) fn jmp(&mut self, to: impl Into<Target>) {
        self.put(&[0xe9]);
        self.distance(to.into());
    }

    /// `jmp [at]`
    pub(crate) fn jmp_through(&mut self, at: Address) {
        self.form(false, &[0xff], 4, Place::Memory(at));
    }

    /// `call [at]`
    pub(crate) fn call_through(&mut self, at: Address) {
        self.form(false, &[0xff], 2, Place::Memory(at));
    }

    pub(crate) fn jump(&mut self, condition: If, to: impl Into<Target>) {
        self.put(&[0x0f, 0x80 | condition as u8]);
        self.distance(to.into());
    }

    /// A jump to a label that comes within 127 bytes.
    pub(crate) fn hop(&mut self, condition: If, to: Label) {
        self.put(&[0x70 | condition as u8, 0]);
        self.open.push((self.bytes.len() as u32 - 1, 1, to));
    }

    pub(crate) fn je(&mut self, to: impl Into<Target>) {
        self.jump(If::Zero, to);
    }

    pub(crate) fn jne(&mut self, to: impl Into<Target>) {
        self.jump(If::NotZero, to);
    }

    pub(crate) fn jb(&mut self, to: impl Into<Target>) {
        self.jump(If::Below, to);
    }

    pub(crate) fn jae(&mut self, to: impl Into<Target>) {
        self.jump(If::NotBelow, to);
    }

    pub(crate) fn ja(&mut self, to: impl Into<Target>) {
        self.jump(If::Above, to);
    }
}

#[cfg(test)]
mod tests;
