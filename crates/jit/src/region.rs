//! Memory that code is written to and run from: one memory file, mapped twice, so that neither view can be both
//! written and executed.

use std::io;

/// Addresses that are set aside. Memory is taken only for what is written.
const SIZE: usize = 512 << 20;

pub(crate) struct Region {
    write: *mut u8,
    run: *mut u8,
    used: usize,
}

// SAFETY: the two mappings belong to this value alone.
unsafe impl Send for Region {}

impl Region {
    pub(crate) fn new() -> io::Result<Region> {
        // SAFETY: fresh mappings of a fresh file at addresses that the kernel chooses; nothing else is touched.
        unsafe {
            let fd = libc::memfd_create(c"wherefore-jit".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let view = |protection| {
                let null = std::ptr::null_mut();
                libc::mmap(null, SIZE, protection, libc::MAP_SHARED, fd, 0)
            };
            let sized = libc::ftruncate(fd, SIZE as libc::off_t);
            let write = view(libc::PROT_READ | libc::PROT_WRITE);
            let run = view(libc::PROT_READ | libc::PROT_EXEC);
            let error = io::Error::last_os_error();
            libc::close(fd);
            let failed = sized != 0 || [write, run].contains(&libc::MAP_FAILED);
            if failed {
                for view in [write, run] {
                    if view != libc::MAP_FAILED {
                        libc::munmap(view, SIZE);
                    }
                }
                return Err(error);
            }
            Ok(Region {
                write: write.cast(),
                run: run.cast(),
                used: 0,
            })
        }
    }

    /// Where the next code will be.
    pub(crate) fn next(&self) -> u64 {
        self.run as u64 + self.used as u64
    }

    /// Puts code there; false if there is no room.
    pub(crate) fn add(&mut self, code: &[u8]) -> bool {
        if SIZE - self.used < code.len() + 16 {
            return false;
        }
        // SAFETY: it fits, and nobody has a reference into the mapping.
        unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), self.write.add(self.used), code.len());
        }
        self.used = (self.used + code.len()).next_multiple_of(16);
        true
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: both were mapped with this size, and code is run only while the region is borrowed.
        unsafe {
            libc::munmap(self.write.cast(), SIZE);
            libc::munmap(self.run.cast(), SIZE);
        }
    }
}
