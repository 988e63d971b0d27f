//! The files that gdb asks the target for: those of the recording, and what `/proc` would show.
//!
//! Nothing else of the file system is shown: whoever can connect can read what is here.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use gdbstub::target::ext::host_io::{
    FsKind, HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat,
    HostIoFstatOps, HostIoOpen, HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread,
    HostIoPreadOps, HostIoReadlink, HostIoReadlinkOps, HostIoResult, HostIoSetfs, HostIoSetfsOps,
    HostIoStat,
};

use crate::target::Served;

/// A file that gdb has open.
pub(crate) enum Open {
    Stored(File),
    Made(Vec<u8>),
}

impl Served {
    /// What is behind `/proc/PID/NAME`.
    fn proc(&mut self, name: &str) -> Option<Vec<u8>> {
        match name {
            "maps" | "smaps" => self.session.maps().ok().map(String::into_bytes),
            "cmdline" => Some(self.session.command_line()),
            "comm" => {
                let file = self.session.executable()?.file_name()?;
                let mut name = file.as_bytes().to_vec();
                name.truncate(15);
                name.push(b'\n');
                Some(name)
            }
            "auxv" => Some(self.session.auxv().to_vec()),
            "coredump_filter" => Some(b"00000033\n".to_vec()),
            _ => None,
        }
    }
}

fn missing<T>() -> HostIoResult<T, Served> {
    Err(HostIoError::Errno(HostIoErrno::ENOENT))
}

/// `/proc/123/maps` and `/proc/123/task/123/maps` are `maps`.
fn in_proc(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/proc/")?;
    let (_, rest) = rest.split_once('/')?;
    match rest.strip_prefix("task/") {
        Some(rest) => rest.split_once('/').map(|(_, name)| name),
        None => Some(rest),
    }
}

impl HostIo for Served {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }

    fn support_readlink(&mut self) -> Option<HostIoReadlinkOps<'_, Self>> {
        Some(self)
    }

    fn support_setfs(&mut self) -> Option<HostIoSetfsOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Served {
    fn open(
        &mut self,
        filename: &[u8],
        flags: HostIoOpenFlags,
        _mode: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        let changes = HostIoOpenFlags::O_WRONLY | HostIoOpenFlags::O_RDWR;
        if flags.intersects(changes) {
            return Err(HostIoError::Errno(HostIoErrno::EROFS));
        }
        let Ok(name) = std::str::from_utf8(filename) else {
            return missing();
        };
        let file = match in_proc(name) {
            Some(name) => self.proc(name).map(Open::Made),
            None => {
                let stored = self.session.stored(Path::new(name));
                stored.and_then(|p| File::open(p).ok()).map(Open::Stored)
            }
        };
        let Some(file) = file else { return missing() };
        self.last_file += 1;
        self.open_files.insert(self.last_file, file);
        Ok(self.last_file)
    }
}

impl HostIoClose for Served {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        match self.open_files.remove(&fd) {
            Some(_) => Ok(()),
            None => Err(HostIoError::Errno(HostIoErrno::EBADF)),
        }
    }
}

impl HostIoPread for Served {
    fn pread(
        &mut self,
        fd: u32,
        count: usize,
        offset: u64,
        buf: &mut [u8],
    ) -> HostIoResult<usize, Self> {
        let count = count.min(buf.len());
        let buf = &mut buf[..count];
        match self.open_files.get(&fd) {
            Some(Open::Stored(file)) => Ok(file.read_at(buf, offset)?),
            Some(Open::Made(bytes)) => Ok(crate::target::part(bytes, offset, buf)),
            None => Err(HostIoError::Errno(HostIoErrno::EBADF)),
        }
    }
}

impl HostIoFstat for Served {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        let size = match self.open_files.get(&fd) {
            Some(Open::Stored(file)) => file.metadata()?.len(),
            Some(Open::Made(bytes)) => bytes.len() as u64,
            None => return Err(HostIoError::Errno(HostIoErrno::EBADF)),
        };
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: 0,
            st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: size,
            st_blksize: 4096,
            st_blocks: size.div_ceil(512),
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
    }
}

impl HostIoReadlink for Served {
    fn readlink(&mut self, filename: &[u8], buf: &mut [u8]) -> HostIoResult<usize, Self> {
        let name = std::str::from_utf8(filename).ok().and_then(in_proc);
        let target = match name {
            Some("exe") => self.session.executable().map(|p| p.as_os_str().as_bytes()),
            Some("cwd") => Some(self.session.working_directory().as_bytes()),
            _ => None,
        };
        match target {
            Some(bytes) => Ok(crate::target::part(bytes, 0, buf)),
            None => missing(),
        }
    }
}

impl HostIoSetfs for Served {
    fn setfs(&mut self, _fs: FsKind) -> HostIoResult<(), Self> {
        Ok(())
    }
}
