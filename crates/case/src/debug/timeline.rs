//! What is the recording's and what was changed.
//!
//! A *timeline* is the recording with changes at certain steps. The first one, number 0, has none and
//! is never lost. A change makes a timeline of its own; behind the step at which it takes effect a
//! checkpoint of the changed guest is kept, and up to there the timeline is that of its parent. So
//! every position is (timeline, step), and going back and forth over the step of a change undoes and
//! repeats it.
//!
//! A debugger that calls a function writes registers and memory too, lets the guest run and puts the
//! registers back. That is told from changes that are meant to stay, and happens in the *scratch*: a
//! copy that is given up when the guest goes on.

use guest::{CheckpointId, Halt, Until, UserRegs};

use super::Session;
use super::moving::MoveRequest;
use super::statement::EditRequest;
use crate::Error;
use crate::set::SetRequest;
use crate::trace::{Action, Values};

/// Bytes of stack below the stack pointer that a debugger may use for a call.
const CALL_AREA: u64 = 1 << 20;

#[derive(Default)]
pub(super) struct Times {
    /// All timelines but the recording; number 1 is the first.
    list: Vec<Timeline>,
    current: u32,
    /// How many changes of the timeline are behind the guest.
    behind: usize,
    /// The step up to which the recording's output was shown.
    pub(super) shown: u64,
    marks: Vec<Mark>,
    last_mark: u32,
    scratch: Option<Scratch>,
}

#[derive(Clone)]
struct Timeline {
    parent: u32,
    /// The steps of its changes, and the guest behind each.
    bases: Vec<(u64, CheckpointId)>,
    changes: Vec<Change>,
}

#[derive(Clone)]
struct Change {
    /// Where the guest stood when it was asked for.
    made_at: u64,
    takes_effect: u64,
    what: What,
    action: Action,
}

/// A change as it was asked for.
#[derive(Clone)]
pub(super) enum What {
    Statement(EditRequest),
    Set(SetRequest),
    /// Variables were moved: which, and where to.
    Move(MoveRequest, String),
    Values,
}

struct Mark {
    id: u32,
    checkpoint: CheckpointId,
    timeline: u32,
    behind: usize,
    step: u64,
    place: String,
}

struct Scratch {
    /// None if the guest cannot be copied any more.
    base: Option<CheckpointId>,
    regs: UserRegs,
    vectors: Vec<u8>,
    writes: Vec<(u64, Vec<u8>)>,
    /// A function that the debugger called is at work.
    calling: bool,
    /// One has been called: it has used vector registers, which nobody restores completely.
    called: bool,
    /// What the last one returned.
    returned: u64,
}

/// A checkpoint, for a listing.
#[derive(Clone, Debug)]
pub struct CheckpointInfo {
    pub id: u32,
    pub timeline: u32,
    pub step: u64,
    pub place: String,
}

#[derive(Clone, Debug)]
pub struct TimelineInfo {
    pub id: u32,
    pub parent: Option<u32>,
    pub current: bool,
    /// What was changed last, and the step from which on it is.
    pub change: Option<(String, u64)>,
}

#[derive(Clone, Debug)]
pub struct EditInfo {
    pub id: u32,
    pub what: String,
    pub step: u64,
}

/// The registers that a program can set.
fn same(a: &UserRegs, b: &UserRegs) -> bool {
    let all = |r: &UserRegs| {
        [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15, r.rip, r.eflags, r.fs_base,
        ]
    };
    all(a) == all(b)
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Statement(request) => request.fmt(f),
            What::Set(request) => write!(f, "set {request}"),
            What::Move(request, places) => write!(f, "{request} ({places})"),
            What::Values => f.write_str("set memory or registers"),
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.what, &self.action) {
            (What::Values, Action::Put(v)) => match v.writes.first() {
                Some((addr, _)) => {
                    let bytes: usize = v.writes.iter().map(|w| w.1.len()).sum();
                    write!(f, "set {bytes} bytes of memory at {addr:#x}")
                }
                None => f.write_str("set registers"),
            },
            (what, _) => what.fmt(f),
        }
    }
}

impl Session {
    pub(super) fn on_recording(&self) -> bool {
        self.times.behind == 0 && self.times.scratch.is_none()
    }

    fn bases(&self) -> &[(u64, CheckpointId)] {
        match self.times.current.checked_sub(1) {
            Some(i) => &self.times.list[i as usize].bases,
            None => &[],
        }
    }

    /// Runs on the present timeline: where it was changed, the changed guest goes on.
    pub(super) fn run(&mut self, until: &Until) -> Result<Halt, Error> {
        self.passed = vec![0; until.stops.len()];
        loop {
            let next = self.bases().get(self.times.behind).copied();
            let calling = self.times.scratch.is_some();
            let Some((at, base)) = next.filter(|_| !calling) else {
                return self.part(until);
            };
            let goal = until.step.map_or(at, |s| s.min(at));
            let mut up_to = until.clone();
            up_to.step = Some(goal);
            let begun = self.step()?;
            let halt = self.part(&up_to)?;
            if matches!(halt, Halt::Ended(_)) || self.step()? != at {
                return Ok(halt);
            }
            self.replay.restore(base).map_err(|e| self.wrong(e))?;
            self.times.behind += 1;
            if halt != Halt::Step || until.step == Some(at) {
                return Ok(halt);
            }
            let pc = self.replay.regs().rip;
            let here = until.stops.iter().position(|s| s.pc == pc);
            if let Some(i) = here.filter(|_| begun != at) {
                self.passed[i] += 1;
                if self.passed[i] == until.stops[i].nth {
                    return Ok(Halt::Stop(i));
                }
            }
        }
    }

    /// Runs on what is between two changes; what was counted in the parts before is not to be counted again.
    fn part(&mut self, until: &Until) -> Result<Halt, Error> {
        let mut left = until.clone();
        for (stop, passed) in left.stops.iter_mut().zip(&self.passed) {
            stop.nth -= passed;
        }
        let halt = self.replay.run(&left).map_err(|e| self.wrong(e))?;
        for (all, more) in self.passed.iter_mut().zip(self.replay.passed()) {
            *all += more;
        }
        Ok(halt)
    }

    /// Goes to a checkpoint from which `step` of the present timeline is ahead.
    pub(super) fn approach(&mut self, step: u64) -> Result<(), Error> {
        let behind = self.bases().iter().filter(|b| b.0 <= step).count();
        let same = behind == self.times.behind;
        let result = match behind.checked_sub(1) {
            None if same => self.replay.approach(step),
            None => self
                .replay
                .rewind()
                .and_then(|()| self.replay.approach(step)),
            Some(_) if same && self.step()? <= step => Ok(()),
            Some(i) => {
                let base = self.bases()[i].1;
                self.replay.restore(base)
            }
        };
        self.times.behind = behind;
        result.map_err(|e| self.wrong(e))
    }

    fn begin_scratch(&mut self) -> Result<(), Error> {
        if self.times.scratch.is_some() {
            return Ok(());
        }
        let base = match self.replay.departure() {
            None => Some(self.replay.checkpoint().map_err(|e| self.wrong(e))?),
            Some(_) => None,
        };
        self.times.scratch = Some(Scratch {
            base,
            regs: self.replay.regs(),
            vectors: self.replay.vector_state().map_err(|e| self.wrong(e))?,
            writes: Vec::new(),
            calling: false,
            called: false,
            returned: 0,
        });
        Ok(())
    }

    /// Writes memory, in a way that the recording stays what it is.
    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.begin_scratch()?;
        self.replay.write(addr, bytes).map_err(|e| self.wrong(e))?;
        if let Some(s) = &mut self.times.scratch {
            let below = s.regs.rsp.saturating_sub(CALL_AREA)..s.regs.rsp;
            // Arguments of a call, and strings that the debugger has made room for.
            let passing = s.calling || below.contains(&addr) || addr == s.returned;
            if !passing {
                s.writes.push((addr, bytes.to_vec()));
            }
        }
        Ok(())
    }

    /// Sets the registers of the thread that runs, in a way that the recording stays what it is.
    pub fn set_registers(
        &mut self,
        tid: i32,
        regs: &UserRegs,
        vectors: Option<&[u8]>,
    ) -> Result<(), Error> {
        if tid != self.thread() {
            return Err(Error::Request(format!(
                "thread {tid} is not the one that runs: its registers cannot be set"
            )));
        }
        self.begin_scratch()?;
        self.replay.set_regs(regs).map_err(|e| self.wrong(e))?;
        if let Some(v) = vectors {
            self.replay.set_vector_state(v).map_err(|e| self.wrong(e))?;
        }
        let now = self.replay.regs();
        if let Some(s) = &mut self.times.scratch
            && s.calling
            && same(&now, &s.regs)
        {
            s.calling = false;
        }
        Ok(())
    }

    /// The guest has come to a breakpoint: it may be where a called function returns to.
    pub(super) fn note_return(&mut self) {
        let returned = self.replay.regs().rax;
        if let Some(s) = self.times.scratch.as_mut().filter(|s| s.calling) {
            s.returned = returned;
        }
    }

    /// The return address on top of the stack is one that a debugger has prepared for a call.
    fn is_call(&self, s: &Scratch) -> bool {
        let regs = self.replay.regs();
        let mut word = [0; 8];
        if regs.rip == s.regs.rip || self.replay.read(regs.rsp, &mut word) != 8 {
            return false;
        }
        let home = u64::from_le_bytes(word);
        let on_stack = home > regs.rsp && home < s.regs.rsp.saturating_add(CALL_AREA);
        let at_entry = self.entry() == Some(home);
        self.breakpoints.contains_key(&home) && (on_stack || at_entry)
    }

    fn entry(&self) -> Option<u64> {
        const AT_ENTRY: u64 = 9;
        let number = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
        let mut pairs = self.auxv().chunks_exact(16);
        let found = pairs.find(|p| number(&p[..8]) == AT_ENTRY)?;
        Some(number(&found[8..]))
    }

    /// Before the guest goes on: gives the scratch up, or makes a timeline of what was set in it.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        let Some(s) = &self.times.scratch else {
            return Ok(());
        };
        if s.calling {
            return Ok(());
        }
        if self.is_call(s) {
            if let Some(s) = &mut self.times.scratch {
                (s.calling, s.called) = (true, true);
            }
            return Ok(());
        }
        let regs = self.replay.regs();
        let vectors = self.replay.vector_state().map_err(|e| self.wrong(e))?;
        let Some(s) = self.times.scratch.take() else {
            return Ok(());
        };
        let Some(base) = s.base else {
            // The run is in a world of its own already; what was set there is set.
            return Ok(());
        };
        self.replay.restore(base).map_err(|e| self.wrong(e))?;
        self.replay.forget(base).map_err(|e| self.wrong(e))?;
        let vectors = (vectors != s.vectors && !s.called).then_some(vectors);
        let mut writes = s.writes;
        // What a called function has mapped, as lldb has `mmap` do, is not there any more.
        writes.retain(|(addr, bytes)| {
            let mut there = vec![0; bytes.len()];
            self.replay.read(*addr, &mut there) == bytes.len()
        });
        if same(&regs, &s.regs) && vectors.is_none() && writes.is_empty() {
            return Ok(());
        }
        let step = self.step()?;
        let values = Values {
            regs,
            vectors,
            writes,
        };
        self.change(step, What::Values, Action::Put(Box::new(values)))
    }

    /// Forgets what was set and not yet used.
    fn drop_scratch(&mut self) -> Result<(), Error> {
        if let Some(base) = self.times.scratch.take().and_then(|s| s.base) {
            self.replay.restore(base).map_err(|e| self.wrong(e))?;
            self.replay.forget(base).map_err(|e| self.wrong(e))?;
        }
        Ok(())
    }

    /// Changes the guest where it stands: a timeline of its own begins here.
    pub(super) fn change(&mut self, made_at: u64, what: What, action: Action) -> Result<(), Error> {
        action.apply(&mut self.replay).map_err(|e| self.wrong(e))?;
        let takes_effect = self.step()?;
        let base = self.replay.checkpoint().map_err(|e| self.wrong(e))?;
        let behind = self.times.behind;
        let parent = self.times.current;
        let mut of = match parent.checked_sub(1) {
            Some(i) => self.times.list[i as usize].clone(),
            None => Timeline {
                parent,
                bases: Vec::new(),
                changes: Vec::new(),
            },
        };
        // Changes that were still ahead are not part of what comes now.
        of.bases.truncate(behind);
        of.changes.truncate(behind);
        of.parent = parent;
        of.bases.push((takes_effect, base));
        of.changes.push(Change {
            made_at,
            takes_effect,
            what,
            action,
        });
        self.times.list.push(of);
        self.times.current = self.times.list.len() as u32;
        self.times.behind = behind + 1;
        Ok(())
    }

    /// Goes to a step, forward or back.
    pub fn goto(&mut self, step: u64) -> Result<(), Error> {
        if let Some(steps) = self
            .steps()
            .filter(|s| step > *s && self.times.current == 0)
        {
            return Err(Error::NoSuchStep { step, steps });
        }
        self.drop_scratch()?;
        self.go(step)?;
        self.moved = true;
        self.returning = None;
        Ok(())
    }

    /// Begins again, with nothing to tell the debugger.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.goto(0)?;
        self.moved = false;
        Ok(())
    }

    /// After an error: goes on at the last step that is known to be good, on the recording.
    pub fn recover(&mut self) -> Result<(), Error> {
        self.times.scratch = None;
        let here = self.step().unwrap_or(0).saturating_sub(1);
        self.timeline(0)?;
        if self.go(here).is_err() {
            self.replay.rewind().map_err(|e| self.wrong(e))?;
        }
        self.moved = false;
        Ok(())
    }

    /// A command has put the guest elsewhere, and the debugger has not been told.
    pub fn has_moved(&self) -> bool {
        self.moved
    }

    /// The same, and it is told now.
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Takes back a position that a command has left; the debugger need not be told.
    pub(super) fn stay(&mut self, step: u64) -> Result<(), Error> {
        self.go(step)?;
        self.moved = false;
        Ok(())
    }

    pub fn timelines(&self) -> Vec<TimelineInfo> {
        let first = TimelineInfo {
            id: 0,
            parent: None,
            current: self.times.current == 0,
            change: None,
        };
        let others = self.times.list.iter().zip(1..).map(|(t, id)| TimelineInfo {
            id,
            parent: Some(t.parent),
            current: self.times.current == id,
            change: t.changes.last().map(|c| (c.to_string(), c.takes_effect)),
        });
        std::iter::once(first).chain(others).collect()
    }

    /// Goes on another timeline, at the same step if both have it in common, else where they part.
    pub fn timeline(&mut self, id: u32) -> Result<(), Error> {
        if id as usize > self.times.list.len() {
            return Err(Error::Request(format!("there is no timeline {id}")));
        }
        self.drop_scratch()?;
        let here = self.step()?;
        let steps = |t: u32| match t.checked_sub(1) {
            Some(i) => self.times.list[i as usize].bases.clone(),
            None => Vec::new(),
        };
        let (old, new) = (steps(self.times.current), steps(id));
        let common = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
        let parting = [old.get(common), new.get(common)];
        let parting = parting.into_iter().flatten().map(|b| b.0).min();
        // Checkpoints of the old one are of no use on the new one.
        self.replay.rewind().map_err(|e| self.wrong(e))?;
        self.times.current = id;
        self.times.behind = 0;
        self.go(parting.map_or(here, |p| p.min(here)))?;
        self.moved = true;
        Ok(())
    }

    /// Keeps the present position to return to.
    pub fn checkpoint(&mut self) -> Result<CheckpointInfo, Error> {
        self.settle()?;
        let place = self.place()?;
        let checkpoint = self.replay.checkpoint().map_err(|e| self.wrong(e))?;
        self.times.last_mark += 1;
        self.times.marks.push(Mark {
            id: self.times.last_mark,
            checkpoint,
            timeline: self.times.current,
            behind: self.times.behind,
            step: self.step()?,
            place,
        });
        Ok(self.checkpoints().pop().expect("just made"))
    }

    pub fn checkpoints(&self) -> Vec<CheckpointInfo> {
        let info = |m: &Mark| CheckpointInfo {
            id: m.id,
            timeline: m.timeline,
            step: m.step,
            place: m.place.clone(),
        };
        self.times.marks.iter().map(info).collect()
    }

    fn find_mark(&self, id: u32) -> Result<usize, Error> {
        let at = self.times.marks.iter().position(|m| m.id == id);
        at.ok_or_else(|| Error::Request(format!("there is no checkpoint {id}")))
    }

    pub fn rollback(&mut self, id: u32) -> Result<(), Error> {
        let i = self.find_mark(id)?;
        self.drop_scratch()?;
        let m = &self.times.marks[i];
        let (checkpoint, timeline, behind) = (m.checkpoint, m.timeline, m.behind);
        self.replay.restore(checkpoint).map_err(|e| self.wrong(e))?;
        self.times.current = timeline;
        self.times.behind = behind;
        self.moved = true;
        self.returning = None;
        Ok(())
    }

    pub fn delete_checkpoint(&mut self, id: u32) -> Result<(), Error> {
        let i = self.find_mark(id)?;
        let m = self.times.marks.remove(i);
        self.replay.forget(m.checkpoint).map_err(|e| self.wrong(e))
    }

    /// The number of the present timeline.
    pub fn on_timeline(&self) -> u32 {
        self.times.current
    }

    /// What is changed on the present timeline, and where.
    pub(super) fn actions(&self) -> Vec<(u64, Action)> {
        let Some(i) = self.times.current.checked_sub(1) else {
            return Vec::new();
        };
        let changes = self.times.list[i as usize].changes.iter();
        changes
            .map(|c| (c.takes_effect, c.action.clone()))
            .collect()
    }

    /// The changes of the present timeline.
    pub fn edits(&self) -> Vec<EditInfo> {
        let Some(i) = self.times.current.checked_sub(1) else {
            return Vec::new();
        };
        let changes = self.times.list[i as usize].changes.iter().zip(1..);
        changes
            .map(|(c, id)| EditInfo {
                id,
                what: c.to_string(),
                step: c.takes_effect,
            })
            .collect()
    }

    /// Goes on a timeline without one of the changes; those made after it are made again.
    pub fn delete_edit(&mut self, id: u32) -> Result<(), Error> {
        let missing = || Error::Request(format!("there is no edit {id} on this timeline"));
        let i = self.times.current.checked_sub(1).ok_or_else(missing)?;
        let changes = self.times.list[i as usize].changes.clone();
        let n = (id as usize).checked_sub(1).filter(|n| *n < changes.len());
        let n = n.ok_or_else(missing)?;
        let at = changes[n].takes_effect;
        let here = self.step()?;
        self.timeline(0)?;
        for (k, c) in changes.iter().enumerate().filter(|(k, _)| *k != n) {
            let at = if k < n { c.made_at } else { c.made_at.min(at) };
            self.go(at)?;
            match &c.what {
                What::Statement(request) => self.edit(request).map(drop)?,
                What::Set(request) => self.set(request).map(drop)?,
                What::Move(request, _) => self.move_variables(request).map(drop)?,
                What::Values => self.change(at, c.what.clone(), c.action.clone())?,
            }
        }
        self.go(here.min(at))?;
        self.moved = true;
        Ok(())
    }
}
