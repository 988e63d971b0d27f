//! A failing run on which experiments are made: a value is changed, the run goes on, and its output is judged.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use guest::{CheckpointId, End, Halt, Limits, OutputKind, Replay, Until};
use locate::{Change, Limit, Outcome};

use crate::debug::location_put;
use crate::locate::compare::Compare;
use crate::locate::native::Wanted;

/// A failing run to experiment with.
pub(crate) struct Specimen {
    pub(crate) folder: PathBuf,
    pub(crate) wanted: Wanted,
    pub(crate) compare: Compare,
    pub(crate) limits: Limits,
    /// Where the user's compare command runs.
    pub(crate) home: PathBuf,
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

/// A replacement to be tried.
pub(super) struct Task {
    /// Its number among the trials.
    pub(super) trial: usize,
    pub(super) step: u64,
    pub(super) change: Change,
}

/// A failing run that stands at some step.
pub(super) struct Bench<'a> {
    specimen: &'a Specimen,
    replay: Replay,
    output: Rc<RefCell<Vec<u8>>>,
    /// Where the first trial was made: the run is gone through again from there.
    begin: Option<Begin>,
    /// What the user's command has said of outputs.
    verdicts: HashMap<u64, bool>,
}

struct Begin {
    step: u64,
    checkpoint: CheckpointId,
    /// Bytes of output before it.
    output: usize,
}

impl<'a> Bench<'a> {
    pub(super) fn open(specimen: &'a Specimen) -> Result<Self, guest::Error> {
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
            begin: None,
            verdicts: HashMap::new(),
        })
    }

    /// The flag that stops the guest.
    pub(super) fn interrupter(&self) -> Arc<AtomicBool> {
        self.replay.interrupter()
    }

    /// The run can get to this step from where it stands, forward or back.
    pub(super) fn reaches(&self, step: u64) -> bool {
        self.begin.as_ref().is_none_or(|b| b.step <= step)
    }

    /// Goes back to the beginning, if the step has been passed already.
    fn go_back(&mut self, step: u64) -> Result<(), guest::Error> {
        if let Some(begin) = &self.begin
            && self.replay.step()? > step
        {
            self.replay.restore(begin.checkpoint)?;
            self.replay.show_again();
            // What was put out counts anew.
            self.replay.limit(self.specimen.limits)?;
            self.output.borrow_mut().truncate(begin.output);
        }
        Ok(())
    }

    /// Goes to where the trial changes something, or says how it comes out without getting there.
    fn arrive(&mut self, trial: &Task) -> Result<ControlFlow<Option<Outcome>>, guest::Error> {
        Ok(match self.replay.run(&Until::step(trial.step))? {
            Halt::Step => ControlFlow::Continue(()),
            Halt::Interrupted => ControlFlow::Break(None),
            _ => ControlFlow::Break(Some(Outcome::Failed)),
        })
    }

    /// How the trial comes out in a copy of the guest; nothing if there was no time for it.
    pub(super) fn try_in_copy(
        &mut self,
        trial: &Task,
        over: &dyn Fn() -> bool,
    ) -> Result<Option<Outcome>, guest::Error> {
        self.go_back(trial.step)?;
        if let ControlFlow::Break(outcome) = self.arrive(trial)? {
            return Ok(outcome);
        }
        let before = self.output.borrow().len();
        if self.begin.is_none() {
            self.begin = Some(Begin {
                step: trial.step,
                checkpoint: self.replay.checkpoint()?,
                output: before,
            });
        }
        let halt = self.replay.branch(|replay| {
            apply(replay, &trial.change)?;
            replay.run(&Until::end())
        });
        let outcome = match halt {
            Ok(halt) => Ok(self.judge(&halt, over)),
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

    /// The same in the guest itself, which is of no use afterwards.
    pub(super) fn try_here(
        &mut self,
        trial: &Task,
        over: &dyn Fn() -> bool,
    ) -> Result<Option<Outcome>, guest::Error> {
        if let ControlFlow::Break(outcome) = self.arrive(trial)? {
            return Ok(outcome);
        }
        let halt =
            apply(&mut self.replay, &trial.change).and_then(|()| self.replay.run(&Until::end()));
        match halt {
            Ok(halt) => Ok(self.judge(&halt, over)),
            Err(_) => Ok(Some(Outcome::Failed)),
        }
    }

    fn judge(&mut self, halt: &Halt, over: &dyn Fn() -> bool) -> Option<Outcome> {
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
        let ask = || (s.compare).equal(&s.wanted.stdout, &output, &s.home, over);
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
