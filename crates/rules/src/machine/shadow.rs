//! What is known of each cell of memory: the block that a pointer in it came from, and which of its bytes
//! were never written.
//!
//! Cells are eight bytes. A pointer at an odd address is not followed; that loses a report at worst.

use crate::heap::{BlockId, NONE};

const CHUNK_BITS: u32 = 21;
const CELLS: usize = 1 << (CHUNK_BITS - 3);
/// User space is 47 bits.
const TOP: usize = 1 << (47 - CHUNK_BITS);

type Chunk = Box<[u64; CELLS]>;

pub(crate) struct Shadow {
    /// Number of each chunk's memory; committed by the kernel only where it is used.
    top: Box<[u32; TOP]>,
    /// The first stands for all memory of which nothing is known, and stays empty.
    chunks: Vec<Chunk>,
}

/// One cell, or a register's eight bytes: a word, so that it is read and written at once. The number of the
/// block, and below it a bit for each byte that was never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell(u64);

impl Cell {
    pub(crate) const PLAIN: Cell = Cell(0);

    #[inline]
    pub(crate) fn new(from: BlockId, unwritten: u8) -> Cell {
        Cell(u64::from(from.0) << 8 | u64::from(unwritten))
    }

    #[inline]
    pub(crate) fn from(self) -> BlockId {
        BlockId((self.0 >> 8) as u32)
    }

    #[inline]
    pub(crate) fn unwritten(self) -> u8 {
        self.0 as u8
    }

    #[inline]
    pub(crate) fn set_from(&mut self, from: BlockId) {
        *self = Cell::new(from, self.unwritten());
    }

    #[inline]
    pub(crate) fn set_unwritten(&mut self, unwritten: u8) {
        self.0 = self.0 & !0xff | u64::from(unwritten);
    }
}

fn chunk() -> Chunk {
    let cells: Box<[u64]> = vec![0; CELLS].into();
    cells.try_into().expect("so many were asked for")
}

impl Shadow {
    pub(crate) fn new() -> Shadow {
        let top: Box<[u32]> = vec![0; TOP].into();
        Shadow {
            top: top.try_into().expect("so many were asked for"),
            chunks: vec![chunk()],
        }
    }

    #[inline]
    fn number(&self, address: u64) -> usize {
        self.top[(address >> CHUNK_BITS) as usize & (TOP - 1)] as usize
    }

    /// The chunk of an address, to be written to.
    #[cold]
    fn add(&mut self, address: u64) -> usize {
        let n = self.chunks.len();
        self.chunks.push(chunk());
        self.top[(address >> CHUNK_BITS) as usize & (TOP - 1)] = n as u32;
        n
    }

    #[inline]
    fn index(address: u64) -> usize {
        (address >> 3) as usize & (CELLS - 1)
    }

    /// The cell that an address is in.
    #[inline]
    pub(crate) fn cell(&self, address: u64) -> Cell {
        Cell(self.chunks[self.number(address)][Self::index(address)])
    }

    #[inline]
    pub(crate) fn set_cell(&mut self, address: u64, cell: Cell) {
        let mut n = self.number(address);
        if n == 0 {
            if cell == Cell::PLAIN {
                return;
            }
            n = self.add(address);
        }
        self.chunks[n][Self::index(address)] = cell.0;
    }

    /// `len` bytes, at most eight. Only of a whole cell is it known where it came from.
    #[inline(always)]
    pub(crate) fn load(&self, address: u64, len: u8) -> Cell {
        if address & 7 == 0 && len == 8 {
            return self.cell(address);
        }
        self.load_part(address, len)
    }

    #[inline]
    fn load_part(&self, address: u64, len: u8) -> Cell {
        let low = (address & 7) as u32;
        let mask = (1u16 << len) - 1;
        let first = self.cell(address).unwritten();
        let mut bits = u16::from(first) >> low;
        if low + u32::from(len) > 8 {
            bits |= u16::from(self.cell(address.wrapping_add(8)).unwritten()) << (8 - low);
        }
        Cell::new(NONE, (bits & mask) as u8)
    }

    #[inline(always)]
    pub(crate) fn store(&mut self, address: u64, len: u8, value: Cell) {
        if address & 7 == 0 && len == 8 {
            return self.set_cell(address, value);
        }
        self.store_part(address, len, value);
    }

    fn store_part(&mut self, address: u64, len: u8, value: Cell) {
        let low = (address & 7) as u32;
        // Nearly always it is in one cell, and all of it was written.
        if low + u32::from(len) <= 8 && value.unwritten() == 0 {
            let n = self.number(address);
            let part = (((1u32 << len) - 1) << low) as u8;
            if n != 0 {
                let cell = &mut self.chunks[n][Self::index(address)];
                *cell &= u64::from(!part);
            }
            return;
        }
        let mask = ((1u32 << len) - 1) << low;
        let bits = u32::from(value.unwritten()) << low;
        for (at, shift) in [(address, 0), (address.wrapping_add(8), 8)] {
            let part = (mask >> shift & 0xff) as u8;
            if part == 0 {
                break;
            }
            let old = self.cell(at);
            let bits = (bits >> shift) as u8 & part;
            self.set_cell(at, Cell::new(NONE, old.unwritten() & !part | bits));
        }
    }

    /// Says of a stretch of memory whether it was written, and that it holds no pointers.
    #[inline]
    pub(crate) fn fill(&mut self, address: u64, len: u64, unwritten: bool) {
        let end = address.saturating_add(len).min(1 << 47);
        let value = Cell::new(NONE, if unwritten { 0xff } else { 0 });
        let mut at = address;
        while at < end {
            if at & 7 != 0 || end - at < 8 {
                let n = (8 - (at & 7)).min(end - at);
                self.store(at, n as u8, value);
                at += n;
                continue;
            }
            let chunk_end = ((at >> CHUNK_BITS) + 1) << CHUNK_BITS;
            let stop = chunk_end.min(end & !7);
            let mut n = self.number(at);
            if n == 0 && unwritten {
                n = self.add(at);
            }
            if n != 0 {
                let first = Self::index(at);
                self.chunks[n][first..first + ((stop - at) / 8) as usize].fill(value.0);
            }
            at = stop;
        }
    }

    /// What is known of one stretch of memory is known of another.
    pub(crate) fn copy(&mut self, to: u64, from: u64, len: u64) {
        let whole = (to ^ from) & 7 == 0;
        let mut one = |at: u64, n: u64| {
            let mut cell = self.load(from.wrapping_add(at), n as u8);
            if !whole {
                cell.set_from(NONE);
            }
            self.store(to.wrapping_add(at), n as u8, cell);
        };
        // Pieces that lie in one cell of the source each; those first that would be overwritten.
        if to > from {
            let mut left = len;
            while left > 0 {
                let n = match from.wrapping_add(left) & 7 {
                    0 => 8,
                    n => n,
                };
                let n = n.min(left);
                left -= n;
                one(left, n);
            }
        } else {
            let mut at = 0;
            while at < len {
                let n = (8 - (from.wrapping_add(at) & 7)).min(len - at);
                one(at, n);
                at += n;
            }
        }
    }
}
