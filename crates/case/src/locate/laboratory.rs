//! Experiments on failing runs: a value is changed, the run goes on, and its output is judged.
//!
//! Each worker thread has a replay of its own on a CPU of its own. It walks the failing run once,
//! from one place of change to the next, and tries each change in a copy of the guest. Without
//! forking, each change is tried in a fresh replay from the beginning: the slow way, which must
//! give the same results.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use guest::{End, Halt, Limits, OutputKind, Replay, Until};
use locate::{Change, Desk, Laboratory, Limit, Outcome, Trial};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::debug::location_put;
use crate::locate::compare::Compare;
use crate::locate::due::watch;
use crate::locate::native::Wanted;

/// Trials that a worker takes at a time.
const BATCH: usize = 16;

/// A failing run to experiment with.
pub(crate) struct Specimen {
    pub(crate) folder: PathBuf,
    pub(crate) wanted: Wanted,
    pub(crate) compare: Compare,
    pub(crate) limits: Limits,
    /// Where the user's compare command runs.
    pub(crate) home: PathBuf,
}

pub(crate) struct Workshop {
    pub(crate) specimens: Vec<Specimen>,
    pub(crate) cpus: Vec<usize>,
    pub(crate) fork: bool,
}

/// The CPUs that this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
        return vec![0];
    };
    let list: Vec<usize> = (0..CpuSet::count())
        .filter(|&n| set.is_set(n).unwrap_or(false))
        .collect();
    if list.is_empty() { vec![0] } else { list }
}

/// Limits that a run of `steps` steps and `output` bytes leaves plenty of room in.
pub(crate) fn limits(steps: u64, seconds: f64, output: usize) -> Limits {
    Limits {
        steps: steps.saturating_mul(2).saturating_add(200_000),
        time: Duration::from_secs_f64((seconds * 10.0).clamp(2.0, 60.0)),
        output: (output as u64).saturating_mul(4).saturating_add(1 << 16),
        memory: 256 << 20,
    }
}

impl Laboratory for Workshop {
    type Error = guest::Error;

    fn sweep(&self, run: usize, trials: &[Trial], desk: &dyn Desk) -> Result<(), guest::Error> {
        let next = AtomicUsize::new(0);
        let trouble: Mutex<Option<guest::Error>> = Mutex::new(None);
        let workers = self.cpus.len().min(trials.len().div_ceil(BATCH)).max(1);
        // What stops the guest of each worker.
        let bells: Vec<Bell> = (0..workers).map(|_| Bell::default()).collect();
        let work = |cpu: usize, bell: &Bell| {
            let mut set = CpuSet::new();
            if set.set(cpu).is_ok() {
                // On failure the workers share a CPU, which costs time only.
                let _ = sched_setaffinity(Pid::from_raw(0), &set);
            }
            let result = self.work(run, trials, &next, desk, bell);
            if let (Err(e), Ok(mut first)) = (result, trouble.lock()) {
                first.get_or_insert(e);
            }
        };
        let ring = || bells.iter().for_each(ring);
        watch(&|| desk.stopped(), &ring, || {
            std::thread::scope(|scope| {
                for (&cpu, bell) in self.cpus.iter().zip(&bells) {
                    scope.spawn(move || work(cpu, bell));
                }
            });
        });
        match trouble.into_inner() {
            Ok(Some(e)) => Err(e),
            _ => Ok(()),
        }
    }
}

/// The flag that stops the guest at work.
type Bell = Mutex<Option<Arc<AtomicBool>>>;

fn ring(bell: &Bell) {
    if let Ok(bell) = bell.lock()
        && let Some(flag) = bell.as_ref()
    {
        flag.store(true, Ordering::SeqCst);
    }
}

impl Workshop {
    fn work(
        &self,
        run: usize,
        trials: &[Trial],
        next: &AtomicUsize,
        desk: &dyn Desk,
        bell: &Bell,
    ) -> Result<(), guest::Error> {
        let mut bench: Option<Bench<'_>> = None;
        loop {
            let begin = next.fetch_add(BATCH, Ordering::Relaxed);
            if begin >= trials.len() {
                return Ok(());
            }
            let end = (begin + BATCH).min(trials.len());
            for (i, trial) in trials[begin..end].iter().enumerate() {
                if desk.stopped() {
                    return Ok(());
                }
                if !desk.wanted(begin + i) {
                    continue;
                }
                let this = match &mut bench {
                    Some(b) if self.fork => b,
                    slot => {
                        // The old guest goes before the next one comes.
                        slot.take();
                        let opened = Bench::open(&self.specimens[run])?;
                        if let Ok(mut bell) = bell.lock() {
                            *bell = Some(opened.replay.interrupter());
                        }
                        slot.insert(opened)
                    }
                };
                let outcome = if self.fork {
                    this.try_in_copy(trial, desk)
                } else {
                    this.try_here(trial, desk)
                };
                let outcome = outcome.unwrap_or_else(|_| {
                    // What is left of the guest is of no use.
                    bench = None;
                    Some(Outcome::Failed)
                });
                // One that was cut short has yet to be made.
                let Some(outcome) = outcome else {
                    return Ok(());
                };
                desk.done(begin + i, outcome);
            }
        }
    }
}

/// A failing run that stands at some step.
struct Bench<'a> {
    specimen: &'a Specimen,
    replay: Replay,
    output: Rc<RefCell<Vec<u8>>>,
    /// What the user's command has said of outputs.
    verdicts: HashMap<u64, bool>,
}

impl<'a> Bench<'a> {
    fn open(specimen: &'a Specimen) -> Result<Self, guest::Error> {
        let output: Rc<RefCell<Vec<u8>>> = Rc::default();
        let sink = {
            let output = output.clone();
            Box::new(move |kind, bytes: &[u8]| {
                if kind == OutputKind::Stdout {
                    output.borrow_mut().extend_from_slice(bytes);
                }
            })
        };
        let mut replay = Replay::open(&specimen.folder, sink)?;
        replay.limit(specimen.limits)?;
        Ok(Bench {
            specimen,
            replay,
            output,
            verdicts: HashMap::new(),
        })
    }

    /// Goes to where the trial changes something, or says how it comes out without getting there.
    fn arrive(&mut self, trial: &Trial) -> Result<ControlFlow<Option<Outcome>>, guest::Error> {
        Ok(match self.replay.run(&Until::step(trial.step))? {
            Halt::Step => ControlFlow::Continue(()),
            Halt::Interrupted => ControlFlow::Break(None),
            _ => ControlFlow::Break(Some(Outcome::Failed)),
        })
    }

    /// How the trial comes out in a copy of the guest; nothing if there was no time for it.
    fn try_in_copy(
        &mut self,
        trial: &Trial,
        desk: &dyn Desk,
    ) -> Result<Option<Outcome>, guest::Error> {
        if let ControlFlow::Break(outcome) = self.arrive(trial)? {
            return Ok(outcome);
        }
        let before = self.output.borrow().len();
        let halt = self.replay.branch(|replay| {
            apply(replay, &trial.change)?;
            replay.run(&Until::end())
        });
        let outcome = match halt {
            Ok(halt) => Ok(self.judge(&halt, desk)),
            // Something that an experiment may not do, or threads that do not come to where they changed.
            Err(
                guest::Error::Request(_)
                | guest::Error::Unsupported(_)
                | guest::Error::Unmapped(_)
                | guest::Error::Diverged(_),
            ) => Ok(Some(Outcome::Failed)),
            Err(e) => Err(e),
        };
        self.output.borrow_mut().truncate(before);
        outcome
    }

    fn try_here(
        &mut self,
        trial: &Trial,
        desk: &dyn Desk,
    ) -> Result<Option<Outcome>, guest::Error> {
        if let ControlFlow::Break(outcome) = self.arrive(trial)? {
            return Ok(outcome);
        }
        let halt =
            apply(&mut self.replay, &trial.change).and_then(|()| self.replay.run(&Until::end()));
        match halt {
            Ok(halt) => Ok(self.judge(&halt, desk)),
            Err(_) => Ok(Some(Outcome::Failed)),
        }
    }

    fn judge(&mut self, halt: &Halt, desk: &dyn Desk) -> Option<Outcome> {
        let status = match halt {
            Halt::Ended(End::Exited(status)) => *status,
            Halt::Ended(_) => return Some(Outcome::Crashed),
            Halt::Limit("steps") => return Some(Outcome::Limited(Limit::Steps)),
            Halt::Limit("time") => return Some(Outcome::Limited(Limit::Time)),
            Halt::Limit(_) => return Some(Outcome::Limited(Limit::Output)),
            Halt::Interrupted => return None,
            _ => return Some(Outcome::Failed),
        };
        let s = self.specimen;
        if s.wanted.status.is_some_and(|wanted| wanted != status) {
            return Some(Outcome::Wrong);
        }
        let output = self.output.borrow();
        let over = || desk.stopped();
        let ask = || (s.compare).equal(&s.wanted.stdout, &output, &s.home, &over);
        let equal = match &s.compare {
            Compare::Command(_) => {
                let mut hasher = DefaultHasher::new();
                output.hash(&mut hasher);
                let key = hasher.finish();
                match self.verdicts.get(&key) {
                    Some(known) => *known,
                    None => {
                        let equal = ask();
                        if !equal && over() {
                            return None;
                        }
                        self.verdicts.insert(key, equal);
                        equal
                    }
                }
            }
            _ => ask(),
        };
        Some(if equal {
            Outcome::Mended
        } else {
            Outcome::Wrong
        })
    }
}

/// Changes the stopped guest.
fn apply(replay: &mut Replay, change: &Change) -> Result<(), guest::Error> {
    let mut regs = replay.regs();
    let mut writes = Vec::new();
    match change {
        Change::Branch(to) => regs.rip = *to,
        Change::Set(list) => {
            for &(location, value) in list {
                location_put(&mut regs, &mut writes, location, value);
            }
        }
    }
    for (address, bytes) in &writes {
        replay.write(*address, bytes)?;
    }
    replay.set_regs(&regs)
}
