//! The system calls, a table per topic.

pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod ipc;
pub(crate) mod memory;
pub(crate) mod net;
pub(crate) mod process;
pub(crate) mod signals;
pub(crate) mod streams;
pub(crate) mod system;
pub(crate) mod time;

use crate::table::Entry;

pub(crate) const TOPICS: &[&[Entry]] = &[
    events::CALLS,
    files::CALLS,
    ipc::CALLS,
    memory::CALLS,
    net::CALLS,
    process::CALLS,
    signals::CALLS,
    streams::CALLS,
    system::CALLS,
    time::CALLS,
];
