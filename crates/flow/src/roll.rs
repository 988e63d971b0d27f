//! A kept piece of tape that can be walked in both directions.
//!
//! Records have no length of their own, so a tape can be followed only forward. A [`Roll`] keeps the
//! reader's state at the beginning of every few records, expands that many at a time, and so gives
//! them last to first.
//!
//! Following includes the calls: each gets a *frame*, which is over when the stack pointer has
//! passed the place of its return address. Thus returns, `longjmp` and exceptions need no rules of
//! their own.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tape::{Code, Event, Listener, Part, Shape};

use crate::plan::{Plan, Values};
use crate::slice::Node;

/// Records between two kept states.
const SPACING: usize = 64;

/// Number of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub parent: FrameId,
    /// The call, or what a signal interrupted.
    pub call: Node,
    /// Where the return address is; the frame is over when the stack is above that.
    slot: u64,
    signal: bool,
}

/// The state of a reader between two records.
#[derive(Clone, Debug)]
struct Reader {
    step: u64,
    /// Where the guest stood when the tracer had it last.
    pc: u64,
    rsp: u64,
    rbp: u64,
    fs_base: u64,
    thread: u32,
    frame: FrameId,
    /// Number of the next frame.
    next: u32,
    /// Frames of the threads that do not run.
    others: SmallVec<[(u32, FrameId); 2]>,
}

/// A place in the roll from which it can be followed.
struct Mark {
    reader: Reader,
    at: usize,
    event: usize,
}

/// One record or event, as the walk gives it.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The step of its first instruction.
    pub step: u64,
    pub thread: u32,
    pub frame: FrameId,
    pub what: What,
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    pub step: u64,
    pub pc: u64,
    pub thread: u32,
    pub frame: FrameId,
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    Record {
        at: usize,
        shape: u32,
        rsp: u64,
        rbp: u64,
        fs_base: u64,
        /// Number that the first call in it has.
        first_frame: u32,
    },
    Event(usize),
}

/// What is known of taped code, for all rolls of a guest.
#[derive(Default)]
pub struct Codes {
    shapes: Vec<(u32, Shape)>,
    plans: Vec<Plan>,
    by_code: FxHashMap<usize, u32>,
    /// Keeps the addresses in `by_code` from being used again.
    codes: Vec<Arc<Code>>,
}

impl Codes {
    fn add(&mut self, shapes: &[Shape]) {
        for s in shapes {
            let key = Arc::as_ptr(&s.code) as usize;
            let plan = *self.by_code.entry(key).or_insert_with(|| {
                self.plans.push(Plan::of(&s.code));
                self.codes.push(s.code.clone());
                self.plans.len() as u32 - 1
            });
            self.shapes.push((plan, s.clone()));
        }
    }

    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    pub fn plan(&self, shape: u32) -> &Plan {
        &self.plans[self.shapes[shape as usize].0 as usize]
    }

    pub fn plan_number(&self, shape: u32) -> u32 {
        self.shapes[shape as usize].0
    }

    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    pub fn shape(&self, shape: u32) -> &Shape {
        &self.shapes[shape as usize].1
    }
}

/// Tape that is kept.
pub struct Roll {
    pub codes: Codes,
    records: Vec<u8>,
    events: Vec<(usize, Event)>,
    frames: Vec<Frame>,
    marks: Vec<Mark>,
    reader: Reader,
    since_mark: usize,
    /// How often each shape was gone through.
    pub counts: Vec<u64>,
    first_step: u64,
}

impl Roll {
    pub fn new(codes: Codes) -> Self {
        let counts = vec![0; codes.len()];
        Roll {
            codes,
            records: Vec::new(),
            events: Vec::new(),
            frames: vec![Frame {
                parent: FrameId(0),
                call: Node { step: 0, pc: 0 },
                slot: u64::MAX,
                signal: false,
            }],
            marks: Vec::new(),
            reader: Reader {
                step: 0,
                pc: 0,
                rsp: 0,
                rbp: 0,
                fs_base: 0,
                thread: 0,
                frame: FrameId(0),
                next: 1,
                others: SmallVec::new(),
            },
            since_mark: usize::MAX,
            counts,
            first_step: u64::MAX,
        }
    }

    /// The codes for the next roll.
    pub fn into_codes(self) -> Codes {
        self.codes
    }

    pub fn first_step(&self) -> u64 {
        self.first_step.min(self.reader.step)
    }

    /// The step after the last instruction on it.
    pub fn end_step(&self) -> u64 {
        self.reader.step
    }

    /// The thread that ran last.
    pub fn last_thread(&self) -> u32 {
        self.reader.thread
    }

    pub fn bytes(&self) -> usize {
        self.records.len()
    }

    pub fn event(&self, n: usize) -> &Event {
        &self.events[n].1
    }

    pub fn frame(&self, f: FrameId) -> Frame {
        self.frames[f.0 as usize]
    }

    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    pub fn values(&self, at: usize, shape: u32, rsp: u64, rbp: u64, fs_base: u64) -> Values<'_> {
        let len = self.codes.shape(shape).record_len();
        Values {
            record: &self.records[at..at + len],
            rsp,
            rbp,
            fs_base,
        }
    }

    fn follow(&mut self, from: usize, events: usize) {
        let mut reader = self.reader.clone();
        let (mut at, mut event) = (from, events);
        let mut records = std::mem::take(&mut self.records);
        let list = std::mem::take(&mut self.events);
        let end = records.len();
        loop {
            if self.since_mark >= SPACING {
                self.since_mark = 0;
                self.marks.push(Mark {
                    reader: reader.clone(),
                    at,
                    event,
                });
            }
            self.since_mark += 1;
            if let Some((n, e)) = list.get(event)
                && *n <= at
            {
                reader.event(e, &mut self.frames);
                event += 1;
                continue;
            }
            if at >= end {
                break;
            }
            let shape = u32::from_le_bytes(records[at..at + 4].try_into().expect("four bytes"));
            self.counts[shape as usize] += 1;
            at += reader.record(&self.codes, &records[at..], shape, &mut self.frames);
        }
        std::mem::swap(&mut self.records, &mut records);
        self.events = list;
        self.reader = reader;
    }

    /// Walks everything from the last to the first.
    pub fn backward(&self, mut f: impl FnMut(&Item) -> bool) {
        let mut items = Vec::new();
        let (mut end, mut end_event) = (self.records.len(), self.events.len());
        for mark in self.marks.iter().rev() {
            items.clear();
            self.expand(mark, end, end_event, &mut items);
            for item in items.iter().rev() {
                if !f(item) {
                    return;
                }
            }
            (end, end_event) = (mark.at, mark.event);
        }
    }

    /// Walks everything from the first to the last.
    pub fn forward(&self, f: impl FnMut(&Item) -> bool) {
        self.forward_from(0, f);
    }

    /// The same from `step` on, or from a little before.
    pub fn forward_from(&self, step: u64, mut f: impl FnMut(&Item) -> bool) {
        let mut items = Vec::new();
        let first = self.marks.partition_point(|m| m.reader.step <= step);
        let marks = self.marks.iter().enumerate();
        for (n, mark) in marks.skip(first.saturating_sub(1)) {
            let (end, end_event) = match self.marks.get(n + 1) {
                Some(next) => (next.at, next.event),
                None => (self.records.len(), self.events.len()),
            };
            items.clear();
            self.expand(mark, end, end_event, &mut items);
            for item in &items {
                if !f(item) {
                    return;
                }
            }
        }
    }

    /// Every execution of an instruction for which `wanted` holds, in the order of steps, until `f`
    /// returns false.
    pub fn executions(&self, wanted: impl Fn(u64) -> bool, f: impl FnMut(Execution) -> bool) {
        self.executions_from(0, wanted, f);
    }

    /// The same from `step` on, or from a little before.
    pub fn executions_from(
        &self,
        step: u64,
        wanted: impl Fn(u64) -> bool,
        mut f: impl FnMut(Execution) -> bool,
    ) {
        let mut cache: Vec<Option<Box<[u8]>>> = Vec::new();
        cache.resize_with(self.codes.plans.len(), || None);
        self.forward_from(step, |item| {
            let mut go_on = true;
            let mut tell = |step, pc, frame| {
                go_on &= f(Execution {
                    step,
                    pc,
                    thread: item.thread,
                    frame,
                });
                go_on
            };
            match item.what {
                What::Record {
                    shape, first_frame, ..
                } => {
                    let n = self.codes.plan_number(shape) as usize;
                    let plan = &self.codes.plans[n];
                    let hits = cache[n].get_or_insert_with(|| {
                        let steps = plan.steps.iter().enumerate();
                        let hits = steps.filter(|(_, s)| wanted(s.pc)).map(|(i, _)| i as u8);
                        hits.collect()
                    });
                    let executed = self.codes.shape(shape).executed;
                    for &i in hits.iter().filter(|i| **i < executed) {
                        let frame = plan.frame_at(i as usize, item.frame, first_frame);
                        let step = item.step + u64::from(i);
                        if !tell(step, plan.steps[i as usize].pc, frame) {
                            break;
                        }
                    }
                }
                What::Event(n) => match self.event(n) {
                    Event::Enter { pc, .. } if wanted(*pc) => {
                        tell(item.step, *pc, item.frame);
                    }
                    Event::Special(insn) if wanted(insn.pc) => {
                        tell(item.step, insn.pc, item.frame);
                    }
                    _ => {}
                },
            }
            go_on
        });
    }

    fn expand(&self, mark: &Mark, end: usize, end_event: usize, items: &mut Vec<Item>) {
        let mut reader = mark.reader.clone();
        let (mut at, mut event) = (mark.at, mark.event);
        let mut frames = Known(&self.frames);
        loop {
            if let Some((n, e)) = self.events[..end_event].get(event)
                && *n <= at
            {
                let step = reader.step;
                reader.event(e, &mut frames);
                items.push(Item {
                    step,
                    thread: reader.thread,
                    frame: reader.frame,
                    what: What::Event(event),
                });
                event += 1;
                continue;
            }
            if at >= end {
                return;
            }
            let bytes = &self.records[at..];
            let shape = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
            reader.pop(&frames);
            items.push(Item {
                step: reader.step,
                thread: reader.thread,
                frame: reader.frame,
                what: What::Record {
                    at,
                    shape,
                    rsp: reader.rsp,
                    rbp: reader.rbp,
                    fs_base: reader.fs_base,
                    first_frame: reader.next,
                },
            });
            at += reader.record(&self.codes, bytes, shape, &mut frames);
        }
    }
}

/// The table of frames: grows the first time, and is known afterwards.
trait Frames {
    fn get(&self, f: FrameId) -> Frame;
    fn make(&mut self, f: u32, frame: Frame);
}

impl Frames for Vec<Frame> {
    fn get(&self, f: FrameId) -> Frame {
        self[f.0 as usize]
    }
    fn make(&mut self, f: u32, frame: Frame) {
        debug_assert_eq!(f as usize, self.len());
        self.push(frame);
    }
}

struct Known<'a>(&'a [Frame]);

impl Frames for Known<'_> {
    fn get(&self, f: FrameId) -> Frame {
        self.0[f.0 as usize]
    }
    fn make(&mut self, _: u32, _: Frame) {}
}

impl Reader {
    /// Leaves the frames that are over.
    #[inline]
    fn pop(&mut self, frames: &impl Frames) {
        loop {
            let frame = frames.get(self.frame);
            if self.rsp <= frame.slot {
                return;
            }
            self.frame = frame.parent;
        }
    }

    fn push(&mut self, call: Node, slot: u64, signal: bool, frames: &mut impl Frames) {
        let frame = Frame {
            parent: self.frame,
            call,
            slot,
            signal,
        };
        frames.make(self.next, frame);
        self.frame = FrameId(self.next);
        self.next += 1;
    }

    #[inline]
    fn record(
        &mut self,
        codes: &Codes,
        bytes: &[u8],
        shape: u32,
        frames: &mut impl Frames,
    ) -> usize {
        self.pop(frames);
        let (plan, s) = &codes.shapes[shape as usize];
        let values = Values {
            record: bytes,
            rsp: self.rsp,
            rbp: self.rbp,
            fs_base: self.fs_base,
        };
        let plan = &codes.plans[*plan as usize];
        for &(i, slot) in &plan.calls {
            if i < s.executed {
                let call = Node {
                    step: self.step + u64::from(i),
                    pc: plan.steps[i as usize].pc,
                };
                self.push(call, values.get(slot), false, frames);
            }
        }
        let (rsp, rbp) = (s.rsp.map(|t| values.get(t)), s.rbp.map(|t| values.get(t)));
        (self.rsp, self.rbp) = (rsp.unwrap_or(self.rsp), rbp.unwrap_or(self.rbp));
        self.step += u64::from(s.executed);
        s.record_len()
    }

    fn event(&mut self, event: &Event, frames: &mut impl Frames) {
        self.step += event.steps();
        match event {
            Event::State {
                thread,
                rsp,
                rbp,
                fs_base,
                pc,
            } => {
                if *thread != self.thread {
                    self.others.push((self.thread, self.frame));
                    let known = self.others.iter().position(|(t, _)| t == thread);
                    self.frame = known.map_or(FrameId(0), |i| self.others.remove(i).1);
                    self.thread = *thread;
                }
                (self.rsp, self.rbp, self.fs_base) = (*rsp, *rbp, *fs_base);
                self.pc = *pc;
                self.pop(frames);
            }
            Event::Signal { frame, .. } => {
                let here = Node {
                    step: self.step,
                    pc: self.pc,
                };
                self.push(here, frame.addr, true, frames);
            }
            Event::Leave { nr: 15, .. } => {
                while self.frame != FrameId(0) {
                    let frame = frames.get(self.frame);
                    self.frame = frame.parent;
                    if frame.signal {
                        break;
                    }
                }
            }
            Event::Exec => self.frame = FrameId(0),
            _ => {}
        }
    }
}

impl Listener for Roll {
    fn shapes_heard(&self) -> usize {
        self.codes.len()
    }

    fn hear(&mut self, part: Part<'_>) {
        if self.first_step == u64::MAX {
            self.first_step = part.step;
            self.reader.step = part.step;
        }
        debug_assert_eq!(self.reader.step, part.step, "no step is missing");
        self.codes.add(part.shapes);
        self.counts.resize(self.codes.len(), 0);
        let (at, events) = (self.records.len(), self.events.len());
        self.records.extend_from_slice(part.records);
        let shifted = part
            .events
            .iter()
            .map(|(n, e)| (at + *n as usize, e.clone()));
        self.events.extend(shifted);
        self.follow(at, events);
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}
