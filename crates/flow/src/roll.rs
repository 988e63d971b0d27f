//! A kept piece of tape that can be walked in both directions.
//!
//! Records have no length of their own, so a tape can be followed only forward. A [`Roll`] keeps the
//! reader's state at the beginning of every few records, expands that many at a time, and so gives
//! them last to first.
//!
//! Following includes the calls: each gets a *frame*, which is over when it returns, or when after
//! an indirect jump the stack pointer has passed the place of its return address. Where that was
//! `longjmp` or an exception, what is executed next has a frame of its own, which that jump began:
//! it is the reason why control came there.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tape::{Code, Event, Listener, Part, Shape};

use crate::plan::{Plan, Values};
use crate::terms::Node;

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
    pub slot: u64,
}

/// The state of a reader between two records.
#[derive(Clone, Debug)]
struct Reader {
    step: u64,
    /// The last instruction executed, or where the guest stood when the tracer had it.
    pc: u64,
    rsp: u64,
    rbp: u64,
    fs_base: u64,
    thread: u32,
    frame: FrameId,
    /// Number of the next frame.
    next: u32,
    /// The last instruction may have left the frame.
    left: bool,
    /// And it was a return.
    returned: bool,
    /// Frames of the threads that do not run.
    others: SmallVec<[(u32, FrameId); 2]>,
}

/// A place in the roll from which it can be followed.
struct Mark {
    reader: Reader,
    at: u32,
    event: u32,
}

/// The tape as it was handed over.
struct Piece {
    records: Box<[u8]>,
    events: Vec<(u32, Event)>,
    marks: Vec<Mark>,
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
        piece: u32,
        at: u32,
        shape: u32,
        rsp: u64,
        rbp: u64,
        fs_base: u64,
        /// Number that the first call in it has.
        first_frame: u32,
    },
    Event {
        piece: u32,
        n: u32,
    },
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
    pieces: Vec<Piece>,
    bytes: usize,
    frames: Vec<Frame>,
    reader: Reader,
    /// How often each shape was gone through.
    pub counts: Vec<u64>,
    first_step: u64,
}

impl Roll {
    pub fn new(codes: Codes) -> Self {
        let counts = vec![0; codes.len()];
        Roll {
            codes,
            pieces: Vec::new(),
            bytes: 0,
            frames: vec![Frame {
                parent: FrameId(0),
                call: Node { step: 0, pc: 0 },
                slot: u64::MAX,
            }],
            reader: Reader {
                step: 0,
                pc: 0,
                rsp: 0,
                rbp: 0,
                fs_base: 0,
                thread: 0,
                frame: FrameId(0),
                next: 1,
                left: false,
                returned: false,
                others: SmallVec::new(),
            },
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

    /// How often each instruction was executed, by address.
    pub fn times(&self) -> BTreeMap<u64, u64> {
        let mut out = BTreeMap::new();
        for (shape, &n) in self.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            for insn in self.codes.shape(shape as u32).insns() {
                *out.entry(insn.pc).or_default() += n;
            }
        }
        for (_, event) in self.pieces.iter().flat_map(|p| &p.events) {
            match event {
                Event::Enter { pc, .. } => *out.entry(*pc).or_default() += 1,
                Event::Special(insn) => *out.entry(insn.pc).or_default() += 1,
                _ => {}
            }
        }
        out
    }

    /// The thread that ran last.
    pub fn last_thread(&self) -> u32 {
        self.reader.thread
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn event(&self, piece: u32, n: u32) -> &Event {
        &self.pieces[piece as usize].events[n as usize].1
    }

    pub fn frame(&self, f: FrameId) -> Frame {
        self.frames[f.0 as usize]
    }

    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    pub fn values(&self, piece: u32, at: u32) -> &[u8] {
        &self.pieces[piece as usize].records[at as usize..]
    }

    /// Follows a new piece, and keeps the reader's state on the way.
    fn follow(&mut self, piece: &mut Piece) {
        let mut reader = self.reader.clone();
        let (mut at, mut event, mut since) = (0, 0, SPACING);
        loop {
            if since >= SPACING {
                since = 0;
                piece.marks.push(Mark {
                    reader: reader.clone(),
                    at: at as u32,
                    event: event as u32,
                });
            }
            since += 1;
            if let Some((n, e)) = piece.events.get(event)
                && *n as usize <= at
            {
                reader.event(e, &mut self.frames);
                event += 1;
                continue;
            }
            let Some(bytes) = piece.records.get(at..).filter(|b| !b.is_empty()) else {
                break;
            };
            let shape = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
            self.counts[shape as usize] += 1;
            at += reader.record(&self.codes, bytes, shape, &mut self.frames);
        }
        self.reader = reader;
    }

    /// Walks everything from the last to the first.
    pub fn backward(&self, mut f: impl FnMut(&Item) -> bool) {
        let mut items = Vec::new();
        for (p, piece) in self.pieces.iter().enumerate().rev() {
            for n in (0..piece.marks.len()).rev() {
                items.clear();
                self.expand(p, n, &mut items);
                for item in items.iter().rev() {
                    if !f(item) {
                        return;
                    }
                }
            }
        }
    }

    /// Walks everything from the first to the last.
    pub fn forward(&self, f: impl FnMut(&Item) -> bool) {
        self.forward_from(0, f);
    }

    /// The same from `step` on, or from a little before.
    pub fn forward_from(&self, step: u64, mut f: impl FnMut(&Item) -> bool) {
        let mut items = Vec::new();
        let begins = |p: &Piece| p.marks[0].reader.step;
        let first = self.pieces.partition_point(|p| begins(p) <= step);
        let first = first.saturating_sub(1);
        for (p, piece) in self.pieces.iter().enumerate().skip(first) {
            let from = piece.marks.partition_point(|m| m.reader.step <= step);
            for n in from.saturating_sub(1)..piece.marks.len() {
                items.clear();
                self.expand(p, n, &mut items);
                for item in &items {
                    if !f(item) {
                        return;
                    }
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
                What::Event { piece, n } => match self.event(piece, n) {
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

    /// What lies between mark `n` of a piece and the next.
    fn expand(&self, p: usize, n: usize, items: &mut Vec<Item>) {
        let piece = &self.pieces[p];
        let mark = &piece.marks[n];
        let (end, end_event) = match piece.marks.get(n + 1) {
            Some(next) => (next.at as usize, next.event as usize),
            None => (piece.records.len(), piece.events.len()),
        };
        let mut reader = mark.reader.clone();
        let (mut at, mut event) = (mark.at as usize, mark.event as usize);
        let mut frames = Known(&self.frames);
        let frames = &mut frames;
        loop {
            if let Some((n, e)) = piece.events[..end_event].get(event)
                && *n as usize <= at
            {
                let step = reader.step;
                reader.event(e, frames);
                items.push(Item {
                    step,
                    thread: reader.thread,
                    frame: reader.frame,
                    what: What::Event {
                        piece: p as u32,
                        n: event as u32,
                    },
                });
                event += 1;
                continue;
            }
            if at >= end {
                return;
            }
            let bytes = &piece.records[at..];
            let shape = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
            reader.pop(frames);
            items.push(Item {
                step: reader.step,
                thread: reader.thread,
                frame: reader.frame,
                what: What::Record {
                    piece: p as u32,
                    at: at as u32,
                    shape,
                    rsp: reader.rsp,
                    rbp: reader.rbp,
                    fs_base: reader.fs_base,
                    first_frame: reader.next,
                },
            });
            at += reader.record(&self.codes, bytes, shape, frames);
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
    fn pop(&mut self, frames: &mut impl Frames) {
        if !std::mem::take(&mut self.left) {
            return;
        }
        let frame = frames.get(self.frame);
        if self.rsp <= frame.slot {
            return;
        }
        if self.returned && self.rsp == frame.slot + 8 {
            self.frame = frame.parent;
            return;
        }
        self.leap(frames);
    }

    /// Leaves all frames that are over, otherwise than by returning from them.
    #[cold]
    fn leap(&mut self, frames: &mut impl Frames) {
        while self.rsp > frames.get(self.frame).slot {
            self.frame = frames.get(self.frame).parent;
        }
        let slot = frames.get(self.frame).slot;
        let by = Node {
            step: self.step - 1,
            pc: self.pc,
        };
        self.push(by, slot, frames);
    }

    fn push(&mut self, call: Node, slot: u64, frames: &mut impl Frames) {
        let frame = Frame {
            parent: self.frame,
            call,
            slot,
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
                self.push(call, values.get(slot), frames);
            }
        }
        let (rsp, rbp) = (s.rsp.map(|t| values.get(t)), s.rbp.map(|t| values.get(t)));
        (self.rsp, self.rbp) = (rsp.unwrap_or(self.rsp), rbp.unwrap_or(self.rbp));
        self.step += u64::from(s.executed);
        let last = plan.steps[..s.executed as usize].last();
        if let Some(last) = last {
            self.left = last.leaves;
            self.returned = last.returns;
            self.pc = last.pc;
        }
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
                if !self.left {
                    self.pc = *pc;
                }
            }
            Event::Signal { frame, .. } => {
                let here = Node {
                    step: self.step,
                    pc: self.pc,
                };
                self.push(here, frame.addr, frames);
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
        let mut piece = Piece {
            records: part.records.into(),
            events: part.events.to_vec(),
            marks: Vec::with_capacity(part.records.len() / 1024 + 1),
        };
        self.bytes += part.records.len();
        self.follow(&mut piece);
        self.pieces.push(piece);
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}
