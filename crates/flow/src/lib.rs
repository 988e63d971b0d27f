//! Flow: from the tape to dependences and slices.
//!
//! [`Roll`] keeps the tape of a window and walks it in both directions; [`Slicer`] walks it backward
//! from what somebody asks about, and finds the instructions that had to do with it.

#![forbid(unsafe_code)]

mod history;
mod plan;
mod roll;
mod slice;
mod wanted;

pub use history::Write;
pub use plan::{Plan, Spot, Step, Values};
pub use roll::{Codes, Execution, Frame, FrameId, Item, Roll, What};
pub use slice::{Controls, Criterion, Edge, Kind, Node, OUTSIDE, Options, Slicer, Times};
