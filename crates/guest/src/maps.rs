//! The guest's address space as the kernel shows it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Protection {
    pub read: bool,
    pub write: bool,
    pub execute: bool,
}

impl Protection {
    /// As mmap(2) takes it.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.read) | u64::from(self.write) << 1 | u64::from(self.execute) << 2
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Protection {
            read: bits & 1 != 0,
            write: bits & 2 != 0,
            execute: bits & 4 != 0,
        }
    }
}

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub protection: Protection,
    pub shared: bool,
    pub offset: u64,
    /// Device and inode of what is mapped; an inode of zero for private memory.
    pub object: (u64, u64),
    /// A file's path, a name in brackets such as `[stack]`, or empty.
    pub name: PathBuf,
}

impl Mapping {
    pub(crate) fn is_file(&self) -> bool {
        self.name.as_os_str().as_encoded_bytes().starts_with(b"/")
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name == Path::new(name)
    }
}

/// All mappings of a process, in ascending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maps {
    pub(crate) list: Vec<Mapping>,
}

impl Maps {
    pub(crate) fn of(pid: i32) -> Result<Self, Error> {
        // Such a file does not know how long it is, and to read it in small pieces takes several times as long.
        let mut text = Vec::with_capacity(0x4000);
        File::open(format!("/proc/{pid}/maps"))
            .and_then(|mut f| f.read_to_end(&mut text))
            .map_err(|_| Error::Lost)?;
        Ok(Maps {
            list: text.split(|&b| b == b'\n').filter_map(parse).collect(),
        })
    }

    pub(crate) fn find(&self, addr: u64) -> Option<&Mapping> {
        let i = self.list.partition_point(|m| m.end <= addr);
        self.list.get(i).filter(|m| m.start <= addr)
    }

    pub(crate) fn is_free(&self, start: u64, end: u64) -> bool {
        self.list.iter().all(|m| m.end <= start || m.start >= end)
    }

    /// A free place of `size` bytes within `reach` of `addr`: the highest below it, where neither
    /// the heap nor a stack will want to grow, else the lowest above.
    pub(crate) fn gap_near(&self, addr: u64, size: u64, reach: u64) -> Option<u64> {
        const MARGIN: u64 = 0x10_0000;
        let mut best = None;
        let mut free_from = 0x1_0000;
        for m in &self.list {
            let free_to = m.start;
            if free_to > addr.saturating_add(reach) {
                break;
            }
            if free_to.saturating_sub(free_from) >= size + 2 * MARGIN {
                let at = (free_to - MARGIN - size) & !0xfff;
                if at < addr {
                    if addr - at < reach {
                        best = Some(at);
                    }
                } else {
                    let low = (free_from + MARGIN + 0xfff) & !0xfff;
                    if best.is_none() && low + size - addr < reach {
                        return Some(low);
                    }
                }
            }
            free_from = m.end;
        }
        best
    }
}

fn parse(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |&b| b == b' ');
    let range = std::str::from_utf8(fields.next()?).ok()?;
    let (start, end) = range.split_once('-')?;
    let perms = fields.next()?;
    let offset = std::str::from_utf8(fields.next()?).ok()?;
    let device = std::str::from_utf8(fields.next()?).ok()?;
    let inode = std::str::from_utf8(fields.next()?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let number = |s| u32::from_str_radix(s, 16).ok();
    let name = fields.next().unwrap_or_default();
    let name = &name[name.iter().position(|&b| b != b' ').unwrap_or(name.len())..];
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        protection: Protection {
            read: perms[0] == b'r',
            write: perms[1] == b'w',
            execute: perms[2] == b'x',
        },
        shared: perms[3] == b's',
        offset: u64::from_str_radix(offset, 16).ok()?,
        object: (
            libc::makedev(number(major)?, number(minor)?),
            inode.parse().ok()?,
        ),
        name: PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name)),
    })
}
