//! What is known of eight bytes.

/// Number of an allocation; see [`NONE`] and [`DIFFERENCE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// No block is known.
pub const NONE: BlockId = BlockId(0);
/// The distance between two blocks: no pointer, and what is computed from it may point anywhere.
pub const DIFFERENCE: BlockId = BlockId(1);

/// Where a pointer into a block may lead: from one address on, up to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Bounds {
    pub begin: u64,
    pub end: u64,
}

impl Bounds {
    pub const ANYWHERE: Bounds = Bounds {
        begin: 0,
        end: u64::MAX,
    };
    pub const NOWHERE: Bounds = Bounds { begin: 0, end: 0 };
}

/// One cell of memory, or a register's eight bytes: a word, so that it is read and written at once. The number
/// of the block, and below it a bit for each byte that was never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Cell(pub(crate) u64);

impl Cell {
    pub const PLAIN: Cell = Cell(0);
    pub(crate) const UNWRITTEN: Cell = Cell(0xff);

    #[inline]
    pub fn new(from: BlockId, unwritten: u8) -> Cell {
        Cell(u64::from(from.0) << 8 | u64::from(unwritten))
    }

    #[inline]
    pub fn from(self) -> BlockId {
        BlockId((self.0 >> 8) as u32)
    }

    #[inline]
    pub fn unwritten(self) -> u8 {
        self.0 as u8
    }

    #[inline]
    pub fn set_from(&mut self, from: BlockId) {
        *self = Cell::new(from, self.unwritten());
    }

    #[inline]
    pub fn set_unwritten(&mut self, unwritten: u8) {
        self.0 = self.0 & !0xff | u64::from(unwritten);
    }
}

/// What an arithmetic instruction makes of where its operands came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arith {
    Add,
    Sub,
    /// No pointer comes out, but a difference remains one.
    Scale,
    /// A pointer turned round is half of a difference.
    Negate,
}

/// Where the outcome of arithmetic came from.
#[inline]
pub fn arithmetic(kind: Arith, a: BlockId, b: BlockId) -> BlockId {
    match (kind, a, b) {
        (_, NONE, NONE) => NONE,
        (Arith::Scale, ..) => {
            if a == DIFFERENCE {
                DIFFERENCE
            } else {
                NONE
            }
        }
        (Arith::Negate, ..) => DIFFERENCE,
        (Arith::Add, a, NONE) | (Arith::Add, NONE, a) => a,
        (Arith::Add, DIFFERENCE, DIFFERENCE) => DIFFERENCE,
        (Arith::Add, ..) => NONE,
        (Arith::Sub, a, NONE) => a,
        (Arith::Sub, NONE, _) => DIFFERENCE,
        (Arith::Sub, a, b) if a == b => NONE,
        (Arith::Sub, DIFFERENCE, _) => DIFFERENCE,
        (Arith::Sub, _, DIFFERENCE) => NONE,
        (Arith::Sub, ..) => DIFFERENCE,
    }
}
