//! The way of a value, backward along the tape to where it was born.
//!
//! A copy is followed to what was copied, pointer arithmetic to the pointer. Which operand that is cannot be seen
//! from a single instruction, so all of them are followed at first, each by a *trail*, and those are given up that
//! turn out to be no pointers: widened integers, multiples, constants. Of a value that was never written the same is
//! true, only that it is in none of the operands or in any: the trail that comes to the beginning of memory without
//! having met a write is the one. A sum over an array has as many trails as elements, which live until each element's
//! write is met. So trails are found by the place that they want, not gone through, and what they have in common of
//! their way is kept once.

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicBool, Ordering};

use flow::{FrameId, Item, Roll, Step, Values, View, What};
use image::effects::{self, Place, RegRange, Transfer};
use rules::heap::{BlockId, DIFFERENCE, Heap};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::chain::Start;

/// Trails that are followed at a time: of pointers, and of values.
const MOST_POINTERS: usize = 4;
const MOST_VALUES: usize = 1 << 16;
/// A frame does not reach further down.
const STACK: u64 = 8 << 20;
/// Bytes of a cell, by which trails that want memory are found.
const CELL: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    Register(RegRange),
    Memory(u64, u64),
}

/// An instruction that moved the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) step: u64,
    pub(super) pc: u64,
    pub(super) to: Spot,
    /// Saving and restoring registers is of no interest.
    pub(super) keeps: bool,
}

/// How a trail ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    Allocated,
    Constant,
    Computed,
    Call(u64),
    Unwritten,
    Outside,
    /// It may be among those for which there was no room.
    Lost,
}

/// The way of a value.
pub(super) struct Trail {
    /// The latest first.
    pub(super) moves: Vec<Move>,
    /// Where it was before the first of them.
    pub(super) begin: Spot,
    pub(super) origin: Origin,
}

type TrailId = u32;

/// A trail that has not come to its end.
struct Open {
    want: Spot,
    /// Where it was aimed before, in [`Walk::moves`].
    moved: Option<u32>,
    /// Before this step what is wanted was something else.
    limit: u64,
}

/// The call that an instruction is part of, and where that is known.
type Within<'a> = (&'a View<'a>, FrameId);

/// A trail that an instruction concerns: the transfer, and which of its bytes are wanted.
type Hit<'s> = (TrailId, &'s Transfer, (u16, u16));

pub(super) struct Walk<'a> {
    start: &'a Start,
    roll: &'a Roll,
    heap: &'a Heap,
    /// By number, as they were made.
    trails: Vec<Option<Open>>,
    open: usize,
    /// Those that want a register.
    registers: Vec<TrailId>,
    /// Those that want memory, by each cell of it.
    cells: FxHashMap<u64, SmallVec<[TrailId; 2]>>,
    /// Those with a limit; they may have been aimed elsewhere since.
    limits: BinaryHeap<(u64, TrailId)>,
    /// All moves, each with the one after it in its trail.
    moves: Vec<(Move, Option<u32>)>,
    /// There was no room for a trail.
    lost: bool,
    ended: Option<Trail>,
    /// The block of the pointer was made at this step.
    made: u64,
    /// Blocks that there are where the walk begins, by address, if it may be about what was not written.
    blocks: BTreeMap<u64, BlockId>,
    /// Integers too, not only pointers.
    values: bool,
    /// It is known which function the walk begins in.
    begun: bool,
    stretches: Vec<(u64, u64)>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(start: &'a Start, roll: &'a Roll, heap: &'a Heap) -> Self {
        let known = start.block > DIFFERENCE;
        let all = heap.all().filter(|(id, _)| heap.lives(*id, start.step));
        let blocks = match start.any {
            true => all.map(|(id, b)| (b.begin, id)).collect(),
            false => BTreeMap::new(),
        };
        let mut walk = Walk {
            start,
            roll,
            heap,
            trails: Vec::new(),
            open: 0,
            registers: Vec::new(),
            cells: FxHashMap::default(),
            limits: BinaryHeap::new(),
            moves: Vec::new(),
            lost: false,
            ended: None,
            made: if known {
                heap.block(start.block).made
            } else {
                0
            },
            blocks,
            values: start.any,
            begun: false,
            stretches: Vec::new(),
        };
        walk.add(start.at, None, 0);
        walk
    }

    /// Goes back until the value was born, or `stop` says that nobody wants to know any more.
    pub(super) fn run(mut self, stop: &AtomicBool) -> Trail {
        let roll = self.roll;
        roll.backward_from(self.start.step, |view, item| {
            self.item(view, item);
            self.ended.is_none() && !stop.load(Ordering::Relaxed)
        });
        if self.ended.is_none() {
            let first = self.first().expect("it ends with the last of them");
            self.close(first, Origin::Outside);
        }
        self.ended.expect("just seen to")
    }

    /// The oldest trail that is open.
    fn first(&self) -> Option<TrailId> {
        let n = self.trails.iter().position(Option::is_some)?;
        Some(n as TrailId)
    }

    fn add(&mut self, want: Spot, moved: Option<u32>, limit: u64) {
        let id = self.trails.len() as TrailId;
        self.trails.push(None);
        self.open += 1;
        self.put(id, Open { want, moved, limit });
    }

    /// Has a trail found by what it wants.
    fn put(&mut self, id: TrailId, trail: Open) {
        match trail.want {
            Spot::Register(_) => self.registers.push(id),
            Spot::Memory(a, len) => {
                for cell in cells(a, len) {
                    self.cells.entry(cell).or_default().push(id);
                }
            }
        }
        if trail.limit > 0 {
            self.limits.push((trail.limit, id));
        }
        self.trails[id as usize] = Some(trail);
    }

    /// Undoes that.
    fn take(&mut self, id: TrailId) -> Open {
        let trail = self.trails[id as usize].take().expect("an open trail");
        match trail.want {
            Spot::Register(_) => self.registers.retain(|t| *t != id),
            Spot::Memory(a, len) => {
                for cell in cells(a, len) {
                    let list = self.cells.get_mut(&cell).expect("it was put there");
                    list.retain(|t| *t != id);
                    if list.is_empty() {
                        self.cells.remove(&cell);
                    }
                }
            }
        }
        trail
    }

    /// Another trail follows what is at this place already.
    fn is_followed(&self, spot: Spot, but: TrailId) -> bool {
        let mut wanted = match spot {
            Spot::Register(_) => self.registers.iter(),
            Spot::Memory(a, _) => match self.cells.get(&(a / CELL)) {
                Some(list) => list.iter(),
                None => return false,
            },
        };
        wanted.any(|t| {
            let open = self.trails[*t as usize].as_ref();
            *t != but && open.is_some_and(|o| o.want == spot)
        })
    }

    /// A trail is over; if it is the last one, or certain, that is the chain.
    fn end(&mut self, id: TrailId, origin: Origin) {
        let certain = matches!(origin, Origin::Allocated | Origin::Unwritten);
        if self.open == 1 || certain {
            let origin = match certain || !self.lost {
                true => origin,
                false => Origin::Lost,
            };
            self.close(id, origin);
        } else {
            self.take(id);
            self.open -= 1;
        }
    }

    fn close(&mut self, id: TrailId, origin: Origin) {
        let trail = self.take(id);
        let mut moves = Vec::new();
        let mut at = trail.moved;
        while let Some(n) = at {
            let (hop, after) = self.moves[n as usize];
            moves.push(hop);
            at = after;
        }
        moves.reverse();
        self.ended = Some(Trail {
            moves,
            begin: trail.want,
            origin,
        });
    }

    fn item(&mut self, view: &View<'_>, item: &Item) {
        match item.what {
            What::Record(record) => {
                if item.step >= self.start.step {
                    return;
                }
                let plan = view.codes().plan(record.shape);
                let executed = view.codes().shape(record.shape).executed as usize;
                let same = item.thread == self.start.thread;
                if same && !self.begun {
                    self.begun = true;
                    let late = (self.start.step - item.step).min(executed as u64) as usize;
                    let frame = plan.frame_at(late - 1, item.frame, record.first_frame);
                    if let Some(first) = self.first() {
                        self.aim(first, self.start.at, (view, frame));
                    }
                }
                let wanted = |t: &TrailId| match &self.trails[*t as usize] {
                    Some(Open {
                        want: Spot::Register(r),
                        ..
                    }) => plan.may_write(*r),
                    _ => false,
                };
                let may = !plan.stores.is_empty() && !self.cells.is_empty()
                    || same && self.registers.iter().any(wanted);
                let late = item.step + executed as u64 - 1;
                let limit = self.limits.peek().map_or(0, |l| l.0);
                if !may && limit <= item.step && late > self.made {
                    return;
                }
                let values = view.values(&record);
                for i in (0..executed).rev() {
                    let step = item.step + i as u64;
                    if step >= self.start.step {
                        continue;
                    }
                    if self.made > 0 && step <= self.made {
                        let result = Spot::Register(effects::RAX);
                        let open = |t: &Option<Open>| t.as_ref().is_some_and(|o| o.want == result);
                        let n = self.trails.iter().position(open).map(|n| n as TrailId);
                        let n = n.or(self.first()).expect("one is open");
                        return self.end(n, Origin::Allocated);
                    }
                    let frame = plan.frame_at(i, item.frame, record.first_frame);
                    self.instruction(&plan.steps[i], step, &values, same, (view, frame));
                    if self.ended.is_some() {
                        return;
                    }
                }
            }
            What::Event(n) => self.event(item, view.event(n)),
        }
    }

    fn event(&mut self, item: &Item, event: &tape::Event) {
        use tape::Event;
        if item.step >= self.start.step {
            return;
        }
        let (nr, writes): (u64, &[tape::Stretch]) = match event {
            Event::Leave { nr, writes, .. } => (*nr, writes),
            Event::Outside { writes } => (u64::MAX, writes),
            _ => return,
        };
        let same = item.thread == self.start.thread;
        let mut hit: SmallVec<[TrailId; 8]> = SmallVec::new();
        for w in writes {
            self.wanting(w.addr, w.len, &mut hit);
        }
        if nr != u64::MAX && same {
            for &t in &self.registers {
                if let Some(Open {
                    want: Spot::Register(r),
                    ..
                }) = &self.trails[t as usize]
                    && r.overlaps(effects::RAX)
                {
                    hit.push(t);
                }
            }
        }
        hit.sort_unstable();
        hit.dedup();
        for t in hit {
            self.end(t, Origin::Call(nr));
            if self.ended.is_some() {
                return;
            }
        }
    }

    /// The trails that want something of this memory.
    fn wanting(&self, addr: u64, len: u64, out: &mut SmallVec<[TrailId; 8]>) {
        let touches = |t: &&TrailId| match &self.trails[**t as usize] {
            Some(Open {
                want: Spot::Memory(a, n),
                ..
            }) => addr < a + n && *a < addr + len,
            _ => false,
        };
        if len == 0 {
        } else if len / CELL > self.cells.len() as u64 {
            out.extend(self.cells.values().flatten().filter(touches).copied());
        } else {
            for cell in cells(addr, len) {
                if let Some(list) = self.cells.get(&cell) {
                    out.extend(list.iter().filter(touches).copied());
                }
            }
        }
    }

    fn instruction(
        &mut self,
        s: &Step,
        step: u64,
        values: &Values<'_>,
        same: bool,
        frame: Within<'_>,
    ) {
        while let Some(&(limit, id)) = self.limits.peek()
            && limit > step
        {
            self.limits.pop();
            let open = self.trails[id as usize].as_ref();
            if open.is_some_and(|o| o.limit == limit) {
                return self.end(id, Origin::Unwritten);
            }
        }
        // All are found before one is followed: what they want then is from before this instruction.
        let mut hits: SmallVec<[Hit<'_>; 4]> = SmallVec::new();
        if same {
            for &t in &self.registers {
                let Some(Open {
                    want: Spot::Register(r),
                    ..
                }) = self.trails[t as usize]
                else {
                    continue;
                };
                let writers = s.effects.transfers.iter().filter_map(|x| match x.to {
                    Place::Register(to) if to.overlaps(r) => {
                        Some((x, r.at.saturating_sub(to.at), to.len))
                    }
                    _ => None,
                });
                // Of flags, some may be constant; these are none that anything depends on.
                let writer = writers.min_by_key(|(x, ..)| x.from.is_empty());
                hits.extend(writer.map(|(x, offset, len)| (t, x, (offset, len))));
            }
        }
        if !self.cells.is_empty() && s.spots.iter().any(|x| x.access.writes) {
            self.stores(s, values, &mut hits);
        }
        // One that is written twice by it was written by the first transfer.
        hits.sort_by_key(|h| h.0);
        hits.dedup_by_key(|h| h.0);
        for (t, transfer, part) in hits {
            self.follow(t, s, step, transfer, part, values, frame);
            if self.ended.is_some() {
                return;
            }
        }
    }

    /// The trails that want memory to which the instruction writes.
    fn stores<'s>(&mut self, s: &'s Step, values: &Values<'_>, hits: &mut SmallVec<[Hit<'s>; 4]>) {
        let mut stretches = std::mem::take(&mut self.stretches);
        let mut found: SmallVec<[TrailId; 8]> = SmallVec::new();
        for x in &s.effects.transfers {
            let (access, at, size) = match x.to {
                Place::Memory { access, at, len } => (access, u64::from(at), u64::from(len)),
                Place::Whole(access) => (access, 0, 0),
                Place::Register(_) => continue,
            };
            stretches.clear();
            s.spots[access as usize].stretches(values, &mut stretches);
            for &(addr, length) in &stretches {
                let (addr, length) = if size == 0 {
                    (addr, length)
                } else {
                    (addr.wrapping_add(at), size)
                };
                found.clear();
                self.wanting(addr, length, &mut found);
                let length = length.min(u64::from(u16::MAX)) as u16;
                for &t in &found {
                    let Some(Open {
                        want: Spot::Memory(a, _),
                        ..
                    }) = self.trails[t as usize]
                    else {
                        continue;
                    };
                    hits.push((t, x, (a.saturating_sub(addr) as u16, length)));
                }
            }
        }
        self.stretches = stretches;
    }

    #[expect(clippy::too_many_arguments)]
    fn follow(
        &mut self,
        id: TrailId,
        s: &Step,
        step: u64,
        t: &Transfer,
        (offset, size): (u16, u16),
        values: &Values<'_>,
        frame: Within<'_>,
    ) {
        let open = self.trails[id as usize].as_ref().expect("an open trail");
        let (want, moved) = (open.want, open.moved);
        let wanted = match want {
            Spot::Register(r) => u64::from(r.len),
            Spot::Memory(_, len) => len,
        };
        if let Some(condition) = s.condition
            && values.get(condition) & 1 == 0
        {
            return;
        }
        let hop = Move {
            step,
            pc: s.pc,
            to: want,
            keeps: s.keeps,
        };
        self.moves.push((hop, moved));
        let moved = Some(self.moves.len() as u32 - 1);
        self.trails[id as usize]
            .as_mut()
            .expect("an open trail")
            .moved = moved;
        if s.condition.is_some() {
            let mut from = t.from.iter().map(|x| x.place);
            let other = from.find(|p| *p != t.to && !is_flags(*p));
            if let Some(spot) = other.and_then(|p| spot(s, p, values)) {
                return self.aim(id, spot, frame);
            }
        }
        let len = wanted.min(u64::from(size)) as u16;
        if let Some(place) = t.copied(offset, len)
            && let Some(spot) = spot(s, place, values)
        {
            return self.aim(id, spot, frame);
        }
        if t.from.is_empty() {
            return self.end(id, Origin::Constant);
        }
        let mut list: SmallVec<[Spot; 4]> = SmallVec::new();
        let mut consider = |place: Place| {
            if let Some(spot) = spot(s, place, values)
                && !list.contains(&spot)
            {
                list.push(spot);
            }
        };
        if self.values {
            // Of a vector only the lanes that what is wanted was computed from.
            let lane = if t.lane > 0 { t.lane } else { len.max(1) };
            let lanes = (offset..offset + len.max(1)).step_by(usize::from(lane));
            lanes.flat_map(|at| t.sources(at)).for_each(consider);
        } else {
            let places = t.from.iter().map(|source| source.place);
            let pointers = places.filter(|p| !is_flags(*p) && p.len() == Some(8));
            pointers.for_each(&mut consider);
        }
        let Some((first, rest)) = list.split_first() else {
            return self.end(id, Origin::Computed);
        };
        let most = match self.values {
            true => MOST_VALUES,
            false => MOST_POINTERS,
        };
        for spot in rest {
            // What is at one place has one origin: another trail to it would say the same.
            if self.values && self.is_followed(*spot, id) {
                continue;
            }
            if self.open >= most {
                self.lost = true;
                continue;
            }
            let limit = self.limit(*spot, frame);
            self.add(*spot, moved, limit);
        }
        match self.values && self.is_followed(*first, id) {
            true => self.end(id, Origin::Computed),
            false => self.aim(id, *first, frame),
        }
    }

    fn aim(&mut self, id: TrailId, spot: Spot, frame: Within<'_>) {
        let old = self.take(id);
        let limit = self.limit(spot, frame);
        self.put(
            id,
            Open {
                want: spot,
                limit,
                ..old
            },
        );
    }

    /// The step before which a place was something else.
    fn limit(&self, spot: Spot, frame: Within<'_>) -> u64 {
        match spot {
            Spot::Memory(a, _) if self.values => self.birth(a, frame),
            _ => 0,
        }
    }

    /// The step at which memory came to be what it is: its block was made, or its frame.
    fn birth(&self, a: u64, (view, mut frame): Within<'_>) -> u64 {
        if let Some((_, id)) = self.blocks.range(..=a).next_back()
            && let b = self.heap.block(*id)
            && a - b.begin < b.size
        {
            return b.made;
        }
        loop {
            let f = view.frame(frame);
            if f.slot == u64::MAX || frame == f.parent {
                return 0;
            }
            if a < f.slot {
                // What is far below is no part of any stack, but a constant or a global variable.
                return if f.slot - a < STACK { f.call.step } else { 0 };
            }
            frame = f.parent;
        }
    }
}

fn cells(a: u64, len: u64) -> impl Iterator<Item = u64> {
    a / CELL..=a.saturating_add(len.max(1) - 1) / CELL
}

fn spot(s: &Step, place: Place, values: &Values<'_>) -> Option<Spot> {
    match place {
        Place::Register(r) => Some(Spot::Register(r)),
        Place::Memory { access, at, len } => {
            let address = s.spots[access as usize].address(values);
            let address = address.wrapping_add(u64::from(at));
            Some(Spot::Memory(address, u64::from(len)))
        }
        Place::Whole(_) => None,
    }
}

fn is_flags(p: Place) -> bool {
    matches!(p, Place::Register(r) if effects::FLAGS.overlaps(r))
}
