//! The engine: runs a program under full control, repeatably.
//!
//! A [`Recorder`] runs a program against the real world and writes down what comes from there. A
//! [`Replay`] runs it again from that alone, to any step, and lets it be looked at and altered.
//! This is what they promise and what they ask of their caller; how it is done is in
//! `ARCHITECTURE.md`.
//!
//! **States**
//!
//! 1. A `Replay` is a *stopped* guest. It runs only inside methods that take `&mut self`
//!    ([`Replay::run`], [`Replay::goto`], [`Replay::call`]), which return when it has stopped
//!    again. So the borrow checker keeps the two apart: no registers are read from a guest that
//!    runs. A recorded guest runs inside [`Recorder::run`], which consumes the recorder, or inside
//!    [`Recorder::run_until`], which stops it for somebody to look at it. [`Guest`] is what both
//!    have in common.
//! 2. A stopped guest stands at a boundary between two of its instructions, and everything shown
//!    of a `Replay` is in guest terms: its own addresses, its own registers, none of the engine's
//!    memory.
//! 3. A guest that has ended can still be looked at. Running it again returns the same
//!    [`Halt::Ended`]; changing it is [`Error::Ended`]. Going back revives it.
//!
//! **Positions**
//!
//! 4. A step is the number of instructions executed before it, counted from 0 over all threads and
//!    images of a run. It means the same in every replay of a recording. [`StopAt`] counts from
//!    where a run begins, without the instruction at which the guest stands; [`Place`] counts from
//!    where the edit is made, with it.
//! 5. Stops, watches and system calls halt *before* the instruction.
//!
//! **Recording**
//!
//! 6. [`Recorder::start`] takes a folder that exists and holds no events; copies of mapped files
//!    go to `.files` beside it. If [`Recorder::run`] or [`Recorder::run_until`] fails, the guest is
//!    dead and what was recorded stays readable. A recorder that is dropped without `run` leaves its guest stopped
//!    until the process ends.
//! 7. What is denied to the guest, or not as it would be natively, is in [`Recorded::notes`].
//!
//! **Replaying**
//!
//! 8. Nothing is asked of the outside. The first call, signal or instruction that is not as
//!    recorded is [`Error::Diverged`].
//! 9. [`Edit`]s, [`Replay::set_regs`], [`Replay::write`] and [`Replay::set_vector_state`] make the
//!    run an edited one: it keeps to the recorded calls, not to their steps, and departs at the
//!    first that differs ([`Replay::departure`]). After that it runs in a world of its own, is not
//!    repeatable, and [`Replay::checkpoint`], watches and [`Replay::call`] are refused. What it
//!    was denied is in [`Replay::denials`].
//! 10. [`Replay::restore`] and [`Replay::goto`] replace the whole state, the list of edits included:
//!     an edit made after a checkpoint is gone when the guest is back there.
//! 11. [`Limits`] of steps and time hold for each run, that of output from [`Replay::limit`] on.
//!
//! **The caller**
//!
//! 12. uses a recorder or replay on the thread that made it (neither is `Send`: the kernel takes
//!     ptrace requests from that thread only), and has no other child processes on the thread of a
//!     recorder, which might reap them;
//! 13. accepts that starting one pins the thread to its CPU, takes over SIGINT, SIGQUIT, SIGTERM
//!     and SIGHUP and ignores SIGTSTP, unless they were ignored;
//! 14. lets that thread live as long as the guest: all processes it traces are killed with it.
//!
//! **Errors** ([`Error`]) say who is at fault. [`Error::Request`], [`Error::Ended`],
//! [`Error::NoCheckpoint`] and [`Error::Unmapped`] about a request leave the guest as it was,
//! except for a departed run whose call blocks for too long. After any other, the guest is of no
//! further use; return to a checkpoint or drop the replay.

mod alias;
mod cache;
mod checkpoint;
mod descriptors;
mod edit;
mod engine;
mod files;
mod futex;
mod inspect;
mod interrupts;
mod launch;
mod layout;
mod maps;
mod memory;
mod observe;
mod offers;
mod outside;
mod policy;
mod private;
mod process;
mod ptrace;
mod record;
mod recording;
mod replay;
mod report;
mod routines;
mod schedule;
mod shared;
mod signals;
mod sites;
mod special;
mod spots;
mod start;
mod stops;
mod threads;
mod translate;
mod watch;

pub use checkpoint::{CheckpointId, Spacing};
pub use edit::{Edit, EditId, Operand, Place, Reference, condition_holds};
pub use engine::register_mut;
pub use inspect::{Guest, Lent};
pub use interrupts::{die_of, survive_interrupts};
pub use launch::Launch;
pub use maps::{Mapping, Protection};
pub use observe::Seen;
pub use policy::{Chaos, Line, Schedule};
pub use private::Departure;
pub use process::aside;
pub use ptrace::UserRegs;
pub use record::{Recorded, Recorder};
pub use recording::{FileRef, Switch, VERSION, switches};
pub use replay::{
    Halt, Limits, OutputKind, Replay, Sink, StopAt, Syscalls, Until, Watch, pass_through,
};
pub use report::{Crash, Deadlock, End, Error, Stats};
pub use threads::{About, ThreadId, ThreadView};
