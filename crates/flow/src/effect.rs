//! What wishes for the outputs of a record lead to.
//!
//! In a variant ([`crate::variant`]) every byte has its way. So what becomes of a wish for its outputs is
//! the same for each of its records: which instructions are in the slice, which depend on which, what
//! is wanted of the inputs, and what decided that it came to all this. That is an *effect*. It is found by going
//! through the record once as the plain walk does ([`crate::step`]), with the instructions of the record for
//! those who want something.

use std::rc::Rc;
use std::sync::Arc;

use image::effects::RegRange;
use smallvec::SmallVec;
use tape::Term;

use crate::asked::SetId;
use crate::codes::InsnId;
use crate::memory::Trace;
use crate::plan::{Step, Values};
use crate::reader::FrameId;
use crate::roll::{Record, View};
use crate::slice::{NOBODY, Shown, Slicer};
use crate::step::{Piece, Room, State, step};
use crate::terms::{Edge, Edges, Kind, Node, OUTSIDE};
use crate::variant::{Spot, Variant};
use crate::wanted::{
    Cell, Entry, GROUP, Joins, Registers, Taken, Took, WhoId, Why, Wish, pieces, put, spread, take,
};

/// Who wants something of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// An instruction of the record.
    Own(u8),
    /// The call that library code is shown as, of the frame of this number in the record.
    Hidden(u8),
    /// Instructions of the record that want the same, as one that is executed where it begins.
    Group,
    /// Somebody later.
    Later,
}

#[derive(Clone, Copy)]
pub(crate) struct Wanting {
    who: WhoId,
    by: By,
}

/// Whoever comes later has no number here.
const LATER: WhoId = WhoId::MAX;

impl Wish for Wanting {
    fn who(self) -> WhoId {
        self.who
    }
}

/// What is the same for all records of a shape, as it is shown.
pub(crate) struct Face {
    pub(crate) visible: Box<[bool]>,
    /// By instruction, the frame it is executed in, from that of the first one on, and the one it begins.
    pub(crate) frame: Box<[u8]>,
    pub(crate) callee: Box<[Option<u8>]>,
    /// By frame, the first that is shown as the same call.
    pub(crate) shown_as: Box<[u8]>,
    /// Frames that have code of libraries and are not shown as another, with such an instruction.
    pub(crate) hidden: Box<[(u8, u8)]>,
    /// All of it is library code of one frame.
    pub(crate) is_hidden: bool,
}

impl Face {
    pub(crate) fn of<E: Edges>(slicer: &mut Slicer<'_, E>, shape: u32) -> Face {
        let codes = slicer.codes;
        let plan = codes.plan(shape);
        let steps = &plan.steps[..codes.way(shape).executed as usize];
        let mut face = (Vec::new(), Vec::new(), Vec::new());
        let mut shown_as = vec![0];
        let mut hidden: Vec<(u8, u8)> = Vec::new();
        for (i, s) in steps.iter().enumerate() {
            let frame = shown_as.len() as u8 - 1;
            let begins = plan.calls.iter().any(|c| c.0 as usize == i);
            let visible = slicer.is_visible(s.pc, s.id);
            let shown = shown_as[frame as usize];
            if !visible && hidden.iter().all(|h| h.0 != shown) {
                hidden.push((shown, i as u8));
            }
            if begins {
                // What a library calls is shown as the same.
                shown_as.push(if visible { frame + 1 } else { shown });
            }
            face.0.push(visible);
            face.1.push(frame);
            face.2.push(begins.then_some(frame + 1));
        }
        Face {
            is_hidden: shown_as.len() == 1 && !face.0.contains(&true),
            visible: face.0.into(),
            frame: face.1.into(),
            callee: face.2.into(),
            shown_as: shown_as.into(),
            hidden: hidden.into(),
        }
    }
}

/// Something of an input is wanted.
pub(crate) struct Use {
    pub(crate) input: u8,
    pub(crate) bits: u8,
    pub(crate) who: WhoId,
    pub(crate) by: By,
    /// The piece of memory that it was wanted as, if it was.
    pub(crate) piece: Option<u8>,
    /// The same instruction wants more for the same reason.
    pub(crate) one_of_many: bool,
    /// What it was found to be: the last time, by which output of a variant, and before.
    pub(crate) near: Known,
    pub(crate) output: u32,
    pub(crate) known: Vec<Known>,
    pub(crate) trace: Trace,
}

/// What a wish was found to lead to.
pub(crate) struct Known {
    /// The instruction.
    pub(crate) insn: InsnId,
    /// The number of the dependence, and how often it was found without being counted.
    pub(crate) number: u32,
    pub(crate) times: u64,
}

/// No variant has so high a number.
const NO_OUTPUT: u32 = u32::MAX;

impl Use {
    /// It has led to this output again; whether that is known.
    #[inline]
    pub(crate) fn again(&mut self, output: u32, place: &Place<'_>) -> bool {
        if self.output == output {
            self.near.times += 1;
            return true;
        }
        let (front, n) = (
            &place.variants[output as usize >> 8],
            output as usize & 0xff,
        );
        let insn = front.insns[n];
        if insn == NOBODY {
            return false;
        }
        if self.near.insn != insn {
            let known = self.known.iter_mut().find(|k| k.insn == insn);
            let Some(known) = known else { return false };
            std::mem::swap(known, &mut self.near);
        }
        self.near.times += 1;
        self.output = output;
        true
    }
}

/// A dependence within the record that has to do with library code.
pub(crate) struct Inner {
    pub(crate) who: WhoId,
    pub(crate) from: By,
    pub(crate) to: By,
    pub(crate) kind: Kind,
}

/// A question about branches before the record.
pub(crate) struct Ask {
    pub(crate) set: SetId,
    /// Instructions of the record that ask, as one.
    pub(crate) own: Option<WhoId>,
    pub(crate) hidden: SmallVec<[(WhoId, u8); 1]>,
}

pub(crate) struct Effect {
    /// What it is the effect of: of each output the bytes that are wanted, then the rest.
    pub(crate) key: Box<[u8]>,
    pub(crate) asked: u64,
    /// What library code is shown as.
    pub(crate) shown: SmallVec<[InsnId; 2]>,
    /// How often, and the step of the latest record and the earliest.
    pub(crate) times: u64,
    pub(crate) latest: u64,
    pub(crate) earliest: u64,
    /// Instructions that are in the slice: number, and which of the record.
    pub(crate) included: Vec<(InsnId, u8)>,
    /// Of those, calls, which may have been counted for what happened inside of them.
    pub(crate) calls: SmallVec<[u8; 2]>,
    /// Frames of which library code is in the slice.
    pub(crate) hidden: SmallVec<[u8; 2]>,
    /// Dependences within the record, by number.
    pub(crate) edges: Vec<u32>,
    pub(crate) inner: Vec<Inner>,
    pub(crate) uses: Vec<Use>,
    pub(crate) asks: Vec<Ask>,
}

impl Effect {
    /// Of nothing.
    pub(crate) fn empty() -> Effect {
        Effect {
            key: Box::default(),
            asked: 0,
            shown: SmallVec::new(),
            times: 0,
            latest: 0,
            earliest: 0,
            included: Vec::new(),
            calls: SmallVec::new(),
            hidden: SmallVec::new(),
            edges: Vec::new(),
            inner: Vec::new(),
            uses: Vec::new(),
            asks: Vec::new(),
        }
    }
}

/// A segment where it is gone through.
pub(crate) struct Place<'p> {
    pub(crate) view: &'p View<'p>,
    pub(crate) thread: u32,
    /// By number.
    pub(crate) variants: &'p [Front],
}

/// A variant, and how it is shown.
pub(crate) struct Front {
    pub(crate) variant: Arc<Variant>,
    pub(crate) face: Rc<Face>,
    /// By output, the instruction that makes it, if it is shown as itself.
    pub(crate) insns: Box<[InsnId]>,
}

impl Place<'_> {
    /// The variant of an output, and the instruction that makes it.
    #[inline]
    pub(crate) fn output(&self, output: u32) -> (&Front, u8) {
        let front = &self.variants[output as usize >> 8];
        (front, front.variant.outputs[output as usize & 0xff].insn)
    }
}

/// A record, as far as learning needs it.
pub(crate) struct Scene<'s> {
    pub(crate) variant: &'s Variant,
    pub(crate) face: &'s Face,
    pub(crate) place: &'s Place<'s>,
    pub(crate) taped: &'s Record,
    /// The step of its first instruction, and its frame.
    pub(crate) step: u64,
    pub(crate) frame: FrameId,
    /// Instructions that somebody asks about, as bits.
    pub(crate) asked: u64,
    /// What library code is shown as, in the order of [`Face::hidden`].
    pub(crate) hidden: &'s [Shown],
}

impl Scene<'_> {
    /// What it says.
    pub(crate) fn values(&self) -> Values<'_> {
        self.place.view.values(self.taped)
    }

    /// An instruction of the record as it is shown.
    pub(crate) fn shown(&self, codes: &crate::codes::Codes, by: By) -> Shown {
        match by {
            By::Own(i) => {
                let s = &codes.plan(self.variant.shape).steps[i as usize];
                Shown {
                    node: Node {
                        step: self.step + u64::from(i),
                        pc: s.pc,
                    },
                    id: s.id,
                }
            }
            By::Hidden(frame) => {
                let n = self.face.hidden.iter().position(|h| h.0 == frame);
                self.hidden[n.expect("a frame with library code")]
            }
            By::Group => Shown {
                node: Node {
                    step: self.step,
                    pc: GROUP,
                },
                id: NOBODY,
            },
            By::Later => Shown::OUTSIDE,
        }
    }
}

/// Somebody asks which of these branches decided: in which frame.
struct Asks {
    frame: u8,
    set: SetId,
    askers: Vec<Wanting>,
}

struct Learner<'l, 'a, E> {
    slicer: &'l mut Slicer<'a, E>,
    scene: &'l Scene<'l>,
    values: Values<'l>,
    registers: Registers<Wanting>,
    /// By class.
    memory: Vec<Cell<Wanting>>,
    asks: Vec<Asks>,
    insn: &'a Step,
    i: u8,
    /// Dependences on the instruction at hand: who, and by which execution.
    found: SmallVec<[(WhoId, By); 8]>,
    effect: Effect,
}

/// Finds an effect; `key` begins with the bytes that are wanted, by output. The dependences within the record are
/// added as they are found.
pub(crate) fn learn<E: Edges>(
    slicer: &mut Slicer<'_, E>,
    scene: &Scene<'_>,
    key: &[u8],
    room: &mut Option<Registers<Wanting>>,
) -> Effect {
    let codes = slicer.codes;
    let Variant { shape, outputs, .. } = scene.variant;
    let steps = &codes.plan(*shape).steps[..codes.way(*shape).executed as usize];
    let values = scene.values();
    let mut learner = Learner {
        slicer,
        scene,
        values,
        registers: room.take().unwrap_or_else(Registers::new),
        memory: vec![Cell::new(); scene.variant.pieces.len()],
        asks: Vec::new(),
        insn: &steps[0],
        i: 0,
        found: SmallVec::new(),
        effect: Effect {
            key: key.into(),
            asked: scene.asked,
            shown: scene.hidden.iter().map(|h| h.id).collect(),
            latest: scene.step,
            earliest: scene.step,
            ..Effect::empty()
        },
    };
    for (output, &bytes) in outputs.iter().zip(key).filter(|w| *w.1 != 0) {
        let entry = Entry {
            wants: Wanting {
                who: LATER,
                by: By::Later,
            },
            base: 0,
            bytes,
        };
        match output.spot {
            Spot::Register(cell) => {
                learner.registers.put(cell.into(), entry, &mut Same);
                learner.registers.summarise(cell.into());
            }
            Spot::Memory(class) => {
                put(&mut learner.memory[class as usize], entry, &mut Same);
            }
        }
    }
    let mut steps_room = Room::default();
    for (i, s) in steps.iter().enumerate().rev() {
        learner.insn = s;
        learner.i = i as u8;
        learner.found.clear();
        step(&mut learner, s, &values, &mut steps_room);
    }
    let (effect, registers) = learner.end();
    *room = Some(registers);
    effect
}

/// Wishes of one execution for the same bytes are one.
struct Same;

impl Joins<Wanting> for Same {
    fn join(&mut self, old: &mut Entry<Wanting>, new: &Entry<Wanting>) -> bool {
        let same = old.wants.by == new.wants.by;
        match new.wants.by {
            By::Later if same => {
                old.bytes |= new.bytes;
                true
            }
            _ => same && old.bytes == new.bytes,
        }
    }
}

impl<E: Edges> Learner<'_, '_, E> {
    fn here(&self) -> By {
        let (face, i) = (self.scene.face, self.i as usize);
        match face.visible[i] {
            true => By::Own(self.i),
            false => By::Hidden(face.shown_as[face.frame[i] as usize]),
        }
    }

    fn shown(&self, by: By) -> Shown {
        self.scene.shown(self.slicer.codes, by)
    }

    fn wanting(&mut self, why: Why) -> Wanting {
        let by = self.here();
        let shown = self.shown(by);
        let who = self.slicer.everybody.wants(shown.id, shown.node, why).who;
        Wanting { who, by }
    }

    /// The cell of memory that an address of the instruction's is in.
    fn class(&self, at: &Piece<'_>, cell: u64) -> usize {
        let access = self.insn.spots.iter();
        let n = access.clone().position(|s| std::ptr::eq(s, at.spot));
        let n = n.expect("an access of the instruction");
        let begin = self.insn.spots[n].address(&self.values) / 8;
        let piece = self
            .scene
            .variant
            .piece(self.i, n as u8, cell.wrapping_sub(begin));
        piece.class.into()
    }

    /// Somebody depends on the instruction at hand.
    fn edge(&mut self, wanting: Wanting, kind: Kind) {
        let (Wanting { who, by }, to) = (wanting, self.here());
        let from = self.shown(by);
        if by == By::Later || by == to || from.node == OUTSIDE || self.found.contains(&(who, by)) {
            return;
        }
        self.found.push((who, by));
        if let (By::Own(_), By::Own(_)) = (by, to) {
            let to = self.shown(to);
            let key = u64::from(who) << 32 | u64::from(to.id);
            let merged = self.slicer.edges.merged().expect("by number");
            let number = merged.number(key);
            merged.add_one(number, (from.node.step, to.node.step), 1, || Edge {
                from: from.node,
                to: to.node,
                kind,
            });
            self.effect.edges.push(number);
            return;
        }
        let from = by;
        self.effect.inner.push(Inner {
            who,
            from,
            to,
            kind,
        });
    }

    fn end(mut self) -> (Effect, Registers<Wanting>) {
        for asks in std::mem::take(&mut self.asks) {
            debug_assert_eq!(asks.frame, 0, "calls answer what is asked in them");
            let mut own: Vec<(u8, WhoId)> = Vec::new();
            let mut hidden: SmallVec<[(WhoId, u8); 1]> = SmallVec::new();
            for w in asks.askers {
                match w.by {
                    By::Own(i) => own.push((i, w.who)),
                    By::Hidden(frame) => hidden.push((w.who, frame)),
                    By::Group | By::Later => {}
                }
            }
            let own = (!own.is_empty()).then(|| self.slicer.everybody.group(own));
            let set = asks.set;
            self.effect.asks.push(Ask { set, own, hidden });
        }
        let variant = self.scene.variant;
        let mut uses = Vec::new();
        for (n, input) in variant.inputs.iter().enumerate() {
            let list = match *input {
                Spot::Register(cell) => {
                    let list = std::mem::take(&mut self.registers.cells[cell as usize]);
                    self.registers.summarise(cell.into());
                    list
                }
                Spot::Memory(class) => std::mem::take(&mut self.memory[class as usize]),
            };
            for e in list {
                debug_assert_ne!(e.wants.by, By::Later, "what is passed on has other links");
                uses.push(self.want(n as u8, &e));
            }
        }
        let registers = &self.registers.cells;
        debug_assert!(
            registers.iter().all(|c| c.is_empty()),
            "what is read is an input"
        );
        debug_assert!(self.memory.iter().all(|m| m.is_empty()));
        uses.sort_by_key(|u| (by_number(u.by), u.who, u.input));
        uses.dedup_by(|next, kept| {
            let same = (next.by, next.who, next.input) == (kept.by, kept.who, kept.input);
            let same = same && next.piece == kept.piece;
            if same {
                kept.bits |= next.bits;
            }
            same
        });
        let same = |a: &Use, b: &Use| (a.by, a.who) == (b.by, b.who);
        for n in 1..uses.len() {
            if same(&uses[n - 1], &uses[n]) {
                uses[n - 1].one_of_many = true;
                uses[n].one_of_many = true;
            }
        }
        self.effect.uses = self.grouped(uses);
        (self.effect, self.registers)
    }

    /// Those who want the same of a register are one.
    fn grouped(&mut self, uses: Vec<Use>) -> Vec<Use> {
        let mut out: Vec<Use> = Vec::new();
        let mut members: Vec<Vec<(u8, WhoId)>> = Vec::new();
        for u in uses {
            let may = |u: &Use| u.piece.is_none() && !u.one_of_many;
            let same = |o: &Use| may(o) && (o.input, o.bits) == (u.input, u.bits);
            let By::Own(i) = u.by else {
                out.push(u);
                members.push(Vec::new());
                continue;
            };
            let known = (0..out.len()).find(|&n| same(&out[n]) && !members[n].is_empty());
            match known.filter(|_| may(&u)) {
                Some(n) => members[n].push((i, u.who)),
                None => {
                    members.push(vec![(i, u.who)]);
                    out.push(u);
                }
            }
        }
        for (u, members) in out.iter_mut().zip(members).filter(|m| m.1.len() > 1) {
            u.who = self.slicer.everybody.group(members);
            u.by = By::Group;
        }
        out
    }

    fn want(&self, input: u8, e: &Entry<Wanting>) -> Use {
        let memory = crate::wanted::wants_memory(e.wants.who);
        let all = self.scene.variant.pieces.iter().enumerate();
        let mut pieces = all.filter(|(_, p)| {
            let s = &self.slicer.codes.plan(self.scene.variant.shape).steps[p.insn as usize];
            let begin = s.spots[p.access as usize].address(&self.values);
            let by = match e.wants.by {
                By::Own(i) => i == p.insn,
                _ => true,
            };
            by && begin / 8 + u64::from(p.nth) == e.base / 8
        });
        Use {
            input,
            bits: e.bytes,
            who: e.wants.who,
            by: e.wants.by,
            piece: pieces.next().filter(|_| memory).map(|(n, _)| n as u8),
            one_of_many: false,
            near: Known {
                insn: NOBODY,
                number: 0,
                times: 0,
            },
            output: NO_OUTPUT,
            known: Vec::new(),
            trace: Trace::default(),
        }
    }
}

fn by_number(by: By) -> u16 {
    match by {
        By::Own(i) => i.into(),
        By::Hidden(frame) => 256 + u16::from(frame),
        By::Group | By::Later => u16::MAX,
    }
}

impl<E: Edges> State for Learner<'_, '_, E> {
    type Wish = Wanting;

    fn is_asked(&mut self) -> bool {
        let i = self.i as usize;
        let branch = self.insn.may_branch.then_some(self.insn.pc);
        let face = self.scene.face;
        let (frame, callee) = (face.frame[i], face.callee[i]);
        let mut answered = Vec::new();
        let asked = &self.slicer.asked;
        self.asks.retain_mut(|a| {
            let by_branch = branch.is_some_and(|b| a.frame == frame && asked.has(a.set, b));
            let is_answered = by_branch || callee == Some(a.frame);
            if is_answered {
                answered.append(&mut a.askers);
            }
            !is_answered
        });
        for w in &answered {
            self.edge(*w, Kind::Control);
        }
        !answered.is_empty() || self.scene.asked >> i & 1 != 0
    }

    fn moved(&mut self, condition: Term) -> bool {
        self.values.get(condition) & 1 != 0
    }

    fn take_register(&mut self, r: RegRange, out: &mut Taken<Wanting>) {
        self.registers.take(r, out);
    }

    fn take_memory(&mut self, at: Piece<'_>, len: u64, out: &mut Taken<Wanting>) {
        for (n, bytes) in pieces(at.addr, len) {
            let class = self.class(&at, n);
            let offset = (n * 8).wrapping_sub(at.addr) as i64;
            take(&mut self.memory[class], bytes, offset, out);
        }
    }

    fn pass_register(&mut self, r: RegRange, took: &Took<Wanting>) {
        self.registers.pass(r, took, &mut Same);
    }

    fn pass_memory(&mut self, at: Piece<'_>, took: &Took<Wanting>) {
        let mut list: SmallVec<[(u64, Entry<Wanting>); 2]> = SmallVec::new();
        spread(took, at.addr, |n, entry| list.push((n, entry)));
        for (n, entry) in list {
            let class = self.class(&at, n);
            put(&mut self.memory[class], entry, &mut Same);
        }
    }

    fn found(&mut self, taken: &Taken<Wanting>) {
        for took in taken {
            let wanting = took.wants();
            if wanting.by != By::Later {
                let kind = took.kind(self.slicer.everybody.get(wanting.who).why);
                self.edge(wanting, kind);
            }
        }
    }

    fn include(&mut self) {
        let i = self.i as usize;
        let face = self.scene.face;
        match self.here() {
            By::Own(n) if face.callee[i].is_some() => self.effect.calls.push(n),
            By::Own(n) => self.effect.included.push((self.insn.id, n)),
            By::Hidden(frame) if self.effect.hidden.contains(&frame) => {}
            By::Hidden(frame) => self.effect.hidden.push(frame),
            By::Group | By::Later => {}
        }
        if self.slicer.options.data_only {
            return;
        }
        let set = self.slicer.deciders(self.insn.pc, Some(self.insn.id));
        let wanting = self.wanting(Why::Control);
        let frame = face.frame[i];
        let known = self
            .asks
            .iter_mut()
            .find(|a| (a.frame, a.set) == (frame, set));
        match known {
            Some(a) => {
                let same = |w: &Wanting| w.who == wanting.who && w.by == wanting.by;
                if !a.askers.iter().any(same) {
                    a.askers.push(wanting);
                }
            }
            None => self.asks.push(Asks {
                frame,
                set,
                askers: vec![wanting],
            }),
        }
    }

    fn want_register(&mut self, r: RegRange) {
        if !self.slicer.is_pruned(r) {
            let wanting = self.wanting(Why::Register(r));
            self.registers.add(r, wanting, &mut Same);
        }
    }

    fn want_memory(&mut self, at: Piece<'_>, len: u64) {
        if len == 0 {
            return;
        }
        let wants = self.wanting(Why::Memory);
        for (n, bytes) in pieces(at.addr, len) {
            let class = self.class(&at, n);
            let base = n * 8;
            put(
                &mut self.memory[class],
                Entry { wants, base, bytes },
                &mut Same,
            );
        }
    }
}
