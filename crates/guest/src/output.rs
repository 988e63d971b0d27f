//! Which of the guest's descriptors are its standard output and error.
//!
//! A replay opens nothing. To show the guest's output again it must know, through any number of
//! `dup`s, which writes went there.

use std::collections::HashMap;

use abi::{Call, Memory};

use crate::replay::OutputKind;

#[derive(Clone, Debug)]
pub(crate) struct Outputs {
    /// Descriptor to (output, closed on exec).
    fds: HashMap<u64, (OutputKind, bool)>,
}

impl Outputs {
    pub(crate) fn new() -> Self {
        Outputs {
            fds: HashMap::from([
                (1, (OutputKind::Stdout, false)),
                (2, (OutputKind::Stderr, false)),
            ]),
        }
    }

    /// A new image keeps only what is not closed on exec.
    pub(crate) fn exec(&mut self) {
        self.fds.retain(|_, (_, closed)| !*closed);
    }

    /// Follows `call`; returns what it put out, if it did.
    pub(crate) fn written(
        &mut self,
        call: &Call,
        ret: i64,
        memory: &dyn Memory,
    ) -> Option<(OutputKind, Vec<u8>)> {
        if ret < 0 {
            return None;
        }
        let [a, b, c, ..] = call.args;
        let a32 = a & 0xffff_ffff;
        match call.nr as i64 {
            libc::SYS_write | libc::SYS_pwrite64 => {
                let (kind, _) = *self.fds.get(&a32)?;
                let mut bytes = vec![0; ret as usize];
                let n = memory.read(b, &mut bytes);
                bytes.truncate(n);
                return Some((kind, bytes));
            }
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
                let (kind, _) = *self.fds.get(&a32)?;
                let mut left = ret as usize;
                let mut bytes = Vec::with_capacity(left);
                for i in 0..c.min(1024) {
                    let mut iov = [0; 16];
                    if memory.read(b + 16 * i, &mut iov) != 16 {
                        break;
                    }
                    let base = u64::from_le_bytes(iov[..8].try_into().expect("eight bytes"));
                    let len = u64::from_le_bytes(iov[8..].try_into().expect("eight bytes"));
                    let mut part = vec![0; (len as usize).min(left)];
                    let n = memory.read(base, &mut part);
                    bytes.extend_from_slice(&part[..n]);
                    left -= part.len();
                }
                return Some((kind, bytes));
            }
            libc::SYS_close => {
                self.fds.remove(&a32);
            }
            libc::SYS_close_range if c & 4 == 0 => {
                self.fds.retain(|&fd, _| fd < a32 || fd > (b & 0xffff_ffff));
            }
            libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => {
                let cloexec = call.nr as i64 == libc::SYS_dup3 && c & libc::O_CLOEXEC as u64 != 0;
                self.duplicate(a32, ret as u64, cloexec);
            }
            libc::SYS_fcntl => match b as i32 {
                libc::F_DUPFD => self.duplicate(a32, ret as u64, false),
                libc::F_DUPFD_CLOEXEC => self.duplicate(a32, ret as u64, true),
                libc::F_SETFD => {
                    if let Some(e) = self.fds.get_mut(&a32) {
                        e.1 = c & libc::FD_CLOEXEC as u64 != 0;
                    }
                }
                _ => {}
            },
            libc::SYS_open | libc::SYS_openat | libc::SYS_creat => {
                let path = if call.nr as i64 == libc::SYS_openat {
                    b
                } else {
                    a
                };
                let mut name = [0; 32];
                let n = memory.read(path, &mut name);
                let end = name[..n].iter().position(|&c| c == 0).unwrap_or(n);
                let kind = match &name[..end] {
                    b"/dev/stdout" | b"/proc/self/fd/1" | b"/dev/fd/1" => {
                        self.fds.get(&1).map(|e| e.0)
                    }
                    b"/dev/stderr" | b"/proc/self/fd/2" | b"/dev/fd/2" => {
                        self.fds.get(&2).map(|e| e.0)
                    }
                    b"/dev/tty" => Some(OutputKind::Stdout),
                    _ => None,
                };
                match kind {
                    Some(kind) => self.fds.insert(ret as u64, (kind, false)),
                    None => self.fds.remove(&(ret as u64)),
                };
            }
            _ => {}
        }
        None
    }

    fn duplicate(&mut self, from: u64, to: u64, cloexec: bool) {
        if from == to {
            return;
        }
        match self.fds.get(&from).copied() {
            Some((kind, _)) => self.fds.insert(to, (kind, cloexec)),
            None => self.fds.remove(&to),
        };
    }
}
