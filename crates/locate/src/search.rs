//! The search for interesting value mapping pairs.
//!
//! Failing runs are searched one after another, the shortest first. Two lossy reductions besides
//! spanning values can be switched off: statements without a pair in a run that has any are not
//! looked at in later runs (the *working set*; it supposes a single fault), and a statement that
//! has a pair in a run is not looked at again in that run. A run is searched in rounds over its
//! whole length, the likeliest executions first, so that an interrupted search has seen all of it,
//! and each round is handed to a [`Laboratory`], which may try several at a time.
//!
//! If time is short, each run gets its share of what is left, and those that did not get done are
//! gone on with when all have had theirs: what several runs say is worth more than all of one. What
//! has a pair in an earlier run comes first.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::Statement;
use crate::back;
use crate::profile::{Profile, Run};
use crate::trials::{Alternatives, Ivmp, Trial, rounds, trials};

/// How an experiment came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The output is right.
    Mended,
    Wrong,
    /// It died of a signal.
    Crashed,
    /// It was stopped for using too much of this.
    Limited(Limit),
    /// It could not be carried out.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Steps,
    Time,
    Output,
}

/// Carries out experiments.
pub trait Laboratory {
    type Error;
    /// Tries the replacements in failing run `run`, in any order, as long as the desk wants them.
    fn sweep(&self, run: usize, trials: &[Trial], desk: &dyn Desk) -> Result<(), Self::Error>;
}

/// Who decides what is tried and takes the results. Used by several threads.
pub trait Desk: Sync {
    /// The trial is still of interest.
    fn wanted(&self, trial: usize) -> bool;
    fn done(&self, trial: usize, outcome: Outcome);
    /// No more trials, please.
    fn stopped(&self) -> bool;
}

/// Who is told how the search goes, and may end it.
pub trait Progress: Sync {
    fn found(&self, run: usize, ivmp: &Ivmp);
    fn tried(&self, of: &Tally, run: usize, round: u32, done: usize, trials: usize);
    fn stopped(&self) -> bool;
}

/// Which of the lossy reductions are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reduction {
    pub spanning: bool,
    pub working_set: bool,
    pub one_each: bool,
}

impl Reduction {
    pub const ALL: Reduction = Reduction {
        spanning: true,
        working_set: true,
        one_each: true,
    };
    pub const NONE: Reduction = Reduction {
        spanning: false,
        working_set: false,
        one_each: false,
    };
}

/// How many experiments came out how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub tried: u64,
    pub mended: u64,
    pub wrong: u64,
    pub crashed: u64,
    pub steps: u64,
    pub time: u64,
    pub output: u64,
    pub failed: u64,
}

impl Tally {
    fn count(&mut self, outcome: Outcome) {
        self.tried += 1;
        *match outcome {
            Outcome::Mended => &mut self.mended,
            Outcome::Wrong => &mut self.wrong,
            Outcome::Crashed => &mut self.crashed,
            Outcome::Limited(Limit::Steps) => &mut self.steps,
            Outcome::Limited(Limit::Time) => &mut self.time,
            Outcome::Limited(Limit::Output) => &mut self.output,
            Outcome::Failed => &mut self.failed,
        } += 1;
    }
}

/// What has been found; enough to go on from after an interruption.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SearchState {
    pub runs: Vec<RunState>,
    /// Statements still looked at; all if absent.
    pub working: Option<BTreeSet<Statement>>,
    pub tally: Tally,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunState {
    pub complete: bool,
    pub round: u32,
    /// Trials of that round before which all are done.
    pub prefix: usize,
    pub begun: Option<Begun>,
    pub ivmps: Vec<Ivmp>,
    /// So many of them have been followed back.
    pub followed: usize,
}

/// What a run's order of trials depends on, as it was when the run was begun: it may be gone on with later.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Begun {
    /// Statements that had a pair in an earlier run.
    pub favoured: BTreeSet<Statement>,
    /// The working set.
    pub working: Option<BTreeSet<Statement>>,
}

impl SearchState {
    /// The same with other numbers for the statements. Those that have none are not there any more.
    pub fn renumbered(&self, number: &dyn Fn(Statement) -> Option<Statement>) -> SearchState {
        let set = |s: &BTreeSet<Statement>| s.iter().filter_map(|s| number(*s)).collect();
        let run = |r: &RunState| RunState {
            begun: r.begun.as_ref().map(|b| Begun {
                favoured: set(&b.favoured),
                working: b.working.as_ref().map(set),
            }),
            ivmps: (r.ivmps.iter())
                .filter_map(|i| {
                    Some(Ivmp {
                        statement: number(i.statement)?,
                        ..i.clone()
                    })
                })
                .collect(),
            ..r.clone()
        };
        SearchState {
            runs: self.runs.iter().map(run).collect(),
            working: self.working.as_ref().map(set),
            tally: self.tally.clone(),
        }
    }
}

impl RunState {
    /// What was found stays; what is left is begun from the beginning.
    pub fn begin_again(&mut self) {
        if !self.complete {
            *self = RunState {
                ivmps: std::mem::take(&mut self.ivmps),
                ..RunState::default()
            };
        }
    }

    pub fn statements(&self) -> BTreeSet<Statement> {
        self.ivmps.iter().map(|i| i.statement).collect()
    }
}

pub struct Search<'a> {
    pub profile: &'a Profile,
    /// Failing runs, in the order in which they are searched.
    pub runs: &'a [&'a Run],
    /// The statement that an entry of the profile belongs to.
    pub statement: &'a (dyn Fn(u32) -> Option<Statement> + Sync),
    pub reduction: Reduction,
    /// When to be done.
    pub deadline: Option<Instant>,
}

impl Search<'_> {
    /// Searches what `state` says has not been searched. True if nothing is left.
    pub fn go<L: Laboratory>(
        &self,
        state: &mut SearchState,
        laboratory: &L,
        progress: &dyn Progress,
    ) -> Result<bool, L::Error> {
        let alternatives = Alternatives::new(self.profile);
        state.runs.resize_with(self.runs.len(), RunState::default);
        loop {
            let mut left = state.runs.iter().filter(|r| !r.complete).count();
            if left == 0 {
                return Ok(true);
            }
            for n in 0..self.runs.len() {
                if state.runs[n].complete {
                    continue;
                }
                let now = Instant::now();
                let share = self
                    .deadline
                    .map(|d| now + d.saturating_duration_since(now) / left as u32);
                left -= 1;
                self.run(n, state, &alternatives, laboratory, progress, share)?;
                let late = self.deadline.is_some_and(|d| Instant::now() >= d);
                if progress.stopped() || late {
                    return Ok(state.runs.iter().all(|r| r.complete));
                }
            }
        }
    }

    /// Searches one run until it is complete or its time is over.
    fn run<L: Laboratory>(
        &self,
        n: usize,
        state: &mut SearchState,
        alternatives: &Alternatives,
        laboratory: &L,
        progress: &dyn Progress,
        deadline: Option<Instant>,
    ) -> Result<(), L::Error> {
        let run = self.runs[n];
        if state.runs[n].begun.is_none() {
            let earlier = state.runs.iter().flat_map(|r| &r.ivmps);
            state.runs[n].begun = Some(Begun {
                favoured: earlier.map(|i| i.statement).collect(),
                working: state.working.clone(),
            });
        }
        let Begun { favoured, working } = state.runs[n].begun.clone().unwrap_or_default();
        let is_favoured = |entry| (self.statement)(entry).is_some_and(|s| favoured.contains(&s));
        let order = rounds(self.profile, run, &is_favoured);
        let last = order.iter().max().copied().unwrap_or(0);
        for round in state.runs[n].round..=last {
            state.runs[n].round = round;
            let statement = |entry| {
                let s = (self.statement)(entry)?;
                working.as_ref().is_none_or(|w| w.contains(&s)).then_some(s)
            };
            let list = trials(
                self.profile,
                alternatives,
                run,
                &order,
                round,
                self.reduction.spanning,
                &statement,
            );
            let begin = state.runs[n].prefix.min(list.len());
            let sweep = |state: &mut SearchState, list: &[Trial], begin, deadline| {
                let desk = Sweep::new(self, n, round, list, begin, state, progress, deadline);
                let result = laboratory.sweep(n, list, &desk);
                let (ivmps, tally, prefix) = desk.finish();
                state.runs[n].ivmps.extend(ivmps);
                state.tally = tally;
                result.map(|()| prefix)
            };
            // Some time is left for following back what was found, which takes little and says much.
            let now = Instant::now();
            let early = deadline.map(|d| d - d.saturating_duration_since(now) / 16);
            let prefix = sweep(state, &list, begin, early)?;
            state.runs[n].prefix = prefix;
            let fresh = &state.runs[n].ivmps[state.runs[n].followed..];
            let more = back::trials(self.profile, run, fresh, self.statement);
            let followed = sweep(state, &more, 0, deadline)? == more.len();
            if followed {
                state.runs[n].followed = state.runs[n].ivmps.len();
            }
            if prefix < list.len() || !followed {
                return Ok(());
            }
            state.runs[n].prefix = 0;
        }
        let this = &mut state.runs[n];
        this.complete = true;
        let mended = this.statements();
        if self.reduction.working_set && !mended.is_empty() {
            state.working = Some(match state.working.take() {
                None => mended,
                Some(w) => w.intersection(&mended).copied().collect(),
            });
        }
        Ok(())
    }

    /// How many replacements the full search of all runs would try.
    pub fn full(&self) -> u64 {
        let alternatives = Alternatives::new(self.profile);
        let of = |run: &&Run| alternatives.full(self.profile, run);
        self.runs.iter().map(of).sum()
    }
}

/// One round of one run.
struct Sweep<'a> {
    search: &'a Search<'a>,
    run: usize,
    round: u32,
    trials: &'a [Trial],
    begin: usize,
    progress: &'a dyn Progress,
    deadline: Option<Instant>,
    inner: Mutex<Inner>,
    finished: AtomicU64,
}

struct Inner {
    mended: BTreeSet<Statement>,
    ivmps: Vec<Ivmp>,
    tally: Tally,
    done: Vec<bool>,
}

impl<'a> Sweep<'a> {
    #[allow(clippy::too_many_arguments)]
    fn new(
        search: &'a Search<'a>,
        run: usize,
        round: u32,
        trials: &'a [Trial],
        begin: usize,
        state: &SearchState,
        progress: &'a dyn Progress,
        deadline: Option<Instant>,
    ) -> Self {
        let mut done = vec![false; trials.len()];
        done[..begin].fill(true);
        Sweep {
            search,
            run,
            round,
            trials,
            begin,
            progress,
            deadline,
            inner: Mutex::new(Inner {
                mended: state.runs[run].statements(),
                ivmps: Vec::new(),
                tally: state.tally.clone(),
                done,
            }),
            finished: AtomicU64::new(begin as u64),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // A panic of another thread leaves nothing half done here.
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn finish(self) -> (Vec<Ivmp>, Tally, usize) {
        let inner = self.inner.into_inner().unwrap_or_else(|e| e.into_inner());
        let prefix = inner.done.iter().take_while(|d| **d).count();
        (inner.ivmps, inner.tally, prefix)
    }
}

impl Desk for Sweep<'_> {
    fn wanted(&self, trial: usize) -> bool {
        if trial < self.begin {
            return false;
        }
        if !self.search.reduction.one_each {
            return true;
        }
        let mut inner = self.lock();
        let sources = &self.trials[trial].sources;
        let open = sources.iter().any(|s| !inner.mended.contains(&s.statement));
        if !open {
            inner.done[trial] = true;
            self.finished.fetch_add(1, Ordering::Relaxed);
        }
        open
    }

    fn done(&self, trial: usize, outcome: Outcome) {
        let mut inner = self.lock();
        inner.done[trial] = true;
        inner.tally.count(outcome);
        let finished = self.finished.fetch_add(1, Ordering::Relaxed) + 1;
        if outcome == Outcome::Mended {
            for source in &self.trials[trial].sources {
                if inner.mended.insert(source.statement) || !self.search.reduction.one_each {
                    let run = self.search.runs[self.run];
                    let ivmp = Ivmp::new(&self.trials[trial], source, run, self.search.profile);
                    self.progress.found(self.run, &ivmp);
                    inner.ivmps.push(ivmp);
                }
            }
        }
        let (run, round) = (self.run, self.round);
        self.progress.tried(
            &inner.tally,
            run,
            round,
            finished as usize,
            self.trials.len(),
        );
    }

    fn stopped(&self) -> bool {
        self.progress.stopped() || self.deadline.is_some_and(|d| Instant::now() >= d)
    }
}
