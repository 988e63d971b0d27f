//! Planning a call costs a few hundred nanoseconds, which is too much for `clock_gettime` in a loop.
//!
//! For most calls the effect can be said in one word, known from the number alone, that a fast path
//! written in machine code can follow. The word is derived from the same table that `plan` interprets, so
//! the two cannot drift apart.

use crate::Class;
use crate::table::{self, Effect, Len, Num, Rule};

/// The effect of a call of class [`Class::Outside`] on success (`ret >= 0`). On failure nothing is written,
/// except that after `EFAULT` the object may be filled in part, which only [`crate::Plan`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simple {
    /// The kernel writes no guest memory.
    NoWrites,
    /// The kernel writes `len` bytes at the address in `args[arg]`. With `nullable`, that argument may be
    /// zero in a call that succeeds, and nothing is written then.
    FixedAt { arg: u8, len: u32, nullable: bool },
    /// The kernel writes as many bytes as the call returns, but not more than `args[bound]`, at the address in
    /// `args[arg]`.
    ReturnedAt { arg: u8, bound: u8 },
    /// It takes a plan.
    None,
}

/// Which memory the call reads follows from its arguments and its result: nothing has to be looked up in memory,
/// and so it can still be told later.
pub fn reads_by_arguments(nr: u64) -> bool {
    let looked_up = |effect: &Effect| {
        matches!(
            effect,
            Effect::Text(_)
                | Effect::Texts(_)
                | Effect::Gather(..)
                | Effect::Reads(_)
                | Effect::By(_)
        )
    };
    table::entry(nr).is_some_and(|entry| !entry.effects.iter().any(looked_up))
}

/// The effect of a call, as far as the number alone tells.
pub fn simple(nr: u64) -> Simple {
    let Some(entry) = table::entry(nr) else {
        return Simple::None;
    };
    if !matches!(entry.rule, Rule::Is(Class::Outside)) {
        return Simple::None;
    }
    let mut found = Simple::NoWrites;
    for effect in entry.effects {
        let this = match *effect {
            Effect::In(..)
            | Effect::Part(..)
            | Effect::Text(_)
            | Effect::Texts(_)
            | Effect::Gather(..)
            | Effect::Reads(_) => continue,
            Effect::Out(arg, Len::Fixed(len)) | Effect::InOut(arg, Len::Fixed(len)) => {
                Simple::FixedAt {
                    arg,
                    len,
                    nullable: false,
                }
            }
            Effect::Opt(arg, Len::Fixed(len)) => Simple::FixedAt {
                arg,
                len,
                nullable: true,
            },
            Effect::Out(arg, Len::Ret(most) | Len::RetAtMost(most)) => {
                let (Num::Size(bound) | Num::Uint(bound) | Num::Int(bound)) = most;
                Simple::ReturnedAt { arg, bound }
            }
            _ => return Simple::None,
        };
        if found != Simple::NoWrites {
            return Simple::None;
        }
        found = this;
    }
    found
}
