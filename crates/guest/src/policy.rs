//! Who runs next, and for how long.
//!
//! The recorder asks here whenever the turn can change. The answers are a function of the seed and
//! of what was asked before, so that the same guest with the same input and the same seed has the
//! same schedule. There are four ways to answer:
//!
//! - evenly (seed 0): turns of about the same length, threads in the order of creation;
//! - drawn (any other seed): quanta and threads at random;
//! - by an adversary, for finding failures that are rare: threads have random priorities, the
//!   highest that can run does, and at few points the running one becomes the lowest. With d
//!   such points out of k steps and n threads, a failure that needs d orderings is met with a
//!   probability of at least 1/(n k^(d-1)) (Burckhardt and others, "A randomized scheduler with
//!   probabilistic guarantees of finding bugs"). The points are drawn among all steps, among
//!   atomic instructions, and among accesses to memory;
//! - by a list that somebody has written.

use std::collections::{BTreeMap, VecDeque};

use crate::threads::ThreadId;

/// Steps in a row that a thread gets while others are waiting. Coming to a stop at an exact step
/// costs as much as a million of them; this many take some milliseconds.
const QUANTUM: u64 = 25_000_000;

/// What a turn is longer than that at most: a loop whose length divides all turns would be stopped
/// at the same place for ever, perhaps where it has the lock that another waits for.
const UNEVEN: u64 = 1 << 16;

/// Steps in a row that an adversary leaves to one thread: it may wait for another without a call.
const PATIENCE: u64 = 25_000_000;

/// Yields in a row that a list of switches may ignore.
const STUBBORN: u32 = 1000;

/// How the turns of a recorded run are chosen.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// 0: evenly.
    pub seed: u64,
    pub chaos: Option<Chaos>,
    /// Switches to make, in ascending order of steps.
    pub lines: Vec<Line>,
}

/// The steps between which the threads of an earlier run were at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chaos {
    pub from: u64,
    pub to: u64,
}

/// "At step S let thread T run."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it stands in the file.
    pub number: usize,
    pub step: u64,
    pub thread: ThreadId,
}

/// Why the turn may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The turn is over.
    Quantum,
    /// The thread waits for another one by yielding or pausing.
    Yield,
    /// It waits in a system call.
    Blocked,
    Ended,
}

pub(crate) struct Policy {
    random: Random,
    way: Way,
    lines: VecDeque<Line>,
    ignored: u32,
}

enum Way {
    Evenly,
    Drawn,
    Adversary(Adversary),
}

struct Adversary {
    priorities: BTreeMap<ThreadId, i64>,
    lowest: i64,
    /// Steps at which the running thread becomes the lowest, in ascending order.
    points: VecDeque<u64>,
    /// Turns have about this many steps, if they are to be short.
    short: Option<u64>,
    /// One in so many sites of each kind is watched.
    atomics: Option<u64>,
    accesses: Option<u64>,
    /// One in so many system calls is a point.
    calls: Option<u64>,
}

impl Policy {
    pub(crate) fn new(schedule: &Schedule) -> Self {
        let mut random = Random(schedule.seed);
        let way = match schedule.chaos {
            Some(c) => Way::Adversary(Adversary::new(c, &mut random)),
            None if schedule.seed == 0 => Way::Evenly,
            None => Way::Drawn,
        };
        Policy {
            random,
            way,
            lines: schedule.lines.iter().copied().collect(),
            ignored: 0,
        }
    }

    /// The step up to which the thread that has the turn at `step` keeps it.
    pub(crate) fn until(&mut self, step: u64) -> u64 {
        if let Some(line) = self.lines.front() {
            return line.step.max(step);
        }
        match &mut self.way {
            Way::Evenly => step + QUANTUM + self.random.below(UNEVEN),
            Way::Drawn => step + self.random.magnitude(10, 21),
            Way::Adversary(a) => {
                while a.points.front().is_some_and(|p| *p <= step) {
                    a.points.pop_front();
                }
                let point = a.points.front().copied().unwrap_or(u64::MAX);
                let turn = match a.short {
                    Some(mean) => 1 + self.random.below(2 * mean),
                    None => PATIENCE,
                };
                point.min(step + turn)
            }
        }
    }

    /// Who goes on at `step`, of those that are `ready`, in ascending order. Lines that cannot be
    /// followed are put into `notes`.
    pub(crate) fn choose(
        &mut self,
        step: u64,
        ready: &[ThreadId],
        here: ThreadId,
        why: Why,
        notes: &mut Vec<String>,
    ) -> ThreadId {
        while let Some(line) = self.lines.front().copied().filter(|l| l.step <= step) {
            self.lines.pop_front();
            if ready.contains(&line.thread) && line.step == step {
                self.ignored = 0;
                return line.thread;
            }
            notes.push(format!(
                "line {} of the schedule was passed over: thread {} could not run at step {}",
                line.number, line.thread.0, line.step
            ));
        }
        if !self.lines.is_empty() && ready.contains(&here) {
            self.ignored += u32::from(why == Why::Yield);
            if self.ignored < STUBBORN {
                return here;
            }
        }
        self.ignored = 0;
        let others: Vec<ThreadId> = ready.iter().copied().filter(|id| *id != here).collect();
        match &mut self.way {
            Way::Evenly => {
                let after = others.iter().find(|id| **id > here);
                *after.or(others.first()).unwrap_or(&here)
            }
            Way::Drawn if others.is_empty() => here,
            Way::Drawn => others[self.random.below(others.len() as u64) as usize],
            Way::Adversary(a) => a.choose(ready, here, why, &mut self.random),
        }
    }

    /// What of the guest's code is to be looked for.
    pub(crate) fn wants(&self) -> (bool, bool) {
        match &self.way {
            Way::Adversary(a) => (a.atomics.is_some(), a.accesses.is_some()),
            _ => (false, false),
        }
    }

    /// Whether a site is to be stopped at, and after how many executions.
    pub(crate) fn site(&mut self, atomic: bool) -> Option<u64> {
        let Way::Adversary(a) = &self.way else {
            return None;
        };
        let one_in = if atomic { a.atomics } else { a.accesses }?;
        (self.random.below(one_in) == 0).then(|| {
            // Much of what goes wrong is executed once by each thread.
            let first = self.coin();
            if first { 1 } else { self.again() }
        })
    }

    /// Executions of a site up to the next stop there.
    pub(crate) fn again(&mut self) -> u64 {
        // At least two: the guest stands before one already.
        1 + self.random.magnitude(0, 12)
    }

    /// A system call that others may have waited for is over: whether that is a point.
    pub(crate) fn after_call(&mut self) -> bool {
        let Way::Adversary(a) = &self.way else {
            return false;
        };
        a.calls.is_some_and(|n| self.random.below(n) == 0)
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.random.below(2) == 0
    }
}

impl Adversary {
    fn new(c: Chaos, random: &mut Random) -> Self {
        let span = c.to.saturating_sub(c.from).max(1);
        let depth = 1 + random.below(6);
        let mut points: Vec<u64> = (0..depth).map(|_| c.from + random.below(span)).collect();
        points.sort_unstable();
        let one_in = |random: &mut Random, most: u32| Some(random.magnitude(0, most));
        let mut adversary = Adversary {
            priorities: BTreeMap::new(),
            lowest: 0,
            points: points.into(),
            short: None,
            atomics: None,
            accesses: None,
            calls: None,
        };
        match random.below(5) {
            0 => {}
            1 => {
                adversary.atomics = one_in(random, 4);
                adversary.calls = one_in(random, 5);
            }
            2 | 3 => {
                adversary.atomics = one_in(random, 6);
                // In a small program one of many is none.
                let most = if random.below(2) == 0 { 3 } else { 8 };
                adversary.accesses = one_in(random, most);
            }
            _ => {
                adversary.short = Some(random.magnitude(8, 19));
                adversary.calls = one_in(random, 5);
            }
        }
        adversary
    }

    fn choose(
        &mut self,
        ready: &[ThreadId],
        here: ThreadId,
        why: Why,
        random: &mut Random,
    ) -> ThreadId {
        for id in ready {
            self.priorities
                .entry(*id)
                .or_insert_with(|| 1 + random.below(1 << 40) as i64);
        }
        if matches!(why, Why::Quantum | Why::Yield) {
            self.lowest -= 1;
            self.priorities.insert(here, self.lowest);
            if self.short.is_some() {
                // A walk at random rather than in a circle.
                let any = ready[random.below(ready.len() as u64) as usize];
                self.priorities
                    .insert(any, 1 + random.below(1 << 40) as i64);
            }
        }
        let priority = |id: &&ThreadId| self.priorities.get(id).copied().unwrap_or(0);
        *ready.iter().max_by_key(priority).unwrap_or(&here)
    }
}

/// A sequence that is the same for the same seed, on every machine (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n.max(1))) >> 64) as u64
    }

    /// A number between the powers of two, all orders of magnitude being equally likely.
    fn magnitude(&mut self, from: u32, to: u32) -> u64 {
        let power = from + self.below(u64::from(to - from)) as u32;
        (1 << power) + self.below(1 << power)
    }
}

#[cfg(test)]
mod tests;
