//! Why records were not done by machine code.
//!
//! What takes long is what happens often outside of it. Which that is differs from program to program, so it is
//! counted, and `check --stats` says it.

/// Records that something else than machine code had to do with, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detours {
    /// Their shape was not met often enough.
    pub cold: u64,
    /// A function that means something is called or returns in their middle.
    pub calls: u64,
    /// There is no quick way.
    pub odd: u64,
    /// They read a register of which something is unwritten.
    pub unwritten: u64,
    /// An access found something unwritten or was outside of its block.
    pub left: u64,
    /// They end with a return from a function that means something or has variables, or inside of one that is not
    /// looked into.
    pub returns: u64,
    /// Instructions of all these.
    pub steps: u64,
}
