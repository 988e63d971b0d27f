//! Backward dynamic slices.
//!
//! The walk goes from the last instruction to the first and keeps what is still *wanted*: bytes of
//! registers and memory whose values had to do with what was asked about. An instruction that
//! writes such bytes belongs to the slice; they are found then, and what it read is wanted instead.
//! Nothing need be known of instructions that write nothing wanted, and of most superblocks a look
//! at a summary is enough.
//!
//! **Control dependence.** An instruction in the slice was executed because of the last branch
//! before it, in the same call, that decides whether it is; or, if there is none, because of the
//! call. The walk keeps these questions by call and branch and meets the answer on its way. This is
//! the same relation that Xin and Zhang's algorithm computes online.
//!
//! Not followed: the stack pointer (every instruction that uses the stack would depend on every
//! call before it). Registers that a function saves and restores are followed through the saving
//! without making it a part of the slice.
//!
//! Where a slice is dense, the walk goes by links that were found in advance ([`crate::sweep`]).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use image::effects::{self, RegRange};
use rustc_hash::FxHashMap;
use tape::{Event, Stretch};

use crate::asked::{Asked, SetId};
use crate::codes::{Codes, InsnId};
use crate::links::Links;
use crate::memory::Memory;
use crate::plainly::{Here, Plainly};
use crate::plan::{Plan, Spot, Step, Values};
use crate::reader::FrameId;
use crate::roll::{Item, Roll, View, What};
use crate::step::{Room, step};
use crate::sweep::Sweep;
use crate::terms::{
    Controls, Criterion, Edge, Edges, Kind, Node, OUTSIDE, Omission, Options, Times,
};
use crate::wanted::{Each, Everybody, Registers, Taken, Wants, Why};

/// A slice in the making.
pub struct Slicer<'a, E> {
    pub(crate) codes: &'a Codes,
    controls: &'a mut dyn Controls,
    criterion: Criterion,
    pub(crate) options: Options,
    pub(crate) everybody: Everybody,
    /// By thread; `now` is the one at hand.
    pub(crate) registers: Vec<(u32, Registers)>,
    pub(crate) now: usize,
    pub(crate) memory: Memory,
    /// Registers wanted after a handler returned, which come from before the signal.
    interrupted: FxHashMap<u32, Vec<Registers>>,
    /// What was wanted of a call that has been left, until it is entered.
    open: FxHashMap<u32, Open>,
    pub(crate) asked: Asked,
    /// By instruction, as far as known: whether it is the user's own, and what decides about it.
    visible: Vec<Option<bool>>,
    sets: Vec<Option<SetId>>,
    omitted: Vec<Option<Rc<[Omission]>>>,
    /// By instruction, how often it is in the slice.
    nodes: Vec<Option<Times>>,
    /// Calls that stand for what happened inside of them, and have not been reached yet.
    squashed: BTreeSet<Node>,
    /// What the library code of a call is shown as: of calls that were looked at lately.
    hidden: [Option<(FrameId, Shown)>; LATELY],
    pub edges: E,
    pub(crate) sweep: Option<Box<Sweep>>,
    room: Room<Wants>,
    pub(crate) taken: Taken,
    pub(crate) answered: Vec<Wants>,
    /// The frame of the record after the one at hand, and its thread.
    pub(crate) later: Option<(u32, FrameId)>,
    started: bool,
    /// Records that had something to do with the slice.
    pub(crate) looked_at: usize,
}

#[derive(Default)]
struct Open {
    taken: Taken,
    reads: Vec<Stretch>,
}

/// An instruction as it is shown.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Shown {
    pub(crate) node: Node,
    pub(crate) id: InsnId,
}

impl Shown {
    pub(crate) const OUTSIDE: Shown = Shown {
        node: OUTSIDE,
        id: NOBODY,
    };
}

/// Calls of which it is remembered what they are shown as.
const LATELY: usize = 256;
/// Links are made where one record of so many is looked at.
const FEW: usize = 16;

/// The number of all that is outside.
pub(crate) const NOBODY: InsnId = InsnId::MAX;

impl<'a, E: Edges> Slicer<'a, E> {
    pub fn new(
        codes: &'a Codes,
        criterion: Criterion,
        options: Options,
        controls: &'a mut dyn Controls,
        edges: E,
    ) -> Self {
        let n = codes.instructions();
        Slicer {
            codes,
            controls,
            criterion,
            options,
            everybody: Everybody::default(),
            registers: vec![(0, Registers::new())],
            now: 0,
            memory: Memory::new(),
            interrupted: FxHashMap::default(),
            open: FxHashMap::default(),
            asked: Asked::default(),
            visible: vec![None; n],
            sets: vec![None; n],
            omitted: vec![None; n],
            nodes: vec![None; n],
            squashed: BTreeSet::new(),
            hidden: [None; LATELY],
            edges,
            sweep: None,
            looked_at: 0,
            room: Room::default(),
            taken: Vec::new(),
            answered: Vec::new(),
            later: None,
            started: false,
        }
    }

    pub(crate) fn registers(&mut self) -> &mut Registers {
        &mut self.registers[self.now].1
    }

    /// Nothing is wanted any more: what was before `step` does not matter.
    fn is_done(&self, step: u64) -> bool {
        self.started
            && self.asked.is_empty()
            && self.memory.is_empty()
            && self.registers.iter().all(|(_, r)| r.is_empty())
            && self.interrupted.values().all(Vec::is_empty)
            && self.open.values().all(|o| o.taken.is_empty())
            && self.criterion.roots.first().is_none_or(|r| *r >= step)
    }

    /// Walks a roll backward, as long as `go_on` says so, which is told at what step it is.
    pub fn walk(&mut self, roll: &Roll, go_on: impl Fn(u64) -> bool) {
        E::walk(self, roll, &go_on);
    }

    pub(crate) fn go_back(&mut self, roll: &Roll, go_on: &dyn Fn(u64) -> bool) {
        let options = &self.options;
        let pruned = !options.pruned_memory.is_empty() || !options.pruned_registers.is_empty();
        let may_link = !(E::EACH || options.relevant || pruned);
        let eager = options.eager;
        let linked = Cell::new(may_link && eager);
        let step = self.criterion.step;
        roll.chunks_from(step, may_link.then_some(&linked), |view, links| {
            let before = self.looked_at;
            let (more, items) = match links {
                Some(links) => {
                    self.hear(links);
                    let items = links.items as usize;
                    (self.linked(view, links, go_on), items)
                }
                None => {
                    let items = view.items();
                    (self.plainly(view, items.iter(), go_on), items.len())
                }
            };
            // Calls that have been reached need not be remembered.
            let step = view.first_step();
            self.squashed.split_off(&Node { step, pc: 0 });
            // Links are worth while where much has to do with the slice.
            if !eager {
                let here = self.looked_at - before;
                linked.set(here * FEW > items);
            }
            more
        });
        self.settle();
    }

    /// Goes back through some items one by one; whether to go on.
    fn plainly<'i>(
        &mut self,
        view: &View<'_>,
        items: impl DoubleEndedIterator<Item = &'i Item>,
        go_on: &dyn Fn(u64) -> bool,
    ) -> bool {
        let mut since = 0;
        for item in items.rev() {
            self.item(view, item);
            since = (since + 1) % 1024;
            if since == 0 && (!go_on(item.step) || self.is_done(item.step)) {
                return false;
            }
        }
        true
    }

    /// Goes back through a chunk with links: by segments, and one by one between them.
    fn linked(&mut self, view: &View<'_>, links: &mut Links, go_on: &dyn Fn(u64) -> bool) -> bool {
        let (first, end) = (links.step, links.end);
        let (from, to) = self.options.window.unwrap_or((0, u64::MAX));
        let inside = from <= first && end <= to && end <= self.criterion.step;
        if !self.started || !inside || self.has_root(first, end) {
            return self.plainly(view, view.items().iter(), go_on);
        }
        links.begin();
        let segments = std::mem::take(&mut links.segments);
        let others = std::mem::take(&mut links.others);
        let mut left = &others[..];
        for s in segments.iter().rev() {
            let before = left.partition_point(|o| o.0 < s.first);
            if !self.plainly(view, left[before..].iter().map(|o| &o.1), go_on) {
                return false;
            }
            left = &left[..before];
            self.sweep(view, links, s);
        }
        let more = self.plainly(view, left.iter().map(|o| &o.1), go_on);
        (links.segments, links.others) = (segments, others);
        more && go_on(first) && !self.is_done(first)
    }

    /// By address, how often each instruction is in the slice.
    pub fn nodes(&self) -> FxHashMap<u64, Times> {
        let all = self.codes.ids();
        all.filter_map(|(pc, id)| Some((pc, self.nodes[id as usize]?)))
            .collect()
    }

    fn start(&mut self, view: &View<'_>, frame: FrameId) {
        self.started = true;
        let c = self.criterion.clone();
        let real = Node {
            step: c.step,
            pc: c.pc,
        };
        let shown = self.shown(view, real, self.codes.id(c.pc), frame);
        if c.roots.is_empty() {
            self.count(shown, shown.node != real);
        }
        self.turn(c.thread);
        for r in c.registers {
            self.want_register(r, shown);
        }
        for (addr, len) in c.memory {
            self.want_memory(addr, len, shown);
        }
        if c.control {
            self.ask(c.pc, self.codes.id(c.pc), shown, frame);
        }
    }

    /// The registers of this thread are those at hand.
    pub(crate) fn turn(&mut self, thread: u32) {
        if self.registers[self.now].0 == thread {
            return;
        }
        let known = self.registers.iter().position(|(t, _)| *t == thread);
        self.now = known.unwrap_or_else(|| {
            self.registers.push((thread, Registers::new()));
            self.registers.len() - 1
        });
    }

    /// The instruction itself if it is the user's own, else the call of the library it is in. What
    /// runs before and after the user's code is outside.
    pub(crate) fn shown(
        &mut self,
        view: &View<'_>,
        node: Node,
        id: Option<InsnId>,
        frame: FrameId,
    ) -> Shown {
        if let Some(id) = id
            && self.visible[id as usize] == Some(true)
        {
            return Shown { node, id };
        }
        let known = id.is_some_and(|id| self.visible[id as usize] == Some(false));
        if known
            && let Some((f, shown)) = self.hidden[frame.0 as usize % LATELY]
            && f == frame
        {
            return shown;
        }
        let (codes, visible, controls) = (self.codes, &mut self.visible, &mut *self.controls);
        let own = view.shown(node, frame, |pc| match codes.id(pc) {
            Some(id) => *visible[id as usize].get_or_insert_with(|| controls.shown(pc)),
            None => controls.shown(pc),
        });
        let shown = match own {
            Some(node) => Shown {
                node,
                id: codes.id(node.pc).unwrap_or(NOBODY),
            },
            None => Shown::OUTSIDE,
        };
        if known {
            self.hidden[frame.0 as usize % LATELY] = Some((frame, shown));
        }
        shown
    }

    /// The frame that a jump out of a function at the end of a record has begun, if it has: that in which it
    /// arrives. `first` is the number that the first call in the record has, `later` the thread and frame of
    /// the next one.
    #[inline]
    pub(crate) fn arrived(
        &self,
        view: &View<'_>,
        (thread, step): (u32, u64),
        (shape, first): (u32, u32),
        later: Option<(u32, FrameId)>,
    ) -> Option<FrameId> {
        let way = self.codes.way(shape);
        let last = way.last.filter(|l| l.leaves)?;
        // Frames are numbered as they begin: one from before was not begun here.
        let (_, frame) = later.filter(|l| l.0 == thread && l.1.0 >= first)?;
        let by = view.frame(frame).call;
        let step = step + u64::from(way.executed) - 1;
        (by.step == step && by.pc == last.pc).then_some(frame)
    }

    /// Goes through a record or an event.
    fn item(&mut self, view: &View<'_>, item: &Item) {
        if item.step >= self.criterion.step {
            return;
        }
        let (from, to) = self.options.window.unwrap_or((0, u64::MAX));
        match item.what {
            What::Event(n) => {
                if !self.started {
                    self.start(view, item.frame);
                }
                self.turn(item.thread);
                if (from..to).contains(&item.step) {
                    self.event(view, view.event(n), item);
                }
            }
            What::Record(record) => {
                let first_frame = record.first_frame;
                let plan = self.codes.plan(record.shape);
                let executed = self.codes.way(record.shape).executed as usize;
                let values = view.values(&record);
                let end = item.step + executed as u64;
                // Outside of the window too: in another chunk it is not known which frames began in that one.
                let later = self.later.replace((item.thread, item.frame));
                if self.started && (end <= from || item.step >= to) {
                    return;
                }
                let whole = end <= self.criterion.step;
                if !self.started {
                    let n = (self.criterion.step - item.step).min(executed as u64) as usize;
                    self.start(view, plan.frame_at(n, item.frame, first_frame));
                }
                self.turn(item.thread);
                let of = (record.shape, first_frame);
                let arrived = self.arrived(view, (item.thread, item.step), of, later);
                let arrives = arrived.is_some_and(|f| self.asked.about_call(f));
                if whole
                    && !arrives
                    && !self.interesting(plan, executed, &values, item, first_frame)
                {
                    return;
                }
                self.looked_at += 1;
                for i in (0..executed).rev() {
                    let step = item.step + i as u64;
                    if step >= self.criterion.step || !(from..to).contains(&step) {
                        continue;
                    }
                    let s = &plan.steps[i];
                    let frame = plan.frame_at(i, item.frame, first_frame);
                    let call = plan.calls.iter().position(|(n, _)| *n as usize == i);
                    let callee = call.map(|c| FrameId(first_frame + c as u32));
                    let callee = callee.or(arrived.filter(|_| i + 1 == executed));
                    let asks = self.options.relevant && s.may_branch;
                    let rbp = asks.then(|| plan.rbp_at(i, &values)).flatten();
                    let here = Here {
                        view,
                        insn: s,
                        values: &values,
                        step,
                        frame,
                        callee,
                        rbp,
                    };
                    if self.concerns(&here) {
                        self.step(here);
                    }
                }
            }
        }
    }

    /// A quick look: does the record have anything to do with the slice?
    #[inline]
    fn interesting(
        &mut self,
        plan: &Plan,
        executed: usize,
        values: &Values<'_>,
        item: &Item,
        first_frame: u32,
    ) -> bool {
        let last = item.step + executed as u64;
        if self.has_root(item.step, last) || self.registers[self.now].1.mask & plan.writes != 0 {
            return true;
        }
        if !self.memory.is_empty() {
            let stores = plan.stores.iter();
            for (_, spot) in stores.take_while(|(i, _)| (*i as usize) < executed) {
                if may_hit(&self.memory, spot, values) {
                    return true;
                }
            }
        }
        if self.options.relevant && !plan.branches.is_empty() && !self.memory.is_empty() {
            return true;
        }
        if self.asked.is_empty() {
            return false;
        }
        let decides = plan.branches.iter().any(|&(i, pc)| {
            (i as usize) < executed
                && self
                    .asked
                    .about_branch(plan.frame_at(i as usize, item.frame, first_frame), pc)
        });
        decides
            || (0..plan.calls.len()).any(|c| self.asked.about_call(FrameId(first_frame + c as u32)))
    }

    /// One of these steps is a root.
    #[inline]
    pub(crate) fn has_root(&self, from: u64, to: u64) -> bool {
        let roots = &self.criterion.roots;
        match (roots.first(), roots.last()) {
            (Some(a), Some(b)) if *a < to && from <= *b => {
                let n = roots.partition_point(|r| *r < from);
                roots.get(n).is_some_and(|r| *r < to)
            }
            _ => false,
        }
    }

    /// The same look at one instruction.
    #[inline]
    fn concerns(&mut self, here: &Here<'_>) -> bool {
        let s = here.insn;
        let stores = |memory: &Memory| {
            let mut spots = s.spots.iter().filter(|s| s.access.writes);
            spots.any(|spot| may_hit(memory, spot, here.values))
        };
        self.registers[self.now].1.mask & s.writes != 0
            || s.stores && stores(&self.memory)
            || s.may_branch && self.asked.about_branch(here.frame, s.pc)
            || s.may_branch && self.options.relevant && !self.memory.is_empty()
            || here.callee.is_some_and(|c| self.asked.about_call(c))
            || self.has_root(here.step, here.step + 1)
    }

    fn step(&mut self, here: Here<'_>) {
        let mut room = std::mem::take(&mut self.room);
        let (insn, values) = (here.insn, here.values);
        let mut state = Plainly {
            slicer: self,
            here,
            shown: None,
        };
        step(&mut state, insn, values, &mut room);
        self.room = room;
    }

    /// What might have been written if the branch had gone otherwise.
    pub(crate) fn omitted(&mut self, s: &Step) -> Rc<[Omission]> {
        match self.omitted.get(s.id as usize) {
            Some(Some(known)) => known.clone(),
            Some(None) => {
                let list: Rc<[Omission]> = self.controls.omitted(s.pc).into();
                self.omitted[s.id as usize] = Some(list.clone());
                list
            }
            None => Rc::new([]),
        }
    }

    /// This is not followed.
    pub(crate) fn is_pruned(&self, r: RegRange) -> bool {
        r.general_number() == Some(4)
            || matches!(r, effects::FS_BASE | effects::GS_BASE)
            || self.options.pruned_registers.iter().any(|p| p.overlaps(r))
    }

    pub(crate) fn want_register(&mut self, r: RegRange, by: Shown) {
        if !self.is_pruned(r) {
            let wants = self.everybody.wants(by.id, by.node, Why::Register(r));
            self.registers().add(r, wants, &mut Each(E::EACH));
        }
    }

    pub(crate) fn want_memory(&mut self, addr: u64, len: u64, by: Shown) {
        let pruned = |&(a, n): &(u64, u64)| addr < a + n && a < addr.wrapping_add(len);
        if len == 0 || self.options.pruned_memory.iter().any(pruned) {
            return;
        }
        let wants = self.everybody.wants(by.id, by.node, Why::Memory);
        self.memory.add(addr, len, wants, Each(E::EACH));
    }

    /// Those who wanted this depend on `to`.
    pub(crate) fn edges_from(&mut self, taken: &Taken, to: Shown) {
        for took in taken {
            let wants = took.wants();
            let kind = took.kind(self.everybody.get(wants.who).why);
            self.edge(wants, kind, to);
        }
    }

    pub(crate) fn edge(&mut self, wants: Wants, kind: Kind, to: Shown) {
        let pc = self.everybody.get(wants.who).pc;
        let mut times = u64::from(wants.times);
        let node = to.node;
        if pc == OUTSIDE.pc {
            return;
        }
        if pc == node.pc && wants.earliest == node.step {
            // Inside one call of a library.
            times -= 1;
        }
        if times > 0 {
            let edge = Edge {
                from: Node {
                    step: wants.latest,
                    pc,
                },
                to: node,
                kind,
            };
            let key = u64::from(wants.who) << 32 | u64::from(to.id);
            self.edges.add(key, edge, times);
        }
    }

    pub(crate) fn count(&mut self, shown: Shown, squashed: bool) {
        let node = shown.node;
        if node == OUTSIDE || squashed && !self.squashed.insert(node) {
            return;
        }
        self.count_times(shown.id, 1, node.step, node.step);
    }

    /// So many executions of an instruction are in the slice.
    pub(crate) fn count_times(&mut self, id: InsnId, count: u64, first: u64, last: u64) {
        let Some(times) = self.nodes.get_mut(id as usize) else {
            return;
        };
        let count_before = times.map_or(0, |t| t.count);
        *times = Some(Times {
            count: count_before + count,
            first: times.map_or(first, |t| t.first.min(first)),
            last: times.map_or(last, |t| t.last.max(last)),
        });
    }

    pub(crate) fn include(&mut self, real: Node, id: InsnId, shown: Shown, frame: FrameId) {
        let squashed = shown.node != real;
        self.count(shown, squashed || self.is_squashed(shown));
        self.ask(real.pc, Some(id), shown, frame);
    }

    /// A call that has been counted for what happened inside of it.
    pub(crate) fn is_squashed(&self, shown: Shown) -> bool {
        !self.squashed.is_empty() && self.squashed.contains(&shown.node)
    }

    /// The set of branches that decide about the instruction at `pc`.
    pub(crate) fn deciders(&mut self, pc: u64, id: Option<InsnId>) -> SetId {
        let known = id.and_then(|id| self.sets[id as usize]);
        known.unwrap_or_else(|| {
            let set = self.asked.set(self.controls.controllers(pc));
            if let Some(id) = id {
                self.sets[id as usize] = Some(set);
            }
            set
        })
    }

    /// Whether the instruction is the user's own.
    pub(crate) fn is_visible(&mut self, pc: u64, id: InsnId) -> bool {
        let controls = &mut *self.controls;
        *self.visible[id as usize].get_or_insert_with(|| controls.shown(pc))
    }

    /// Asks why the instruction at `pc` was executed.
    fn ask(&mut self, pc: u64, id: Option<InsnId>, by: Shown, frame: FrameId) {
        if self.options.data_only {
            return;
        }
        let set = self.deciders(pc, id);
        let asker = self.everybody.wants(by.id, by.node, Why::Control);
        self.asked.ask(frame, set, asker, E::EACH);
    }

    fn event(&mut self, view: &View<'_>, event: &Event, item: &Item) {
        let thread = item.thread;
        match event {
            Event::Leave { nr: 15, .. } => {
                let now = &mut self.registers[self.now].1;
                let now = std::mem::replace(now, Registers::new());
                self.interrupted.entry(thread).or_default().push(now);
            }
            Event::Signal { frame, .. } => {
                let before = self.interrupted.get_mut(&thread).and_then(Vec::pop);
                if let Some(before) = before {
                    self.registers[self.now].1.join(before);
                }
                self.drop_memory(&[*frame]);
            }
            Event::Leave { reads, writes, .. } => {
                let mut open = Open {
                    reads: reads.clone(),
                    ..Open::default()
                };
                for w in writes {
                    self.memory.take(w.addr, w.len, &mut open.taken);
                }
                self.open.insert(thread, open);
            }
            Event::Enter { pc, nr, .. } => self.call(view, *pc, *nr, item),
            Event::Special(insn) => {
                let mut step = Step::of(insn, &[]);
                step.id = self.codes.id(insn.pc).unwrap_or(NOBODY);
                let values = Values {
                    record: &[],
                    rsp: 0,
                    rbp: 0,
                    fs_base: 0,
                    unit: Values::UNIT,
                };
                self.step(Here {
                    view,
                    insn: &step,
                    values: &values,
                    step: item.step,
                    frame: item.frame,
                    callee: None,
                    rbp: None,
                });
            }
            Event::Outside { writes } => self.drop_memory(writes),
            Event::Exec => {
                self.memory.clear();
                self.registers = vec![(thread, Registers::new())];
                self.now = 0;
                self.asked.clear();
            }
            Event::State { .. } | Event::Followed(_) => {}
        }
    }

    /// Bytes that came from outside: nothing in the program wrote them.
    fn drop_memory(&mut self, writes: &[Stretch]) {
        let mut taken = std::mem::take(&mut self.taken);
        for w in writes {
            taken.clear();
            self.memory.take(w.addr, w.len, &mut taken);
        }
        self.taken = taken;
    }

    /// A system call: its result and what it wrote depend on its arguments and on what it read.
    fn call(&mut self, view: &View<'_>, pc: u64, nr: u64, item: &Item) {
        let real = Node {
            step: item.step,
            pc,
        };
        let open = self.open.remove(&item.thread).unwrap_or_default();
        let mut taken = open.taken;
        for r in [effects::RAX, effects::RCX, effects::R11] {
            self.registers[self.now].1.take(r, &mut taken);
        }
        let inside = self.has_root(item.step, item.step + 1);
        if taken.is_empty() && !inside {
            return;
        }
        let Some(id) = self.codes.id(pc) else { return };
        let shown = self.shown(view, real, Some(id), item.frame);
        self.edges_from(&taken, shown);
        self.include(real, id, shown, item.frame);
        // The number of the call and its arguments: rax, rdi, rsi, rdx, r10, r8, r9.
        self.want_register(effects::RAX, shown);
        for r in [7, 6, 2, 10, 8, 9].into_iter().take(abi::arguments(nr)) {
            self.want_register(RegRange::general(r), shown);
        }
        for r in open.reads {
            self.want_memory(r.addr, r.len, shown);
        }
    }
}

#[inline]
fn may_hit(memory: &Memory, spot: &Spot, values: &Values<'_>) -> bool {
    match spot.access.fixed() {
        Some(n) => memory.maybe(spot.address(values), u64::from(n)),
        None => true,
    }
}
