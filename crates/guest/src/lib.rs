//! The engine: runs a program under full control, repeatably.

mod alias;
mod cache;
mod checkpoint;
mod descriptors;
mod edit;
mod engine;
mod files;
mod inspect;
mod interrupts;
mod launch;
mod layout;
mod maps;
mod memory;
mod outside;
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
mod special;
mod start;
mod stops;
mod threads;
mod translate;
mod watch;

pub use checkpoint::{CheckpointId, Spacing};
pub use edit::{Edit, EditId, Place};
pub use interrupts::die_of;
pub use launch::Launch;
pub use maps::{Mapping, Protection};
pub use private::Departure;
pub use ptrace::UserRegs;
pub use record::{Recorded, Recorder};
pub use recording::{FileRef, VERSION};
pub use replay::{
    Halt, Limits, OutputKind, Replay, Sink, StopAt, Syscalls, Until, Watch, pass_through,
};
pub use report::{Crash, End, Error, Stats};
pub use threads::ThreadId;
