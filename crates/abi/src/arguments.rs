//! What a call reads where its arguments point, for somebody who does not have the guest's memory as it was then.
//!
//! [`crate::Plan`] tells what a call may read, so that nothing is left out. Here is what it has read for certain, as far as
//! arguments and result tell.

use crate::Call;
use crate::errno::{self, *};
use crate::layout::{IOV_MAX, IOVEC};
use crate::table::{self, Effect, Len, Num};

/// Errors that a call comes to with what it was given in its hands, such as the address of somebody who does not answer.
const HAVING_READ: [i32; 12] = [
    EINTR,
    EAGAIN,
    EISCONN,
    EALREADY,
    EINPROGRESS,
    ETIMEDOUT,
    ECONNREFUSED,
    ECONNRESET,
    ENETUNREACH,
    EHOSTUNREACH,
    EADDRINUSE,
    EADDRNOTAVAIL,
];

/// The objects that a call has read, each with the argument that points to it and its size, given the raw result.
pub fn read_by_arguments(call: &Call, ret: i64, found: &mut dyn FnMut(usize, u64)) {
    let Some(entry) = table::entry(call.nr) else {
        return;
    };
    let failed = errno::of(ret);
    if failed.is_some_and(|e| !HAVING_READ.contains(&e) && !errno::interrupted(ret)) {
        return;
    }
    let more = entry.behaviour(call).effects;
    for effect in entry.effects.iter().chain(more) {
        let (arg, len) = match *effect {
            Effect::In(arg, len) | Effect::InOut(arg, len) => (arg, size(len, call, ret)),
            Effect::Part(arg, len, least) => (arg, size(len, call, ret).min(least.into())),
            Effect::Gather(arg, n) | Effect::Scatter(arg, n) => (arg, list(n, call)),
            _ => continue,
        };
        if call.args[usize::from(arg)] != 0 && len > 0 {
            found(arg.into(), len);
        }
    }
}

/// Bytes of an array of `struct iovec`.
fn list(elements: Num, call: &Call) -> u64 {
    match elements.of(call) {
        n if n <= IOV_MAX => n * IOVEC,
        _ => 0,
    }
}

fn size(len: Len, call: &Call, ret: i64) -> u64 {
    let returned = u64::try_from(ret).unwrap_or(0);
    let times = |n: u64, unit: u32| n.saturating_mul(unit.into());
    match len {
        Len::Fixed(bytes) => bytes.into(),
        Len::Arg(n) => n.of(call),
        Len::Items(n, unit) => times(n.of(call), unit),
        Len::Ret(n) | Len::RetAtMost(n) => n.of(call).min(returned),
        Len::RetItems(unit, n) => times(n.of(call).min(returned), unit),
    }
}

/// A call may touch memory through pointers that lie in memory: see [`crate::Plan::followed`].
pub fn follows_pointers(nr: u64) -> bool {
    let described = |effect: &Effect| {
        matches!(
            effect,
            Effect::Gather(..) | Effect::Scatter(..) | Effect::Reads(_) | Effect::By(_)
        )
    };
    table::entry(nr).is_some_and(|entry| {
        let commands = match entry.rule {
            table::Rule::Commands(commands) => commands.known,
            _ => &[],
        };
        let commands = commands.iter().copied().flatten();
        let more = commands.flat_map(|command| command.effects);
        entry.effects.iter().chain(more).any(described)
    })
}
