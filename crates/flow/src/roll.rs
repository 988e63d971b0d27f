//! Tape that is kept and can be walked in both directions.
//!
//! Records have no length of their own, so a tape can be followed only forward. A [`Roll`] cuts it
//! into *chunks*, keeps the reader's state at the beginning of each, and unrolls one at a time, on
//! another CPU than the walk where there is one; so it gives them last to first as well.
//!
//! What is kept of a run that is long: chunks are compressed once there are many, and of the calls
//! only those that are open where a chunk ends; the others are found again when it is unrolled.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::sync::mpsc::{channel, sync_channel};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tape::{Event, Listener, Part};

use crate::codes::Codes;
use crate::hits::{Hits, event_pc};
use crate::links::{Linker, Links};
use crate::plan::Values;
use crate::reader::{Frame, FrameId, Frames, Reader};
use crate::saved::{Saved, unpack};
use crate::terms::Node;

/// Events of a full chunk.
const MANY_EVENTS: usize = 16 << 10;
/// Of the compression.
const LEVEL: i32 = 1;
/// Chunks that may be unrolled before the first of them has been gone through: one that is, one that waits, one that is being
/// unrolled.
const AHEAD: usize = 3;

/// How a roll is cut, in bytes of records.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// A chunk is full with so many.
    pub chunk: usize,
    /// What is kept beyond this is compressed. Following it takes twice as long then.
    pub raw: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            // Little enough for the CPU's caches when it is unrolled.
            chunk: 256 << 10,
            raw: 512 << 20,
        }
    }
}

/// A stretch of the run.
pub(crate) struct Chunk {
    pub(crate) start: Reader,
    pub(crate) records: Records,
    pub(crate) events: Vec<(u32, Event)>,
    /// How often each shape occurs that does.
    pub(crate) counts: Vec<(u32, u32)>,
}

pub(crate) enum Records {
    Raw(Vec<u8>),
    Packed { bytes: Vec<u8>, len: usize },
    Saved(Saved),
}

impl Records {
    pub(crate) fn len(&self) -> usize {
        match self {
            Records::Raw(bytes) => bytes.len(),
            Records::Packed { len, .. } => *len,
            Records::Saved(saved) => saved.len(),
        }
    }

    pub(crate) fn get(&self) -> Cow<'_, [u8]> {
        match self {
            Records::Raw(bytes) => bytes.into(),
            Records::Packed { bytes, len } => {
                let whole = unpack(bytes, *len);
                Cow::Owned(whole.expect("what was compressed here can be decompressed"))
            }
            Records::Saved(saved) => Cow::Owned(saved.get()),
        }
    }

    /// As they are kept where room is scarce.
    pub(crate) fn packed(&self) -> Cow<'_, [u8]> {
        match self {
            Records::Packed { bytes, .. } => bytes.into(),
            other => {
                let bytes = zstd::bulk::compress(&other.get(), LEVEL);
                Cow::Owned(bytes.expect("there is room for what is compressed"))
            }
        }
    }
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

#[derive(Clone, Copy, Debug)]
pub enum What {
    Record(Record),
    Event(u32),
}

/// A way through a superblock.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Where it is in its chunk.
    at: u32,
    pub shape: u32,
    rsp: u64,
    rbp: u64,
    fs_base: u64,
    /// Number that the first call in it has.
    pub first_frame: u32,
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    pub step: u64,
    pub pc: u64,
    pub thread: u32,
    pub frame: FrameId,
}

/// Tape that is kept.
pub struct Roll {
    pub codes: Codes,
    sizes: Sizes,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) bytes: usize,
    /// Bytes of the chunks that are not compressed.
    raw: usize,
    /// Calls that were open at the end of the chunk that they began in.
    pub(crate) kept: FxHashMap<FrameId, Frame>,
    /// Calls that began in the last chunk.
    recent: Vec<Frame>,
    pub(crate) reader: Reader,
    /// How often each shape was gone through in the last chunk.
    pub(crate) counts: Vec<u32>,
    pub(crate) first_step: u64,
}

/// A chunk where it is looked at.
pub struct View<'a> {
    roll: &'a Roll,
    chunk: &'a Chunk,
    unrolled: &'a Unrolled<'a>,
}

#[derive(Default)]
struct Unrolled<'a> {
    records: Cow<'a, [u8]>,
    /// Made when they are asked for, if there are links: what one CPU writes and the other reads takes long.
    items: OnceCell<Vec<Item>>,
    /// Calls that begin in the chunk.
    frames: Vec<Frame>,
    /// Who wrote what its records read, if that was asked for.
    links: Option<Box<Links>>,
    /// Room for that.
    room: Option<Box<Links>>,
}

impl View<'_> {
    /// All that is in the chunk.
    pub(crate) fn items(&self) -> &[Item] {
        self.unrolled.items.get_or_init(|| {
            let mut items = Vec::new();
            let (chunk, records) = (self.chunk, &self.unrolled.records);
            self.roll
                .follow_chunk(chunk, records, &mut Vec::new(), false, |item, _| {
                    items.push(item);
                    true
                });
            items
        })
    }

    pub fn codes(&self) -> &Codes {
        &self.roll.codes
    }

    /// The step at which the chunk begins.
    pub(crate) fn first_step(&self) -> u64 {
        self.chunk.start.step
    }

    pub fn event(&self, n: u32) -> &Event {
        &self.chunk.events[n as usize].1
    }

    /// A call that is open, or begins in this chunk.
    pub fn frame(&self, f: FrameId) -> Frame {
        let known = Calls {
            kept: &self.roll.kept,
            first: self.chunk.start.next,
            frames: &self.unrolled.frames[..],
        };
        known.get(f)
    }

    /// What a record says.
    #[inline]
    pub fn values(&self, record: &Record) -> Values<'_> {
        self.roll.values(&self.unrolled.records, record)
    }

    /// The instruction itself if it is `own`, else the innermost call of the user's own that led to it, if there is one.
    pub fn shown(
        &self,
        node: Node,
        mut frame: FrameId,
        mut own: impl FnMut(u64) -> bool,
    ) -> Option<Node> {
        let mut at = node;
        while !own(at.pc) {
            let f = self.frame(frame);
            if f.call.pc == 0 {
                return None;
            }
            (at, frame) = (f.call, f.parent);
        }
        Some(at)
    }
}

/// Which frames are known within a chunk.
struct Calls<'a, F> {
    kept: &'a FxHashMap<FrameId, Frame>,
    first: u32,
    frames: F,
}

impl<F: std::ops::Deref<Target = [Frame]>> Calls<'_, F> {
    #[inline]
    fn get(&self, f: FrameId) -> Frame {
        match f.0.checked_sub(self.first) {
            Some(n) => self.frames[n as usize],
            None => self.kept.get(&f).copied().unwrap_or(Frame::FIRST),
        }
    }
}

struct Grow<'a>(&'a mut Vec<Frame>);

impl std::ops::Deref for Grow<'_> {
    type Target = [Frame];
    fn deref(&self) -> &[Frame] {
        self.0
    }
}

impl Frames for Calls<'_, Grow<'_>> {
    #[inline]
    fn get(&self, f: FrameId) -> Frame {
        Calls::get(self, f)
    }
    #[inline]
    fn make(&mut self, frame: Frame) {
        self.frames.0.push(frame);
    }
}

impl Roll {
    pub fn new(codes: Codes) -> Self {
        Roll::with_sizes(codes, Sizes::default())
    }

    pub fn with_sizes(codes: Codes, sizes: Sizes) -> Self {
        let counts = vec![0; codes.len()];
        Roll {
            codes,
            sizes,
            chunks: Vec::new(),
            bytes: 0,
            raw: 0,
            kept: FxHashMap::default(),
            recent: Vec::new(),
            reader: Reader::new(),
            counts,
            first_step: u64::MAX,
        }
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
        let mut shapes = vec![0; self.codes.len()];
        for chunk in &self.chunks {
            self.count(chunk, &mut |shape, n| {
                shapes[shape as usize] += u64::from(n)
            });
        }
        let mut out = BTreeMap::new();
        for (shape, &n) in shapes.iter().enumerate().filter(|(_, n)| **n > 0) {
            for insn in self.codes.shape(shape as u32).insns() {
                *out.entry(insn.pc).or_default() += n;
            }
        }
        for (_, event) in self.chunks.iter().flat_map(|c| &c.events) {
            if let Some(pc) = event_pc(event) {
                *out.entry(pc).or_default() += 1;
            }
        }
        out
    }

    /// The shapes in a chunk, with how often they occur.
    pub(crate) fn count(&self, chunk: &Chunk, f: &mut dyn FnMut(u32, u32)) {
        for (shape, n) in &chunk.counts {
            f(*shape, *n);
        }
        if std::ptr::eq(chunk, self.chunks.last().unwrap_or(chunk)) {
            let counts = self.counts.iter().enumerate();
            for (shape, n) in counts.filter(|(_, n)| **n > 0) {
                f(shape as u32, *n);
            }
        }
    }

    /// The thread that ran last.
    pub fn last_thread(&self) -> u32 {
        self.reader.thread
    }

    /// Bytes of the records, before compression.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Follows what has been added to the last chunk, and begins new ones.
    fn follow(&mut self, records: &[u8], events: &[(u32, Event)]) {
        let (mut at, mut event) = (0, 0);
        while at < records.len() || event < events.len() {
            let most = self.sizes.chunk;
            let full = |c: &Chunk| c.records.len() >= most || c.events.len() >= MANY_EVENTS;
            if self.chunks.last().is_none_or(full) {
                self.close();
                self.chunks.push(Chunk {
                    start: self.reader.clone(),
                    records: Records::Raw(Vec::with_capacity(most + (most >> 4))),
                    events: Vec::new(),
                    counts: Vec::new(),
                });
            }
            let chunk = self.chunks.last_mut().expect("there is one now");
            let Records::Raw(kept) = &mut chunk.records else {
                unreachable!("a chunk that is not full is not compressed");
            };
            let mut frames = Calls {
                kept: &self.kept,
                first: chunk.start.next,
                frames: Grow(&mut self.recent),
            };
            // Where the part's records go in the chunk.
            let (begin, from) = (kept.len(), at);
            while begin + (at - from) < most && chunk.events.len() < MANY_EVENTS {
                if let Some((n, e)) = events.get(event)
                    && *n as usize <= at
                {
                    self.reader.event(e, &mut frames);
                    self.codes.add_event(e);
                    chunk.events.push(((begin + (at - from)) as u32, e.clone()));
                    event += 1;
                    continue;
                }
                let Some(head) = records.get(at..).and_then(|b| b.first_chunk()) else {
                    break;
                };
                let shape = u32::from_le_bytes(*head);
                self.counts[shape as usize] += 1;
                at += self
                    .reader
                    .record(&self.codes, &records[at..], shape, &mut frames);
            }
            kept.extend_from_slice(&records[from..at]);
        }
    }

    /// The last chunk is full: keeps what is needed of it, in little space.
    fn close(&mut self) {
        let Some(chunk) = self.chunks.last_mut() else {
            return;
        };
        let counts = self.counts.iter_mut().enumerate();
        let counts = counts.filter(|(_, n)| **n > 0);
        chunk.counts = counts
            .map(|(shape, n)| (shape as u32, std::mem::take(n)))
            .collect();
        let first = chunk.start.next;
        let others = self.reader.others.iter().map(|(_, f)| *f);
        for mut f in others.chain([self.reader.frame]) {
            while let Some(n) = f.0.checked_sub(first) {
                let frame = self.recent[n as usize];
                if self.kept.insert(f, frame).is_some() {
                    break;
                }
                f = frame.parent;
            }
        }
        self.recent.clear();
        self.raw += chunk.records.len();
        if self.raw > self.sizes.raw
            && let Records::Raw(bytes) = &chunk.records
        {
            let len = bytes.len();
            let bytes = chunk.records.packed().into_owned();
            chunk.records = Records::Packed { bytes, len };
        }
    }

    /// What a record says, among those of its chunk.
    #[inline]
    fn values<'v>(&self, records: &'v [u8], record: &Record) -> Values<'v> {
        let at = record.at as usize;
        let way = self.codes.way(record.shape);
        Values {
            record: &records[at..at + way.record_len as usize],
            rsp: record.rsp,
            rbp: record.rbp,
            fs_base: record.fs_base,
            unit: way.unit,
        }
    }

    /// Goes through a chunk, says what is where, and notes the calls that begin there. With `rows`, records that can be
    /// read as one are offered so first, with their number; whoever does not take them gets them one by one.
    #[inline]
    fn follow_chunk(
        &self,
        chunk: &Chunk,
        records: &[u8],
        frames: &mut Vec<Frame>,
        rows: bool,
        mut f: impl FnMut(Item, u32) -> bool,
    ) {
        frames.clear();
        let mut frames = Calls {
            kept: &self.kept,
            first: chunk.start.next,
            frames: Grow(frames),
        };
        let mut reader = chunk.start.clone();
        let (mut at, mut event) = (0, 0);
        loop {
            if let Some((n, e)) = chunk.events.get(event)
                && *n as usize <= at
            {
                let step = reader.step;
                reader.event(e, &mut frames);
                let item = Item {
                    step,
                    thread: reader.thread,
                    frame: reader.frame,
                    what: What::Event(event as u32),
                };
                f(item, 1);
                event += 1;
                continue;
            }
            let Some(head) = records.get(at..).and_then(|b| b.first_chunk()) else {
                return;
            };
            let shape = u32::from_le_bytes(*head);
            reader.pop(&mut frames);
            let item = |shape| Item {
                step: reader.step,
                thread: reader.thread,
                frame: reader.frame,
                what: What::Record(Record {
                    at: at as u32,
                    shape,
                    rsp: reader.rsp,
                    rbp: reader.rbp,
                    fs_base: reader.fs_base,
                    first_frame: reader.next,
                }),
            };
            let mut way = shape;
            if rows {
                let end = chunk.events.get(event).map_or(usize::MAX, |e| e.0 as usize);
                let n;
                (way, n) = self.codes.row(&records[at..end.min(records.len())], shape);
                if n > 1 && !f(item(way), n) {
                    way = shape;
                }
            }
            if way == shape {
                f(item(shape), 1);
            }
            at += reader.record(&self.codes, &records[at..], way, &mut frames);
        }
    }

    /// Goes through a chunk and notes what is where; with links, if there is somebody who makes them.
    fn unroll<'a>(
        &'a self,
        n: usize,
        linker: Option<&mut Linker<'_>>,
        mut to: Unrolled<'a>,
    ) -> Unrolled<'a> {
        let chunk = &self.chunks[n];
        to.records = chunk.records.get();
        let mut items = to.items.take().unwrap_or_default();
        items.clear();
        let Some(linker) = linker else {
            self.follow_chunk(chunk, &to.records, &mut to.frames, false, |item, _| {
                items.push(item);
                true
            });
            to.items = OnceCell::from(items);
            return to;
        };
        let mut links = to.room.take().unwrap_or_default();
        linker.begin(chunk.records.len(), chunk.start.step, &mut links);
        let values = |record: &Record| self.values(&to.records, record);
        self.follow_chunk(chunk, &to.records, &mut to.frames, true, |item, n| {
            linker.item(item, n, values, &mut links)
        });
        linker.end(&mut links);
        to.links = Some(links);
        to
    }

    /// Shows chunks one after the other; the next is unrolled meanwhile.
    pub(crate) fn visit(
        &self,
        chunks: impl ExactSizeIterator<Item = usize> + Send,
        mut f: impl FnMut(&View<'_>, &[Item]) -> bool,
    ) {
        self.visit_linked(chunks, None, |view, _| f(view, view.items()));
    }

    /// The same, with links as long as `linked` says so.
    fn visit_linked(
        &self,
        chunks: impl ExactSizeIterator<Item = usize> + Send,
        linked: Option<&Cell<bool>>,
        mut f: impl FnMut(&View<'_>, Option<&mut Links>) -> bool,
    ) {
        let mut show = |n: usize, unrolled: &mut Unrolled<'_>| {
            let mut links = unrolled.links.take();
            let view = View {
                roll: self,
                chunk: &self.chunks[n],
                unrolled,
            };
            let more = f(&view, links.as_deref_mut());
            if links.is_some() {
                unrolled.room = links;
            }
            more
        };
        let links = || linked.is_some_and(|l| l.get());
        let mut linker: Option<Linker<'_>> = None;
        let mut unroll = move |n: usize, links: bool, room| {
            let linker = links.then(|| linker.get_or_insert_with(|| Linker::new(&self.codes)));
            self.unroll(n, linker, room)
        };
        if chunks.len() < 3 {
            let mut room = Unrolled::default();
            for n in chunks {
                room = unroll(n, links(), room);
                if !show(n, &mut room) {
                    return;
                }
            }
            return;
        }
        std::thread::scope(|s| {
            let (send, receive) = sync_channel(1);
            let (give_back, used) = channel();
            let mut wanted = links();
            s.spawn(move || {
                for (i, n) in chunks.enumerate() {
                    let mut room = Unrolled::default();
                    if i >= AHEAD {
                        // Whether there are links is decided by a certain chunk, not by which comes first.
                        let Ok(back) = used.recv() else { return };
                        (room, wanted) = back;
                    }
                    if send.send((n, unroll(n, wanted, room))).is_err() {
                        return;
                    }
                }
            });
            for (n, mut unrolled) in receive {
                if !show(n, &mut unrolled) {
                    return;
                }
                // The other may be at its end.
                let _ = give_back.send((unrolled, links()));
            }
        });
    }

    /// Shows the records of chunks one after the other, as they are; those that are compressed are unpacked
    /// meanwhile.
    pub(crate) fn visit_records(
        &self,
        chunks: std::ops::Range<usize>,
        mut f: impl FnMut(&Chunk, &[u8]),
    ) {
        let chunks = &self.chunks[chunks];
        let raw = |c: &Chunk| matches!(c.records, Records::Raw(_));
        let near = chunks.iter().take_while(|c| raw(c)).count();
        for chunk in &chunks[..near] {
            f(chunk, &chunk.records.get());
        }
        std::thread::scope(|s| {
            let (send, receive) = sync_channel(2);
            let rest = &chunks[near..];
            if rest.is_empty() {
                return;
            }
            s.spawn(move || rest.iter().all(|c| send.send((c, c.records.get())).is_ok()));
            for (chunk, records) in receive {
                f(chunk, &records);
            }
        });
    }

    /// Walks everything from the last to the first.
    pub fn backward(&self, f: impl FnMut(&View<'_>, &Item) -> bool) {
        self.backward_from(u64::MAX, f);
    }

    /// The same for what was before `step`, or a little after.
    pub fn backward_from(&self, step: u64, mut f: impl FnMut(&View<'_>, &Item) -> bool) {
        self.chunks_from(step, None, |view, _| {
            view.items().iter().rev().all(|item| f(view, item))
        });
    }

    /// The same by chunk: all that is in one, from the last chunk to the first, with links as long as `linked`
    /// says so.
    pub(crate) fn chunks_from(
        &self,
        step: u64,
        linked: Option<&Cell<bool>>,
        f: impl FnMut(&View<'_>, Option<&mut Links>) -> bool,
    ) {
        let end = self.chunks.partition_point(|c| c.start.step < step);
        self.visit_linked((0..end).rev(), linked, f);
    }

    /// Walks everything from the first to the last.
    pub fn forward(&self, f: impl FnMut(&View<'_>, &Item) -> bool) {
        self.forward_from(0, f);
    }

    /// The same from `step` on, or from a little before.
    pub fn forward_from(&self, step: u64, mut f: impl FnMut(&View<'_>, &Item) -> bool) {
        self.visit(self.first_at(step)..self.chunks.len(), |view, items| {
            items.iter().all(|item| f(view, item))
        });
    }

    /// The chunk in which a step is.
    fn first_at(&self, step: u64) -> usize {
        let after = self.chunks.partition_point(|c| c.start.step <= step);
        after.saturating_sub(1)
    }

    /// For each of `steps`, which ascend, how often instructions of each class had been executed up
    /// to and with it.
    pub fn counts_at(
        &self,
        class: &Classes,
        steps: &[u64],
        mut answer: impl FnMut(usize, &dyn Fn(usize) -> u64),
    ) {
        let classes = class.values().flatten().max().map_or(0, |m| m + 1);
        let mut counts = vec![0u64; classes];
        // A class may have no instructions.
        let times = |counts: &[u64], c: usize| counts.get(c).copied().unwrap_or(0);
        let mut hits = Hits::new(self, |pc| class.contains_key(&pc));
        let mut next = 0;
        for (n, chunk) in self.chunks.iter().enumerate() {
            if next == steps.len() {
                return;
            }
            let end = self.chunks.get(n + 1).map_or(u64::MAX, |c| c.start.step);
            if steps[next] >= end {
                hits.add(chunk, class, &mut counts);
                continue;
            }
            let mut list = Vec::new();
            self.visit(n..n + 1, |view, items| {
                for item in items {
                    hits.of(view, item, &mut list);
                }
                true
            });
            for e in list {
                while next < steps.len() && steps[next] < e.step {
                    answer(next, &|c| times(&counts, c));
                    next += 1;
                }
                for c in &class[&e.pc] {
                    counts[*c] += 1;
                }
            }
            while next < steps.len() && steps[next] < end {
                answer(next, &|c| times(&counts, c));
                next += 1;
            }
        }
        for n in next..steps.len() {
            answer(n, &|c| times(&counts, c));
        }
    }
}

/// Instructions by address, and what they are counted as.
pub type Classes = FxHashMap<u64, SmallVec<[usize; 1]>>;

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
        self.bytes += part.records.len();
        self.follow(part.records, part.events);
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}
