//! The core calculus of "Generating Sound and Effective Memory Debuggers" (Figs. 7 and 8), executable.
//!
//! The paper proves its detectors right with respect to a small language: a program steps from state to
//! state, and a memory bug is a step into Error. Here that language can be parsed ([`parse()`]), printed, run one
//! reduction at a time ([`State`]) and translated to C ([`c::translate`]). It is the oracle of the rules: it keeps
//! whole blocks and their contents, has never heard of rules, and is slow and obvious.
//!
//! Where the figures leave something open, `docs/rules/calculus.md` says how they are read.

#![forbid(unsafe_code)]

pub mod c;
mod error;
mod lex;
mod parse;
mod print;
pub mod random;
mod resolve;
mod state;
mod step;
mod syntax;
mod wellformed;

pub use error::{Class, Leak};
pub use parse::{Wrong, parse};
pub use state::{
    Bid, Block, Cell, Event, Frame, Origin, Pointer, Ref, Region, State, Timed, reachable,
};
pub use step::{Outcome, Point};
pub use syntax::{Definition, Expr, Kind, Program, Span, Value};
pub use wellformed::well_formed;
