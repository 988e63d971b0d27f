//! Where pointers into each block may lead, by the block's number.
//!
//! Code looks here at each access. So the table does not move, and there are addresses for all numbers that a cell can
//! hold: what is behind the last block reads as zero, which allows nothing, and code need not compare the number with
//! anything. The kernel backs what was written, with large pages where there are many blocks: which of them is asked for is
//! as random as the program's pointers, and to find a small page takes as long as to read what is in it.

use std::io;
use std::ops::Deref;

use crate::cell::{BlockId, Bounds};

/// All numbers of blocks, and something behind the last: code may look a few bytes beyond it.
const ADDRESSES: usize = (1 << 32) * size_of::<Bounds>() + 4096;
const LARGE_PAGE: usize = 1 << 21;
/// The mapping, which begins before the first large page.
const MAPPED: usize = ADDRESSES + LARGE_PAGE;
/// With so many blocks, what is in the first large page is worth one. Most programs have fewer.
const MANY: usize = 1 << 15;

pub struct BoundsTable {
    first: *mut Bounds,
    len: usize,
    mapping: *mut libc::c_void,
}

// SAFETY: it is the only owner of its memory.
unsafe impl Send for BoundsTable {}

impl BoundsTable {
    /// Fails if the system does not set so many addresses aside.
    pub fn new() -> io::Result<BoundsTable> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping where the kernel wants it, in which there is room for the table from an aligned place
        // on. The advice changes nothing that is there.
        unsafe {
            let mapping = libc::mmap(std::ptr::null_mut(), MAPPED, protection, flags, -1, 0);
            if mapping == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let first = mapping.byte_add(mapping.align_offset(LARGE_PAGE));
            let second = first.byte_add(LARGE_PAGE);
            libc::madvise(second, ADDRESSES - LARGE_PAGE, libc::MADV_HUGEPAGE);
            Ok(BoundsTable {
                first: first.cast(),
                len: 0,
                mapping,
            })
        }
    }

    /// Has what is there in one large page. Without it, or on a kernel that cannot do that, it is only slower.
    #[cold]
    fn collapse(&self) {
        // SAFETY: the memory is its own, and keeps its contents.
        unsafe {
            libc::madvise(self.first.cast(), LARGE_PAGE, libc::MADV_COLLAPSE);
        }
    }

    /// The next block.
    pub fn push(&mut self, bounds: Bounds) {
        assert!(u32::try_from(self.len).is_ok(), "blocks have numbers");
        // SAFETY: there is room for so many, and the borrow is exclusive.
        unsafe { self.first.add(self.len).write(bounds) }
        self.len += 1;
        if self.len == MANY {
            self.collapse();
        }
    }

    pub fn set(&mut self, block: BlockId, bounds: Bounds) {
        assert!((block.0 as usize) < self.len);
        // SAFETY: it is there, and the borrow is exclusive.
        unsafe { self.first.add(block.0 as usize).write(bounds) }
    }
}

impl Deref for BoundsTable {
    type Target = [Bounds];

    fn deref(&self) -> &[Bounds] {
        // SAFETY: so many were written, and they are changed only through an exclusive borrow.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl Drop for BoundsTable {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size.
        unsafe {
            libc::munmap(self.mapping, MAPPED);
        }
    }
}
