//! The private world of an edited run.
//!
//! An edited run takes its results from the recording as long as it makes the same system calls.
//! At the first that differs it *departs*: it goes on against the real machine, but can change
//! nothing there. Files that it had open are opened again at their positions; those it writes are
//! copies in a folder that goes with the replay. What it prints goes to the caller. What cannot be
//! kept private (other processes, the network) fails with an error and is noted.

mod harmless;

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use abi::{Call, Class};

use crate::descriptors::{Kind, gather, text};
use crate::engine::Pending;
use crate::layout::slot;
use crate::process::Outcome;
use crate::replay::Replay;
use crate::signals::Disposition;
use crate::{End, Error, special};
use harmless::harmless;

/// Where and by which call an edited run left the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    pub step: u64,
    pub call: String,
}

/// What a run that has departed has of its own.
pub(crate) struct Private {
    pub(crate) departure: Departure,
    /// Made when the first copy is.
    folder: Option<PathBuf>,
    /// The descriptors are open in its process. Most experiments end without needing them.
    settled: bool,
    /// What stands in for each path; `None` for one that was removed.
    stands_in: HashMap<Vec<u8>, Option<PathBuf>>,
    pub(crate) notes: Vec<String>,
    copies: u32,
}

impl Drop for Private {
    fn drop(&mut self) {
        // Nothing of an experiment is left behind; a failure here is nobody's concern.
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Most that one call writes to standard output or error.
const LARGEST: u64 = 16 << 20;

/// Longest that a call may block when no limit was set.
const PATIENCE: Duration = Duration::from_secs(10);

impl Private {
    fn new(departure: Departure) -> Self {
        Private {
            departure,
            folder: None,
            settled: false,
            stands_in: HashMap::new(),
            notes: Vec::new(),
            copies: 0,
        }
    }

    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    fn fresh(&mut self) -> Result<PathBuf, Error> {
        self.copies += 1;
        let folder = match &self.folder {
            Some(folder) => folder,
            None => {
                static NEXT: AtomicU32 = AtomicU32::new(0);
                let n = NEXT.fetch_add(1, Ordering::Relaxed);
                let name = format!("wherefore-{}-{n}", std::process::id());
                let folder = std::env::temp_dir().join(name);
                fs::create_dir_all(&folder).map_err(Error::Disk)?;
                self.folder.insert(folder)
            }
        };
        Ok(folder.join(self.copies.to_string()))
    }

    /// The private copy of the file at `path`, made now if there is none.
    fn copy_of(&mut self, path: &[u8]) -> Result<PathBuf, Error> {
        if let Some(Some(p)) = self.stands_in.get(path) {
            return Ok(p.clone());
        }
        let removed = self.stands_in.get(path) == Some(&None);
        let copy = self.fresh()?;
        let original = PathBuf::from(std::ffi::OsStr::from_bytes(path));
        if !removed && original.is_file() {
            fs::copy(&original, &copy).map_err(Error::Disk)?;
        }
        self.stands_in.insert(path.to_vec(), Some(copy.clone()));
        Ok(copy)
    }
}

fn writes(flags: u64) -> bool {
    flags & libc::O_ACCMODE as u64 != libc::O_RDONLY as u64
        || flags & (libc::O_CREAT | libc::O_TRUNC) as u64 != 0
}

fn failed(errno: i32) -> i64 {
    -i64::from(errno)
}

/// Devices that take what is written to them and keep nothing.
fn keeps_nothing(path: &[u8]) -> bool {
    matches!(
        path,
        b"/dev/null" | b"/dev/zero" | b"/dev/full" | b"/dev/tty" | b"/dev/stdout" | b"/dev/stderr"
    )
}

impl Replay {
    /// Where the run left the recording, if it has.
    pub fn departure(&self) -> Option<&Departure> {
        self.private.as_ref().map(|p| &p.departure)
    }

    /// What the run was denied since it left the recording.
    pub fn denials(&self) -> &[String] {
        self.private.as_ref().map_or(&[], |p| &p.notes)
    }

    /// Leaves the recording at the call at hand.
    pub(crate) fn depart(&mut self, call: &Call) -> Result<(), Error> {
        if self.engine.threads.several() {
            return Err(Error::Unsupported(
                "leaving the recording in a program with several threads",
            ));
        }
        let departure = Departure {
            step: self.engine.step()?,
            call: abi::describe(call, None),
        };
        self.private = Some(Private::new(departure));
        self.next = None;
        Ok(())
    }

    /// Opens the guest's descriptors in its process, as far as they can be had.
    fn settle(&mut self) -> Result<(), Error> {
        let Some(mut private) = self.private.take_if(|p| !p.settled) else {
            return Ok(());
        };
        private.settled = true;
        let open: Vec<_> = self
            .descriptors
            .open
            .iter()
            .map(|(fd, d)| (*fd, d.clone()))
            .collect();
        let mut pipes = HashMap::new();
        // The engine's process has descriptors of its own (none that it needs): they make room.
        self.engine
            .inject(libc::SYS_close_range, [0, u64::from(u32::MAX), 0, 0, 0, 0])?;
        let cwd = self.descriptors.cwd.clone();
        self.with_path(&cwd, |this, at| {
            this.engine.inject(libc::SYS_chdir, [at, 0, 0, 0, 0, 0])
        })?;
        for (fd, d) in open {
            match d.kind {
                // Writes to these are caught; something must be open there all the same.
                Kind::Output(_) => self.open_at(fd, b"/dev/null", libc::O_RDWR as u64, 0)?,
                Kind::File { path, flags } => {
                    let (path, flags) = if writes(flags) {
                        let keep = (libc::O_ACCMODE | libc::O_APPEND) as u64;
                        let copy = private.copy_of(&path)?;
                        if !copy.exists() {
                            fs::write(&copy, b"").map_err(Error::Disk)?;
                        }
                        (copy.as_os_str().as_bytes().to_vec(), flags & keep)
                    } else {
                        (path, flags & (libc::O_DIRECTORY | libc::O_PATH) as u64)
                    };
                    if !self.open_at(fd, &path, flags, d.position)? {
                        private.note(format!("{} is gone", String::from_utf8_lossy(&path)));
                    }
                    true
                }
                Kind::Pipe { pair, write } => {
                    let ends = match pipes.get(&pair) {
                        Some(&ends) => ends,
                        None => {
                            let scratch = self.engine.page + u64::from(slot::SCRATCH);
                            self.engine
                                .inject(libc::SYS_pipe2, [scratch, 0, 0, 0, 0, 0])?;
                            let word = self.engine.memory.read_u64(scratch)?;
                            let ends = self.move_high(word & 0xffff_ffff, word >> 32)?;
                            pipes.insert(pair, ends);
                            ends
                        }
                    };
                    let end = if write { ends.1 } else { ends.0 };
                    self.engine.inject(libc::SYS_dup2, [end, fd, 0, 0, 0, 0])?;
                    true
                }
                Kind::Other => {
                    // Reading finds the end of the file, as at the end of the input.
                    if fd == 0 {
                        self.open_at(fd, b"/dev/null", 0, 0)?;
                    } else {
                        private.note(format!("descriptor {fd} cannot be had again and is closed"));
                    }
                    true
                }
            };
        }
        for (a, b) in pipes.into_values() {
            self.engine.inject(libc::SYS_close, [a, 0, 0, 0, 0, 0])?;
            self.engine.inject(libc::SYS_close, [b, 0, 0, 0, 0, 0])?;
        }
        self.private = Some(private);
        Ok(())
    }

    /// Out of the way of the guest's own numbers.
    fn move_high(&mut self, a: u64, b: u64) -> Result<(u64, u64), Error> {
        let mut high = [0; 2];
        for (to, from) in high.iter_mut().zip([a, b]) {
            let fd = self
                .engine
                .inject(libc::SYS_fcntl, [from, libc::F_DUPFD as u64, 500, 0, 0, 0])?;
            *to = u64::try_from(fd)
                .map_err(|_| Error::Internal("no descriptor for a pipe".into()))?;
            self.engine.inject(libc::SYS_close, [from, 0, 0, 0, 0, 0])?;
        }
        Ok((high[0], high[1]))
    }

    fn with_path(
        &mut self,
        path: &[u8],
        f: impl FnOnce(&mut Self, u64) -> Result<i64, Error>,
    ) -> Result<i64, Error> {
        let mut bytes = path.to_vec();
        bytes.push(0);
        if bytes.len() > slot::SCRATCH_LEN {
            return Ok(failed(libc::ENAMETOOLONG));
        }
        let scratch = self.engine.page + u64::from(slot::SCRATCH);
        self.engine.memory.write(scratch, &bytes)?;
        f(self, scratch)
    }

    fn open_at(&mut self, fd: u64, path: &[u8], flags: u64, position: u64) -> Result<bool, Error> {
        let got = self.with_path(path, |this, at| {
            this.engine.inject(
                libc::SYS_openat,
                [libc::AT_FDCWD as u64, at, flags, 0, 0, 0],
            )
        })?;
        let Ok(got) = u64::try_from(got) else {
            return Ok(false);
        };
        if got != fd {
            self.engine.inject(libc::SYS_dup2, [got, fd, 0, 0, 0, 0])?;
            self.engine.inject(libc::SYS_close, [got, 0, 0, 0, 0, 0])?;
        }
        if position != 0 {
            self.engine
                .inject(libc::SYS_lseek, [fd, position, 0, 0, 0, 0])?;
        }
        Ok(true)
    }

    // ---- system calls ------------------------------------------------------------------------

    /// Carries out a call of a run that has departed.
    pub(crate) fn private_call(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let nr = call.nr as i64;
        if let Some(ret) = self.unsettled_result(call) {
            self.forward(call, ret);
            self.engine.return_from_call(ret);
            return Ok(None);
        }
        if !self.concerns_no_descriptor(call) {
            self.settle()?;
        }
        if let Some(ret) = self.private_result(call)? {
            self.forward(call, ret);
            self.engine.return_from_call(ret);
            return Ok(None);
        }
        match nr {
            libc::SYS_exit | libc::SYS_exit_group => {
                self.engine.stats.steps = self.engine.step()?;
                return Ok(Some(End::Exited(call.args[0] as i32 & 0xff)));
            }
            libc::SYS_rt_sigreturn => {
                self.engine.sigreturn()?;
                return Ok(None);
            }
            _ => {}
        }
        for a in call.args {
            self.engine.release_page(a >> 12)?;
        }
        let action = self.engine.sigaction_argument(call);
        let outcome = self.patient_call(call)?;
        match outcome {
            Outcome::Returned(ret) => {
                if let (Some(act), true) = (action, ret == 0) {
                    self.engine.dispositions.set(call.args[0], &act);
                }
                match nr {
                    libc::SYS_arch_prctl => {
                        self.engine.regs.fs_base = self.engine.tracee.regs()?.fs_base
                    }
                    libc::SYS_rt_sigprocmask => self.engine.keep_trap_open()?,
                    _ => {}
                }
                if abi::class(call) == Class::AddressSpace {
                    self.engine.note_address_space(call, ret);
                }
                self.forward(call, ret);
                self.engine.return_from_call(ret);
                Ok(None)
            }
            Outcome::Interrupted(code) => {
                let Some(p) = self.engine.pending.pop_back() else {
                    return Err(Error::Lost);
                };
                match self.engine.dispositions.of(p.signal) {
                    Disposition::Handler { restart } => {
                        self.engine.finish_interrupted(call, code, restart);
                        match self.engine.deliver(&p)? {
                            None => Ok(None),
                            Some(second) => self.fault(second),
                        }
                    }
                    _ => self.die(&p).map(Some),
                }
            }
            Outcome::NotMade => self.engine.before_call().map(|()| None),
            Outcome::Event(_) | Outcome::Ended(_) => Err(Error::Lost),
        }
    }

    /// The call works the same whether the guest's descriptors are open or not.
    fn concerns_no_descriptor(&self, call: &Call) -> bool {
        let anonymous = call.args[3] & libc::MAP_ANONYMOUS as u64 != 0;
        match call.nr as i64 {
            libc::SYS_write | libc::SYS_writev => self.descriptors.output(call.args[0]).is_some(),
            libc::SYS_mmap => anonymous,
            libc::SYS_exit
            | libc::SYS_exit_group
            | libc::SYS_brk
            | libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_getpid
            | libc::SYS_gettid
            | libc::SYS_kill
            | libc::SYS_tgkill
            | libc::SYS_rt_sigaction
            | libc::SYS_rt_sigprocmask
            | libc::SYS_rt_sigreturn => true,
            _ => false,
        }
    }

    /// The result of a call that only moves or closes a descriptor, while none is open in the guest's process. A
    /// program that ends without having read all of its input makes such a call, and no other.
    fn unsettled_result(&self, call: &Call) -> Option<i64> {
        if self.private.as_ref().is_none_or(|p| p.settled) {
            return None;
        }
        let [fd, offset, whence, ..] = call.args;
        let d = self.descriptors.open.get(&fd)?;
        match (call.nr as i64, &d.kind) {
            (libc::SYS_close, _) => Some(0),
            (libc::SYS_lseek, Kind::File { path, .. }) => {
                let from = match whence as i32 {
                    libc::SEEK_SET => 0,
                    libc::SEEK_CUR => d.position,
                    _ => return None,
                };
                let path = std::ffi::OsStr::from_bytes(path);
                fs::metadata(path).ok().filter(|m| m.is_file())?;
                let to = i64::try_from(from).ok()?.checked_add(offset as i64)?;
                Some(if to < 0 { failed(libc::EINVAL) } else { to })
            }
            _ => None,
        }
    }

    /// Waits for a call no longer than the limits allow.
    fn patient_call(&mut self, call: &Call) -> Result<Outcome, Error> {
        let deadline = Instant::now() + self.limits.time.min(PATIENCE);
        self.engine.begin_call(call)?;
        let mut pause = Duration::ZERO;
        loop {
            if let Some(outcome) = self.engine.poll_call()? {
                return Ok(outcome);
            }
            // The guest may need the CPU that this runs on.
            if pause.is_zero() {
                std::thread::yield_now();
                pause = Duration::from_micros(5);
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            }
            if Instant::now() > deadline {
                return Err(Error::Request(format!(
                    "{} blocks for too long",
                    abi::describe(call, None)
                )));
            }
        }
    }

    /// The result of a call that is not, or not as it stands, passed on to the kernel.
    fn private_result(&mut self, call: &Call) -> Result<Option<i64>, Error> {
        let nr = call.nr as i64;
        let [a, b, c, ..] = call.args;
        let believed = self.pid as i64;
        Ok(Some(match nr {
            libc::SYS_write | libc::SYS_pwrite64 if self.descriptors.output(a).is_some() => {
                // A length that has gone wrong ends where the memory does, or far before that.
                let mut bytes = vec![0; c.min(LARGEST) as usize];
                match self.engine.memory.read(b, &mut bytes) {
                    0 if c > 0 => failed(libc::EFAULT),
                    n => n as i64,
                }
            }
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2
                if self.descriptors.output(a).is_some() =>
            {
                gather(b, c, LARGEST as usize, &self.engine.memory).len() as i64
            }
            libc::SYS_getpid | libc::SYS_gettid | libc::SYS_set_tid_address => believed,
            libc::SYS_kill | libc::SYS_tkill if a as i64 == believed || a == 0 => {
                self.send_self(b, -1)?
            }
            libc::SYS_tgkill if a as i64 == believed => self.send_self(c, -6)?,
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep | libc::SYS_sched_yield => 0,
            libc::SYS_brk => self.private_brk(a)?,
            libc::SYS_wait4 | libc::SYS_waitid => failed(libc::ECHILD),
            libc::SYS_fork
            | libc::SYS_vfork
            | libc::SYS_clone
            | libc::SYS_clone3
            | libc::SYS_execve
            | libc::SYS_execveat => self.deny(call, libc::EAGAIN),
            libc::SYS_unlink => self.remove(libc::AT_FDCWD as u64, a)?,
            libc::SYS_unlinkat => self.remove(a, b)?,
            libc::SYS_rename => self.rename(libc::AT_FDCWD as u64, a, libc::AT_FDCWD as u64, b)?,
            libc::SYS_renameat | libc::SYS_renameat2 => self.rename(a, b, c, call.args[3])?,
            // Attributes of files are not kept privately; nobody else sees that they are not set.
            libc::SYS_chmod
            | libc::SYS_fchmod
            | libc::SYS_fchmodat
            | libc::SYS_chown
            | libc::SYS_fchown
            | libc::SYS_lchown
            | libc::SYS_fchownat
            | libc::SYS_utime
            | libc::SYS_utimes
            | libc::SYS_futimesat
            | libc::SYS_utimensat
            | libc::SYS_setxattr
            | libc::SYS_lsetxattr
            | libc::SYS_fsetxattr
            | libc::SYS_removexattr
            | libc::SYS_lremovexattr
            | libc::SYS_fremovexattr => 0,
            libc::SYS_open => {
                return self
                    .private_open(call, libc::AT_FDCWD as u64, a, b, 1)
                    .map(Some);
            }
            libc::SYS_creat => {
                let flags = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
                return self
                    .private_open(call, libc::AT_FDCWD as u64, a, flags, 1)
                    .map(Some);
            }
            libc::SYS_openat => return self.private_open(call, a, b, c, 2).map(Some),
            libc::SYS_openat2 | libc::SYS_open_by_handle_at => self.deny(call, libc::ENOSYS),
            libc::SYS_truncate => {
                let path = self
                    .descriptors
                    .absolute(libc::AT_FDCWD as u64, &text(a, &self.engine.memory));
                let copy = self.private()?.copy_of(&path)?;
                match fs::File::options()
                    .write(true)
                    .open(copy)
                    .and_then(|f| f.set_len(b))
                {
                    Ok(()) => 0,
                    Err(e) => failed(e.raw_os_error().unwrap_or(libc::EIO)),
                }
            }
            libc::SYS_stat
            | libc::SYS_lstat
            | libc::SYS_access
            | libc::SYS_readlink
            | libc::SYS_statfs
            | libc::SYS_chdir => {
                return self.redirected(call, libc::AT_FDCWD as u64, 0);
            }
            libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_faccessat
            | libc::SYS_faccessat2
            | libc::SYS_readlinkat => {
                return self.redirected(call, a, 1);
            }
            _ => match abi::class(call) {
                Class::Refused { errno, .. } => failed(errno),
                Class::Outside if !harmless(call) => self.deny(call, libc::EACCES),
                _ => return Ok(None),
            },
        }))
    }

    fn private(&mut self) -> Result<&mut Private, Error> {
        self.private
            .as_mut()
            .ok_or_else(|| Error::Internal("no private world".into()))
    }

    fn deny(&mut self, call: &Call, errno: i32) -> i64 {
        if let Some(p) = &mut self.private {
            let name = abi::errno::name(errno).unwrap_or("an error");
            p.note(format!(
                "{} fails with {name}: it cannot be kept private",
                abi::describe(call, None)
            ));
        }
        failed(errno)
    }

    /// The guest sends a signal to itself.
    fn send_self(&mut self, signal: u64, code: i32) -> Result<i64, Error> {
        if signal == 0 {
            return Ok(0);
        }
        if signal > 64 {
            return Ok(failed(libc::EINVAL));
        }
        let mut info = [0; 128];
        info[..4].copy_from_slice(&(signal as i32).to_le_bytes());
        info[8..12].copy_from_slice(&code.to_le_bytes());
        info[16..20].copy_from_slice(&(self.pid as u32).to_le_bytes());
        self.to_deliver.push_back(Pending {
            signal: signal as i32,
            info,
        });
        Ok(0)
    }

    fn private_brk(&mut self, to: u64) -> Result<i64, Error> {
        let (old, new) = ((self.brk + 0xfff) & !0xfff, (to + 0xfff) & !0xfff);
        if to == 0 || to < 0x1000 {
            return Ok(self.brk as i64);
        }
        if new > old {
            let flags =
                (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
            if self
                .engine
                .inject(libc::SYS_mmap, [old, new - old, 3, flags, u64::MAX, 0])?
                < 0
            {
                return Ok(self.brk as i64);
            }
        } else if new < old {
            self.engine
                .inject(libc::SYS_munmap, [new, old - new, 0, 0, 0, 0])?;
        }
        self.engine.changed(new.min(old), new.max(old));
        self.brk = to;
        Ok(to as i64)
    }

    fn private_open(
        &mut self,
        call: &Call,
        dir: u64,
        path: u64,
        flags: u64,
        flags_at: usize,
    ) -> Result<i64, Error> {
        let name = text(path, &self.engine.memory);
        let absolute = self.descriptors.absolute(dir, &name);
        let known = self.private()?.stands_in.get(&absolute).cloned();
        let special = absolute.starts_with(b"/dev/")
            || absolute.starts_with(b"/proc/")
            || absolute.starts_with(b"/sys/");
        if special && writes(flags) && !keeps_nothing(&absolute) {
            return Ok(self.deny(call, libc::EACCES));
        }
        let target = match known {
            Some(None) if flags & libc::O_CREAT as u64 == 0 => return Ok(failed(libc::ENOENT)),
            Some(Some(copy)) => Some(copy),
            _ if !special && writes(flags) => {
                let original = PathBuf::from(std::ffi::OsStr::from_bytes(&absolute));
                let there = original.exists() && known.is_none();
                if !there && flags & libc::O_CREAT as u64 == 0 {
                    return Ok(failed(libc::ENOENT));
                }
                if there && flags & libc::O_EXCL as u64 != 0 {
                    return Ok(failed(libc::EEXIST));
                }
                if !there && !original.parent().is_some_and(|p| p.is_dir()) {
                    return Ok(failed(libc::ENOENT));
                }
                if original.is_dir() {
                    return Ok(failed(libc::EISDIR));
                }
                Some(self.private()?.copy_of(&absolute)?)
            }
            _ => None,
        };
        let mode = call.args[flags_at + 1];
        let bytes = match &target {
            Some(copy) => copy.as_os_str().as_bytes().to_vec(),
            None => absolute,
        };
        // A copy is there or not by our doing; the guest's O_EXCL has been judged above.
        let flags = if target.is_some() {
            flags & !(libc::O_EXCL as u64)
        } else {
            flags
        };
        self.with_path(&bytes, |this, at| {
            this.engine.inject(
                libc::SYS_openat,
                [libc::AT_FDCWD as u64, at, flags, mode, 0, 0],
            )
        })
    }

    /// A call that looks at a path: at what stands in for it, if something does.
    fn redirected(&mut self, call: &Call, dir: u64, index: usize) -> Result<Option<i64>, Error> {
        let name = text(call.args[index], &self.engine.memory);
        if name.is_empty() {
            return Ok(None);
        }
        let absolute = self.descriptors.absolute(dir, &name);
        match self.private()?.stands_in.get(&absolute).cloned() {
            None => Ok(None),
            Some(None) => Ok(Some(failed(libc::ENOENT))),
            Some(Some(copy)) => {
                let mut args = call.args;
                self.with_path(copy.as_os_str().as_bytes(), |this, at| {
                    args[index] = at;
                    this.engine.inject(call.nr as i64, args)
                })
                .map(Some)
            }
        }
    }

    fn remove(&mut self, dir: u64, path: u64) -> Result<i64, Error> {
        let absolute = self
            .descriptors
            .absolute(dir, &text(path, &self.engine.memory));
        let original = PathBuf::from(std::ffi::OsStr::from_bytes(&absolute));
        let private = self.private()?;
        let there = match private.stands_in.get(&absolute) {
            Some(s) => s.is_some(),
            None => original.exists(),
        };
        if !there {
            return Ok(failed(libc::ENOENT));
        }
        private.stands_in.insert(absolute, None);
        Ok(0)
    }

    fn rename(&mut self, from_dir: u64, from: u64, to_dir: u64, to: u64) -> Result<i64, Error> {
        let from = self
            .descriptors
            .absolute(from_dir, &text(from, &self.engine.memory));
        let to = self
            .descriptors
            .absolute(to_dir, &text(to, &self.engine.memory));
        let private = self.private()?;
        let original = PathBuf::from(std::ffi::OsStr::from_bytes(&from));
        if private.stands_in.get(&from) == Some(&None)
            || (!private.stands_in.contains_key(&from) && !original.exists())
        {
            return Ok(failed(libc::ENOENT));
        }
        if original.is_dir() {
            return Ok(failed(libc::EACCES));
        }
        let copy = private.copy_of(&from)?;
        private.stands_in.insert(to, Some(copy));
        private.stands_in.insert(from, None);
        Ok(0)
    }

    /// Signals that the edited guest has brought upon itself.
    pub(crate) fn own_signals(&mut self) -> Result<Option<End>, Error> {
        while let Some(p) = self.to_deliver.pop_front() {
            if !self.heeds(p.signal)? {
                continue;
            }
            if self.engine.dispositions.of(p.signal) == Disposition::Fatal {
                return self.die(&p).map(Some);
            }
            if let Some(second) = self.engine.deliver(&p)? {
                return self.fault(second);
            }
        }
        Ok(None)
    }

    /// The guest dies of a signal, or has a handler for it that is not blocked.
    pub(crate) fn heeds(&self, signal: i32) -> Result<bool, Error> {
        Ok(match self.engine.dispositions.of(signal) {
            Disposition::Ignore | Disposition::Stop => false,
            Disposition::Fatal => true,
            Disposition::Handler { .. } => self.engine.believed_mask()? >> (signal - 1) & 1 == 0,
        })
    }

    /// An instruction whose result comes from outside, after the departure.
    pub(crate) fn private_special(
        &mut self,
        insn: &iced_x86::Instruction,
        source: special::Source,
    ) -> Result<(), Error> {
        let words = special::ask(source, &self.engine.regs);
        special::apply(&mut self.engine, insn, source, words)
    }
}
