//! Doing again what was done before.
//!
//! What the walk does at a record depends on the code, on what is wanted of the registers that it
//! writes (by which instructions, not by which of their executions), and on a few answers on the
//! way: is this store wanted, did that branch decide about something? When it is met for the first
//! time, [`crate::learn`] writes down what is done as *operations*, and where an answer is needed, as
//! a *knot* with a way on for each answer that there was. Later records with the same code and the
//! same wishes only follow the operations.
//!
//! What happens within a record in the same way each time (an instruction is in the slice, and
//! another in the same record depends on it) is no operation: how often the knot was passed says
//! how often it happened.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::asked::SetId;
use crate::codes::InsnId;
use crate::plan::{Address, Plan, Values};
use crate::reader::FrameId;
use crate::roll::{Item, View};
use crate::slice::{NOBODY, Shown, Slicer};
use crate::terms::{Edges, Node, OUTSIDE};
use crate::wanted::{Entry, Taken, Took, UNKNOWN, WhoId, runs};

/// A record that is to be gone through.
pub(crate) struct Scene<'v> {
    pub(crate) view: &'v View<'v>,
    pub(crate) item: &'v Item,
    pub(crate) plan: &'v Plan,
    pub(crate) executed: usize,
    pub(crate) values: Values<'v>,
    pub(crate) shape: u32,
    pub(crate) first_frame: u32,
}

/// Calls in a record beyond which it is gone through plainly.
const MANY_CALLS: usize = 7;
/// Entries of a cell beyond which a record is gone through plainly.
const MANY_ENTRIES: usize = 64;
/// Knots beyond which all are forgotten.
const MANY_KNOTS: usize = 1 << 18;
/// Ways from one knot, or beginnings for one shape, beyond which there is nothing to gain.
pub(crate) const MANY_WAYS: usize = 64;

/// Executions that want something, or an instruction of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// An entry of a cell of registers, as it was before the record.
    Register { cell: u16, n: u8 },
    /// Something put aside.
    Kept(u16),
    /// The instruction of this number in the record.
    Own(u8),
    /// The call that is shown for library code of this frame.
    Hidden(u8),
    /// Of those just taken.
    Taken,
}

#[derive(Clone, Copy)]
pub(crate) enum Op {
    /// These depend on that; `base` and `len` are for those that want memory.
    Edge {
        number: u32,
        who: WhoId,
        from: Operand,
        to: Operand,
        base: u64,
        len: u64,
    },
    /// All that were taken depend on this.
    Found {
        to: Operand,
        hint: u32,
    },
    /// All that were answered depend on this.
    Answer {
        to: Operand,
        hint: u32,
    },
    /// `from` wants the same as `to`.
    Join {
        to: Operand,
        from: Operand,
        who: WhoId,
    },
    Keep {
        from: Operand,
        who: WhoId,
        base: u64,
    },
    /// A register is wanted that the record does not write.
    Put {
        cell: u16,
        bytes: u8,
        who: WhoId,
        from: Operand,
        base: u64,
    },
    Want {
        spot: u32,
        offset: u64,
        len: u64,
        who: WhoId,
        by: Operand,
    },
    Pass {
        spot: u32,
        offset: u64,
        who: WhoId,
        from: Operand,
        base: u64,
        bytes: u8,
        len: u8,
    },
    Ask {
        frame: u8,
        set: SetId,
        first: u32,
        n: u32,
        /// No two of the askers are the same instruction.
        distinct: bool,
    },
    Count(Operand),
}

/// What must be known to go on.
#[derive(Clone, Copy)]
pub(crate) enum Guard {
    /// Which bytes of a store are wanted, and if `whole`, by whom.
    Store {
        spot: u32,
        offset: u64,
        len: u64,
        whole: bool,
    },
    Moved(tape::Term),
    /// Does somebody ask about this branch, or about the call that began a frame?
    Asked {
        frame: u8,
        branch: Option<u64>,
        callee: Option<u8>,
    },
}

pub(crate) type Answer = SmallVec<[u64; 2]>;

pub(crate) enum Next {
    /// Nothing is known yet.
    Unknown,
    /// What is wanted of registers afterwards: a range of `ends`.
    End(u32, u32),
    Guard(Guard, Vec<(Answer, u32)>),
}

/// Operations up to a question.
pub(crate) struct Knot {
    /// A range of `ops`.
    pub(crate) ops: (u32, u32),
    /// Instructions that are in the slice: number, and which of the record.
    pub(crate) included: Vec<(InsnId, u8)>,
    /// Dependences within the record.
    pub(crate) edges: Vec<u32>,
    pub(crate) times: u64,
    /// The steps of the latest record and the earliest.
    pub(crate) latest: u64,
    pub(crate) earliest: u64,
    pub(crate) next: Next,
}

/// What is wanted of a cell of registers after a record: a range of `finals`.
pub(crate) struct CellEnd {
    pub(crate) cell: u16,
    pub(crate) code: u64,
    pub(crate) range: (u32, u32),
}

#[derive(Clone, Copy)]
pub(crate) struct Final {
    pub(crate) who: WhoId,
    pub(crate) from: Operand,
    pub(crate) base: u64,
    pub(crate) bytes: u8,
}

/// What is known of a shape.
struct Form {
    /// Its records can be learned.
    usable: bool,
    /// The cells of registers that it writes.
    cells: Box<[u16]>,
    /// Frames that have code of libraries, with the number of such an instruction.
    hidden: SmallVec<[(u8, u8); 1]>,
    begins: FxHashMap<Rc<[u64]>, u32>,
    /// The beginning that was used last.
    last: Option<(Rc<[u64]>, u32)>,
    learned: u64,
    used: u64,
}

#[derive(Default)]
pub(crate) struct Quick {
    forms: Vec<Option<Box<Form>>>,
    pub(crate) knots: Vec<Knot>,
    pub(crate) ops: Vec<Op>,
    pub(crate) ends: Vec<CellEnd>,
    pub(crate) finals: Vec<Final>,
    pub(crate) askers: Vec<(WhoId, Operand)>,
    pub(crate) spots: Vec<Address>,
    /// By operation, the numbers of the dependences that it found.
    pub(crate) hints: Vec<SmallVec<[(WhoId, u32); 4]>>,
    lists: FxHashMap<SmallVec<[u64; 4]>, u64>,
    key: Vec<u64>,
    path: Vec<u32>,
    pub(crate) kept: Taken,
    pub(crate) entries: Vec<Entry>,
}

impl Quick {
    pub(crate) fn new(shapes: usize) -> Box<Self> {
        let mut quick = Quick::default();
        quick.forms.resize_with(shapes, || None);
        Box::new(quick)
    }

    /// A number for a list: 0 for none.
    pub(crate) fn code(&mut self, words: impl Iterator<Item = u64>) -> u64 {
        let words: SmallVec<[u64; 4]> = words.collect();
        match words[..] {
            [] => 0,
            [one] => one,
            _ => {
                let next = 1 << 63 | self.lists.len() as u64;
                *self.lists.entry(words).or_insert(next)
            }
        }
    }
}

/// What is wanted of a cell, as a word.
pub(crate) fn word(who: WhoId, bytes: u8) -> u64 {
    u64::from(who) << 8 | u64::from(bytes)
}

/// A record being gone through.
pub(crate) struct Run<'r, 'a, E> {
    pub(crate) slicer: &'r mut Slicer<'a, E>,
    pub(crate) quick: &'r mut Quick,
    pub(crate) scene: &'r Scene<'r>,
    /// By frame of the record, what its library code is shown as.
    pub(crate) hidden: [Shown; MANY_CALLS + 1],
    /// Instructions that stand for what happened inside of them.
    pub(crate) squashed: SmallVec<[u8; 2]>,
}

impl<E: Edges> Slicer<'_, E> {
    /// Goes through a record by what is known of it, or learns that; whether that was possible.
    pub(crate) fn quickly(&mut self, scene: &Scene<'_>) -> bool {
        let options = &self.options;
        if options.plain || options.relevant || !options.pruned_memory.is_empty() {
            return false;
        }
        let Some(mut quick) = self.quick.take() else {
            return false;
        };
        if quick.knots.len() > MANY_KNOTS {
            self.settle_with(&mut quick);
            // The numbers of lists stay what they are.
            let lists = std::mem::take(&mut quick.lists);
            quick = Quick::new(self.codes.len());
            quick.lists = lists;
        }
        let done = self.go(&mut quick, scene);
        self.quick = Some(quick);
        done
    }

    fn go(&mut self, quick: &mut Quick, scene: &Scene<'_>) -> bool {
        let slot = &mut quick.forms[scene.shape as usize];
        let mut form = match slot.take() {
            Some(form) => form,
            None => Box::new(Form::of(self, scene)),
        };
        let done = form.usable && self.go_as(&mut form, quick, scene);
        quick.forms[scene.shape as usize] = Some(form);
        done
    }

    fn go_as(&mut self, form: &mut Form, quick: &mut Quick, scene: &Scene<'_>) -> bool {
        let begin = scene.item.step;
        let squashed = self.squashed_in(begin, begin + scene.executed as u64);
        let mut squashed: SmallVec<[u8; 2]> = squashed.map(|s| (s - begin) as u8).collect();
        let nobody = Shown {
            node: OUTSIDE,
            id: NOBODY,
        };
        let mut key = std::mem::take(&mut quick.key);
        key.clear();
        let registers = self.registers();
        for &cell in &form.cells {
            let cell = cell as usize;
            let mut code = registers.codes[cell];
            let entries = &registers.cells[cell];
            if entries.len() > MANY_ENTRIES {
                quick.key = key;
                return false;
            }
            if code == UNKNOWN {
                code = quick.code(entries.iter().map(|e| word(e.wants.who, e.bytes)));
                registers.codes[cell] = code;
            }
            key.push(code);
        }
        let mut hidden = [nobody; MANY_CALLS + 1];
        for &(k, i) in &form.hidden {
            let s = &scene.plan.steps[i as usize];
            let step = begin + u64::from(i);
            let node = Node { step, pc: s.pc };
            let shown = self.shown(scene.view, node, Some(s.id), scene.frame(k));
            hidden[k as usize] = shown;
            key.push(u64::from(shown.id));
            if shown.node.step >= begin {
                squashed.push((shown.node.step - begin) as u8);
            }
        }
        key.extend(squashed.iter().map(|i| u64::from(*i)));
        let known = match &form.last {
            Some((k, n)) if **k == key[..] => Some(*n),
            _ => {
                let known = form.begins.get_key_value(&key[..]);
                let known = known.map(|(key, n)| (key.clone(), *n));
                if known.is_some() {
                    form.last.clone_from(&known);
                }
                known.map(|k| k.1)
            }
        };
        quick.kept.clear();
        quick.path.clear();
        let mut run = Run {
            slicer: self,
            quick,
            scene,
            hidden,
            squashed,
        };
        let done = match known {
            Some(n) => {
                form.used += 1;
                run.follow(n, &form.cells);
                true
            }
            // What is different each time is not worth learning.
            None if form.learned > MANY_WAYS as u64 && form.learned * 2 > form.used => false,
            None => {
                form.learned += 1;
                let n = run.knot();
                let key: Rc<[u64]> = key[..].into();
                form.begins.insert(key.clone(), n);
                form.last = Some((key, n));
                run.quick.path.push(n);
                run.learn(&form.cells, None);
                true
            }
        };
        quick.key = key;
        done
    }

    /// Counts what was done without being counted.
    pub(crate) fn settle(&mut self) {
        if let Some(mut quick) = self.quick.take() {
            self.settle_with(&mut quick);
            self.quick = Some(Quick::new(self.codes.len()));
        }
    }

    fn settle_with(&mut self, quick: &mut Quick) {
        for k in quick.knots.iter().filter(|k| k.times > 0) {
            for &(id, i) in &k.included {
                let i = u64::from(i);
                self.count_times(id, k.times, k.earliest + i, k.latest + i);
            }
            if let Some(merged) = self.edges.merged() {
                for &number in &k.edges {
                    // The first time it was added as it came.
                    merged.again(number, k.times - 1);
                }
            }
        }
    }
}

impl Scene<'_> {
    pub(crate) fn frame(&self, k: u8) -> FrameId {
        match k {
            0 => self.item.frame,
            k => FrameId(self.first_frame + u32::from(k) - 1),
        }
    }
}

impl Form {
    fn of<E: Edges>(slicer: &mut Slicer<'_, E>, scene: &Scene<'_>) -> Form {
        use image::effects::Place;
        let plan = scene.plan;
        let mut cells = Vec::new();
        let mut hidden: SmallVec<[(u8, u8); 1]> = SmallVec::new();
        let calls = plan.calls.iter().map(|c| c.0 as usize);
        let mut usable = calls.filter(|i| *i < scene.executed).count() <= MANY_CALLS;
        for (i, s) in plan.steps[..scene.executed].iter().enumerate() {
            for t in &s.effects.transfers {
                match t.to {
                    Place::Register(r) if r.general_number() != Some(4) => {
                        cells.extend(r.at / 8..=(r.end() - 1) / 8);
                    }
                    _ => {}
                }
                let places = t.from.iter().map(|s| s.place).chain([t.to]);
                let all = places.chain(s.effects.decided_by.iter().copied());
                usable &= all.into_iter().all(|p| !matches!(p, Place::Whole(_)));
            }
            let k = plan.calls.iter().filter(|c| (c.0 as usize) < i).count() as u8;
            let known = hidden.iter().any(|h| h.0 == k);
            if !known && !slicer.is_visible(s.pc, s.id) {
                hidden.push((k, i as u8));
            }
        }
        cells.sort_unstable();
        cells.dedup();
        Form {
            usable,
            cells: cells.into(),
            hidden,
            begins: FxHashMap::default(),
            last: None,
            learned: 0,
            used: 0,
        }
    }
}

impl<E: Edges> Run<'_, '_, E> {
    /// A new knot.
    pub(crate) fn knot(&mut self) -> u32 {
        let first = self.quick.ops.len() as u32;
        let step = self.scene.item.step;
        self.quick.knots.push(Knot {
            ops: (first, first),
            included: Vec::new(),
            edges: Vec::new(),
            times: 1,
            latest: step,
            earliest: step,
            next: Next::Unknown,
        });
        self.quick.knots.len() as u32 - 1
    }

    /// Does what is known.
    fn follow(&mut self, mut n: u32, cells: &[u16]) {
        loop {
            self.quick.path.push(n);
            let knot = &mut self.quick.knots[n as usize];
            knot.times += 1;
            knot.earliest = self.scene.item.step;
            for at in knot.ops.0..knot.ops.1 {
                let op = self.quick.ops[at as usize];
                self.perform(op);
            }
            let guard = match self.quick.knots[n as usize].next {
                Next::End(from, to) => return self.finish(from, to),
                Next::Guard(guard, _) => guard,
                Next::Unknown => unreachable!("what is learned is learned to its end"),
            };
            let answer = self.answer(guard);
            let Next::Guard(_, ways) = &mut self.quick.knots[n as usize].next else {
                unreachable!("it was a guard");
            };
            match ways.iter().position(|w| w.0 == answer) {
                Some(at) => {
                    n = ways[at].1;
                    if at > 0 {
                        // What was the answer last is likely to be the next.
                        ways.swap(at, at - 1);
                    }
                    self.take(guard, &answer);
                }
                None => return self.learn(cells, Some(answer)),
            }
        }
    }

    pub(crate) fn address(&self, spot: u32, offset: u64) -> u64 {
        let address = &self.quick.spots[spot as usize];
        address.get(&self.scene.values).wrapping_add(offset)
    }

    /// What is the case. Questions about control are answered thereby.
    pub(crate) fn answer(&mut self, guard: Guard) -> Answer {
        let mut answer = Answer::new();
        match guard {
            Guard::Moved(term) => {
                if self.scene.values.get(term) & 1 != 0 {
                    answer.push(1);
                }
            }
            Guard::Asked {
                frame,
                branch,
                callee,
            } => {
                let (frame, callee) =
                    (self.scene.frame(frame), callee.map(|k| self.scene.frame(k)));
                let slicer = &mut *self.slicer;
                slicer.answered.clear();
                if let Some(pc) = branch {
                    slicer.asked.branch(frame, pc, &mut slicer.answered);
                }
                if let Some(callee) = callee {
                    slicer.asked.call(callee, &mut slicer.answered);
                }
                if !slicer.answered.is_empty() {
                    answer.push(1);
                }
            }
            Guard::Store {
                spot,
                offset,
                len,
                whole,
            } => {
                let addr = self.address(spot, offset);
                let (quick, memory) = (&mut *self.quick, &self.slicer.memory);
                for (n, cell, bytes) in memory.wanted(addr, len) {
                    let wanted = cell.iter().fold(0, |all, e| all | e.bytes) & bytes;
                    if wanted == 0 {
                        continue;
                    }
                    if answer.is_empty() {
                        answer.push(addr % 8);
                    }
                    answer.push((n - addr / 8) << 8 | u64::from(wanted));
                    if whole {
                        let words = cell.iter().map(|e| word(e.wants.who, e.bytes));
                        answer.push(quick.code(words));
                        let taken = cell.iter().map(|e| runs(e.bytes & bytes).count() as u64);
                        answer.push(taken.sum());
                    }
                }
            }
        }
        answer
    }

    /// Takes what the answer says is wanted.
    pub(crate) fn take(&mut self, guard: Guard, answer: &Answer) {
        let Guard::Store {
            spot,
            offset,
            len,
            whole,
        } = guard
        else {
            return;
        };
        if answer.is_empty() {
            return;
        }
        let addr = self.address(spot, offset);
        let slicer = &mut *self.slicer;
        if whole {
            slicer.memory.take(addr, len, &mut self.quick.kept);
        } else {
            slicer.taken.clear();
            slicer.memory.take(addr, len, &mut slicer.taken);
        }
    }

    /// Of what was kept, from the `n`-th on.
    pub(crate) fn kept(&self, n: usize) -> &[Took] {
        &self.quick.kept[n..]
    }

    /// The knots that were passed.
    pub(crate) fn path(&self) -> &[u32] {
        &self.quick.path
    }
}
