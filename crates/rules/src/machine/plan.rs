//! Transfer functions: what a superblock does to what is known of registers and memory, worked out once
//! when its code is first heard of, and then run for every record.
//!
//! The register file is a row of *units* of eight bytes. Each unit and each cell of memory has the block
//! that a pointer in it came from, and a bit for each byte that was never written.

use crate::heap::BlockId;
use flow::{Spot, Values};
use image::effects;
use jit::Arith;
use tape::Term;

/// Units of the register file, and a few more for values on their way.
pub(crate) const UNITS: usize = effects::SIZE as usize / 8 + 13;
/// A unit that nothing is known of and nothing is put into.
pub(crate) const ZERO: u16 = effects::SIZE / 8;
pub(crate) const SCRATCH: u16 = ZERO + 1;
pub(crate) const FLAGS: u16 = effects::FLAGS.at / 8;
pub(crate) const RSP: u16 = effects::RSP.at / 8;
pub(crate) const RBP: u16 = effects::RBP.at / 8;
pub(crate) const NO_UNIT: u16 = u16::MAX;

/// When the outcome counts as never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// If a byte of a source is.
    Any,
    /// If all bytes of all sources are.
    All,
    /// Byte for byte, if that of a source is.
    Bytes,
    Never,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Unit(u16, u8),
    Memory { spot: u16, at: u8, len: u8 },
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A function that means something is entered.
    Enter(Box<Entry>),
    /// A function is asked for by this name.
    Asks {
        function: u16,
        slot: Term,
    },
    Return {
        slot: Term,
        result: Term,
    },
    /// An access through these registers.
    /// Of the index only whether it was written counts, unless it counts bytes.
    Check {
        spot: u16,
        base: u16,
        index: u16,
        bytes: bool,
    },
    /// A decision on these flags.
    Decide {
        mask: u8,
    },
    Copy {
        to: u16,
        from: u16,
    },
    /// `len` bytes of one unit to another, or within it.
    Part {
        to: u16,
        to_at: u8,
        from: u16,
        from_at: u8,
        len: u8,
        /// Nothing remains of the rest.
        whole: bool,
    },
    Clear {
        to: u16,
        mask: u8,
    },
    Load {
        to: u16,
        to_at: u8,
        spot: u16,
        at: u8,
        len: u8,
        /// Nothing remains of the rest.
        whole: bool,
    },
    Store {
        from: u16,
        spot: u16,
        at: u8,
        len: u8,
    },
    Arith {
        to: u16,
        a: u16,
        b: u16,
        kind: Arith,
    },
    /// A conditional move of a whole register, if the condition holds.
    Move {
        to: u16,
        from: u16,
        condition: Term,
        wide: bool,
    },
    Mix {
        to: u16,
        mask: u8,
        mix: Mix,
        sources: Box<[Source]>,
    },
    /// A pointer to a global variable is made.
    Global {
        to: u16,
        block: BlockId,
    },
    /// A pointer to a local variable is made, by the number of the variable.
    Local {
        to: u16,
        address: Term,
        local: u16,
    },
    /// Memory that a string instruction copies, or that is written in a way not followed.
    CopyMemory {
        to: u16,
        from: u16,
    },
    Overwrite {
        spot: u16,
    },
    /// The stack grows by so many bytes.
    Grow {
        from: Term,
        by: u32,
    },
}

/// The entry of a function that means something.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) function: u16,
    pub(crate) arguments: [Term; 6],
    pub(crate) measured: [Term; tape::MOST_MEASURED],
    /// Where the return address is.
    pub(crate) slot: Term,
}

/// An address as a sum, in a form that is quick to work out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: Term,
    pub(crate) index: u8,
    pub(crate) scale: u8,
    /// In the thread's own segment.
    pub(crate) fs: bool,
    /// It is not such a sum.
    pub(crate) odd: bool,
}

impl Address {
    pub(crate) fn of(spot: &Spot) -> Address {
        let a = &spot.access.address;
        let zero = Term {
            slot: tape::slot::ZERO,
            offset: 0,
        };
        let (base, index) = (spot.base.unwrap_or(zero), spot.index.unwrap_or(zero));
        let scaled = index.offset.wrapping_mul(i64::from(a.scale));
        let constant = (a.displacement as i64).wrapping_add(base.offset);
        Address {
            base: Term {
                slot: base.slot,
                offset: constant.wrapping_add(scaled),
            },
            index: index.slot,
            scale: a.scale,
            fs: a.segment == Some(effects::Segment::Fs),
            odd: a.narrow || a.bit.is_some(),
        }
    }
}

#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) ops: Vec<(u8, Op)>,
    pub(crate) spots: Vec<Spot>,
    pub(crate) addresses: Vec<Address>,
    /// Number of the operations before each instruction.
    pub(crate) first: Vec<u32>,
    pub(crate) pcs: Vec<u64>,
    /// Groups of units that it may change.
    pub(crate) writes: u64,
    /// Which operations are calls and returns. The others have nothing to say inside of a function that is not
    /// looked into.
    pub(crate) calls: Vec<u32>,
}

/// What is switched on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trackers {
    /// Where pointers came from.
    pub blocks: bool,
    /// What was never written.
    pub unwritten: bool,
    /// Pointers to variables.
    pub variables: bool,
}

/// What code does that is held against the program, if something was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Nothing,
    /// Decisions, by what is in general registers. Vectors are the C library's means to read more than it was asked to.
    Decisions,
    All,
}

/// Who knows where variables are.
pub(crate) trait Variables {
    /// The variable that begins at an address, or that an address is in the middle of that the instruction at `pc`
    /// makes.
    fn global(&mut self, pc: u64, address: u64) -> Option<BlockId>;

    /// The variable that so many bytes begin in and go beyond, which an instruction touches by their address.
    fn left(&mut self, pc: u64, address: u64, len: u64) -> Option<BlockId>;

    /// For code that sets memory aside on the stack: how far from rbp the frame's base is, and under which number
    /// [`Op::Local`] is to be told where the memory ends, what the base is, and where the memory begins: that one, and the two
    /// behind it.
    fn made_to_measure(&mut self, pc: u64) -> Option<(i64, u16)>;

    /// The variable of the frame at `pc` that begins so far from a register there.
    fn local(&mut self, pc: u64, register: u16, displacement: i64) -> Option<u16>;
}

impl Plan {
    /// Room for what so many instructions do at most, nearly always. What is not used is given back ([`Plan::trim`]).
    pub(crate) fn for_insns(insns: usize) -> Plan {
        Plan {
            ops: Vec::with_capacity(6 * insns),
            spots: Vec::with_capacity(2 * insns),
            addresses: Vec::with_capacity(2 * insns),
            first: Vec::with_capacity(insns + 1),
            pcs: Vec::with_capacity(insns),
            ..Plan::default()
        }
    }

    /// There are as many plans as superblocks, and most are seldom looked at.
    pub(crate) fn trim(&mut self) {
        self.ops.shrink_to_fit();
        self.spots.shrink_to_fit();
        self.addresses.shrink_to_fit();
    }

    /// The first call or return from an operation on; if there is none, what is behind the last operation.
    pub(crate) fn next_call(&self, op: u32) -> u32 {
        let next = self.calls.iter().find(|n| **n >= op);
        next.map_or(self.ops.len() as u32, |n| *n)
    }
}

impl Op {
    /// It is a matter of functions.
    pub(crate) fn is_call(&self) -> bool {
        matches!(self, Op::Enter(_) | Op::Asks { .. } | Op::Return { .. })
    }

    /// The unit that it changes.
    pub(crate) fn changes(&self) -> Option<u16> {
        match self {
            Op::Copy { to, .. }
            | Op::Part { to, .. }
            | Op::Clear { to, .. }
            | Op::Load { to, .. }
            | Op::Arith { to, .. }
            | Op::Move { to, .. }
            | Op::Mix { to, .. }
            | Op::Global { to, .. }
            | Op::Local { to, .. } => Some(*to),
            _ => None,
        }
    }
}

impl Plan {
    /// Where an access of a record is.
    #[inline]
    pub(crate) fn address(&self, spot: u16, values: &Values<'_>) -> u64 {
        let a = &self.addresses[spot as usize];
        if a.odd {
            return self.spots[spot as usize].address(values);
        }
        let mut sum = values.get(a.base);
        if a.index != tape::slot::ZERO {
            let index = Term {
                slot: a.index,
                offset: 0,
            };
            sum = sum.wrapping_add(values.get(index).wrapping_mul(u64::from(a.scale)));
        }
        if a.fs {
            sum = sum.wrapping_add(values.fs_base);
        }
        sum
    }
}
