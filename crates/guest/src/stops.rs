//! Where a run is to stop, and what becomes of it there.
//!
//! Each address with a stop has one countdown in the thread's page, which translated code counts
//! down by itself: stopping at the millionth execution costs one stop. Several stops at the same
//! address share it; the countdown is always loaded with the nearest of them.
//!
//! Code with a countdown is translated anew when the countdown is taken away. A debugger runs from one
//! breakpoint to the next and sets the same ones each time, so the countdowns of a run that has ended are
//! left in the code for a while: they are *idle*, and run out after more steps than there are.
//!
//! The countdowns are in the guest, and each look there is a system call. So they are read and written all at once
//! ([`Counts`]): a run may have hundreds of stops, and there are many short runs.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::Error;
use crate::engine::Engine;
use crate::layout::slot;
use crate::replay::StopAt;

/// Idle countdowns that are kept.
const MOST_IDLE: usize = 64;

/// What a stop at an address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The caller asked to stop here.
    Halt(usize),
    /// An edit is due.
    Edit(u32),
}

#[derive(Clone, Debug)]
struct Address {
    slot: u32,
    /// What the countdown was loaded with.
    loaded: u64,
    /// Executions left, as of that moment, for each purpose; none if it is idle.
    wanted: Vec<(u64, Purpose)>,
}

impl Address {
    fn is_idle(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Brings the numbers up to date with the countdown.
    fn settle(&mut self, counts: &Counts) {
        let left = counts.get(self.slot);
        let passed = self.loaded.wrapping_sub(left);
        for w in &mut self.wanted {
            w.0 = w.0.saturating_sub(passed);
        }
        self.loaded = left;
    }

    fn load(&mut self, pc: u64, counts: &mut Counts, engine: &mut Engine) {
        let ahead = self.wanted.iter().map(|w| w.0).filter(|&n| n > 0);
        self.loaded = ahead.min().unwrap_or(u64::MAX);
        engine.arm(pc, self.slot);
        counts.set(self.slot, self.loaded);
    }
}

/// All countdowns of the guest, as they are where it stands.
struct Counts {
    words: Vec<u8>,
    /// Those that were changed are in here.
    changed: Option<Range<usize>>,
}

impl Counts {
    fn of(engine: &Engine) -> Result<Counts, Error> {
        Ok(Counts {
            words: engine.countdowns()?,
            changed: None,
        })
    }

    fn get(&self, slot: u32) -> u64 {
        let at = slot as usize * 8;
        let word = self.words[at..at + 8].try_into();
        u64::from_le_bytes(word.expect("eight bytes"))
    }

    fn set(&mut self, slot: u32, value: u64) {
        let at = slot as usize * 8;
        self.words[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let changed = self.changed.take().unwrap_or(at..at);
        self.changed = Some(changed.start.min(at)..changed.end.max(at + 8));
    }

    fn write(self, engine: &mut Engine) -> Result<(), Error> {
        match self.changed {
            None => Ok(()),
            Some(changed) => engine.set_countdowns(changed.start, &self.words[changed]),
        }
    }
}

/// All armed stops of a replay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stops {
    at: BTreeMap<u64, Address>,
    /// The countdown has seen the guest arrive where it stands.
    pub(crate) counted: bool,
    /// Edits of the instruction at which the guest stands.
    here: Vec<u32>,
    /// The first of the slots that it may use.
    first: u32,
}

impl Stops {
    /// Those of a guest whose scheduler needs the slots below `first`.
    pub(crate) fn beside(first: u32) -> Stops {
        Stops {
            first,
            ..Stops::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    pub(crate) fn has(&self, pc: u64) -> bool {
        self.at.get(&pc).is_some_and(|a| !a.is_idle())
    }

    /// The run that begins where the guest stands does not count the instruction there. False if it
    /// cannot be counted out, because edits count it.
    pub(crate) fn let_pass(&mut self, engine: &mut Engine) -> Result<bool, Error> {
        let pc = engine.regs.rip;
        let Some(a) = self.at.get_mut(&pc) else {
            return Ok(false);
        };
        if a.wanted.iter().any(|w| matches!(w.1, Purpose::Edit(_))) {
            return Ok(false);
        }
        let mut counts = Counts::of(engine)?;
        a.settle(&counts);
        for w in &mut a.wanted {
            w.0 += 1;
        }
        a.load(pc, &mut counts, engine);
        counts.write(engine)?;
        Ok(true)
    }

    /// Begins a run with these stops.
    pub(crate) fn begin_run(&mut self, engine: &mut Engine, stops: &[StopAt]) -> Result<(), Error> {
        let halts = stops.iter().enumerate();
        self.add_all(engine, halts.map(|(i, s)| (s.pc, s.nth, Purpose::Halt(i))))
    }

    /// Stops before certain executions from here on: of an address, the n-th.
    pub(crate) fn add_all(
        &mut self,
        engine: &mut Engine,
        mut stops: impl Iterator<Item = (u64, u64, Purpose)>,
    ) -> Result<(), Error> {
        let mut counts = Counts::of(engine)?;
        let added = stops
            .try_for_each(|(pc, nth, purpose)| self.put(&mut counts, engine, pc, nth, purpose));
        counts.write(engine)?;
        added
    }

    /// Stops before the `nth` execution of `pc` from here on.
    pub(crate) fn add(
        &mut self,
        engine: &mut Engine,
        pc: u64,
        nth: u64,
        purpose: Purpose,
    ) -> Result<(), Error> {
        self.add_all(engine, std::iter::once((pc, nth, purpose)))
    }

    fn put(
        &mut self,
        counts: &mut Counts,
        engine: &mut Engine,
        pc: u64,
        nth: u64,
        purpose: Purpose,
    ) -> Result<(), Error> {
        if nth == 0 {
            return Err(Error::Request("executions are counted from 1".into()));
        }
        if let Some(a) = self.at.get_mut(&pc) {
            if !a.is_idle() {
                a.settle(counts);
            }
            a.wanted.push((nth, purpose));
            a.load(pc, counts, engine);
            return Ok(());
        }
        let idle = self.at.values().filter(|a| a.is_idle()).count();
        if idle >= MOST_IDLE || self.at.len() as u32 >= slot::MAX_STOPS - self.first {
            self.at.retain(|&pc, a| {
                if a.is_idle() {
                    engine.disarm(pc);
                }
                !a.is_idle()
            });
        }
        let used: Vec<u32> = self.at.values().map(|a| a.slot).collect();
        let slot = (self.first..slot::MAX_STOPS)
            .find(|n| !used.contains(n))
            .ok_or_else(|| {
                let most = slot::MAX_STOPS - self.first;
                Error::Request(format!("more than {most} stops at a time"))
            })?;
        let mut a = Address {
            slot,
            loaded: 0,
            wanted: vec![(nth, purpose)],
        };
        a.load(pc, counts, engine);
        self.at.insert(pc, a);
        Ok(())
    }

    /// Has edit `id` done before the `nth` execution of `pc`, the one that the guest, at `here`, is
    /// about to do being the first.
    pub(crate) fn add_edit(
        &mut self,
        engine: &mut Engine,
        pc: u64,
        nth: u64,
        id: u32,
    ) -> Result<(), Error> {
        if pc != engine.regs.rip || !self.counted {
            return self.add(engine, pc, nth, Purpose::Edit(id));
        }
        if nth == 1 {
            self.here.push(id);
            return Ok(());
        }
        self.add(engine, pc, nth.saturating_sub(1), Purpose::Edit(id))
    }

    /// An edit that is due waits, because the guest stops before the instruction.
    pub(crate) fn put_off(&mut self, id: u32) {
        self.here.push(id);
    }

    /// The edits due before the instruction at which the guest stands and from which it goes on.
    /// Edits count it if they have not yet; stops of a run do not count where it begins.
    pub(crate) fn edits_here(&mut self, engine: &mut Engine) -> Result<Vec<u32>, Error> {
        let mut due = std::mem::take(&mut self.here);
        if std::mem::replace(&mut self.counted, true) {
            return Ok(due);
        }
        let pc = engine.regs.rip;
        let Some(a) = self.at.get_mut(&pc).filter(|a| !a.is_idle()) else {
            return Ok(due);
        };
        let mut counts = Counts::of(engine)?;
        a.settle(&counts);
        a.wanted.retain_mut(|(n, purpose)| match *purpose {
            Purpose::Halt(_) => true,
            Purpose::Edit(id) => {
                *n -= 1;
                if *n == 0 {
                    due.push(id);
                }
                *n != 0
            }
        });
        a.load(pc, &mut counts, engine);
        counts.write(engine)?;
        Ok(due)
    }

    /// The countdown at `pc` ran out: what for.
    pub(crate) fn due(&mut self, engine: &mut Engine, pc: u64) -> Result<Vec<Purpose>, Error> {
        let Some(a) = self.at.get_mut(&pc) else {
            return Ok(Vec::new());
        };
        let mut counts = Counts::of(engine)?;
        a.settle(&counts);
        let due = a.wanted.iter().filter(|w| w.0 == 0).map(|w| w.1).collect();
        a.wanted.retain(|w| w.0 != 0);
        a.load(pc, &mut counts, engine);
        counts.write(engine)?;
        Ok(due)
    }

    /// Takes away what `gone` says.
    pub(crate) fn remove(
        &mut self,
        engine: &mut Engine,
        gone: impl Fn(Purpose) -> bool,
    ) -> Result<(), Error> {
        self.here.retain(|&id| !gone(Purpose::Edit(id)));
        let mut counts = Counts::of(engine)?;
        for (&pc, a) in &mut self.at {
            if !a.wanted.iter().any(|w| gone(w.1)) {
                continue;
            }
            a.settle(&counts);
            a.wanted.retain(|w| !gone(w.1));
            a.load(pc, &mut counts, engine);
        }
        counts.write(engine)
    }

    /// What outlives the run at hand: edits. Stops are the run's own.
    pub(crate) fn lasting(&self) -> Stops {
        let mut out = self.clone();
        out.at.retain(|_, a| {
            a.wanted.retain(|w| matches!(w.1, Purpose::Edit(_)));
            !a.wanted.is_empty()
        });
        out
    }

    /// The stops of the run at hand, with the executions that are left for each.
    pub(crate) fn of_run(&mut self, engine: &Engine) -> Result<Vec<(u64, u64, Purpose)>, Error> {
        let mut out = Vec::new();
        let counts = Counts::of(engine)?;
        for (&pc, a) in &mut self.at {
            a.settle(&counts);
            let halts = a.wanted.iter().filter(|w| matches!(w.1, Purpose::Halt(_)));
            out.extend(halts.map(|&(left, purpose)| (pc, left.max(1), purpose)));
        }
        Ok(out)
    }

    /// Takes the stops of the run at hand away, and says how often the address of each was come to.
    pub(crate) fn end_run(
        &mut self,
        engine: &mut Engine,
        stops: &[StopAt],
    ) -> Result<Vec<u64>, Error> {
        // One that was due is not there any more.
        let mut passed: Vec<u64> = stops.iter().map(|s| s.nth).collect();
        let of_run = |p: Purpose| matches!(p, Purpose::Halt(_));
        let mut counts = Counts::of(engine)?;
        for (&pc, a) in &mut self.at {
            if !a.wanted.iter().any(|w| of_run(w.1)) {
                continue;
            }
            a.settle(&counts);
            for (left, purpose) in &a.wanted {
                if let Purpose::Halt(i) = *purpose {
                    passed[i] = stops[i].nth.saturating_sub(*left);
                }
            }
            a.wanted.retain(|w| !of_run(w.1));
            a.load(pc, &mut counts, engine);
        }
        counts.write(engine)?;
        Ok(passed)
    }

    /// Makes the engine's armed addresses those of `self`, after a return to a checkpoint.
    pub(crate) fn rearm(&self, engine: &mut Engine) {
        let wanted: Vec<(u64, u32)> = self.at.iter().map(|(&pc, a)| (pc, a.slot)).collect();
        engine.set_armed(&wanted);
    }
}
