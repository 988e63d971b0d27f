//! What is known of each cell of memory: the block that a pointer in it came from, and which of its bytes
//! were never written.
//!
//! Cells are eight bytes. A pointer at an odd address is not followed; that loses a report at worst.
//!
//! All cells are in one stretch of addresses that the kernel backs where it is touched, and a cell is as far into it
//! as its memory is into the guest's, of which the upper bits are left out ([`Shadow::place_of`]): a mask and a load
//! find it. Memory that differs only in these bits has the same cells. So whoever learns what is mapped has to look
//! for that, and to stop asking. It does not come up: programs, libraries and stacks are put where they differ
//! in lower bits too.
//!
//! A table of chunks, which can tell all addresses apart, was rejected: three times the instructions for each access.

use std::io;

use crate::cell::{Cell, NONE};

const SIZE: u64 = 1 << Shadow::BITS;
/// What an address keeps.
pub(crate) const MASK: u64 = SIZE - 1;
/// Accesses that are found together are no further apart than this. There is room behind the last cell for it.
pub(crate) const REACH: u64 = 1 << 16;

/// What can be one large page, since what is known of memory is as far apart as the memory.
const LARGE_BITS: u32 = 21;
const LARGE: u64 = 1 << LARGE_BITS;
const PLACES: usize = 1 << (Shadow::BITS - LARGE_BITS);
/// Large pages. A guest that uses more may be one that uses little of each.
const MOST_LARGE: usize = 256;
/// Cells of which it is first looked whether there is anything to forget.
const PAGE: usize = 512;
/// What is known of so much memory is given back to the system instead: programs set terabytes aside.
const FAR: u64 = 16 * LARGE;
/// What the system gives and takes.
const SYSTEM_PAGE: u64 = 4096;

pub struct Shadow {
    /// Where the cells begin. They do not move.
    cells: *mut u64,
    /// The mapping that they are in.
    mapping: *mut libc::c_void,
    /// Places in which something was written from here, a bit for each; code writes by itself.
    touched: Box<[u64]>,
    places: Vec<usize>,
}

// SAFETY: it is the only owner of its memory.
unsafe impl Send for Shadow {}

impl Shadow {
    const ROOM: usize = (SIZE + REACH + LARGE) as usize;

    /// Bits of an address that tell cells apart.
    pub const BITS: u32 = 42;

    /// What tells the cell of an address from others.
    pub fn place_of(address: u64) -> u64 {
        address & MASK
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size.
        unsafe {
            libc::munmap(self.mapping, Self::ROOM);
        }
    }
}

impl Shadow {
    /// Nothing is known of any memory. Fails if the system does not set so many addresses aside.
    pub fn new() -> io::Result<Shadow> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let null = std::ptr::null_mut();
        // SAFETY: a fresh mapping, in which there is room for all cells from an aligned place on.
        let (mapping, cells) = unsafe {
            let mapping = libc::mmap(null, Self::ROOM, protection, flags, -1, 0);
            if mapping == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let cells = mapping.byte_add(mapping.align_offset(LARGE as usize));
            (mapping, cells.cast())
        };
        Ok(Shadow {
            cells,
            mapping,
            touched: vec![0; PLACES / 64].into(),
            places: Vec::new(),
        })
    }

    /// The first cell, for code.
    pub(crate) fn first(&self) -> *mut u64 {
        self.cells
    }

    /// Nothing is known of any memory.
    pub fn clear(&mut self) {
        // SAFETY: the mapping is its own; what is given back reads as zero.
        unsafe {
            libc::madvise(self.mapping, Self::ROOM, libc::MADV_DONTNEED);
        }
    }

    /// Something is about to be written there.
    #[inline]
    fn touch(&mut self, address: u64) {
        let place = ((address & MASK) >> LARGE_BITS) as usize;
        if self.touched[place / 64] >> (place % 64) & 1 == 0 {
            self.add(place);
        }
    }

    #[cold]
    fn add(&mut self, place: usize) {
        self.touched[place / 64] |= 1 << (place % 64);
        self.places.push(place);
        if self.places.len() <= MOST_LARGE {
            // SAFETY: advice about memory of its own.
            unsafe {
                let at = self.cells.byte_add(place << LARGE_BITS);
                libc::madvise(at.cast(), LARGE as usize, libc::MADV_HUGEPAGE);
            }
        }
    }

    /// An address, but for its upper bits, of which not the same is known. What was only ever written to by code,
    /// in both, is not looked at.
    pub fn differs(&self, other: &Shadow) -> Option<u64> {
        self.places.iter().chain(&other.places).find_map(|place| {
            let at = (*place as u64) << LARGE_BITS;
            let (a, b) = (self.run(at, LARGE), other.run(at, LARGE));
            let n = a.iter().zip(b).position(|(a, b)| a != b)?;
            Some(at | (n as u64) << 3)
        })
    }

    #[inline]
    fn at(&self, address: u64) -> *mut u64 {
        // SAFETY: the offset is below the size of the mapping.
        unsafe { self.cells.byte_add((address & MASK & !7) as usize) }
    }

    /// The cells of a stretch, which does not go beyond the last.
    #[inline]
    fn run(&self, address: u64, len: u64) -> &[u64] {
        debug_assert!((address & MASK) + len <= SIZE);
        // SAFETY: they are in the mapping, and written only through an exclusive borrow.
        unsafe { std::slice::from_raw_parts(self.at(address), (len / 8) as usize) }
    }

    #[inline]
    fn run_mut(&mut self, address: u64, len: u64) -> &mut [u64] {
        debug_assert!((address & MASK) + len <= SIZE);
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.at(address), (len / 8) as usize) }
    }

    /// The cell that an address is in.
    #[inline]
    pub fn cell(&self, address: u64) -> Cell {
        // SAFETY: it is in the mapping.
        Cell(unsafe { *self.at(address) })
    }

    #[inline]
    pub fn set_cell(&mut self, address: u64, cell: Cell) {
        if cell != Cell::PLAIN {
            self.touch(address);
        }
        // SAFETY: it is in the mapping, and the borrow is exclusive.
        unsafe { *self.at(address) = cell.0 }
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
            let part = (((1u32 << len) - 1) << low) as u8;
            let unwritten = self.cell(address).unwritten() & !part;
            return self.set_cell(address, Cell::new(NONE, unwritten));
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
        if !unwritten && len >= FAR {
            return self.give_back(address, end);
        }
        let value = Cell::new(NONE, if unwritten { 0xff } else { 0 });
        let mut at = address;
        while at < end {
            if at & 7 != 0 || end - at < 8 {
                let n = (8 - (at & 7)).min(end - at);
                self.store(at, n as u8, value);
                at += n;
                continue;
            }
            let stop = (at | (LARGE - 1)).saturating_add(1).min(end & !7);
            if unwritten {
                self.touch(at);
                self.run_mut(at, stop - at).fill(value.0);
            } else {
                self.forget(at, stop - at);
            }
            at = stop;
        }
    }

    /// All bytes of a stretch count as written. Where pointers in it came from is known as before.
    pub fn settle(&mut self, address: u64, len: u64) {
        let end = address.saturating_add(len).min(1 << 47);
        let mut at = address;
        while at < end {
            if at & 7 != 0 || end - at < 8 {
                let n = (8 - (at & 7)).min(end - at);
                let mask = (((1u32 << n) - 1) << (at & 7)) as u8;
                let mut cell = self.cell(at);
                cell.set_unwritten(cell.unwritten() & !mask);
                self.set_cell(at, cell);
                at += n;
                continue;
            }
            let stop = (at | (LARGE - 1)).saturating_add(1).min(end & !7);
            for cells in self.run_mut(at, stop - at).chunks_mut(PAGE) {
                if cells.iter().any(|c| *c & 0xff != 0) {
                    cells.iter_mut().for_each(|c| *c &= !0xff);
                }
            }
            at = stop;
        }
    }

    /// Nothing is known of much memory.
    #[cold]
    fn give_back(&mut self, address: u64, end: u64) {
        let (first, last) = (
            address.next_multiple_of(SYSTEM_PAGE),
            end & !(SYSTEM_PAGE - 1),
        );
        self.fill(address, first - address, false);
        self.fill(last, end.saturating_sub(last), false);
        let (mut at, mut left) = (first, last.saturating_sub(first).min(SIZE));
        while left > 0 {
            let place = at & MASK;
            let n = left.min(SIZE - place);
            // SAFETY: these pages are among those of the cells; what is given back reads as zero.
            unsafe {
                let cells = self.cells.byte_add(place as usize);
                libc::madvise(cells.cast(), n as usize, libc::MADV_DONTNEED);
            }
            (at, left) = (at + n, left - n);
        }
    }

    /// Nothing is known of whole cells. Those that are so already are not written to: there may be many, and not
    /// one is backed.
    fn forget(&mut self, address: u64, len: u64) {
        for cells in self.run_mut(address, len).chunks_mut(PAGE) {
            if cells.len() < PAGE || cells.iter().any(|c| *c != 0) {
                cells.fill(0);
            }
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
                let room = |at: u64| (at + head + left - 1) % LARGE + 1;
                let n = left.min(room(to)).min(room(from));
                left -= n;
                self.copy_cells(to + head + left, from + head + left, n);
            }
            self.copy_pieces(to, from, head);
        } else {
            self.copy_pieces(to, from, head);
            let mut at = head;
            while at < tail {
                let room = |a: u64| LARGE - (a + at) % LARGE;
                let n = (tail - at).min(room(to)).min(room(from));
                self.copy_cells(to + at, from + at, n);
                at += n;
            }
            self.copy_pieces(to + tail, from + tail, len - tail);
        }
    }

    /// Whole cells that lie in one place each.
    fn copy_cells(&mut self, to: u64, from: u64, len: u64) {
        self.touch(to);
        let source = self.run(from, len).as_ptr();
        let place = self.run_mut(to, len);
        // SAFETY: the source has so many cells; it may be where the target is, and the two may overlap.
        unsafe { std::ptr::copy(source, place.as_mut_ptr(), place.len()) };
    }

    /// All bytes of a stretch were written.
    #[inline]
    pub fn is_written(&self, address: u64, len: u64) -> bool {
        let Some(before) = len.checked_sub(1) else {
            return true;
        };
        let last = address.wrapping_add(before);
        let (head, tail) = (0xff << (address & 7), 0xff >> (7 - (last & 7)));
        let (mut at, last) = (address & !7, last & !7);
        if at == last {
            return self.cell(at).0 & head & tail & 0xff == 0;
        }
        let mut bits = self.cell(at).0 & head | self.cell(last).0 & tail;
        at = at.wrapping_add(8);
        while at != last {
            bits |= self.cell(at).0;
            at = at.wrapping_add(8);
        }
        bits & 0xff == 0
    }

    /// The first bytes of a stretch that were never written, if there are some, and how many they are.
    pub fn first_unwritten(&self, address: u64, len: u64) -> Option<(u64, u64)> {
        let unwritten = |n: &u64| self.load(address.wrapping_add(*n), 1).unwritten() != 0;
        let first = (0..len).find(unwritten)?;
        let end = (first..len).find(|n| !unwritten(n)).unwrap_or(len);
        Some((address.wrapping_add(first), end - first))
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
        let shadow = || Shadow::new().expect("addresses");
        let (mut quick, mut plain) = (shadow(), shadow());
        // Around the border of two places, with a third of which nothing is known at first.
        let area = 5 * LARGE - 256;
        for round in 0..20_000 {
            for _ in 0..3 {
                let at = area + 8 * random(64);
                let unwritten = if random(3) == 0 { random(256) } else { 0 };
                let cell = Cell::new(BlockId(random(4) as u32), unwritten as u8);
                quick.set_cell(at, cell);
                plain.set_cell(at, cell);
            }
            let far = [0, 0, 0, 8 * LARGE][random(4) as usize];
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
                for at in [area + 8 * n, area + 8 * LARGE + 8 * n] {
                    let (a, b) = (quick.cell(at), plain.cell(at));
                    assert_eq!(a, b, "round {round}, {to:#x} {from:#x} {len}, at {at:#x}");
                }
            }
        }
    }

    #[test]
    fn what_was_written_is_told_byte_by_byte() {
        let mut shadow = Shadow::new().expect("addresses");
        let base = 3 * LARGE - 40;
        for begin in base..base + 20 {
            for len in 0..40 {
                let end = begin + len;
                shadow.fill(base - 16, 128, false);
                let pointer = Cell::new(BlockId(7), 0xff);
                shadow.set_cell(base, pointer);
                shadow.fill(begin, len, true);
                for at in base..base + 64 {
                    let inside = (begin..end).contains(&at) || at < base + 8;
                    assert_eq!(
                        shadow.is_written(at, 1),
                        !inside,
                        "{begin:#x} {len} {at:#x}"
                    );
                }
                if len > 0 && begin > base + 8 {
                    assert_eq!(shadow.first_unwritten(base + 8, 64), Some((begin, len)));
                    assert!(shadow.is_written(base + 8, begin - base - 8));
                    assert!(!shadow.is_written(base + 8, begin - base - 7));
                    assert!(shadow.is_written(end, 30));
                    assert!(!shadow.is_written(end - 1, 30));
                }
                shadow.settle(begin, len);
                assert!(shadow.is_written(begin, len));
                shadow.settle(base, 8);
                assert!(shadow.is_written(base - 8, 80));
                if begin >= base + 8 || len == 0 {
                    assert_eq!(shadow.cell(base), Cell::new(BlockId(7), 0));
                }
            }
        }
        assert!(shadow.is_written(base, 0));
    }

    #[test]
    fn of_much_memory_all_is_forgotten_and_nothing_around_it() {
        let mut shadow = Shadow::new().expect("addresses");
        let (begin, end) = (3 * LARGE + 8, 3 * LARGE + FAR + 808);
        let known = Cell::new(BlockId(7), 0);
        let around = [begin - 8, end];
        let inside = [begin, begin + 4096, begin + FAR / 2, end - 8];
        for at in around.into_iter().chain(inside) {
            shadow.set_cell(at, known);
        }
        shadow.fill(begin, end - begin, false);
        for at in around {
            assert_eq!(shadow.cell(at), known, "{at:#x}");
        }
        for at in inside {
            assert_eq!(shadow.cell(at), Cell::default(), "{at:#x}");
        }
        // All that there is, and more.
        shadow.fill(0, 1 << 47, false);
        assert_eq!(shadow.cell(end), Cell::default());
    }
}
