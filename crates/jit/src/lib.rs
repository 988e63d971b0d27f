//! What is known of a guest's registers and memory, and machine code that keeps it up to date.
//!
//! A reader of the tape that follows pointers has a few things to do for each record, billions of times: look
//! into a table, compare with two bounds, copy a word. Going through a list of such operations costs more than
//! the operations. So each way through a superblock ([`Way`]) becomes machine code, which reads its record where
//! it lies, and goes on to the code of the next record by itself. What is rare stops it: then the caller does
//! the rest of the record in its own, slower way, and runs the code again behind it.
//!
//! Here is all that the code touches: [`Registers`], [`Shadow`], the [`Bounds`] of blocks. Rejected: a general
//! code generator (Cranelift), whose compile time is that of a hundred thousand runs of what it would make.
//!
//! **Invariant:** whatever ways are added and whatever is on the tape, code stays within its record, the
//! registers, the tables of the shadow and the bounds. That is what makes [`Code::run`] safe.

mod anchors;
mod assemble;
mod bounds;
mod cell;
mod emit;
mod recent;
mod region;
mod run;
mod shadow;
mod ways;

pub use bounds::BoundsTable;
pub use cell::{Arith, BlockId, Bounds, Cell, DIFFERENCE, NONE, arithmetic};
pub use run::{Code, Keeper, Registers, Stop, Stopped, UNNAMED};
pub use shadow::Shadow;
pub use ways::{
    ARGUMENTS, Call, FIRST_VALUE, FS, Kind, MOST_PARTS, Op, Part, Quick, ROOM, Variable, Way,
};
