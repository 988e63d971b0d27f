//! The engine against slower and more obvious ways of doing the same: native execution, plain
//! single-stepping, stepping one by one and looking.

mod calls;
mod chance;
mod checkpoints;
mod determinism;
mod edits;
mod observe;
mod offers;
mod oracle;
mod private;
mod random;
mod scene;
mod steps;
mod stops;
mod tape;
mod taped;
mod watches;
