//! Checkpoints: copies of the whole guest to return to.
//!
//! A checkpoint is a forked guest that stays stopped, together with everything the tracer knows at
//! that moment: registers, the place in the recording, signal actions, the program break. Memory
//! is shared until written, so taking one costs the copying of page tables. Going back forks the
//! stopped copy once more, so that a checkpoint can be returned to any number of times.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::Error;
use crate::descriptors::Descriptors;
use crate::edit::{Edit, EditId};
use crate::engine::{Kept, Pending};
use crate::memory::Memory;
use crate::ptrace::Tracee;
use crate::recording::{Event, Reader};
use crate::replay::{Halt, Replay, Until};
use crate::shared::Objects;
use crate::stops::Stops;
use crate::threads::ThreadId;

/// Names a checkpoint of one replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CheckpointId(pub u32);

pub(crate) struct Checkpoint {
    tracee: Tracee,
    pub(crate) step: u64,
    kept: Kept,
    reader: Reader,
    next: Option<Event>,
    names: HashMap<PathBuf, PathBuf>,
    brk: u64,
    descriptors: Descriptors,
    stops: Stops,
    edits: BTreeMap<EditId, Edit>,
    edited: bool,
    objects: Objects,
    in_call: Vec<ThreadId>,
    gone: Vec<ThreadId>,
    to_deliver: VecDeque<Pending>,
}

impl Checkpoint {
    pub(crate) fn give_up(self) {
        self.tracee.kill_later();
    }
}

/// When a replay takes checkpoints by itself.
#[derive(Clone, Copy, Debug)]
pub struct Spacing {
    /// Running time between two of them; also about what going to any step may cost.
    pub time: Duration,
    /// More than this many are thinned out, and the spacing doubled.
    pub most: usize,
}

impl Default for Spacing {
    fn default() -> Self {
        Spacing {
            time: Duration::from_millis(1000),
            most: 64,
        }
    }
}

impl Replay {
    /// Keeps the present state. It can be returned to with [`Replay::restore`].
    pub fn checkpoint(&mut self) -> Result<CheckpointId, Error> {
        let checkpoint = self.take_checkpoint()?;
        let id = CheckpointId(self.last_checkpoint);
        self.last_checkpoint += 1;
        self.checkpoints.insert(id, checkpoint);
        Ok(id)
    }

    pub(crate) fn take_checkpoint(&mut self) -> Result<Checkpoint, Error> {
        if self.ended.is_some() {
            return Err(Error::Ended);
        }
        if self.private.is_some() {
            return Err(Error::Request(
                "a run that has left the recording cannot be kept: its files are not".into(),
            ));
        }
        let tracee = self.engine.copy()?;
        let objects = self.engine.separate(tracee, &self.objects)?;
        self.describe(tracee, objects)
    }

    /// The present state, as that of process `tracee`.
    fn describe(&self, tracee: Tracee, objects: Objects) -> Result<Checkpoint, Error> {
        Ok(Checkpoint {
            tracee,
            step: self.engine.step()?,
            kept: self.engine.keep(),
            reader: self.reader.clone(),
            next: self.next.clone(),
            names: self.names.clone(),
            brk: self.brk,
            descriptors: self.descriptors.clone(),
            stops: self.stops.lasting(),
            edits: self.edits.clone(),
            edited: self.edited,
            objects,
            in_call: self.in_call.clone(),
            gone: self.gone.clone(),
            to_deliver: self.to_deliver.clone(),
        })
    }

    /// The checkpoints taken by hand, with their steps.
    pub fn checkpoints(&self) -> Vec<(CheckpointId, u64)> {
        self.checkpoints
            .iter()
            .map(|(&id, c)| (id, c.step))
            .collect()
    }

    /// Goes back (or forward) to a checkpoint, which stays.
    pub fn restore(&mut self, id: CheckpointId) -> Result<(), Error> {
        let c = self
            .checkpoints
            .remove(&id)
            .ok_or(Error::NoCheckpoint(id.0))?;
        let here = self.step()?;
        let r = self.return_to(&c);
        self.shown_to = self.shown_to.max(here);
        self.checkpoints.insert(id, c);
        r
    }

    /// Gives a checkpoint up.
    pub fn forget(&mut self, id: CheckpointId) -> Result<(), Error> {
        let c = self
            .checkpoints
            .remove(&id)
            .ok_or(Error::NoCheckpoint(id.0))?;
        c.tracee.kill_later();
        Ok(())
    }

    pub(crate) fn return_to(&mut self, c: &Checkpoint) -> Result<(), Error> {
        if self.engine.taping() {
            return Err(Error::Request(
                "a tape is being written: the guest cannot go back".into(),
            ));
        }
        self.engine.tracee.kill_later();
        self.engine.tracee = c.tracee;
        self.engine.memory = Memory::of(c.tracee.0);
        self.engine.restore(&c.kept);
        self.engine.can_deliver = false;
        let running = self.engine.copy()?;
        self.objects = self.engine.separate(running, &c.objects)?;
        self.engine.tracee = running;
        self.engine.memory = Memory::of(running.0);
        crate::interrupts::guest(running.0);
        self.engine.can_deliver = false;
        self.engine.map_missing_regions(&c.kept)?;
        self.adopt(c);
        self.engine.check_constants()
    }

    /// Takes over what the tracer knew, the process having been exchanged already.
    fn adopt(&mut self, c: &Checkpoint) {
        self.reader = c.reader.clone();
        self.next = c.next.clone();
        self.names = c.names.clone();
        self.brk = c.brk;
        self.descriptors = c.descriptors.clone();
        self.stops = c.stops.clone();
        self.stops.rearm(&mut self.engine);
        self.edits = c.edits.clone();
        self.reflip();
        self.redirect();
        self.edited = c.edited;
        self.in_call = c.in_call.clone();
        self.gone = c.gone.clone();
        self.ended = None;
        self.announced = None;
        self.at_call = false;
        self.private = None;
        self.to_deliver = c.to_deliver.clone();
    }

    /// Does something in a copy of the guest, which is then given up. The guest itself stays where
    /// it is: this costs one fork, where going back to a checkpoint and taking the next cost three.
    pub fn branch<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.ended.is_some() {
            return Err(Error::Ended);
        }
        if self.private.is_some() {
            return Err(Error::Request(
                "a run that has left the recording cannot be branched: its files are not".into(),
            ));
        }
        let copy = self.engine.copy()?;
        let objects = self.engine.separate(copy, &self.objects)?;
        let objects = std::mem::replace(&mut self.objects, objects);
        let original = self.describe(self.engine.tracee, objects)?;
        let (shown_to, put_out, at_call, resume_call) =
            (self.shown_to, self.put_out, self.at_call, self.resume_call);
        let announced = self.announced.clone();
        let (space, constants) = (self.engine.space, self.engine.code.constants.version);
        self.engine.tracee = copy;
        self.engine.memory = Memory::of(copy.0);
        crate::interrupts::guest(copy.0);
        self.engine.can_deliver = false;
        let result = f(self);
        self.engine.tracee.kill_later();
        self.engine.tracee = original.tracee;
        self.engine.memory = Memory::of(original.tracee.0);
        crate::interrupts::guest(original.tracee.0);
        let moved = self.engine.space != space;
        if moved {
            self.engine.restore(&original.kept);
        } else {
            self.engine.restore_same_space(&original.kept);
        }
        self.engine.can_deliver = false;
        self.engine.map_missing_regions(&original.kept)?;
        self.adopt(&original);
        self.objects = original.objects;
        (self.shown_to, self.put_out, self.at_call, self.resume_call) =
            (shown_to, put_out, at_call, resume_call);
        self.announced = announced;
        // They hold in the guest itself, unless the copy has found others.
        if self.engine.code.constants.version != constants {
            self.engine.check_constants()?;
        }
        result
    }

    /// Goes to a step, forward or back, by the nearest checkpoint on the way.
    pub fn goto(&mut self, step: u64) -> Result<Halt, Error> {
        self.approach(step)?;
        self.run(&Until::step(step))
    }

    /// Goes back to the first checkpoint that the replay took by itself, whatever was edited since.
    pub fn rewind(&mut self) -> Result<(), Error> {
        if self.automatic.is_empty() {
            return Err(Error::NoCheckpoint(0));
        }
        let here = self.step()?;
        let first = self.automatic.remove(0);
        let r = self.return_to(&first);
        self.automatic.insert(0, first);
        self.shown_to = self.shown_to.max(here);
        r
    }

    /// Goes to the last checkpoint before a step, unless it is nearer from where the guest stands.
    pub fn approach(&mut self, step: u64) -> Result<(), Error> {
        let here = if self.ended.is_some() {
            u64::MAX
        } else {
            self.engine.step()?
        };
        let near = |list: &[Checkpoint]| {
            list.iter()
                .enumerate()
                .filter(|(_, c)| c.step <= step)
                .max_by_key(|(_, c)| c.step)
                .map(|(i, c)| (i, c.step))
        };
        let by_hand = self
            .checkpoints
            .iter()
            // One of an edited run is not a place on the way of this one.
            .filter(|(_, c)| c.step <= step && !c.edited && c.edits.is_empty())
            .max_by_key(|(_, c)| c.step)
            .map(|(&id, c)| (id, c.step));
        let automatic = near(&self.automatic);
        let best = automatic.map(|a| a.1).max(by_hand.map(|b| b.1));
        if here > step || best.is_some_and(|b| b > here) {
            match (automatic, by_hand) {
                (Some((i, a)), hand) if hand.is_none_or(|h| h.1 <= a) => {
                    let c = self.automatic.remove(i);
                    let r = self.return_to(&c);
                    self.automatic.insert(i, c);
                    r?;
                }
                (_, Some((id, _))) => self.restore(id)?,
                (_, None) => {
                    return Err(Error::Request(
                        "going back needs checkpoints: ask for them before running".into(),
                    ));
                }
            }
            // What is shown again on the way has been shown before.
            self.shown_to = self.shown_to.max(here.min(u64::MAX - 1));
        }
        Ok(())
    }

    /// Called between stretches of a long run.
    pub(crate) fn maybe_checkpoint(&mut self) -> Result<(), Error> {
        if self.last_automatic.elapsed() < self.spacing.time || self.edited {
            return Ok(());
        }
        let step = self.engine.step()?;
        if self.automatic.iter().any(|c| c.step >= step) {
            self.last_automatic = Instant::now();
            return Ok(());
        }
        let c = self.take_checkpoint()?;
        self.automatic.push(c);
        if self.automatic.len() > self.spacing.most {
            let mut i = 0;
            // The first is the beginning and always stays.
            self.automatic.retain(|c| {
                i += 1;
                let keep = i % 2 == 1;
                if !keep {
                    c.tracee.kill_later();
                }
                keep
            });
            self.spacing.time *= 2;
        }
        self.last_automatic = Instant::now();
        Ok(())
    }

    pub(crate) fn drop_checkpoints(&mut self) {
        for c in self.checkpoints.values().chain(&self.automatic) {
            c.tracee.kill_later();
        }
        self.checkpoints.clear();
        self.automatic.clear();
    }
}
