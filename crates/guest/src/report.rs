//! What the engine tells its callers: errors, how a guest ended, what it cost.

use std::collections::HashMap;
use std::path::PathBuf;
use std::{fmt, io};

use crate::engine::{Engine, Pending};
use crate::maps::Mapping;
use crate::ptrace::UserRegs;
use crate::threads::{ThreadId, ThreadView};

/// What can go wrong, by who is at fault.
#[derive(Debug)]
pub enum Error {
    /// The program cannot be started.
    Exec(PathBuf, io::Error),
    /// The program needs something that the engine does not do.
    Unsupported(&'static str),
    /// The guest disappeared: killed from outside.
    Lost,
    /// Guest memory that is not there.
    Unmapped(u64),
    /// The recording cannot be opened or created.
    Recording(PathBuf, io::Error),
    /// The recording is not what it should be.
    Damaged(&'static str),
    Version {
        found: u32,
        known: u32,
    },
    Machine,
    /// A file that belongs to the recording is gone.
    MissingFile(PathBuf),
    /// A file of the guest's cannot be read, so that it cannot be kept.
    Unreadable(PathBuf),
    /// A replay did something else than the recording.
    Diverged(String),
    /// Writing the recording failed.
    Disk(io::Error),
    /// A system call of the tracer's failed.
    Os(&'static str, io::Error),
    /// The guest has ended; only going back makes sense.
    Ended,
    NoCheckpoint(u32),
    /// A request that does not fit the guest's state.
    Request(String),
    /// A mistake in the engine.
    Internal(String),
}

impl Error {
    pub(crate) fn damaged(what: &'static str) -> Self {
        Error::Damaged(what)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Exec(p, e) => write!(f, "cannot run {}: {}", p.display(), explain_exec(e)),
            Error::Unsupported(what) => write!(f, "{what} is not supported"),
            Error::Lost => write!(f, "the guest was killed from outside"),
            Error::Unmapped(a) => write!(f, "there is no guest memory at {a:#x}"),
            Error::Recording(p, e) => write!(f, "cannot use the recording {}: {e}", p.display()),
            Error::Damaged(what) => write!(f, "the recording is damaged: {what}"),
            Error::Version { found, known } => {
                write!(
                    f,
                    "the recording has format {found}, this version of wherefore knows {known}: record again"
                )
            }
            Error::Machine => {
                write!(
                    f,
                    "the recording was made on a machine with other CPU features; replay it there"
                )
            }
            Error::MissingFile(p) => write!(f, "the recording lacks {}", p.display()),
            Error::Unreadable(p) => {
                write!(
                    f,
                    "cannot read {}, which the guest maps; give yourself read permission",
                    p.display()
                )
            }
            Error::Diverged(what) => write!(f, "the replay diverged from the recording: {what}"),
            Error::Disk(e) => write!(f, "cannot write or read the recording: {e}"),
            Error::Os(what, e) => write!(f, "{what} failed: {e}"),
            Error::Ended => write!(f, "the guest has ended; go back first"),
            Error::NoCheckpoint(id) => write!(f, "there is no checkpoint {id}"),
            Error::Request(what) => f.write_str(what),
            Error::Internal(what) => {
                write!(f, "the engine made a mistake: {what}; please report it")
            }
        }
    }
}

fn explain_exec(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::ENOEXEC) => "it is neither an ELF program nor a script with a #! line".into(),
        Some(libc::ENOENT) => "it, or the interpreter it names, does not exist".into(),
        _ => e.to_string(),
    }
}

impl std::error::Error for Error {}

/// How the guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Killed(i32),
    /// No thread could run, and none waited for anything outside: it was ended.
    Deadlocked,
}

/// The status of a stopped process: no process ends with it.
const DEADLOCKED: i64 = 0x7f;

impl End {
    pub(crate) fn to_wait_status(self) -> i64 {
        match self {
            End::Exited(code) => i64::from(code) << 8,
            End::Killed(sig) => i64::from(sig),
            End::Deadlocked => DEADLOCKED,
        }
    }

    pub(crate) fn from_wait_status(status: i64) -> Result<Self, Error> {
        match status {
            DEADLOCKED => Ok(End::Deadlocked),
            0..=0xffff if status & 0xff == 0 => Ok(End::Exited((status >> 8) as i32)),
            1..=64 => Ok(End::Killed(status as i32)),
            _ => Err(Error::damaged("its guest ended as none can")),
        }
    }
}

/// What a run did and what it cost.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Guest instructions executed.
    pub steps: u64,
    /// Superblocks translated.
    pub translated: u64,
    /// System calls, and those of them that the tracer carried out.
    pub syscalls: u64,
    pub syscall_stops: u64,
    /// Times the guest stopped for the tracer.
    pub stops: u64,
    pub exits: u64,
    pub indirect_misses: u64,
    pub bounded_runs: u64,
    pub signals: u64,
    pub code_changes: u64,
    pub recording_bytes: u64,
}

/// Called when a guest is about to die.
pub(crate) type OnCrash = Box<dyn FnMut(&Crash<'_>)>;

/// A guest about to die, still to be looked at.
pub struct Crash<'a> {
    pub signal: i32,
    pub info: [u8; 128],
    pub step: u64,
    pub regs: UserRegs,
    /// The thread it is about.
    pub thread: ThreadId,
    /// All threads that live, this one among them.
    pub threads: Vec<ThreadView>,
    /// The step of the indirect branch that led to where there is no code, if that may be what happened.
    pub branched_at: Option<u64>,
    pub mappings: Vec<Mapping>,
    /// Where the contents of mapped files can be read, by the name in `mappings`.
    pub stored: &'a HashMap<PathBuf, PathBuf>,
    engine: &'a Engine,
}

impl<'a> Crash<'a> {
    pub(crate) fn of(
        engine: &'a Engine,
        p: &Pending,
        threads: Vec<ThreadView>,
        names: &'a HashMap<PathBuf, PathBuf>,
    ) -> Self {
        let no_code = engine
            .maps
            .find(engine.regs.rip)
            .is_none_or(|m| !m.protection.execute);
        Crash {
            signal: p.signal,
            info: p.info,
            step: engine.stats.steps,
            regs: engine.regs,
            thread: engine.threads.current,
            threads,
            branched_at: engine.last_branch.filter(|_| no_code),
            mappings: engine.maps.list.clone(),
            stored: names,
            engine,
        }
    }

    /// Reads guest memory; says how many bytes were there.
    pub fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        self.engine.memory.read(addr, buf)
    }
}

/// Called when no thread can run; says whether the guest is to be ended.
pub(crate) type OnDeadlock = Box<dyn FnMut(&Deadlock<'_>) -> bool>;

/// A guest in which no thread can run, to be looked at.
pub struct Deadlock<'a> {
    pub step: u64,
    pub threads: Vec<ThreadView>,
    /// Signals whose handlers might still wake a thread, if somebody raised them.
    pub handlers: Vec<i32>,
    pub mappings: Vec<Mapping>,
    /// Where the contents of mapped files can be read, by the name in `mappings`.
    pub stored: &'a HashMap<PathBuf, PathBuf>,
    engine: &'a Engine,
}

impl<'a> Deadlock<'a> {
    pub(crate) fn of(
        engine: &'a Engine,
        threads: Vec<ThreadView>,
        handlers: Vec<i32>,
        names: &'a HashMap<PathBuf, PathBuf>,
    ) -> Self {
        Deadlock {
            step: engine.stats.steps,
            threads,
            handlers,
            mappings: engine.maps.list.clone(),
            stored: names,
            engine,
        }
    }

    /// Reads guest memory; says how many bytes were there.
    pub fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        self.engine.memory.read(addr, buf)
    }
}
