//! Going back along links.
//!
//! Where a slice is dense, most records have to do with it, and in loops the same again and again. There
//! the walk goes by the links that were found in advance ([`crate::links`]): what a record is wanted for is a byte
//! for each of its outputs; what follows from that is known after the first time ([`crate::effect`]);
//! and each input that is wanted is a link to the record that wrote it, where the wish is noted, and a count for
//! the dependence. Nobody keeps lists of who wants what, unless what is wanted was written
//! before the segment: that is handed to the plain walk ([`crate::slice`]), and what that wants is
//! looked for where a segment ends.
//!
//! Rejected: noting what is done at records, with lists of who wants what in registers and memory, and doing that
//! again where the same is wanted. The lists were most of the work.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use image::effects::RegRange;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::asked::SetId;
use crate::codes::InsnId;
use crate::effect::{By, Effect, Face, Front, Known, Place, Scene, Use, Wanting, learn};
use crate::link::{From, Packed, Slot, Unpacked, Writer};
use crate::links::{self, Linked, Links, Segment};
use crate::memory::TOGETHER;
use crate::reader::FrameId;
use crate::roll::View;
use crate::slice::{NOBODY, Shown, Slicer};
use crate::terms::{Edge, Edges, Kind, Node, OUTSIDE};
use crate::variant::Spot;
use crate::wanted::{
    Each, Entry, GROUP, Registers, Taken, Took, Wants, WhoId, Why, runs, take, wants_memory,
};

/// Effects beyond which all are forgotten.
const MANY_EFFECTS: usize = 1 << 17;

/// What a wish is remembered to have led to.
const MANY_KNOWN: usize = 32;
/// Dependences of library code that are remembered.
const LATELY: usize = 1024;

/// What is known of the records of segments.
pub(crate) struct Sweep {
    variants: Vec<Front>,
    /// By variant, the effect that came last, and all by what is wanted.
    last: Vec<u32>,
    known: Vec<FxHashMap<Box<[u8]>, u32>>,
    /// None where it is in use.
    effects: Vec<Option<Box<Effect>>>,
    /// By shape.
    faces: Vec<Option<Rc<Face>>>,
    /// By shape, for a frame and a set of branches, which instruction decides.
    deciders: Vec<SmallVec<[Decider; 4]>>,
    /// By instruction, the numbers of the dependences of groups on it.
    decided: Vec<SmallVec<[(WhoId, u32); 4]>>,
    key: Vec<u8>,
    room: Option<Registers<Wanting>>,
    answered: Vec<(Wants, u8)>,
    /// What was wanted of a cell and comes from one as it was before the segment.
    passed: Vec<(links::Cell, Took)>,
    /// To whom the wishes of an instruction for the same reason have led: steps.
    met: SmallVec<[u64; 4]>,
    /// Dependences of library code that were found lately: who, on what, and both executions.
    lately: Box<[(WhoId, InsnId, u64, u64)]>,
}

impl Default for Sweep {
    fn default() -> Self {
        Sweep {
            variants: Vec::new(),
            last: Vec::new(),
            known: Vec::new(),
            effects: Vec::new(),
            faces: Vec::new(),
            deciders: Vec::new(),
            decided: Vec::new(),
            key: Vec::new(),
            room: None,
            answered: Vec::new(),
            passed: Vec::new(),
            met: SmallVec::new(),
            lately: vec![(0, 0, 0, 0); LATELY].into(),
        }
    }
}

/// Of a frame and a set of branches, which instruction decides.
type Decider = (u8, SetId, Option<u8>);

impl<E: Edges> Slicer<'_, E> {
    /// Goes back through a segment.
    pub(crate) fn sweep(&mut self, view: &View<'_>, links: &mut Links, segment: &Segment) {
        let mut sweep = self.sweep.take().unwrap_or_default();
        if sweep.effects.len() > MANY_EFFECTS {
            self.settle_with(&mut sweep);
        }
        let thread = segment.thread;
        let variants = std::mem::take(&mut sweep.variants);
        let place = Place {
            view,
            thread,
            variants: &variants,
        };
        self.turn(thread);
        self.meet(&mut sweep, &place, links, segment);
        for n in segment.records.clone().rev() {
            self.back(&mut sweep, &place, links, n as usize);
        }
        self.memory.catch_up();
        sweep.variants = variants;
        self.sweep = Some(sweep);
    }

    /// Variants that are met from now on.
    pub(crate) fn hear(&mut self, links: &Links) {
        let mut sweep = self.sweep.take().unwrap_or_default();
        sweep.faces.resize(self.codes.ways(), None);
        let n = self.codes.instructions();
        sweep.decided.resize(n, SmallVec::new());
        sweep.deciders.resize(self.codes.ways(), SmallVec::new());
        for variant in &links.variants {
            let face = self.face(&mut sweep, variant.shape);
            let steps = &self.codes.plan(variant.shape).steps;
            let insns = variant.outputs.iter().map(|o| match o.insn as usize {
                i if face.visible[i] => steps[i].id,
                _ => NOBODY,
            });
            sweep.variants.push(Front {
                insns: insns.collect(),
                variant: variant.clone(),
                face,
            });
        }
        let n = sweep.variants.len();
        sweep.last.resize(n, u32::MAX);
        sweep.known.resize_with(n, FxHashMap::default);
        self.sweep = Some(sweep);
    }

    /// What is wanted from outside of a segment, of what it has written.
    fn meet(&mut self, sweep: &mut Sweep, place: &Place<'_>, links: &mut Links, segment: &Segment) {
        let mut taken: Taken = std::mem::take(&mut self.taken);
        for n in segment.registers.clone() {
            let (cell, link) = links.registers[n as usize];
            if self.registers().cells[usize::from(cell)].is_empty() {
                continue;
            }
            for w in links.writers(&link) {
                taken.clear();
                take(
                    &mut self.registers().cells[usize::from(cell)],
                    w.bits,
                    0,
                    &mut taken,
                );
                self.met(sweep, place, links, &w, &taken);
            }
            self.registers().summarise(cell.into());
        }
        for n in segment.memory.clone() {
            if (n - segment.memory.start).is_multiple_of(TOGETHER as u32) {
                let next = n as usize..segment.memory.end as usize;
                let cells = links.memory[next].iter().map(|m| m.0);
                self.memory.fetch(cells.take(TOGETHER));
            }
            let (cell, link) = links.memory[n as usize];
            if !self.memory.maybe(cell * 8, 8) {
                continue;
            }
            for w in links.writers(&link) {
                for (first, len) in runs(w.bits) {
                    taken.clear();
                    self.memory.take(cell * 8 + first, len, &mut taken);
                    self.met(sweep, place, links, &w, &taken);
                }
            }
        }
        self.taken = taken;
        let mut passed = std::mem::take(&mut sweep.passed);
        for (cell, took) in passed.drain(..) {
            self.pend(cell, &took);
        }
        sweep.passed = passed;
    }

    /// Somebody wanted what one has written.
    fn met(
        &mut self,
        sweep: &mut Sweep,
        place: &Place<'_>,
        links: &mut Links,
        writer: &Writer,
        taken: &Taken,
    ) {
        if taken.is_empty() {
            return;
        }
        match writer.from {
            From::Nowhere => {}
            From::Before(cell) => {
                let cell = links.cells[cell as usize];
                sweep.passed.extend(taken.iter().map(|t| (cell, *t)));
            }
            From::Slot(slot) => {
                let bits = taken.iter().fold(0, |all, t| all | t.entry.bytes);
                let output = links.want(slot, bits);
                let to = self.written_by(place, links, slot, output);
                self.edges_from(taken, to);
            }
        }
    }

    /// Something is wanted of a cell as it was before a segment.
    fn pend(&mut self, cell: links::Cell, took: &Took) {
        let first = u64::from(took.entry.bytes.trailing_zeros());
        match cell {
            links::Cell::Register(n) => {
                let r = RegRange {
                    at: n * 8 + first as u16,
                    len: took.len as u16,
                };
                self.registers().pass(r, took, &mut Each(false));
            }
            links::Cell::Memory(n) => self.memory.pass(n * 8 + first, took, Each(false)),
        }
    }

    fn face(&mut self, sweep: &mut Sweep, shape: u32) -> Rc<Face> {
        if let Some(face) = &sweep.faces[shape as usize] {
            return face.clone();
        }
        let face = Rc::new(Face::of(self, shape));
        sweep.faces[shape as usize] = Some(face.clone());
        face
    }

    /// The instruction that wrote something, as it is shown.
    fn written_by(&mut self, place: &Place<'_>, links: &Links, slot: Slot, output: u32) -> Shown {
        let linked = links.record_of(slot);
        let (front, insn) = place.output(output);
        let (shape, i) = (front.variant.shape, insn as usize);
        let plan = self.codes.plan(shape);
        let s = &plan.steps[i];
        let node = Node {
            step: links.step_of(linked) + i as u64,
            pc: s.pc,
        };
        let frame = plan.frame_at(i, linked.frame, linked.first_frame);
        self.shown(place.view, node, Some(s.id), frame)
    }

    /// Goes back past a record.
    fn back(&mut self, sweep: &mut Sweep, place: &Place<'_>, links: &mut Links, n: usize) {
        let (linked, taped) = (links.records[n], links.taped[n]);
        let step = links.step_of(&linked);
        let later = self.later.replace((place.thread, linked.frame));
        let Front { variant, face, .. } = &place.variants[linked.variant as usize];
        let wanted = linked.wanted as usize;
        let wanted = wanted..wanted + variant.outputs.len();
        let is_wanted = links.wanted[wanted.clone()].iter().any(|w| *w != 0);
        let asked = match self.asked.is_empty() {
            true => 0,
            false => self.answers(sweep, place, &linked, step, later),
        };
        if asked == 0 && !is_wanted {
            return;
        }
        self.looked_at += 1;
        let plan = self.codes.plan(variant.shape);
        let mut hidden: SmallVec<[Shown; 2]> = SmallVec::new();
        for &(k, i) in &face.hidden {
            let s = &plan.steps[i as usize];
            let node = Node {
                step: step + u64::from(i),
                pc: s.pc,
            };
            let frame = match k {
                0 => linked.frame,
                k => FrameId(linked.first_frame + u32::from(k) - 1),
            };
            hidden.push(self.shown(place.view, node, Some(s.id), frame));
        }
        let scene = Scene {
            variant,
            face,
            place,
            taped: &taped,
            step,
            frame: linked.frame,
            asked,
            hidden: &hidden,
        };
        let mut answered = std::mem::take(&mut sweep.answered);
        for (wants, i) in answered.drain(..) {
            let by = match face.visible[i as usize] {
                true => By::Own(i),
                false => By::Hidden(face.shown_as[face.frame[i as usize] as usize]),
            };
            let to = scene.shown(self.codes, by);
            self.decided(sweep, wants, to);
        }
        sweep.answered = answered;
        let number = self.effect(sweep, linked.variant, &scene, &links.wanted[wanted]);
        let effect = sweep.effects[number as usize].take();
        let mut effect = effect.expect("it is used once at a time");
        effect.times += 1;
        effect.earliest = step;
        for &frame in &effect.hidden {
            let shown = scene.shown(self.codes, By::Hidden(frame));
            self.count(shown, true);
        }
        for &i in &effect.calls {
            let shown = scene.shown(self.codes, By::Own(i));
            self.count(shown, self.is_squashed(shown));
        }
        for inner in &effect.inner {
            let from = scene.shown(self.codes, inner.from);
            let to = scene.shown(self.codes, inner.to);
            let wants = Wants::one(inner.who, from.node.step);
            self.edge(wants, inner.kind, to);
        }
        for a in &effect.asks {
            if let Some(who) = a.own {
                let asker = Wants::one(who, step);
                self.asked.ask(linked.frame, a.set, asker, false);
            }
            for &(who, frame) in &a.hidden {
                let shown = scene.shown(self.codes, By::Hidden(frame));
                let asker = Wants::one(who, shown.node.step);
                self.asked.ask(linked.frame, a.set, asker, false);
            }
        }
        let mut of = None;
        for u in &mut effect.uses {
            let link = links.links[linked.links as usize + u.input as usize];
            if of.replace((u.by, u.who)) != Some((u.by, u.who)) {
                sweep.met.clear();
            }
            self.follow(sweep, place, links, &scene, u, link);
        }
        sweep.effects[number as usize] = Some(effect);
    }

    /// Follows a wish to those who wrote what is wanted.
    #[inline]
    fn follow(
        &mut self,
        sweep: &mut Sweep,
        place: &Place<'_>,
        links: &mut Links,
        scene: &Scene<'_>,
        u: &mut Use,
        link: Packed,
    ) {
        match link.unpack() {
            Unpacked::One(slot, bits) if u.bits & !bits == 0 && !u.one_of_many => {
                let output = links.want(slot, u.bits);
                if !u.again(output, place) {
                    self.find(sweep, place, links, scene, u, slot, output, u.bits);
                }
            }
            Unpacked::One(slot, bits) => {
                let from = From::Slot(slot);
                self.follow_all(sweep, place, links, scene, u, (&[Writer { bits, from }], 0));
            }
            Unpacked::Wide(n) => {
                let (link, cell) = links.wide[n as usize];
                let all = links.writers(&link);
                self.follow_all(sweep, place, links, scene, u, (&all, cell));
            }
            Unpacked::UnknownCell(cell) => {
                self.want(scene, u, u.bits, links::Cell::Memory(cell), cell);
            }
            Unpacked::Unknown => {
                if let Spot::Register(cell) = scene.variant.inputs[u.input as usize] {
                    self.want(scene, u, u.bits, links::Cell::Register(cell), 0);
                }
            }
        }
    }

    /// The same where there may be several; with the cell of memory that the input is, or 0.
    fn follow_all(
        &mut self,
        sweep: &mut Sweep,
        place: &Place<'_>,
        links: &mut Links,
        scene: &Scene<'_>,
        u: &mut Use,
        (writers, input): (&[Writer], u64),
    ) {
        let mut left = u.bits;
        for w in writers {
            let bits = left & w.bits;
            left &= !bits;
            match w.from {
                _ if bits == 0 => {}
                From::Nowhere => {}
                From::Before(cell) => {
                    let cell = links.cells[cell as usize];
                    self.want(scene, u, bits, cell, input);
                }
                From::Slot(slot) => {
                    let output = links.want(slot, bits);
                    let step = links.step_of(links.record_of(slot));
                    let to = step + u64::from(place.output(output).1);
                    if sweep.met.contains(&to) {
                        // Another wish of the same instruction for the same reason has led there.
                        continue;
                    }
                    sweep.met.push(to);
                    if !u.again(output, place) {
                        self.find(sweep, place, links, scene, u, slot, output, bits);
                    }
                }
            }
        }
        if left != 0 {
            let cell = match scene.variant.inputs[u.input as usize] {
                Spot::Register(cell) => links::Cell::Register(cell),
                Spot::Memory(piece) if input == 0 => links::Cell::Memory(self.cell(scene, piece)),
                Spot::Memory(_) => links::Cell::Memory(input),
            };
            self.want(scene, u, left, cell, input);
        }
    }

    /// The cell of a piece of memory.
    fn cell(&self, scene: &Scene<'_>, piece: u8) -> u64 {
        let p = &scene.variant.pieces[piece as usize];
        let s = &self.codes.plan(scene.variant.shape).steps[p.insn as usize];
        s.spots[p.access as usize].address(&scene.values()) / 8 + u64::from(p.nth)
    }

    /// Hands a wish over to the plain walk; `input` is the cell of memory that was read, or 0.
    fn want(&mut self, scene: &Scene<'_>, u: &mut Use, bits: u8, cell: links::Cell, input: u64) {
        let step = match u.by {
            By::Own(i) => scene.step + u64::from(i),
            By::Group => scene.step,
            by => scene.shown(self.codes, by).node.step,
        };
        let read = scene.variant.inputs[u.input as usize];
        let of = u.piece.map(|piece| {
            let class = scene.variant.pieces[piece as usize].class;
            match input != 0 && read == Spot::Memory(class) {
                true => input,
                false => self.cell(scene, piece),
            }
        });
        for (first, len) in runs(bits) {
            let bytes = (((1u16 << len) - 1) << first) as u8;
            match cell {
                links::Cell::Memory(n) if of.is_none_or(|of| of == n) => {
                    self.memory.want(n, bytes, u.who, step, &mut u.trace);
                }
                cell => {
                    let took = Took {
                        at: 0,
                        len,
                        entry: Entry {
                            wants: Wants::one(u.who, step),
                            base: of.map_or(0, |n| n * 8),
                            bytes,
                        },
                    };
                    self.pend(cell, &took);
                }
            }
        }
    }

    /// Finds out about a dependence that is not known yet.
    #[allow(clippy::too_many_arguments)]
    fn find(
        &mut self,
        sweep: &mut Sweep,
        place: &Place<'_>,
        links: &Links,
        scene: &Scene<'_>,
        u: &mut Use,
        slot: Slot,
        output: u32,
        bits: u8,
    ) {
        let (front, insn) = place.output(output);
        let own = matches!(u.by, By::Own(_) | By::Group);
        let visible = front.face.visible[insn as usize] && own;
        let within = scene.face.is_hidden && front.face.is_hidden;
        if within && scene.frame == links.record_of(slot).frame {
            // It is within one call.
            return;
        }
        if !visible {
            let to = self.written_by(place, links, slot, output);
            return self.find_hidden(sweep, scene, u, to, bits);
        }
        let insn = insn as usize;
        let s = &self.codes.plan(front.variant.shape).steps[insn];
        let to = Node {
            step: links.step_of(links.record_of(slot)) + insn as u64,
            pc: s.pc,
        };
        let from = scene.shown(self.codes, u.by).node;
        let merged = self.edges.merged().expect("by number");
        if u.known.len() == MANY_KNOWN {
            for k in u.known.drain(..) {
                merged.again(k.number, k.times);
            }
        }
        let number = merged.number(u64::from(u.who) << 32 | u64::from(s.id));
        let new = Known {
            insn: s.id,
            number,
            times: 0,
        };
        u.output = output;
        let before = std::mem::replace(&mut u.near, new);
        if before.insn != NOBODY {
            u.known.push(before);
        }
        // Those that are found by what is known now are earlier.
        self.add(number, (from, to), |slicer| slicer.kind(scene, u, bits));
    }

    /// Adds a dependence. What it is in words takes time to find out, and only the latest is shown.
    fn add(&mut self, number: u32, (from, to): (Node, Node), kind: impl Fn(&Self) -> Kind) {
        let ends = (from.step, to.step);
        let merged = self.edges.merged().expect("by number");
        let kind = match merged.is_later(number, ends) {
            true => kind(self),
            false => Kind::Control,
        };
        let merged = self.edges.merged().expect("by number");
        merged.add_one(number, ends, 1, || Edge { from, to, kind });
    }

    /// The same where it is not an instruction of the user's own that wants it or wrote it.
    fn find_hidden(&mut self, sweep: &mut Sweep, scene: &Scene<'_>, u: &Use, to: Shown, bits: u8) {
        let from = scene.shown(self.codes, u.by);
        if from.node == to.node {
            return;
        }
        // A call may want the same over and over.
        let edge = (u.who, to.id, from.node.step, to.node.step);
        let mut hash = FxHasher::default();
        edge.hash(&mut hash);
        let lately = &mut sweep.lately[(hash.finish() >> 32) as usize % LATELY];
        if std::mem::replace(lately, edge) == edge {
            return;
        }
        if from.node == OUTSIDE {
            return;
        }
        let merged = self.edges.merged().expect("by number");
        let number = merged.number(u64::from(u.who) << 32 | u64::from(to.id));
        let ends = (from.node, to.node);
        self.add(number, ends, |slicer| slicer.kind(scene, u, bits));
    }

    /// Why there is a dependence.
    fn kind(&self, scene: &Scene<'_>, u: &Use, bits: u8) -> Kind {
        if !wants_memory(u.who) {
            return match self.everybody.get(u.who).why {
                Why::Register(r) => Kind::Register(r),
                Why::Memory | Why::Control => Kind::Control,
            };
        }
        let (first, len) = runs(bits).next().unwrap_or((0, 0));
        let cell = u.piece.map_or(0, |piece| self.cell(scene, piece));
        Kind::Memory {
            addr: cell * 8 + first,
            len,
        }
    }

    /// Somebody is there because of a branch or a call.
    fn decided(&mut self, sweep: &mut Sweep, wants: Wants, to: Shown) {
        if self.everybody.get(wants.who).pc != GROUP || to.id == NOBODY {
            return self.edge(wants, Kind::Control, to);
        }
        let merged = self.edges.merged().expect("by number");
        let known = &mut sweep.decided[to.id as usize];
        let at = known.iter().position(|k| k.0 == wants.who);
        let at = at.unwrap_or_else(|| {
            let key = u64::from(wants.who) << 32 | u64::from(to.id);
            known.push((wants.who, merged.number(key)));
            known.len() - 1
        });
        let number = known[at].1;
        if at > 0 {
            known.swap(at, at - 1);
        }
        let ends = (wants.latest, to.node.step);
        merged.add_one(number, ends, wants.times.into(), || Edge {
            from: Node {
                step: wants.latest,
                pc: GROUP,
            },
            to: to.node,
            kind: Kind::Control,
        });
    }

    /// The effect of what is wanted of a record.
    fn effect(&mut self, sweep: &mut Sweep, variant: u32, scene: &Scene<'_>, wanted: &[u8]) -> u32 {
        let last = sweep.last[variant as usize];
        if let Some(Some(effect)) = sweep.effects.get(last as usize)
            && effect.asked == scene.asked
            // Byte by byte, as they were just written.
            && effect.key.iter().zip(wanted).all(|(a, b)| a == b)
            && effect.shown.iter().zip(scene.hidden).all(|(a, b)| *a == b.id)
        {
            return last;
        }
        let key = &mut sweep.key;
        key.clear();
        key.extend_from_slice(wanted);
        key.extend_from_slice(&scene.asked.to_le_bytes());
        for shown in scene.hidden {
            key.extend_from_slice(&shown.id.to_le_bytes());
        }
        let known = sweep.known[variant as usize].get(&sweep.key[..]).copied();
        let number = known.unwrap_or_else(|| {
            let effect = learn(self, scene, &sweep.key, &mut sweep.room);
            let number = sweep.effects.len() as u32;
            sweep.known[variant as usize].insert(effect.key.clone(), number);
            sweep.effects.push(Some(Box::new(effect)));
            number
        });
        sweep.last[variant as usize] = number;
        number
    }

    /// Takes the questions that a record answers; which of its instructions are the answers, as bits.
    fn answers(
        &mut self,
        sweep: &mut Sweep,
        place: &Place<'_>,
        linked: &Linked,
        step: u64,
        later: Option<(u32, FrameId)>,
    ) -> u64 {
        let shape = place.variants[linked.variant as usize].variant.shape;
        let plan = self.codes.plan(shape);
        let way = self.codes.way(shape);
        let calls = way.calls;
        let mut asked = 0u64;
        let (known, out) = (&mut sweep.deciders[shape as usize], &mut sweep.answered);
        for k in 0..=calls {
            let frame = match k {
                0 => linked.frame,
                k => FrameId(linked.first_frame + u32::from(k) - 1),
            };
            let bits = if k == 0 { plan.branch_bits } else { u64::MAX };
            self.asked.answer(
                frame,
                bits,
                |set, id| {
                    let at = known.iter().position(|d| (d.0, d.1) == (k, id));
                    let at = at.unwrap_or_else(|| {
                        let here =
                            |i: u8| plan.calls.iter().filter(|c| c.0 < i).count() == k as usize;
                        let branches = plan.branches.iter().rev();
                        let mut branches = branches.filter(|b| b.0 < way.executed && here(b.0));
                        let branch = branches.find(|b| set.has(b.1)).map(|b| b.0);
                        let call = k.checked_sub(1).map(|c| plan.calls[c as usize].0);
                        known.push((k, id, branch.or(call)));
                        known.len() - 1
                    });
                    asked |= known[at].2.map_or(0, |i| 1 << i);
                    known[at].2
                },
                out,
            );
        }
        let mut taken = std::mem::take(&mut self.answered);
        let of = (shape, linked.first_frame);
        if let Some(frame) = self.arrived(place.view, (place.thread, step), of, later)
            && self.asked.about_call(frame)
        {
            taken.clear();
            self.asked.call(frame, &mut taken);
            let last = way.executed - 1;
            sweep.answered.extend(taken.iter().map(|w| (*w, last)));
            asked |= 1 << last;
        }
        self.answered = taken;
        asked
    }

    /// Counts what was done without being counted.
    pub(crate) fn settle(&mut self) {
        if let Some(mut sweep) = self.sweep.take() {
            self.settle_with(&mut sweep);
            self.sweep = Some(sweep);
        }
        if let Some(merged) = self.edges.merged() {
            merged.split(&self.everybody);
        }
    }

    fn settle_with(&mut self, sweep: &mut Sweep) {
        for effect in sweep.effects.drain(..).flatten() {
            for &(id, i) in &effect.included {
                let i = u64::from(i);
                self.count_times(id, effect.times, effect.earliest + i, effect.latest + i);
            }
            if let Some(merged) = self.edges.merged() {
                for &number in &effect.edges {
                    // The first time it was added as it came.
                    merged.again(number, effect.times - 1);
                }
                let uses = effect.uses.iter();
                for k in uses.flat_map(|u| u.known.iter().chain([&u.near])) {
                    merged.again(k.number, k.times);
                }
            }
        }
        sweep.last.fill(u32::MAX);
        for known in &mut sweep.known {
            known.clear();
        }
    }
}
