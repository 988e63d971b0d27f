//! Flow: from the tape to dependences and slices.
//!
//! [`Roll`] keeps the tape of a window and walks it in both directions; [`Slicer`] walks it backward
//! from what somebody asks about, and finds the instructions that had to do with it.

#![forbid(unsafe_code)]

mod asked;
mod codes;
mod effect;
mod history;
mod hits;
mod link;
mod links;
mod memory;
mod plainly;
mod plan;
mod reader;
mod roll;
mod rows;
mod saved;
mod slice;
mod sources;
mod step;
mod sweep;
mod terms;
mod variant;
mod wanted;
mod writers;

pub use codes::{Codes, InsnId};
pub use history::Write;
pub use plan::{Plan, Spot, Step, Values};
pub use reader::{Frame, FrameId};
pub use roll::{Classes, Execution, Item, Record, Roll, Sizes, View, What};
pub use saved::Damaged;
pub use slice::Slicer;
pub use terms::{
    Controls, Criterion, Edge, Edges, Joined, Kind, Merged, Node, OUTSIDE, Omission, Options, Times,
};
pub use writers::Writers;
