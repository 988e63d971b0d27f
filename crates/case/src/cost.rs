//! What a run cost, as the kernel accounts for it: seen from outside of the engine.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

/// Times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    pub wall: u64,
    /// From the request to the guest's first instruction.
    pub starting: u64,
    /// The guest's code, and what the kernel did for it.
    pub guest_user: u64,
    pub guest_system: u64,
    /// The tool: translation, recording, and the kernel's part of it.
    pub tool_user: u64,
    pub tool_system: u64,
    /// Building the crash report.
    pub reporting: u64,
}

pub(crate) struct Clock {
    begun: Instant,
    started: Option<Duration>,
    own: (u64, u64),
    others: (u64, u64),
    pub(crate) reporting: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Clock {
            begun: Instant::now(),
            started: None,
            own: usage(UsageWho::RUSAGE_SELF),
            others: usage(UsageWho::RUSAGE_CHILDREN),
            reporting: Duration::ZERO,
        }
    }

    /// The guest is about to run.
    pub(crate) fn started(&mut self) {
        self.started = Some(self.begun.elapsed());
    }

    /// The guest must have been waited for by now.
    pub(crate) fn stop(&self) -> Cost {
        let own = usage(UsageWho::RUSAGE_SELF);
        let others = usage(UsageWho::RUSAGE_CHILDREN);
        Cost {
            wall: micros(self.begun.elapsed()),
            starting: micros(self.started.unwrap_or_default()),
            guest_user: others.0.saturating_sub(self.others.0),
            guest_system: others.1.saturating_sub(self.others.1),
            tool_user: own.0.saturating_sub(self.own.0),
            tool_system: own.1.saturating_sub(self.own.1),
            reporting: micros(self.reporting),
        }
    }
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

fn usage(who: UsageWho) -> (u64, u64) {
    getrusage(who).map_or((0, 0), |u| {
        let of = |t: nix::sys::time::TimeVal| u64::try_from(t.num_microseconds()).unwrap_or(0);
        (of(u.user_time()), of(u.system_time()))
    })
}
