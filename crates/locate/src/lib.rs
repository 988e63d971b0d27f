//! Fault location by value replacement.
//!
//! Given tests that pass and tests that fail, which statement is wrong? *Value replacement* takes a
//! failing run, changes the values that one execution of one instruction works on to values that
//! this instruction had elsewhere, and lets the run go on. If the output becomes right, that is an
//! interesting value mapping pair (an [`Ivmp`]): evidence that the statement is at fault or close
//! to what is. Statements are ranked by the number of failing runs in which they have one; ties are
//! broken by how much more often failing than passing runs execute them.
//!
//! This crate is the technique without the machinery: which values an instruction works on
//! ([`Shape`]), the values seen in all tests ([`Profile`]), which replacements to try and in which
//! order ([`trials`], [`Search`]), how to rank ([`rank`]), and what to do about several faults at
//! once ([`faults`]). Whatever executes something is a [`Laboratory`], supplied by the caller.

#![forbid(unsafe_code)]

mod back;
pub mod faults;
mod origin;
mod profile;
pub mod rank;
mod search;
mod shape;
pub mod trials;

pub use origin::Pointer;
pub use profile::{Address, Entry, Event, Instance, Observer, Profile, Run};
pub use search::{
    Desk, Laboratory, Limit, Outcome, Progress, Reduction, Search, SearchState, Tally,
};
pub use shape::{Location, Operand, Place, Shape, signed};
pub use trials::{Change, Ivmp, Source, Trial, When};

/// A statement: an index into the caller's table of source lines.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Statement(pub u32);
