//! What is known of each cell of memory: the block that a pointer in it came from, and which of its bytes
//! were never written.
//!
//! Cells are eight bytes. A pointer at an odd address is not followed; that loses a report at worst.

use crate::cell::{Cell, NONE};

pub(crate) const CHUNK_BITS: u32 = 21;
pub(crate) const CHUNK: u64 = 1 << CHUNK_BITS;
const CELLS: usize = 1 << (CHUNK_BITS - 3);
/// User space is 47 bits.
pub(crate) const TOP: usize = 1 << (47 - CHUNK_BITS);

/// Chunks that are large pages. A guest with more may be one that uses little of each.
const MOST_LARGE: usize = 256;

pub struct Shadow {
    /// How far each chunk's memory is from the first chunk's, in bytes; the table is committed by the kernel
    /// only where it is used.
    top: Box<[u64; TOP]>,
    /// The first stands for all memory of which nothing is known, and stays empty: all that is ever written to
    /// it is that nothing is known.
    chunks: Vec<Chunk>,
    /// Where in the table those after the first are.
    places: Vec<usize>,
}

/// Cells of a stretch of memory; it does not move. It can be one large page, since what is
/// known of memory is as far apart as the memory.
struct Chunk(*mut u64);

// SAFETY: it is the only owner of its memory.
unsafe impl Send for Chunk {}

impl Chunk {
    const SIZE: usize = size_of::<[u64; CELLS]>();

    fn new(large: bool) -> Chunk {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping, of which all but one aligned part is given back.
        unsafe {
            let null = std::ptr::null_mut();
            let all = libc::mmap(null, 2 * Self::SIZE, protection, flags, -1, 0);
            assert!(all != libc::MAP_FAILED, "no memory for what is known");
            let before = all.align_offset(Self::SIZE);
            let memory = all.add(before);
            if before > 0 {
                libc::munmap(all, before);
            }
            libc::munmap(memory.add(Self::SIZE), Self::SIZE - before);
            if large {
                libc::madvise(memory, Self::SIZE, libc::MADV_HUGEPAGE);
            }
            Chunk(memory.cast())
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size.
        unsafe {
            libc::munmap(self.0.cast(), Self::SIZE);
        }
    }
}

impl Default for Shadow {
    fn default() -> Shadow {
        let top: Box<[u64]> = vec![0; TOP].into();
        Shadow {
            top: top.try_into().expect("so many were asked for"),
            chunks: vec![Chunk::new(true)],
            places: Vec::new(),
        }
    }
}

impl Shadow {
    /// The table, for code.
    pub(crate) fn top(&self) -> *const u64 {
        self.top.as_ptr()
    }

    /// The first chunk, from which the others are told.
    pub(crate) fn first(&self) -> *mut u64 {
        self.chunks[0].0
    }

    /// How far the chunk of an address is from the first.
    #[inline]
    fn distance(&self, address: u64) -> u64 {
        self.top[(address >> CHUNK_BITS) as usize & (TOP - 1)]
    }

    /// The chunk of an address, to be written to.
    #[cold]
    fn add(&mut self, address: u64) -> u64 {
        let chunk = Chunk::new(self.chunks.len() < MOST_LARGE);
        let distance = (chunk.0 as u64).wrapping_sub(self.first() as u64);
        self.chunks.push(chunk);
        let place = (address >> CHUNK_BITS) as usize & (TOP - 1);
        self.places.push(place);
        self.top[place] = distance;
        distance
    }

    /// An address of which not the same is known.
    pub fn differs(&self, other: &Shadow) -> Option<u64> {
        self.places.iter().chain(&other.places).find_map(|place| {
            let (a, b) = (self.cells(self.top[*place]), other.cells(other.top[*place]));
            let n = a.iter().zip(b).position(|(a, b)| a != b)?;
            Some((*place as u64) << CHUNK_BITS | (n as u64) << 3)
        })
    }

    #[inline]
    fn index(address: u64) -> usize {
        (address >> 3) as usize & (CELLS - 1)
    }

    /// The cells of a chunk.
    #[inline]
    fn cells(&self, distance: u64) -> &[u64; CELLS] {
        let at = (self.first() as u64).wrapping_add(distance);
        // SAFETY: distances are those of chunks, which have so many cells and live as long as this.
        unsafe { &*(at as *const [u64; CELLS]) }
    }

    #[inline]
    fn cells_mut(&mut self, distance: u64) -> &mut [u64; CELLS] {
        let at = (self.first() as u64).wrapping_add(distance);
        // SAFETY: as above, and the borrow of all chunks is exclusive.
        unsafe { &mut *(at as *mut [u64; CELLS]) }
    }

    /// The cell that an address is in.
    #[inline]
    pub fn cell(&self, address: u64) -> Cell {
        Cell(self.cells(self.distance(address))[Self::index(address)])
    }

    #[inline]
    pub fn set_cell(&mut self, address: u64, cell: Cell) {
        let mut distance = self.distance(address);
        if distance == 0 {
            if cell == Cell::PLAIN {
                return;
            }
            distance = self.add(address);
        }
        self.cells_mut(distance)[Self::index(address)] = cell.0;
    }

    /// `len` bytes, at most eight. Only of a whole cell is it known where it came from.
    #[inline(always)]
    pub fn load(&self, address: u64, len: u8) -> Cell {
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
    pub fn store(&mut self, address: u64, len: u8, value: Cell) {
        if address & 7 == 0 && len == 8 {
            return self.set_cell(address, value);
        }
        self.store_part(address, len, value);
    }

    fn store_part(&mut self, address: u64, len: u8, value: Cell) {
        let low = (address & 7) as u32;
        // Nearly always it is in one cell, and all of it was written.
        if low + u32::from(len) <= 8 && value.unwritten() == 0 {
            let distance = self.distance(address);
            let part = (((1u32 << len) - 1) << low) as u8;
            if distance != 0 {
                let cell = &mut self.cells_mut(distance)[Self::index(address)];
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
    pub fn fill(&mut self, address: u64, len: u64, unwritten: bool) {
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
            let mut distance = self.distance(at);
            if distance == 0 && unwritten {
                distance = self.add(at);
            }
            if distance != 0 {
                let first = Self::index(at);
                self.cells_mut(distance)[first..first + ((stop - at) / 8) as usize].fill(value.0);
            }
            at = stop;
        }
    }

    /// What is known of one stretch of memory is known of another.
    pub fn copy(&mut self, to: u64, from: u64, len: u64) {
        let user = 1 << 47;
        let inside = |at: u64| at < user && len < user - at;
        if !inside(to) || !inside(from) {
            return self.copy_pieces(to, from, len);
        }
        if (to ^ from) & 7 != 0 {
            return match self.is_written(from, len) {
                true => self.fill(to, len, false),
                false => self.copy_pieces(to, from, len),
            };
        }
        let head = (from.wrapping_neg() & 7).min(len);
        let middle = (len - head) & !7;
        let tail = head + middle;
        // Those first that would be overwritten.
        if to > from {
            self.copy_pieces(to + tail, from + tail, len - tail);
            let mut left = middle;
            while left > 0 {
                let room = |at: u64| (at + head + left - 1) % CHUNK + 1;
                let n = left.min(room(to)).min(room(from));
                left -= n;
                self.copy_cells(to + head + left, from + head + left, n);
            }
            self.copy_pieces(to, from, head);
        } else {
            self.copy_pieces(to, from, head);
            let mut at = head;
            while at < tail {
                let room = |a: u64| CHUNK - (a + at) % CHUNK;
                let n = (tail - at).min(room(to)).min(room(from));
                self.copy_cells(to + at, from + at, n);
                at += n;
            }
            self.copy_pieces(to + tail, from + tail, len - tail);
        }
    }

    /// Whole cells that lie in one chunk each.
    fn copy_cells(&mut self, to: u64, from: u64, len: u64) {
        let (source, mut target) = (self.distance(from), self.distance(to));
        if source == 0 && target == 0 {
            return;
        }
        if target == 0 {
            target = self.add(to);
        }
        let cells = len as usize / 8;
        let (first, source) = (Self::index(from), self.cells(source).as_ptr());
        let place = &mut self.cells_mut(target)[Self::index(to)..][..cells];
        // SAFETY: the caller sees to it that so many cells follow in the chunk of the source, which is alive; it
        // may be the chunk of the target, and the two may overlap.
        unsafe { std::ptr::copy(source.add(first), place.as_mut_ptr(), cells) };
    }

    /// All bytes of a stretch were written.
    fn is_written(&self, address: u64, len: u64) -> bool {
        let mut at = address;
        let end = address + len;
        while at < end {
            let n = (8 - (at & 7)).min(end - at);
            if self.load(at, n as u8).unwritten() != 0 {
                return false;
            }
            at += n;
        }
        true
    }

    /// The same, in pieces that lie in one cell of the source each.
    fn copy_pieces(&mut self, to: u64, from: u64, len: u64) {
        let whole = (to ^ from) & 7 == 0;
        let mut one = |at: u64, n: u64| {
            let mut cell = self.load(from.wrapping_add(at), n as u8);
            if !whole {
                cell.set_from(NONE);
            }
            self.store(to.wrapping_add(at), n as u8, cell);
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::BlockId;

    #[test]
    fn stretches_are_copied_as_their_pieces_are() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut quick, mut plain) = (Shadow::default(), Shadow::default());
        // Around the border of two chunks, with a third of which nothing is known at first.
        let area = 5 * CHUNK - 256;
        for round in 0..20_000 {
            for _ in 0..3 {
                let at = area + 8 * random(64);
                let unwritten = if random(3) == 0 { random(256) } else { 0 };
                let cell = Cell::new(BlockId(random(4) as u32), unwritten as u8);
                quick.set_cell(at, cell);
                plain.set_cell(at, cell);
            }
            let far = [0, 0, 0, 8 * CHUNK][random(4) as usize];
            let (to, from) = (area + far + random(400), area + random(400));
            let (to, from) = if random(5) == 0 {
                (from, to)
            } else {
                (to, from)
            };
            let len = random(100);
            quick.copy(to, from, len);
            plain.copy_pieces(to, from, len);
            for n in 0..64 {
                for at in [area + 8 * n, area + 8 * CHUNK + 8 * n] {
                    let (a, b) = (quick.cell(at), plain.cell(at));
                    assert_eq!(a, b, "round {round}, {to:#x} {from:#x} {len}, at {at:#x}");
                }
            }
        }
    }
}
