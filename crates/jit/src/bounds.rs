//! Where pointers into each block may lead, by the block's number.
//!
//! Code looks here at each access. So the table does not move, and there are addresses for all numbers that a cell can
//! hold: what is behind the last block reads as zero, which allows nothing, and code need not compare the number with
//! anything. The kernel backs what was written.

use std::io;
use std::ops::Deref;

use crate::cell::{BlockId, Bounds};

/// All numbers of blocks, and something behind the last: code may look a few bytes beyond it.
const ADDRESSES: usize = (1 << 32) * size_of::<Bounds>() + 4096;

pub struct BoundsTable {
    first: *mut Bounds,
    len: usize,
}

// SAFETY: it is the only owner of its memory.
unsafe impl Send for BoundsTable {}

impl BoundsTable {
    /// Fails if the system does not set so many addresses aside.
    pub fn new() -> io::Result<BoundsTable> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping where the kernel wants it.
        let first =
            unsafe { libc::mmap(std::ptr::null_mut(), ADDRESSES, protection, flags, -1, 0) };
        if first == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(BoundsTable {
            first: first.cast(),
            len: 0,
        })
    }

    /// The next block.
    pub fn push(&mut self, bounds: Bounds) {
        assert!(u32::try_from(self.len).is_ok(), "blocks have numbers");
        // SAFETY: there is room for so many, and the borrow is exclusive.
        unsafe { self.first.add(self.len).write(bounds) }
        self.len += 1;
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
            libc::munmap(self.first.cast(), ADDRESSES);
        }
    }
}
