//! Going on and going back.
//!
//! Going on is running the replay with the debugger's breakpoints as stops of the engine and its
//! watchpoints as watches. Going back is finding the last place before the present one at which going
//! on would have stopped: stretches of the past, the nearest first and each longer than the one
//! before, are executed again from a checkpoint. In a stretch that has a stop, the later half is
//! asked first, so that a breakpoint that is hit a million times does not stop a million times.

use std::collections::BTreeSet;

use guest::{End, Halt, StopAt, Syscalls, ThreadId, Until};
use iced_x86::{Decoder, DecoderOptions, FlowControl};

use super::{Catch, Go, Session, Watch, Why};
use crate::Error;

const SYS_EXIT_GROUP: u64 = 231;
const SIGSEGV: i32 = 11;

/// Steps of the first stretch that is looked at when going back.
const FIRST: u64 = 2_000;
/// How much longer the next one is.
const LONGER: u64 = 8;
/// In a stretch of this many steps all stops are gone through.
const SHORT: u64 = 500;
/// Single steps in a range before stops are set at its exits.
const PATIENCE: u32 = 24;
/// Checkpoints kept near where somebody steps back.
const NEAR: usize = 6;

impl Session {
    /// Forward, to the breakpoints that are not ignored.
    fn until(&self, goal: Option<u64>) -> Until {
        let mut until = self.until_any(goal);
        for s in &mut until.stops {
            if !self.conditions.contains_key(&s.pc) {
                s.nth = self.ignores(s.pc).saturating_add(1);
            }
        }
        until
    }

    fn until_any(&self, goal: Option<u64>) -> Until {
        let stops = self.breakpoints.keys();
        let watches = self.watches.iter().map(|w| guest::Watch {
            addr: w.addr,
            len: w.len,
            read: w.read,
            write: w.write,
        });
        Until {
            step: goal,
            stops: stops.map(|&pc| StopAt { pc, nth: 1 }).collect(),
            syscalls: match &self.catch {
                Catch::Nothing => Syscalls::Numbers(vec![SYS_EXIT_GROUP]),
                Catch::All => Syscalls::Any,
                Catch::Numbers(list) => {
                    Syscalls::Numbers(list.iter().copied().chain([SYS_EXIT_GROUP]).collect())
                }
            },
            watches: watches.collect(),
            signals: true,
        }
    }

    /// Lets the guest go on.
    pub fn forward(&mut self, how: Go) -> Result<Why, Error> {
        if std::mem::take(&mut self.moved) {
            self.last = Some(Why::Moved);
            self.library_passed = None;
            return Ok(Why::Moved);
        }
        self.settle()?;
        self.replay.show_from(self.times.shown);
        self.replay.mute(false);
        let why = self.ahead(how);
        self.replay.mute(true);
        self.last = why.as_ref().ok().copied();
        if matches!(why, Ok(Why::Breakpoint)) {
            self.note_return();
        }
        if self.on_recording() {
            self.times.shown = self.times.shown.max(self.step()?);
        }
        why
    }

    fn ahead(&mut self, how: Go) -> Result<Why, Error> {
        if let Some((thread, nr)) = self.returning.take()
            && thread == self.replay.thread()
        {
            let step = self.step()?;
            let why = self.go_on(&Until {
                step: Some(step + 1),
                signals: true,
                ..Until::default()
            })?;
            return Ok(match why {
                Why::Step => Why::Call { nr, entry: false },
                other => other,
            });
        }
        match how {
            Go::On => self.on(),
            Go::Step { tid } => self.one(tid),
            Go::Range { tid, start, end } => self.range(tid, start, end),
        }
    }

    /// To the next breakpoint, marked step or call that stops the guest.
    fn on(&mut self) -> Result<Why, Error> {
        loop {
            let mark = match self.marks.is_empty() {
                true => None,
                false => self.marks.range(self.step()? + 1..).next().copied(),
            };
            let mut until = self.until(mark);
            let own = self.library_stops();
            until.stops.extend(&own);
            let why = self.go_on(&until)?;
            let pc = self.replay.regs().rip;
            match why {
                Why::Step if mark == Some(self.step()?) => return Ok(Why::Marked),
                Why::Breakpoint if own.iter().any(|s| s.pc == pc) => {
                    self.replay.mute(true);
                    let stops = self.at_library()?;
                    self.replay.mute(false);
                    if let Some(why) = stops {
                        return Ok(why);
                    }
                }
                Why::Breakpoint if self.passes_by() => {}
                why => return Ok(why),
            }
        }
    }

    /// Runs, past the points at which the timeline was changed, and says why it ended.
    fn go_on(&mut self, until: &Until) -> Result<Why, Error> {
        let halt = self.run(until)?;
        for (stop, passed) in until.stops.iter().zip(&self.passed) {
            if let Some(left) = self.ignored.get_mut(&stop.pc) {
                *left = left.saturating_sub(*passed);
            }
        }
        let why = match halt {
            Halt::Step | Halt::Limit(_) => Why::Step,
            Halt::Stop(_) => Why::Breakpoint,
            Halt::Interrupted => Why::Interrupted,
            Halt::Signal(SIGSEGV) if self.breakpoints.contains_key(&self.replay.regs().rip) => {
                // A called function has returned to the breakpoint that a debugger has put where
                // there is no code.
                Why::Breakpoint
            }
            Halt::Signal(signal) => Why::Signal(signal),
            Halt::Ended(End::Exited(status)) => Why::Exited(status),
            Halt::Ended(End::Killed(signal)) => Why::Killed(signal),
            Halt::Ended(End::Deadlocked) => Why::End,
            Halt::Syscall { nr } => {
                let caught = match &self.catch {
                    Catch::Nothing => false,
                    Catch::All => true,
                    Catch::Numbers(list) => list.contains(&nr),
                };
                if caught {
                    self.returning = Some((self.replay.thread(), nr));
                    Why::Call { nr, entry: true }
                } else {
                    Why::End
                }
            }
            Halt::Access => {
                let before = self.watched_bytes();
                let guess = self.guess();
                let step = self.step()?;
                let after = Until {
                    step: Some(step + 1),
                    signals: true,
                    ..Until::default()
                };
                match self.run(&after)? {
                    Halt::Step => Why::Watch(self.which(&before, guess)),
                    Halt::Signal(signal) => Why::Signal(signal),
                    Halt::Ended(End::Exited(status)) => Why::Exited(status),
                    _ => Why::Watch(self.which(&before, guess)),
                }
            }
        };
        Ok(why)
    }

    fn watched_bytes(&self) -> Vec<Vec<u8>> {
        let bytes = |w: &Watch| {
            let mut b = vec![0; w.len.min(4096) as usize];
            let n = self.replay.read(w.addr, &mut b);
            b.truncate(n);
            b
        };
        self.watches.iter().map(bytes).collect()
    }

    /// The watch that the next instruction touches, by its operands.
    fn guess(&self) -> Option<Watch> {
        let regs = self.replay.regs();
        let mut code = [0; 15];
        let n = self.replay.read(regs.rip, &mut code);
        let insn = Decoder::with_ip(64, &code[..n], regs.rip, DecoderOptions::NONE).decode();
        let operands = crate::access::operands(&insn, &crate::moment::registers(&regs));
        let touched = |w: &&Watch| {
            operands.iter().any(|o| {
                o.address < w.addr.saturating_add(w.len)
                    && w.addr < o.address.saturating_add(o.size)
                    && (o.read && w.read || o.write && w.write)
            })
        };
        self.watches.iter().find(touched).copied()
    }

    /// The watch to be reported: the one whose memory has changed, else the one that was touched.
    fn which(&self, before: &[Vec<u8>], guess: Option<Watch>) -> Watch {
        let after = self.watched_bytes();
        let pairs = before.iter().zip(&after).zip(&self.watches);
        let mut changed = pairs.filter(|((b, a), w)| w.write && a != b);
        let first = changed.next().map(|(_, w)| *w);
        let any = self.watches.first().copied();
        first.or(guess).or(any).expect("a watch has fired")
    }

    /// The thread that executes the instruction at a step.
    fn runs_at(&self, step: u64) -> ThreadId {
        let after = self.switches.partition_point(|s| s.step <= step);
        let last = after.checked_sub(1).map(|i| self.switches[i].thread);
        last.unwrap_or(ThreadId(0))
    }

    /// The next step, from this one on, that a thread executes.
    fn next_of(&self, thread: ThreadId, step: u64) -> u64 {
        if self.on_recording() && self.runs_at(step) != thread {
            let later = self.switches.iter().filter(|s| s.step > step);
            let mut turns = later.filter(|s| s.thread == thread && self.runs_at(s.step) == thread);
            if let Some(turn) = turns.next() {
                return turn.step;
            }
        }
        step
    }

    /// One instruction of a thread.
    fn one(&mut self, tid: i32) -> Result<Why, Error> {
        let step = self.step()?;
        let thread = self.id_of(tid).unwrap_or(self.replay.thread());
        let next = self.next_of(thread, step);
        if next > step {
            // Another thread is first, and may come to a breakpoint.
            return self.go_on(&self.until(Some(next + 1)));
        }
        let reads = self.watches.iter().any(|w| w.read);
        if reads {
            let watches = self.until(None).watches;
            return self.go_on(&Until {
                step: Some(step + 1),
                watches,
                signals: true,
                ..Until::default()
            });
        }
        let before = self.watched_bytes();
        let guess = self.guess();
        let why = self.go_on(&Until {
            step: Some(step + 1),
            signals: true,
            ..Until::default()
        })?;
        let touched = guess.is_some() || (!before.is_empty() && before != self.watched_bytes());
        Ok(match why {
            Why::Step if touched => Why::Watch(self.which(&before, guess)),
            other => other,
        })
    }

    fn range(&mut self, tid: i32, start: u64, end: u64) -> Result<Why, Error> {
        let inside = |s: &Self| {
            let pc = s.registers(tid).map(|r| r.rip);
            pc.is_some_and(|pc| (start..end).contains(&pc))
        };
        let interrupt = self.interrupter();
        let mut exits: Option<Vec<u64>> = None;
        for n in 0u32.. {
            let why = match &exits {
                Some(list) if self.may_run(list) => {
                    let mut until = self.until(None);
                    let more = list.iter().filter(|pc| !self.breakpoints.contains_key(pc));
                    until.stops.extend(more.map(|&pc| StopAt { pc, nth: 1 }));
                    match self.go_on(&until)? {
                        Why::Breakpoint => {
                            let pc = self.replay.regs().rip;
                            if self.breakpoints.contains_key(&pc) {
                                return Ok(Why::Breakpoint);
                            }
                            Why::Step
                        }
                        other => other,
                    }
                }
                _ => self.one(tid)?,
            };
            if why != Why::Step {
                return Ok(why);
            }
            if !inside(self) {
                let pc = self.replay.regs().rip;
                let hit = self.breakpoints.contains_key(&pc);
                return Ok(if hit { Why::Breakpoint } else { Why::Step });
            }
            if self.breakpoints.contains_key(&self.replay.regs().rip) {
                return Ok(Why::Breakpoint);
            }
            if interrupt.swap(false, std::sync::atomic::Ordering::SeqCst) {
                return Ok(Why::Interrupted);
            }
            if n == PATIENCE {
                exits = Some(self.exits(start, end));
            }
        }
        Ok(Why::Step)
    }

    /// The guest does not stand at an instruction whose way is not known.
    fn may_run(&self, exits: &[u64]) -> bool {
        !exits.is_empty() && !exits.contains(&self.replay.regs().rip)
    }

    /// Where a stretch of code is left: what it branches to outside, and inside the instructions
    /// whose way is not known beforehand. Empty if there are too many.
    fn exits(&self, start: u64, end: u64) -> Vec<u64> {
        const MOST: usize = 200;
        let mut code = vec![0; (end - start).min(1 << 16) as usize];
        let n = self.replay.read(start, &mut code);
        let mut out = BTreeSet::from([end]);
        for insn in &mut Decoder::with_ip(64, &code[..n], start, DecoderOptions::NONE) {
            match insn.flow_control() {
                FlowControl::Next => {}
                FlowControl::ConditionalBranch
                | FlowControl::UnconditionalBranch
                | FlowControl::Call => {
                    let to = insn.near_branch_target();
                    if !(start..end).contains(&to) {
                        out.insert(to);
                    }
                }
                _ => {
                    out.insert(insn.ip());
                }
            }
        }
        if out.len() > MOST || n < code.len() {
            return Vec::new();
        }
        out.into_iter().collect()
    }

    /// Lets the guest go back, to the last place before at which it would have stopped.
    pub fn backward(&mut self, how: Go) -> Result<Why, Error> {
        if std::mem::take(&mut self.moved) {
            self.last = Some(Why::Moved);
            self.library_passed = None;
            return Ok(Why::Moved);
        }
        self.settle()?;
        self.returning = None;
        self.last = None;
        self.library_passed = None;
        let here = self.step()?;
        if here == 0 {
            return Ok(Why::Begin);
        }
        let Go::Step { tid } = how else {
            return self.back_to_stop(here);
        };
        let thread = self.id_of(tid).unwrap_or(self.replay.thread());
        let mut step = here - 1;
        if self.on_recording() && self.runs_at(step) != thread {
            let before = self.switches.iter().rev().filter(|s| s.step <= step);
            let mut left = before.scan(step, |next, s| {
                let last = *next;
                *next = s.step.saturating_sub(1);
                Some((s.thread, last))
            });
            match left.find(|(t, _)| *t == thread) {
                Some((_, last)) => step = last,
                None => return self.back_to_stop(here),
            }
        }
        // The steps before will be asked for next.
        if self
            .near
            .iter()
            .all(|n| !(n.1 <= step && step - n.1 < FIRST))
        {
            self.go(step.saturating_sub(FIRST / 2))?;
            self.mark()?;
        }
        self.go(step)?;
        Ok(Why::Step)
    }

    pub(super) fn back_to_stop(&mut self, here: u64) -> Result<Why, Error> {
        let (mut hi, mut width) = (here, FIRST);
        loop {
            let lo = hi.saturating_sub(width);
            match self.last_in(lo, hi) {
                Ok(Some((step, why))) => {
                    self.go(step)?;
                    return Ok(why);
                }
                Ok(None) if lo == 0 => {
                    self.go(0)?;
                    return Ok(Why::Begin);
                }
                Ok(None) => (hi, width) = (lo, width.saturating_mul(LONGER)),
                Err(Error::Interrupted) => {
                    self.go(here)?;
                    return Ok(Why::Interrupted);
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// The last stop at a step from `lo` up to and not including `hi`.
    fn last_in(&mut self, lo: u64, hi: u64) -> Result<Option<(u64, Why)>, Error> {
        if lo >= hi {
            return Ok(None);
        }
        // A run does not stop where it begins.
        self.go(lo.saturating_sub(1))?;
        let begin =
            lo == 0 && self.breakpoints.contains_key(&self.replay.regs().rip) && !self.passes_by();
        let mut best = begin.then_some((0, Why::Breakpoint));
        if hi - lo > FIRST {
            self.mark()?;
        }
        let until = self.until_any(Some(hi));
        loop {
            let guess = match self.run(&until)? {
                Halt::Stop(_) if self.passes_by() => continue,
                Halt::Stop(_) => Why::Breakpoint,
                Halt::Access => {
                    let any = self.watches.first().copied();
                    Why::Watch(self.guess().or(any).expect("a watch has fired"))
                }
                Halt::Syscall { nr } if nr != SYS_EXIT_GROUP => Why::Call { nr, entry: true },
                Halt::Interrupted => return Err(Error::Interrupted),
                Halt::Syscall { .. } | Halt::Signal(_) => continue,
                Halt::Step | Halt::Limit(_) | Halt::Ended(_) => return Ok(best),
            };
            let step = self.step()?;
            if step >= hi {
                return Ok(best);
            }
            best = Some((step, guess));
            if hi - step > SHORT {
                let middle = step + (hi - step) / 2;
                let later = match self.last_in(middle, hi)? {
                    None => self.last_in(step + 1, middle)?,
                    found => found,
                };
                return Ok(later.or(best));
            }
        }
    }

    /// Goes to a step of the present timeline.
    pub(super) fn go(&mut self, step: u64) -> Result<(), Error> {
        self.approach(step)?;
        let until = Until {
            step: Some(step),
            signals: true,
            ..Until::default()
        };
        loop {
            match self.run(&until)? {
                Halt::Step | Halt::Ended(_) => return Ok(()),
                Halt::Interrupted => return Err(Error::Interrupted),
                _ => {}
            }
        }
    }

    /// Keeps the present state, for somebody who goes back step by step.
    fn mark(&mut self) -> Result<(), Error> {
        if self.replay.departure().is_some() || !self.on_recording() {
            return Ok(());
        }
        let step = self.step()?;
        let Ok(id) = self.replay.checkpoint() else {
            return Ok(());
        };
        self.near.push((id, step));
        if self.near.len() > NEAR {
            let (old, _) = self.near.remove(0);
            self.replay.forget(old).map_err(|e| self.wrong(e))?;
        }
        Ok(())
    }
}
