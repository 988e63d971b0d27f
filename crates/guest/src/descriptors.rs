//! What the guest has open, as far as a replay can tell.
//!
//! A replay opens nothing, but it must know two things about the guest's descriptors: which of
//! them are its standard output and error, through any number of `dup`s, to show the output again;
//! and what the others are, for the moment at which an edited run leaves the recording and goes on
//! with files of its own.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

use abi::{Call, Memory};

use crate::replay::OutputKind;

/// What stands for the working directory among the descriptors, as it does in calls.
const CWD: u64 = libc::AT_FDCWD as u64;

/// A descriptor that the guest was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inherited {
    pub(crate) fd: u64,
    pub(crate) flags: u64,
    pub(crate) position: u64,
    /// What the link in `/proc/PID/fd` says.
    pub(crate) path: Vec<u8>,
}

/// The descriptors of a process, as they stand, and its working directory.
pub(crate) fn inherited(pid: i32) -> Vec<Inherited> {
    let mut out = Vec::new();
    if let Ok(path) = std::fs::read_link(format!("/proc/{pid}/cwd")) {
        out.push(Inherited {
            fd: CWD,
            flags: 0,
            position: 0,
            path: path.as_os_str().as_bytes().to_vec(),
        });
    }
    let Ok(dir) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return out;
    };
    for entry in dir.flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let Ok(path) = std::fs::read_link(entry.path()) else {
            continue;
        };
        let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
        let field = |name: &str| {
            info.lines()
                .find_map(|l| l.strip_prefix(name))
                .map(str::trim)
        };
        let position = field("pos:").and_then(|v| v.parse().ok()).unwrap_or(0);
        let flags = field("flags:")
            .and_then(|v| u64::from_str_radix(v, 8).ok())
            .unwrap_or(0);
        out.push(Inherited {
            fd,
            flags,
            position,
            path: path.as_os_str().as_bytes().to_vec(),
        });
    }
    out.sort_by_key(|i| i.fd);
    out
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Output(OutputKind),
    /// An open file, by path.
    File {
        path: Vec<u8>,
        flags: u64,
    },
    /// One end of a pipe of the guest's own; both ends have the same number.
    Pipe {
        pair: u64,
        write: bool,
    },
    /// Something that cannot be had again: a socket, an event descriptor, a terminal.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) kind: Kind,
    pub(crate) position: u64,
    close_on_exec: bool,
    /// Descriptors made by `dup` from one another share this.
    pub(crate) description: u64,
}

/// The guest's descriptors and working directory.
#[derive(Clone, Debug)]
pub(crate) struct Descriptors {
    pub(crate) open: BTreeMap<u64, Descriptor>,
    pub(crate) cwd: Vec<u8>,
    next: u64,
}

impl Descriptors {
    pub(crate) fn new(inherited: &[Inherited]) -> Self {
        let mut this = Descriptors {
            open: BTreeMap::new(),
            cwd: b"/".to_vec(),
            next: 0,
        };
        for i in inherited {
            if i.fd == CWD {
                this.cwd.clone_from(&i.path);
                continue;
            }
            let kind = match i.fd {
                1 => Kind::Output(OutputKind::Stdout),
                2 => Kind::Output(OutputKind::Stderr),
                _ if i.path.starts_with(b"/") && !i.path.starts_with(b"/dev/") => Kind::File {
                    path: i.path.clone(),
                    flags: i.flags,
                },
                _ => Kind::Other,
            };
            this.insert(
                i.fd,
                kind,
                i.position,
                i.flags & libc::O_CLOEXEC as u64 != 0,
            );
        }
        this
    }

    fn insert(&mut self, fd: u64, kind: Kind, position: u64, close_on_exec: bool) {
        self.next += 1;
        let description = self.next;
        self.open.insert(
            fd,
            Descriptor {
                kind,
                position,
                close_on_exec,
                description,
            },
        );
    }

    /// A new image keeps only what is not closed on exec.
    pub(crate) fn exec(&mut self) {
        self.open.retain(|_, d| !d.close_on_exec);
    }

    pub(crate) fn output(&self, fd: u64) -> Option<OutputKind> {
        match self.open.get(&(fd & 0xffff_ffff))?.kind {
            Kind::Output(kind) => Some(kind),
            _ => None,
        }
    }

    /// `path` as the guest means it, relative to descriptor `dir`.
    pub(crate) fn absolute(&self, dir: u64, path: &[u8]) -> Vec<u8> {
        if path.starts_with(b"/") {
            return path.to_vec();
        }
        let base = if dir as i32 == libc::AT_FDCWD {
            self.cwd.clone()
        } else {
            match self.open.get(&(dir & 0xffff_ffff)).map(|d| &d.kind) {
                Some(Kind::File { path, .. }) => path.clone(),
                _ => self.cwd.clone(),
            }
        };
        [base.as_slice(), b"/", path].concat()
    }

    fn moved(&mut self, fd: u64, by: impl Fn(u64) -> u64) {
        let Some(d) = self.open.get(&fd) else { return };
        let description = d.description;
        for d in self
            .open
            .values_mut()
            .filter(|d| d.description == description)
        {
            d.position = by(d.position);
        }
    }

    /// Follows `call`; returns what it put out, if it did.
    pub(crate) fn follow(
        &mut self,
        call: &Call,
        ret: i64,
        memory: &dyn Memory,
    ) -> Option<(OutputKind, Vec<u8>)> {
        if ret < 0 {
            return None;
        }
        let [a, b, c, d, ..] = call.args;
        let fd = a & 0xffff_ffff;
        let new = ret as u64;
        match call.nr as i64 {
            libc::SYS_write | libc::SYS_pwrite64 => {
                let kind = self.output(fd);
                if call.nr as i64 == libc::SYS_write {
                    self.moved(fd, |p| p + new);
                }
                let kind = kind?;
                let mut bytes = vec![0; ret as usize];
                let n = memory.read(b, &mut bytes);
                bytes.truncate(n);
                return Some((kind, bytes));
            }
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
                let kind = self.output(fd);
                if call.nr as i64 == libc::SYS_writev {
                    self.moved(fd, |p| p + new);
                }
                return Some((kind?, gather(b, c, new as usize, memory)));
            }
            libc::SYS_read | libc::SYS_readv | libc::SYS_getdents64 => self.moved(fd, |p| p + new),
            libc::SYS_lseek => self.moved(fd, |_| new),
            nr if !changes_descriptors(nr) => {}
            libc::SYS_close => {
                self.open.remove(&fd);
            }
            libc::SYS_close_range if c & 4 == 0 => {
                self.open.retain(|&n, _| n < fd || n > (b & 0xffff_ffff));
            }
            libc::SYS_dup | libc::SYS_dup2 => self.duplicate(fd, new, false),
            libc::SYS_dup3 => self.duplicate(fd, new, c & libc::O_CLOEXEC as u64 != 0),
            libc::SYS_fcntl => match b as i32 {
                libc::F_DUPFD => self.duplicate(fd, new, false),
                libc::F_DUPFD_CLOEXEC => self.duplicate(fd, new, true),
                libc::F_SETFD => {
                    if let Some(e) = self.open.get_mut(&fd) {
                        e.close_on_exec = c & libc::FD_CLOEXEC as u64 != 0;
                    }
                }
                _ => {}
            },
            libc::SYS_open => self.opened(libc::AT_FDCWD as u64, a, b, new, memory),
            libc::SYS_creat => {
                let flags = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
                self.opened(libc::AT_FDCWD as u64, a, flags, new, memory);
            }
            libc::SYS_openat => self.opened(a, b, c, new, memory),
            libc::SYS_openat2 => self.opened(a, b, 0, new, memory),
            libc::SYS_pipe | libc::SYS_pipe2 => {
                let mut fds = [0; 8];
                if memory.read(a, &mut fds) == 8 {
                    self.next += 1;
                    let (pair, cloexec) = (self.next, b & libc::O_CLOEXEC as u64 != 0);
                    for (half, write) in fds.chunks_exact(4).zip([false, true]) {
                        let fd = u32::from_le_bytes(half.try_into().expect("four bytes"));
                        self.insert(u64::from(fd), Kind::Pipe { pair, write }, 0, cloexec);
                    }
                }
            }
            libc::SYS_chdir => self.cwd = self.absolute(libc::AT_FDCWD as u64, &text(a, memory)),
            libc::SYS_fchdir => {
                if let Some(Kind::File { path, .. }) = self.open.get(&fd).map(|d| d.kind.clone()) {
                    self.cwd = path;
                }
            }
            libc::SYS_getcwd => self.cwd = text(a, memory),
            libc::SYS_socket
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_epoll_create
            | libc::SYS_epoll_create1
            | libc::SYS_timerfd_create
            | libc::SYS_signalfd
            | libc::SYS_signalfd4
            | libc::SYS_inotify_init
            | libc::SYS_inotify_init1
            | libc::SYS_memfd_create
            | libc::SYS_pidfd_open => {
                self.insert(new, Kind::Other, 0, d & libc::O_CLOEXEC as u64 != 0)
            }
            _ => {}
        }
        None
    }

    /// The call can be followed any time before the next one that cannot: it neither shows output nor makes another
    /// descriptor, nor is anything read for it.
    pub(crate) fn can_wait(&self, call: &Call) -> bool {
        match call.nr as i64 {
            libc::SYS_write | libc::SYS_pwrite64 => self.output(call.args[0]).is_none(),
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => false,
            // What is closed is not written to, until it is something else.
            libc::SYS_close => true,
            libc::SYS_fcntl => {
                ![libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(call.args[1] as i32))
            }
            nr => !changes_descriptors(nr),
        }
    }

    fn opened(&mut self, dir: u64, path: u64, flags: u64, fd: u64, memory: &dyn Memory) {
        let name = text(path, memory);
        let kind = match name.as_slice() {
            b"/dev/stdout" | b"/proc/self/fd/1" | b"/dev/fd/1" => self.output(1).map(Kind::Output),
            b"/dev/stderr" | b"/proc/self/fd/2" | b"/dev/fd/2" => self.output(2).map(Kind::Output),
            b"/dev/tty" => Some(Kind::Output(OutputKind::Stdout)),
            _ => None,
        };
        let kind = kind.unwrap_or_else(|| Kind::File {
            path: self.absolute(dir, &name),
            flags,
        });
        self.insert(fd, kind, 0, flags & libc::O_CLOEXEC as u64 != 0);
    }

    fn duplicate(&mut self, from: u64, to: u64, close_on_exec: bool) {
        if from == to {
            return;
        }
        match self.open.get(&from).cloned() {
            Some(d) => self.open.insert(to, Descriptor { close_on_exec, ..d }),
            None => self.open.remove(&to),
        };
    }
}

/// Calls after which other descriptors are open, or relative names mean something else.
fn changes_descriptors(nr: i64) -> bool {
    matches!(
        nr,
        libc::SYS_close
            | libc::SYS_close_range
            | libc::SYS_dup
            | libc::SYS_dup2
            | libc::SYS_dup3
            | libc::SYS_fcntl
            | libc::SYS_open
            | libc::SYS_creat
            | libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_pipe
            | libc::SYS_pipe2
            | libc::SYS_chdir
            | libc::SYS_fchdir
            | libc::SYS_getcwd
            | libc::SYS_socket
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_epoll_create
            | libc::SYS_epoll_create1
            | libc::SYS_timerfd_create
            | libc::SYS_signalfd
            | libc::SYS_signalfd4
            | libc::SYS_inotify_init
            | libc::SYS_inotify_init1
            | libc::SYS_memfd_create
            | libc::SYS_pidfd_open
    )
}

/// A C string of the guest's.
pub(crate) fn text(addr: u64, memory: &dyn Memory) -> Vec<u8> {
    let mut out = vec![0; 4096];
    let n = memory.read(addr, &mut out);
    let end = out[..n].iter().position(|&c| c == 0).unwrap_or(n);
    out.truncate(end);
    out
}

/// The bytes of an I/O vector, at most `most`.
pub(crate) fn gather(vector: u64, count: u64, most: usize, memory: &dyn Memory) -> Vec<u8> {
    let mut out = Vec::new();
    for i in 0..count.min(1024) {
        let mut iov = [0; 16];
        if memory.read(vector.wrapping_add(16 * i), &mut iov) != 16 {
            break;
        }
        let base = u64::from_le_bytes(iov[..8].try_into().expect("eight bytes"));
        let len = u64::from_le_bytes(iov[8..].try_into().expect("eight bytes"));
        let mut part = vec![0; (len as usize).min(most - out.len())];
        let n = memory.read(base, &mut part);
        out.extend_from_slice(&part[..n]);
    }
    out
}
