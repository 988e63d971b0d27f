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

use std::rc::Rc;

use image::effects::{self, Place, RegRange, Transfer};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tape::{Event, Stretch};

use crate::plan::{Plan, Step, Values, mask};
use crate::roll::{FrameId, Item, Roll, What};
use crate::terms::{Controls, Criterion, Edge, Kind, Node, OUTSIDE, Options, Times};
use crate::wanted::{Memory, Registers, Taken, Want, Wants};

/// Edges that are kept one by one; of more, only how many there were.
const MOST_EDGES: usize = 1 << 20;

/// A slice in the making.
pub struct Slicer<'a> {
    controls: &'a mut dyn Controls,
    criterion: Criterion,
    options: Options,
    wants: Wants,
    registers: FxHashMap<u32, Registers>,
    memory: Memory,
    /// Registers wanted after a handler returned, which come from before the signal.
    interrupted: FxHashMap<u32, Vec<Registers>>,
    /// What was wanted of a call that has been left, until it is entered.
    open: FxHashMap<u32, Open>,
    pending: Pending,
    controllers: FxHashMap<u64, Rc<[u64]>>,
    visible: FxHashMap<u64, bool>,
    /// Calls that stand for what happened inside of them.
    squashed: FxHashSet<Node>,
    pub nodes: FxHashMap<u64, Times>,
    pub edges: Vec<Edge>,
    /// Edges that were found, kept or not.
    pub edge_count: u64,
    taken: Taken,
    /// The frame of the record after the one at hand, and its thread.
    later: Option<(u32, FrameId)>,
    started: bool,
    scratch: Vec<(u64, u64)>,
}

#[derive(Default)]
struct Open {
    taken: Taken,
    reads: Vec<Stretch>,
}

/// Questions about control: which branch made this instance happen?
#[derive(Default)]
struct Pending {
    asked: FxHashMap<(FrameId, u64), SmallVec<[u32; 2]>>,
    list: Vec<(Node, bool)>,
}

/// The instruction at hand.
struct Here<'a> {
    roll: &'a Roll,
    thread: u32,
    step: u64,
    frame: FrameId,
    /// The frame that it begins, if it is a call.
    callee: Option<FrameId>,
}

/// Stands for the call that began a frame, among the branches that decide.
const ENTRY: u64 = 0;

impl<'a> Slicer<'a> {
    pub fn new(criterion: Criterion, options: Options, controls: &'a mut dyn Controls) -> Self {
        Slicer {
            controls,
            criterion,
            options,
            wants: Wants::default(),
            registers: FxHashMap::default(),
            memory: Memory::new(),
            interrupted: FxHashMap::default(),
            open: FxHashMap::default(),
            pending: Pending::default(),
            controllers: FxHashMap::default(),
            visible: FxHashMap::default(),
            squashed: FxHashSet::default(),
            nodes: FxHashMap::default(),
            edges: Vec::new(),
            edge_count: 0,
            taken: Vec::new(),
            later: None,
            started: false,
            scratch: Vec::new(),
        }
    }

    /// Nothing is wanted any more: what was before does not matter.
    pub fn is_done(&self) -> bool {
        self.started
            && self.memory.is_empty()
            && self.registers.values().all(Registers::is_empty)
            && self.pending.asked.is_empty()
    }

    /// Walks a roll backward, as long as `go_on` says so. Rolls are to be given last to first.
    pub fn walk(&mut self, roll: &Roll, go_on: impl Fn() -> bool) {
        roll.backward(|item| {
            self.item(roll, item);
            go_on()
        });
    }

    fn start(&mut self, roll: &Roll, frame: FrameId) {
        self.started = true;
        let c = self.criterion.clone();
        let real = Node {
            step: c.step,
            pc: c.pc,
        };
        let node = self.shown(roll, real, frame);
        if c.roots.is_empty() {
            self.count(node, node != real);
        }
        for r in c.registers {
            self.want_register(c.thread, r, node);
        }
        for (addr, len) in c.memory {
            self.want_memory(addr, len, node);
        }
        if c.control {
            self.ask(c.pc, node, frame);
        }
    }

    /// The instruction itself if it is the user's own, else the call of the library it is in. What
    /// runs before and after the user's code is outside.
    fn shown(&mut self, roll: &Roll, node: Node, mut frame: FrameId) -> Node {
        let mut at = node;
        loop {
            let visible = match self.visible.get(&at.pc) {
                Some(v) => *v,
                None => {
                    let v = self.controls.shown(at.pc);
                    self.visible.insert(at.pc, v);
                    v
                }
            };
            if visible {
                return at;
            }
            let f = roll.frame(frame);
            if f.call.pc == 0 {
                return OUTSIDE;
            }
            (at, frame) = (f.call, f.parent);
        }
    }

    fn item(&mut self, roll: &Roll, item: &Item) {
        if item.step >= self.criterion.step {
            return;
        }
        if self.started
            && self
                .options
                .window
                .is_some_and(|(a, b)| !(a..b).contains(&item.step))
        {
            return;
        }
        match item.what {
            What::Event { piece, n } => {
                if !self.started {
                    self.start(roll, item.frame);
                }
                self.event(roll, roll.event(piece, n), item);
            }
            What::Record {
                piece,
                at,
                shape,
                rsp,
                rbp,
                fs_base,
                first_frame,
            } => {
                let plan = roll.codes.plan(shape);
                let executed = roll.codes.shape(shape).executed as usize;
                let values = Values {
                    record: roll.values(piece, at),
                    rsp,
                    rbp,
                    fs_base,
                };
                let whole = item.step + executed as u64 <= self.criterion.step;
                if !self.started {
                    let n = (self.criterion.step - item.step).min(executed as u64) as usize;
                    self.start(roll, plan.frame_at(n, item.frame, first_frame));
                }
                // A jump out of a function begins the frame in which it arrives.
                let later = self.later.replace((item.thread, item.frame));
                let arrived = later.filter(|(thread, f)| {
                    let by = roll.frame(*f).call;
                    *thread == item.thread
                        && executed > 0
                        && plan.steps[executed - 1].leaves
                        && by.step == item.step + executed as u64 - 1
                        && by.pc == plan.steps[executed - 1].pc
                });
                let arrived = arrived.map(|a| a.1);
                let asked = |f| self.pending.asked.contains_key(&(f, ENTRY));
                if whole
                    && !arrived.is_some_and(asked)
                    && !self.interesting(plan, executed, &values, item, first_frame)
                {
                    return;
                }
                for i in (0..executed).rev() {
                    let step = item.step + i as u64;
                    if step < self.criterion.step {
                        let frame = plan.frame_at(i, item.frame, first_frame);
                        let call = plan.calls.iter().position(|(n, _)| *n as usize == i);
                        let callee = call.map(|c| FrameId(first_frame + c as u32));
                        let callee = callee.or(arrived.filter(|_| i + 1 == executed));
                        let here = Here {
                            roll,
                            thread: item.thread,
                            step,
                            frame,
                            callee,
                        };
                        self.step(&plan.steps[i], &values, &here);
                    }
                }
            }
        }
    }

    /// A quick look: does the record have anything to do with the slice?
    #[inline]
    fn interesting(
        &self,
        plan: &Plan,
        executed: usize,
        values: &Values<'_>,
        item: &Item,
        first_frame: u32,
    ) -> bool {
        let last = item.step + executed as u64;
        if let (Some(a), Some(b)) = (self.criterion.roots.first(), self.criterion.roots.last())
            && *a < last
            && item.step <= *b
        {
            return true;
        }
        if let Some(r) = self.registers.get(&item.thread)
            && r.mask & plan.writes != 0
        {
            return true;
        }
        if !self.memory.is_empty() {
            for (i, spot) in &plan.stores {
                if *i as usize >= executed {
                    break;
                }
                let hit = match spot.access.fixed() {
                    Some(n) => self.memory.maybe(spot.address(values), u64::from(n)),
                    None => true,
                };
                if hit {
                    return true;
                }
            }
        }
        let asked = &self.pending.asked;
        if asked.is_empty() {
            return false;
        }
        let decides = plan.branches.iter().any(|&(i, pc)| {
            (i as usize) < executed
                && asked.contains_key(&(plan.frame_at(i as usize, item.frame, first_frame), pc))
        });
        decides
            || (0..plan.calls.len())
                .any(|c| asked.contains_key(&(FrameId(first_frame + c as u32), ENTRY)))
    }

    fn step(&mut self, s: &Step, values: &Values<'_>, here: &Here<'_>) {
        let Here {
            roll,
            thread,
            step,
            frame,
            callee,
        } = *here;
        let real = Node { step, pc: s.pc };
        // Who it is shown as is worked out when it is known to be in the slice.
        let mut shown = None;
        let mut inside = self.criterion.roots.binary_search(&step).is_ok();
        for key in [
            s.may_branch.then_some((frame, s.pc)),
            callee.map(|c| (c, ENTRY)),
        ]
        .into_iter()
        .flatten()
        {
            if self.pending.asked.contains_key(&key) {
                let node = *shown.get_or_insert_with(|| self.shown(roll, real, frame));
                inside |= self.answer(key, node);
            }
        }
        let mut taken = std::mem::take(&mut self.taken);
        let mut stretches = std::mem::take(&mut self.scratch);
        let mut hit = inside;
        // Everything is taken before anything is wanted: an instruction reads before it writes.
        let mut uses: SmallVec<[(Place, u64, u64); 8]> = SmallVec::new();
        let mut addresses: SmallVec<[u8; 4]> = SmallVec::new();
        for t in &s.effects.transfers {
            taken.clear();
            let mut certain = true;
            match t.to {
                Place::Register(r) => {
                    if r.general_number() == Some(4) && r.at < 128 {
                        continue;
                    }
                    self.take_register(thread, r, &mut taken);
                }
                Place::Memory { access, at, len } => {
                    let a = s.spots[access as usize]
                        .address(values)
                        .wrapping_add(u64::from(at));
                    self.memory
                        .take(a, u64::from(len), &mut self.wants, &mut taken);
                }
                Place::Whole(access) => {
                    stretches.clear();
                    certain = s.spots[access as usize].stretches(values, &mut stretches);
                    let mut offset = 0;
                    for &(a, len) in &stretches {
                        let from = taken.len();
                        self.memory.take(a, len, &mut self.wants, &mut taken);
                        for t in &mut taken[from..] {
                            t.0 += offset;
                        }
                        offset += len;
                    }
                }
            }
            if taken.is_empty() && !inside {
                continue;
            }
            if s.keeps && !inside {
                self.pass_on(s, t, values, thread, &taken);
                continue;
            }
            if s.frames && !inside {
                continue;
            }
            if let Some(c) = s.condition
                && values.get(c) & 1 == 0
            {
                // A conditional move that did not move leaves the old value there.
                self.put_back(t.to, thread, &taken);
                continue;
            }
            if !certain {
                // Perhaps it was not written at all.
                self.want_again(s, t.to, values, &taken);
            }
            hit = true;
            let node = *shown.get_or_insert_with(|| self.shown(roll, real, frame));
            self.edges_from(taken.iter().map(|t| t.2), node);
            if let Place::Memory { access, .. } | Place::Whole(access) = t.to {
                addresses.push(access);
            }
            sources(t, &taken, inside, &mut uses);
        }
        self.taken = taken;
        self.scratch = stretches;
        if !hit {
            return;
        }
        let node = *shown.get_or_insert_with(|| self.shown(roll, real, frame));
        self.include(real, node, frame);
        if inside {
            for p in &s.effects.decided_by {
                uses.push((*p, 0, p.len().map_or(u64::MAX, u64::from)));
            }
        }
        for (place, at, len) in uses {
            match place {
                Place::Register(r) => self.want_register(thread, r, node),
                Place::Memory {
                    access,
                    at: from,
                    len: all,
                } => {
                    let a = s.spots[access as usize].address(values);
                    let (at, len) = (at.min(u64::from(all)), len.min(u64::from(all)));
                    self.want_memory(a.wrapping_add(u64::from(from)).wrapping_add(at), len, node);
                    addresses.push(access);
                }
                Place::Whole(access) => {
                    let mut list = Vec::new();
                    s.spots[access as usize].stretches(values, &mut list);
                    for (a, whole) in list {
                        let (at, len) = (at.min(whole), len.min(whole - at.min(whole)));
                        self.want_memory(a.wrapping_add(at), len, node);
                    }
                    addresses.push(access);
                }
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        for n in addresses {
            for r in s.spots[n as usize].access.registers() {
                self.want_register(thread, r, node);
            }
        }
    }

    /// Registers saved and restored: whoever wanted the one wants the other.
    fn pass_on(
        &mut self,
        s: &Step,
        t: &effects::Transfer,
        values: &Values<'_>,
        thread: u32,
        taken: &Taken,
    ) {
        let Some(source) = t.from.first() else { return };
        let mut parts: FxHashMap<(u64, u64), Vec<Want>> = FxHashMap::default();
        for &(at, len, want) in taken {
            parts.entry((at, len)).or_default().push(want);
        }
        for ((at, len), list) in parts {
            let id = self.wants.join(list);
            match source.place {
                Place::Register(r) => {
                    let part = r.part(at as u16, len as u16);
                    let regs = self.registers.entry(thread).or_insert_with(Registers::new);
                    regs.add(part, id, &mut self.wants);
                }
                Place::Memory {
                    access, at: from, ..
                } => {
                    let a = s.spots[access as usize].address(values);
                    let a = a.wrapping_add(u64::from(from)).wrapping_add(at);
                    self.memory.add(a, len, id, &mut self.wants);
                }
                Place::Whole(_) => {}
            }
        }
    }

    fn put_back(&mut self, to: Place, thread: u32, taken: &Taken) {
        let Place::Register(r) = to else { return };
        for &(at, len, want) in taken {
            let id = self.wants.join(vec![want]);
            let regs = self.registers.entry(thread).or_insert_with(Registers::new);
            regs.add(r.part(at as u16, len as u16), id, &mut self.wants);
        }
    }

    fn want_again(&mut self, s: &Step, to: Place, values: &Values<'_>, taken: &Taken) {
        let Place::Whole(access) = to else { return };
        let mut list = Vec::new();
        s.spots[access as usize].stretches(values, &mut list);
        for &(at, len, want) in taken {
            let mut begin = 0;
            for &(a, whole) in &list {
                if at >= begin && at < begin + whole {
                    let id = self.wants.join(vec![want]);
                    self.memory.add(a + (at - begin), len, id, &mut self.wants);
                }
                begin += whole;
            }
        }
    }

    fn take_register(&mut self, thread: u32, r: RegRange, taken: &mut Taken) {
        if let Some(regs) = self.registers.get_mut(&thread)
            && regs.wanted(r)
        {
            regs.take(r, &mut self.wants, taken);
        }
    }

    fn want_register(&mut self, thread: u32, r: RegRange, node: Node) {
        if r.general_number() == Some(4)
            || matches!(r, effects::FS_BASE | effects::GS_BASE)
            || self.options.pruned_registers.iter().any(|p| p.overlaps(r))
        {
            return;
        }
        let id = self.wants.add(node.pc, node.step, Kind::Register(r));
        let regs = self.registers.entry(thread).or_insert_with(Registers::new);
        regs.add(r, id, &mut self.wants);
    }

    fn want_memory(&mut self, addr: u64, len: u64, node: Node) {
        let pruned = |&(a, n): &(u64, u64)| addr < a + n && a < addr.wrapping_add(len);
        if len == 0 || self.options.pruned_memory.iter().any(pruned) {
            return;
        }
        let id = self
            .wants
            .add(node.pc, node.step, Kind::Memory { addr, len });
        self.memory.add(addr, len, id, &mut self.wants);
    }

    /// Those who wanted this depend on `to`.
    fn edges_from(&mut self, wants: impl Iterator<Item = Want>, to: Node) {
        for want in wants {
            let mut found: SmallVec<[Want; 4]> = SmallVec::new();
            self.wants.each(want, &mut |w| found.push(w));
            for w in found {
                self.edge(w.pc, w.step, to, w.kind);
            }
        }
    }

    fn edge(&mut self, pc: u64, step: u64, to: Node, kind: Kind) {
        let from = Node { step, pc };
        if from == to || from == OUTSIDE {
            // Inside one call of a library.
            return;
        }
        let edge = Edge { from, to, kind };
        // The same want may have been met by several bytes.
        let recent = self.edges.len().saturating_sub(16);
        if self.edges[recent..].contains(&edge) {
            return;
        }
        self.edge_count += 1;
        if self.edges.len() < MOST_EDGES {
            self.edges.push(edge);
        }
    }

    fn count(&mut self, node: Node, squashed: bool) {
        if node == OUTSIDE || squashed && !self.squashed.insert(node) {
            return;
        }
        let times = self.nodes.entry(node.pc).or_insert(Times {
            count: 0,
            first: node.step,
            last: node.step,
        });
        times.count += 1;
        times.first = times.first.min(node.step);
        times.last = times.last.max(node.step);
    }

    fn include(&mut self, real: Node, node: Node, frame: FrameId) {
        self.count(node, node != real || self.squashed.contains(&node));
        self.ask(real.pc, node, frame);
    }

    /// Asks why the instruction at `pc`, shown as `node`, was executed.
    fn ask(&mut self, pc: u64, node: Node, frame: FrameId) {
        if self.options.data_only {
            return;
        }
        let controllers = match self.controllers.get(&pc) {
            Some(c) => c.clone(),
            None => {
                let c: Rc<[u64]> = self.controls.controllers(pc).into();
                self.controllers.insert(pc, c.clone());
                c
            }
        };
        let id = self.pending.list.len() as u32;
        self.pending.list.push((node, false));
        for &c in controllers.iter().chain([&ENTRY]) {
            self.pending.asked.entry((frame, c)).or_default().push(id);
        }
    }

    /// The branch at hand answers those who asked for it; true if there were any.
    fn answer(&mut self, key: (FrameId, u64), node: Node) -> bool {
        let Some(list) = self.pending.asked.remove(&key) else {
            return false;
        };
        let mut any = false;
        for id in list {
            let (from, done) = &mut self.pending.list[id as usize];
            if !std::mem::replace(done, true) {
                let from = *from;
                any = true;
                self.edge(from.pc, from.step, node, Kind::Control);
            }
        }
        any
    }

    fn event(&mut self, roll: &Roll, event: &Event, item: &Item) {
        let thread = item.thread;
        match event {
            Event::Leave { nr: 15, .. } => {
                let now = self.registers.remove(&thread);
                let now = now.unwrap_or_else(Registers::new);
                self.interrupted.entry(thread).or_default().push(now);
            }
            Event::Signal { frame, .. } => {
                let before = self.interrupted.get_mut(&thread).and_then(Vec::pop);
                if let Some(before) = before {
                    let regs = self.registers.entry(thread).or_insert_with(Registers::new);
                    regs.join(before);
                }
                self.drop_memory(&[*frame]);
            }
            Event::Leave { reads, writes, .. } => {
                let mut open = Open {
                    reads: reads.clone(),
                    ..Open::default()
                };
                for w in writes {
                    self.memory
                        .take(w.addr, w.len, &mut self.wants, &mut open.taken);
                }
                self.open.insert(thread, open);
            }
            Event::Enter { pc, nr, .. } => self.call(roll, *pc, *nr, item),
            Event::Special(insn) => {
                let step = Step::of(insn, &[]);
                let values = Values {
                    record: &[],
                    rsp: 0,
                    rbp: 0,
                    fs_base: 0,
                };
                let here = Here {
                    roll,
                    thread,
                    step: item.step,
                    frame: item.frame,
                    callee: None,
                };
                self.step(&step, &values, &here);
            }
            Event::Outside { writes } => self.drop_memory(writes),
            Event::Exec => {
                self.memory = Memory::new();
                self.registers.clear();
                self.pending = Pending::default();
            }
            Event::State { .. } => {}
        }
    }

    /// Bytes that came from outside: nothing in the program wrote them.
    fn drop_memory(&mut self, writes: &[Stretch]) {
        let mut taken = std::mem::take(&mut self.taken);
        for w in writes {
            taken.clear();
            self.memory.take(w.addr, w.len, &mut self.wants, &mut taken);
        }
        self.taken = taken;
    }

    /// A system call: its result and what it wrote depend on its arguments and on what it read.
    fn call(&mut self, roll: &Roll, pc: u64, nr: u64, item: &Item) {
        let real = Node {
            step: item.step,
            pc,
        };
        let open = self.open.remove(&item.thread).unwrap_or_default();
        let mut taken = open.taken;
        for r in [effects::RAX, effects::RCX, effects::R11] {
            self.take_register(item.thread, r, &mut taken);
        }
        let inside = self.criterion.roots.binary_search(&item.step).is_ok();
        if taken.is_empty() && !inside {
            return;
        }
        let node = self.shown(roll, real, item.frame);
        self.edges_from(taken.iter().map(|t| t.2), node);
        self.include(real, node, item.frame);
        // The number of the call and its arguments: rax, rdi, rsi, rdx, r10, r8, r9.
        self.want_register(item.thread, effects::RAX, node);
        for r in [7, 6, 2, 10, 8, 9].into_iter().take(abi::arguments(nr)) {
            self.want_register(item.thread, RegRange::general(r), node);
        }
        for r in open.reads {
            self.want_memory(r.addr, r.len, node);
        }
    }
}

/// What the bytes of a transfer that are wanted are made of: place, and the part of it.
fn sources(t: &Transfer, taken: &Taken, all: bool, out: &mut SmallVec<[(Place, u64, u64); 8]>) {
    let whole = |p: Place| (p, 0, p.len().map_or(u64::MAX, u64::from));
    if all || t.lane == 0 {
        for s in &t.from {
            let p = whole(s.place);
            if !out.contains(&p) {
                out.push(p);
            }
        }
        return;
    }
    // The same byte may be wanted by many.
    let mut ranges: SmallVec<[(u64, u64); 4]> =
        taken.iter().map(|&(at, len, _)| (at, at + len)).collect();
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let joined = next.0 <= kept.1;
        if joined {
            kept.1 = kept.1.max(next.1);
        }
        joined
    });
    if t.is_copy() {
        for &(a, b) in &ranges {
            out.push(match t.from[0].place {
                p @ Place::Whole(_) => (p, a, b - a),
                p => whole(p.part(a as u16, (b - a) as u16)),
            });
        }
        return;
    }
    let lane = u64::from(t.lane);
    for n in 0..t.from.len() {
        let first = out.len();
        for &(a, b) in &ranges {
            for l in a / lane..=(b - 1) / lane {
                let Some(p) = t.sources((l * lane) as u16).nth(n) else {
                    continue;
                };
                match out[first..].last_mut() {
                    // The next bytes of the same register or operand are one dependence.
                    Some((q, _, len)) if follows(*q, p) => {
                        let more = p.len().unwrap_or(0);
                        *len += u64::from(more);
                        match q {
                            Place::Register(r) => r.len += more,
                            Place::Memory { len, .. } => *len += more,
                            Place::Whole(_) => {}
                        }
                    }
                    Some((q, ..)) if *q == p => {}
                    _ => out.push(whole(p)),
                }
            }
        }
    }
}

/// `q` begins where `p` ends, in the same register or operand.
fn follows(p: Place, q: Place) -> bool {
    match (p, q) {
        (Place::Register(a), Place::Register(b)) => a.end() == b.at && mask(a) == mask(b),
        (
            Place::Memory { access, at, len },
            Place::Memory {
                access: other,
                at: next,
                ..
            },
        ) => access == other && at + len == next,
        _ => false,
    }
}
