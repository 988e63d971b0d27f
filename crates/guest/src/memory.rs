//! The guest's memory, read and written from the tracer.
//!
//! `process_vm_readv` and `process_vm_writev` cost well under a microsecond and obey the guest's
//! page protections. Where the protection is the engine's own doing (pages whose code has been
//! translated are write-protected) a write goes through `/proc/PID/mem`, which overrides it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::Error;

/// The address space of one guest process.
pub(crate) struct Memory {
    pid: i32,
    file: Option<File>,
}

impl Memory {
    pub(crate) fn of(pid: i32) -> Self {
        Memory { pid, file: None }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Reads as many bytes as are mapped from `addr` on.
    pub(crate) fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        let n = self.transfer(addr, buf.as_mut_ptr(), buf.len(), false);
        if n == buf.len() {
            return n;
        }
        // A transfer ends at the first page that cannot be read; what stands before it on
        // kernels that refuse the whole request is fetched page by page.
        let mut done = n;
        while done < buf.len() {
            let at = addr.wrapping_add(done as u64);
            let want = ((4096 - (at & 4095)) as usize).min(buf.len() - done);
            let got = self.transfer(at, buf[done..].as_mut_ptr(), want, false);
            done += got;
            if got < want {
                break;
            }
        }
        done
    }

    pub(crate) fn read_exact(&self, addr: u64, buf: &mut [u8]) -> Result<(), Error> {
        if self.read(addr, buf) == buf.len() {
            Ok(())
        } else {
            Err(Error::Unmapped(addr))
        }
    }

    pub(crate) fn read_vec(&self, addr: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut v = vec![0; len];
        self.read_exact(addr, &mut v)?;
        Ok(v)
    }

    pub(crate) fn read_u64(&self, addr: u64) -> Result<u64, Error> {
        let mut b = [0; 8];
        self.read_exact(addr, &mut b)?;
        Ok(u64::from_le_bytes(b))
    }

    /// Writes all of `bytes`, over any protection.
    pub(crate) fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let n = self.transfer(addr, bytes.as_ptr().cast_mut(), bytes.len(), true);
        if n == bytes.len() {
            return Ok(());
        }
        if self.file.is_none() {
            let f = File::options()
                .read(true)
                .write(true)
                .open(format!("/proc/{}/mem", self.pid));
            self.file = Some(f.map_err(|_| Error::Lost)?);
        }
        let file = self.file.as_ref().expect("just opened");
        file.write_all_at(&bytes[n..], addr + n as u64)
            .map_err(|_| Error::Unmapped(addr + n as u64))
    }

    pub(crate) fn write_u64(&mut self, addr: u64, value: u64) -> Result<(), Error> {
        self.write(addr, &value.to_le_bytes())
    }

    fn transfer(&self, addr: u64, local: *mut u8, len: usize, write: bool) -> usize {
        let here = libc::iovec {
            iov_base: local.cast(),
            iov_len: len,
        };
        let there = libc::iovec {
            iov_base: addr as *mut libc::c_void,
            iov_len: len,
        };
        // SAFETY: `local` is valid for `len` bytes (a slice of the caller's; only read from when
        // writing to the guest). The remote range is checked by the kernel.
        let r = unsafe {
            if write {
                libc::process_vm_writev(self.pid, &raw const here, 1, &raw const there, 1, 0)
            } else {
                libc::process_vm_readv(self.pid, &raw const here, 1, &raw const there, 1, 0)
            }
        };
        r.max(0) as usize
    }
}

impl abi::Memory for Memory {
    fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        Memory::read(self, addr, buf)
    }
}
