//! A recorder must know, for every system call a guest can make, what the kernel does to the guest: which
//! memory it reads and writes, which of it a replay must do again, and which calls it cannot follow at all.
//!
//! This crate states the x86-64 Linux system call interface as data: one table line per call (`calls`),
//! one per command of the multiplexed calls (`commands`), a vocabulary of effects (`table`) and the code
//! that applies it to one particular call (`plan`). It never performs a call and never touches a guest; it
//! reads guest memory through the caller's [`Memory`].
//!
//! A recorder works with it like this: it asks for the [`class`]; takes a [`Plan`] before the call; lets
//! the kernel run the call; asks the plan for the ranges that were [written](Plan::writes) and logs them. A
//! replay writes them back instead of performing the call. [`simple`] says the same for the most
//! frequent calls in a form that machine code can use.
//!
//! Rejected: comparing all memory before and after (too slow, and blind to a byte that was written with the
//! value it had), and deriving the tables from headers (they have the sizes, not the directions, the
//! conditions or the errors that still write).
//!
//! Some writes are beyond what a call's arguments can tell, and are the recorder's business: a `write` to
//! `/proc/self/mem` changes guest memory; memory that is shared with other processes or with a file changes
//! without any call; the delivery of a signal pushes a frame; and when a thread ends, the kernel clears the
//! word of `set_tid_address` and marks the futexes of its robust list.

#![forbid(unsafe_code)]

mod arguments;
mod calls;
mod commands;
mod describe;
pub mod errno;
mod layout;
mod plan;
pub mod signal;
mod simple;
mod table;

use std::fmt;

pub use arguments::{follows_pointers, read_by_arguments};
pub use describe::describe;
pub use plan::{Followed, Plan};
pub use simple::{Simple, reads_by_arguments, simple};

/// A system call as the guest makes it: `rax`, and `rdi`, `rsi`, `rdx`, `r10`, `r8`, `r9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    pub nr: u64,
    pub args: [u64; 6],
}

/// The guest's memory.
pub trait Memory {
    /// Reads as many bytes as are readable from `addr` on, and returns how many.
    fn read(&self, addr: u64, buf: &mut [u8]) -> usize;
}

/// A stretch of guest memory, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    pub addr: u64,
    pub len: u64,
}

/// How a recorder and a replay must treat a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The call concerns the world outside the guest's memory and registers. It runs when recording; a
    /// replay takes its result and its memory effects from the recording.
    Outside,
    /// The call changes the address space, or how memory behaves; a replay must carry it out again.
    AddressSpace,
    /// The call changes state of the guest's process or thread that lives in the kernel and acts back on the
    /// guest (signal handlers, segment bases, stack limit); a replay must carry it out again.
    GuestState,
    /// The call starts, replaces or ends a process or thread.
    Process,
    /// The call waits for or wakes threads through memory, and belongs to the scheduler.
    Futex,
    /// `restart_syscall`: the kernel resumes the call that a signal interrupted. The effects are those of
    /// that call, so keep its plan and ask that.
    Restart,
    /// The call cannot be recorded. The guest gets the error instead.
    Refused { why: &'static str, errno: i32 },
}

/// Whether a call can wait for something that another guest thread has to do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    Never,
    /// It depends on the descriptor in this argument.
    ByFd(u8),
    /// It may, depending on more than a descriptor.
    May,
}

/// A call that cannot be recorded, by name and with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub call: Call,
    pub why: &'static str,
    /// The error that the guest gets instead.
    pub errno: i32,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errno = errno::name(self.errno).unwrap_or("an error");
        let call = describe::title(&self.call);
        write!(
            f,
            "{call} is refused under recording ({}); the guest gets {errno}",
            self.why
        )
    }
}

impl std::error::Error for Refusal {}

pub(crate) const UNKNOWN: &str = "it is no x86-64 system call that this version knows";

/// The name of a call number: `name(0)` is `read`.
pub fn name(nr: u64) -> Option<&'static str> {
    table::entry(nr).map(|entry| entry.name)
}

/// How many arguments a call takes; the registers of the others hold anything.
pub fn arguments(nr: u64) -> usize {
    table::entry(nr).map_or(6, |entry| entry.argc.into())
}

/// The number of a call: `number("read")` is 0.
pub fn number(name: &str) -> Option<u64> {
    table::entries()
        .find(|entry| entry.name == name)
        .map(|entry| u64::from(entry.nr))
}

/// How to treat a call, by its number and, for ioctl, fcntl, prctl and their like, by its command.
pub fn class(call: &Call) -> Class {
    match table::entry(call.nr) {
        Some(entry) => entry.behaviour(call).class,
        None => Class::Refused {
            why: UNKNOWN,
            errno: errno::ENOSYS,
        },
    }
}

/// Whether a call can wait for another thread of the guest. For multiplexed calls this is the answer for
/// the worst command.
pub fn may_block(nr: u64) -> Blocking {
    table::entry(nr).map_or(Blocking::Never, |entry| entry.blocking)
}
