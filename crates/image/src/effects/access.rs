//! Memory accesses: where, how much, and whether at all.

use iced_x86::{Instruction, OpKind, Register};
use smallvec::SmallVec;

use super::file::{self, RegRange};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    Fs,
    Gs,
}

/// An address as a formula over registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Address {
    pub segment: Option<Segment>,
    /// The hardware numbers of general registers.
    pub base: Option<u8>,
    pub index: Option<u8>,
    pub scale: u8,
    /// Sign-extended. Rip-relative operands are resolved: no base, and this is the address.
    pub displacement: u64,
    /// The sum is cut to 32 bits before the segment's base is added.
    pub narrow: bool,
    /// A bit string: the register holds a bit number, signed, that selects one of the operands of
    /// its own size before or after the address.
    pub bit: Option<RegRange>,
}

impl Address {
    /// The address, given the contents of registers (little-endian, zero-extended). Bases of the
    /// FS and GS segments are asked for as [`file::FS_BASE`] and [`file::GS_BASE`].
    pub fn resolve(&self, mut register: impl FnMut(RegRange) -> u64) -> u64 {
        let mut general =
            |number: Option<u8>| number.map_or(0, |n| register(RegRange::general(u16::from(n))));
        let index = general(self.index).wrapping_mul(u64::from(self.scale));
        let mut sum = general(self.base)
            .wrapping_add(index)
            .wrapping_add(self.displacement);
        if let Some(bit) = self.bit {
            let bits = u32::from(bit.len) * 8;
            let unused = 64 - bits;
            let offset = (register(bit) << unused) as i64 >> unused;
            let operand = offset.div_euclid(i64::from(bits));
            sum = sum.wrapping_add((operand as u64).wrapping_mul(u64::from(bit.len)));
        }
        if self.narrow {
            sum &= 0xffff_ffff;
        }
        match self.segment {
            None => sum,
            Some(Segment::Fs) => sum.wrapping_add(register(file::FS_BASE)),
            Some(Segment::Gs) => sum.wrapping_add(register(file::GS_BASE)),
        }
    }
}

/// Which lanes of a masked access happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mask {
    Always,
    /// Lane n if the top bit of lane n (of so many bytes) of a vector register is set.
    Sign(RegRange, u8),
    /// Lane n if bit n is set.
    Bits(RegRange),
}

impl Mask {
    pub fn register(self) -> Option<RegRange> {
        match self {
            Mask::Always => None,
            Mask::Sign(range, _) | Mask::Bits(range) => Some(range),
        }
    }
}

/// How the x87 and vector state is laid out in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateFormat {
    /// `xsave`, `xsaveopt`: each component at its own place.
    Standard,
    /// `xsavec`, `xsaves`: the components asked for, one after the other.
    Compact,
    /// `xrstor`: one of the two, as the area's header says.
    Either,
}

/// How much an access covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    Fixed(u16),
    /// A repeated string instruction: elements from the address on, upwards, or downwards if the
    /// direction flag is set. `scas` and `cmps` may end before the count does.
    Repeat {
        element: u8,
        count: RegRange,
    },
    /// Lane n is `element` bytes at the address + scale * the n-th index (signed, but one of a
    /// single byte is that of `xlat` and unsigned).
    Lanes {
        element: u8,
        lanes: u8,
        index: RegRange,
        index_size: u8,
        scale: u8,
        mask: Mask,
    },
    /// Like fixed, but of each element only if its mask bit is set.
    Masked {
        element: u8,
        lanes: u8,
        mask: Mask,
    },
    /// Masked, but the chosen elements lie together at the address (`vpcompress`, `vpexpand`).
    Packed {
        element: u8,
        lanes: u8,
        mask: RegRange,
    },
    /// The components of the state that edx:eax asks for.
    State(StateFormat),
}

/// One memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    pub address: Address,
    pub size: Size,
    pub reads: bool,
    pub writes: bool,
}

impl Access {
    /// Registers that say where it is, and how much.
    pub fn registers(&self) -> SmallVec<[RegRange; 4]> {
        let mut out = SmallVec::new();
        let general = |n: u8| RegRange::general(u16::from(n));
        let narrowed = |r: RegRange| {
            if self.address.narrow { r.part(0, 4) } else { r }
        };
        out.extend(self.address.base.map(general).map(narrowed));
        out.extend(self.address.index.map(general).map(narrowed));
        out.extend(self.address.bit);
        out.extend(self.address.segment.map(|s| match s {
            Segment::Fs => file::FS_BASE,
            Segment::Gs => file::GS_BASE,
        }));
        match self.size {
            Size::Fixed(_) => {}
            Size::Repeat { count, .. } => out.extend([count, file::DF]),
            Size::Lanes { index, mask, .. } => {
                out.push(index);
                out.extend(mask.register());
            }
            Size::Masked { mask, .. } => out.extend(mask.register()),
            Size::Packed { mask, .. } => out.push(mask),
            Size::State(_) => out.extend([file::RAX.part(0, 4), file::RDX.part(0, 4)]),
        }
        out
    }

    /// Bytes, if that can be told in advance.
    pub fn fixed(&self) -> Option<u16> {
        match self.size {
            Size::Fixed(size) => Some(size),
            _ => None,
        }
    }

    /// Whether it may touch nothing at all.
    pub fn conditional(&self) -> bool {
        !matches!(self.size, Size::Fixed(_))
    }
}

fn number(register: Register) -> Option<u8> {
    register
        .is_gpr()
        .then(|| register.full_register().number() as u8)
}

fn segment(instruction: &Instruction) -> Option<Segment> {
    match instruction.memory_segment() {
        Register::FS => Some(Segment::Fs),
        Register::GS => Some(Segment::Gs),
        _ => None,
    }
}

/// The formula of an explicit memory operand, without the index of a gather.
pub(super) fn explicit(instruction: &Instruction) -> Address {
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let relative = instruction.is_ip_rel_memory_operand();
    let displacement = if relative {
        instruction.ip_rel_memory_address()
    } else {
        instruction.memory_displacement64()
    };
    Address {
        segment: segment(instruction),
        base: number(base),
        index: number(index),
        scale: instruction.memory_index_scale() as u8,
        displacement,
        narrow: base.is_gpr32() || index.is_gpr32() || base == Register::EIP,
        bit: None,
    }
}

/// The formula of a string operand, rsi or rdi.
pub(super) fn string(instruction: &Instruction, kind: OpKind) -> Address {
    let (base, narrow, source) = match kind {
        OpKind::MemorySegRSI => (6, false, true),
        OpKind::MemorySegESI | OpKind::MemorySegSI => (6, true, true),
        OpKind::MemorySegRDI => (7, false, true),
        OpKind::MemorySegEDI | OpKind::MemorySegDI => (7, true, true),
        OpKind::MemoryESRDI => (7, false, false),
        _ => (7, true, false),
    };
    Address {
        segment: if source { segment(instruction) } else { None },
        base: Some(base),
        scale: 1,
        narrow,
        ..Address::default()
    }
}

/// Memory at the stack pointer.
pub(super) fn on_stack(displacement: i64) -> Address {
    Address {
        base: Some(4),
        scale: 1,
        displacement: displacement as u64,
        ..Address::default()
    }
}
