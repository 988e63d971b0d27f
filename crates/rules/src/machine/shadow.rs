//! What is known of each cell of memory: the block that a pointer in it came from, and which of its bytes
//! were never written.
//!
//! Cells are eight bytes. A pointer at an odd address is not followed; that loses a report at worst.

use crate::heap::{BlockId, NONE};

const CHUNK_BITS: u32 = 21;
const CELLS: usize = 1 << (CHUNK_BITS - 3);
/// User space is 47 bits.
const TOP: usize = 1 << (47 - CHUNK_BITS);

struct Chunk {
    from: Box<[u32]>,
    /// A bit for each byte.
    unwritten: Box<[u8]>,
}

pub(crate) struct Shadow {
    /// Number of each chunk's memory, from 1; committed by the kernel only where it is used.
    top: Vec<u32>,
    chunks: Vec<Chunk>,
}

/// One cell, or a register's eight bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) from: BlockId,
    pub(crate) unwritten: u8,
}

impl Shadow {
    pub(crate) fn new() -> Shadow {
        Shadow {
            top: vec![0; TOP],
            chunks: Vec::new(),
        }
    }

    #[inline]
    fn chunk(&self, address: u64) -> Option<&Chunk> {
        let n = *self.top.get((address >> CHUNK_BITS) as usize)?;
        self.chunks.get((n as usize).wrapping_sub(1))
    }

    #[inline]
    fn chunk_mut(&mut self, address: u64) -> Option<&mut Chunk> {
        let n = self.top.get_mut((address >> CHUNK_BITS) as usize)?;
        if *n == 0 {
            self.chunks.push(Chunk {
                from: vec![0; CELLS].into(),
                unwritten: vec![0; CELLS].into(),
            });
            *n = self.chunks.len() as u32;
        }
        self.chunks.get_mut(*n as usize - 1)
    }

    #[inline]
    fn index(address: u64) -> usize {
        (address >> 3) as usize & (CELLS - 1)
    }

    #[inline]
    fn cell(&self, address: u64) -> Cell {
        match self.chunk(address) {
            Some(c) => Cell {
                from: BlockId(c.from[Self::index(address)]),
                unwritten: c.unwritten[Self::index(address)],
            },
            None => Cell::default(),
        }
    }

    #[inline]
    fn set_cell(&mut self, address: u64, cell: Cell) {
        if cell == Cell::default() && self.chunk(address).is_none() {
            return;
        }
        if let Some(c) = self.chunk_mut(address) {
            c.from[Self::index(address)] = cell.from.0;
            c.unwritten[Self::index(address)] = cell.unwritten;
        }
    }

    /// `len` bytes, at most eight. Only of a whole cell is it known where it came from.
    #[inline]
    pub(crate) fn load(&self, address: u64, len: u8) -> Cell {
        let low = (address & 7) as u32;
        if low == 0 && len == 8 {
            return self.cell(address);
        }
        let mask = (1u16 << len) - 1;
        let first = self.cell(address).unwritten;
        let mut bits = u16::from(first) >> low;
        if low + u32::from(len) > 8 {
            bits |= u16::from(self.cell(address.wrapping_add(8)).unwritten) << (8 - low);
        }
        Cell {
            from: NONE,
            unwritten: (bits & mask) as u8,
        }
    }

    #[inline]
    pub(crate) fn store(&mut self, address: u64, len: u8, value: Cell) {
        let low = (address & 7) as u32;
        if low == 0 && len == 8 {
            return self.set_cell(address, value);
        }
        let mask = ((1u32 << len) - 1) << low;
        let bits = u32::from(value.unwritten) << low;
        for (at, shift) in [(address, 0), (address.wrapping_add(8), 8)] {
            let part = (mask >> shift & 0xff) as u8;
            if part == 0 {
                break;
            }
            let old = self.cell(at);
            let bits = (bits >> shift) as u8 & part;
            self.set_cell(
                at,
                Cell {
                    from: NONE,
                    unwritten: old.unwritten & !part | bits,
                },
            );
        }
    }

    /// Says of a stretch of memory whether it was written, and that it holds no pointers.
    pub(crate) fn fill(&mut self, address: u64, len: u64, unwritten: bool) {
        let end = address.saturating_add(len).min(1 << 47);
        let value = Cell {
            from: NONE,
            unwritten: if unwritten { 0xff } else { 0 },
        };
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
            if (unwritten || self.chunk(at).is_some())
                && let Some(c) = self.chunk_mut(at)
            {
                let cells = Self::index(at)..Self::index(at) + ((stop - at) / 8) as usize;
                c.from[cells.clone()].fill(0);
                c.unwritten[cells].fill(value.unwritten);
            }
            at = stop;
        }
    }

    /// What is known of one stretch of memory is known of another.
    pub(crate) fn copy(&mut self, to: u64, from: u64, len: u64) {
        let backward = to > from;
        let whole = (to ^ from) & 7 == 0;
        // Pieces that lie in one cell of the source each.
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < len {
            let n = (8 - (from.wrapping_add(at) & 7)).min(len - at);
            pieces.push((at, n as u8));
            at += n;
        }
        let mut one = |(at, n): (u64, u8)| {
            let mut cell = self.load(from.wrapping_add(at), n);
            if !whole {
                cell.from = NONE;
            }
            self.store(to.wrapping_add(at), n, cell);
        };
        if backward {
            pieces.into_iter().rev().for_each(&mut one);
        } else {
            pieces.into_iter().for_each(&mut one);
        }
    }
}
