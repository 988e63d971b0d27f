//! Doing again what was done before.
//!
//! What the walk does at a record depends on the code, on what is wanted of the registers that it
//! writes and who asks about its branches (which instructions, not which of their executions), and
//! on a few answers on the way: is this store wanted, did this conditional move move? When it is met
//! for the first time, [`crate::learn`] writes down what is done as *operations*, and where an answer
//! is needed, as a *knot* with a way on for each answer that there was. Later records with the same
//! code and the same wishes only follow the operations.
//!
//! What happens within a record in the same way each time (an instruction is in the slice, and
//! another in the same record depends on it) is no operation: how often the knot was passed says
//! how often it happened.
//!
//! Lists of those who want something are compared by numbers that stand for them, which an
//! operation that adds somebody finds in what it remembers of the last time.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::asked::{Asked, SetId};
use crate::codes::InsnId;
use crate::memory::Trace;
use crate::plan::{Address, Plan, Values};
use crate::reader::FrameId;
use crate::roll::{Item, View};
use crate::slice::{NOBODY, Shown, Slicer};
use crate::terms::{Edges, Node, OUTSIDE};
use crate::wanted::{Entry, Registers, Taken, Took, UNKNOWN, Wants, WhoId, runs};

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
    /// Somebody who asked about a branch or call of the record.
    Asker(u16),
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
    /// These depend on that.
    Edge {
        number: u32,
        who: WhoId,
        from: Operand,
        to: Operand,
        /// They are the same instruction: perhaps it is inside one call of a library.
        itself: bool,
        /// Which bytes, for those that want memory: one of `pieces`.
        piece: u32,
    },
    /// All that were taken depend on this.
    Found {
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
        /// One of `puts`.
        change: u32,
    },
    Want {
        spot: u32,
        len: u32,
        who: WhoId,
        by: Operand,
        /// One of `traces`.
        trace: u32,
    },
    Pass {
        spot: u32,
        who: WhoId,
        from: Operand,
        base: u64,
        bytes: u8,
        len: u8,
    },
    /// Some ask about branches before the record: a range of `askers`.
    Ask {
        set: SetId,
        first: u32,
        n: u32,
        /// Who they are, if no two of them are the same instruction.
        code: u64,
    },
    Count(Operand),
}

/// What must be known to go on.
#[derive(Clone, Copy)]
pub(crate) enum Guard {
    /// Which bytes of a store are wanted, and if `whole`, by whom.
    Store {
        spot: u32,
        len: u32,
        whole: bool,
    },
    Moved(tape::Term),
}

/// 0 is no.
pub(crate) type Answer = u64;
/// An answer about bytes of one cell.
const ONE_CELL: u64 = 1 << 62;
/// The number of a list.
const LIST: u64 = 1 << 63;

pub(crate) enum Next {
    /// Nothing is known yet.
    Unknown,
    /// What is wanted of registers afterwards: a range of `ends`.
    End(u32, u32),
    Guard(Guard, SmallVec<[(Answer, u32); 2]>),
}

/// What becomes of a list when somebody is put into it.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    /// The number of the list before, and afterwards.
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// Where in it.
    pub(crate) n: u32,
}

/// Operations up to a question.
pub(crate) struct Knot {
    /// A range of `ops`.
    pub(crate) ops: (u32, u32),
    pub(crate) times: u64,
    /// The step of the earliest record.
    pub(crate) earliest: u64,
    pub(crate) next: Next,
}

/// What happens each time that a knot is passed.
pub(crate) struct Always {
    /// Instructions that are in the slice: number, and which of the record.
    pub(crate) included: Vec<(InsnId, u8)>,
    /// Dependences within the record.
    pub(crate) edges: Vec<u32>,
    /// The step of the latest record.
    pub(crate) latest: u64,
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
    /// Calls that it makes.
    calls: u8,
    /// Branches before the first call.
    branches: Box<[u64]>,
    /// By number of a set of branches, as far as known: whether one of these is in it.
    answers: Vec<bool>,
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
    pub(crate) always: Vec<Always>,
    pub(crate) ops: Vec<Op>,
    pub(crate) ends: Vec<CellEnd>,
    pub(crate) finals: Vec<Final>,
    pub(crate) askers: Vec<(WhoId, Operand)>,
    pub(crate) spots: Vec<Address>,
    /// Where bytes begin, from where those of the operand do, and how many.
    pub(crate) pieces: Vec<(u64, u64)>,
    pub(crate) puts: Vec<Change>,
    pub(crate) traces: Vec<Trace>,
    /// By operation, the numbers of the dependences that it found.
    pub(crate) hints: Vec<SmallVec<[(WhoId, u32); 4]>>,
    lists: Lists,
    key: Vec<u64>,
    path: Vec<u32>,
    pub(crate) kept: Taken,
    /// Those who asked about branches and calls of the record.
    pub(crate) asking: Vec<Wants>,
    pub(crate) entries: Vec<Entry>,
}

/// Numbers for lists.
#[derive(Default)]
struct Lists {
    numbers: FxHashMap<Rc<[u64]>, u64>,
    list: Vec<Rc<[u64]>>,
}

impl Quick {
    pub(crate) fn new(shapes: usize) -> Box<Self> {
        let mut quick = Quick::default();
        quick.forms.resize_with(shapes, || None);
        Box::new(quick)
    }

    /// A number for a list: 0 for none.
    pub(crate) fn code(&mut self, words: impl Iterator<Item = u64>) -> u64 {
        let words: SmallVec<[u64; 8]> = words.collect();
        match words[..] {
            [] => 0,
            [one] => one,
            _ => match self.lists.numbers.get(&words[..]) {
                Some(n) => *n,
                None => {
                    let n = LIST | self.lists.list.len() as u64;
                    let words: Rc<[u64]> = words[..].into();
                    self.lists.list.push(words.clone());
                    self.lists.numbers.insert(words, n);
                    n
                }
            },
        }
    }

    /// The number for what is wanted of a cell of registers.
    #[inline]
    pub(crate) fn cell_code(&mut self, registers: &mut Registers, cell: usize) -> u64 {
        match registers.codes[cell] {
            UNKNOWN => self.find_code(registers, cell),
            code => code,
        }
    }

    fn find_code(&mut self, registers: &mut Registers, cell: usize) -> u64 {
        let entries = &registers.cells[cell];
        let code = match entries.len() > MANY_ENTRIES {
            true => TOO_MANY,
            false => self.code(entries.iter().map(|e| word(e.wants.who, e.bytes))),
        };
        registers.codes[cell] = code;
        code
    }

    /// The answer for wanted bytes of a store: where in its cell it begins, and for each cell the bytes.
    fn answer(&mut self, words: &[u64]) -> Answer {
        match *words {
            [] => 0,
            [at, bytes] if bytes < 1 << 32 => ONE_CELL | at << 32 | bytes,
            _ => self.code(words.iter().copied()),
        }
    }

    /// What such an answer says.
    pub(crate) fn words(&self, answer: Answer) -> SmallVec<[u64; 4]> {
        if answer & LIST != 0 {
            return self.lists.list[(answer & !LIST) as usize][..].into();
        }
        match answer {
            0 => SmallVec::new(),
            one => [(one & !ONE_CELL) >> 32, one & 0xffff_ffff][..].into(),
        }
    }
}

/// The number of a list that is too long.
pub(crate) const TOO_MANY: u64 = UNKNOWN - 1;

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
    /// The questions that the record answers: frame, branches, and how many ask.
    pub(crate) questions: SmallVec<[(u8, SetId, u16); 4]>,
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
            quick = self.settle_with(quick);
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
            key.push(quick.cell_code(registers, cell as usize));
        }
        if key.contains(&TOO_MANY) {
            quick.key = key;
            return false;
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
        let mut questions: SmallVec<[(u8, SetId, u16); 4]> = SmallVec::new();
        if !self.asked.is_empty() {
            form.know(&self.asked);
            for k in 0..=form.calls {
                for q in self.asked.questions(scene.frame(k)) {
                    if k == 0 && !form.answers[q.set as usize] {
                        continue;
                    }
                    if q.code == UNKNOWN {
                        q.code = quick.code(q.askers.iter().map(|w| word(w.who, 0)));
                    }
                    questions.push((k, q.set, q.askers.len() as u16));
                    // Nothing before has this bit alone.
                    key.extend([ONE_CELL | u64::from(k) << 32 | u64::from(q.set), q.code]);
                }
            }
        }
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
        // What is different each time is not worth learning.
        let many = form.learned > MANY_WAYS as u64 && form.learned * 2 > form.used;
        if known.is_none() && many {
            quick.key = key;
            return false;
        }
        quick.kept.clear();
        quick.path.clear();
        quick.asking.clear();
        let mut last = None;
        for &(k, ..) in questions.iter().filter(|q| last.replace(q.0) != Some(q.0)) {
            let is_answered = |_: &_, set: SetId| k > 0 || form.answers[set as usize];
            let frame = scene.frame(k);
            self.asked.take(frame, is_answered, &mut quick.asking);
        }
        let mut run = Run {
            slicer: self,
            quick,
            scene,
            hidden,
            squashed,
            questions,
        };
        match known {
            Some(n) => {
                form.used += 1;
                run.follow(n, &form.cells);
            }
            None => {
                form.learned += 1;
                let n = run.knot();
                let key: Rc<[u64]> = key[..].into();
                form.begins.insert(key.clone(), n);
                form.last = Some((key, n));
                run.quick.path.push(n);
                run.learn(&form.cells, None);
            }
        }
        quick.key = key;
        true
    }

    /// Counts what was done without being counted.
    pub(crate) fn settle(&mut self) {
        self.quick = self.quick.take().map(|quick| self.settle_with(quick));
    }

    fn settle_with(&mut self, mut quick: Box<Quick>) -> Box<Quick> {
        for (k, always) in quick.knots.iter().zip(&quick.always) {
            for &(id, i) in &always.included {
                let i = u64::from(i);
                self.count_times(id, k.times, k.earliest + i, always.latest + i);
            }
            if let Some(merged) = self.edges.merged() {
                for &number in &always.edges {
                    // The first time it was added as it came.
                    merged.again(number, k.times - 1);
                }
            }
        }
        let mut empty = Quick::new(self.codes.len());
        // The numbers of lists stay what they are.
        empty.lists = std::mem::take(&mut quick.lists);
        empty
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
        let calls = plan.calls.iter().map(|c| c.0 as usize);
        let first = calls.clone().next().unwrap_or(usize::MAX);
        let branches = plan.branches.iter().map(|(i, pc)| (*i as usize, *pc));
        let branches = branches.filter(|(i, _)| *i < scene.executed && *i <= first);
        Form {
            usable,
            cells: cells.into(),
            hidden,
            calls: calls.filter(|i| *i < scene.executed).count() as u8,
            branches: branches.map(|b| b.1).collect(),
            answers: Vec::new(),
            begins: FxHashMap::default(),
            last: None,
            learned: 0,
            used: 0,
        }
    }
}

impl Form {
    /// Finds out which sets of branches have one of the form.
    fn know(&mut self, asked: &Asked) {
        for set in self.answers.len()..asked.sets() {
            let answers = self.branches.iter().any(|b| asked.has(set as SetId, *b));
            self.answers.push(answers);
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
            times: 1,
            earliest: step,
            next: Next::Unknown,
        });
        self.quick.always.push(Always {
            included: Vec::new(),
            edges: Vec::new(),
            latest: step,
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
            let (from, to) = knot.ops;
            for at in from..to {
                let op = self.quick.ops[at as usize];
                self.perform(op);
            }
            let guard = match &self.quick.knots[n as usize].next {
                Next::End(from, to) => return self.finish(*from, *to),
                Next::Guard(guard, _) => *guard,
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
                }
                None => return self.learn(cells, Some(answer)),
            }
        }
    }

    #[inline]
    pub(crate) fn address(&self, spot: u32) -> u64 {
        self.quick.spots[spot as usize].get(&self.scene.values)
    }

    /// What is the case. What is wanted of a store is taken thereby.
    #[inline]
    pub(crate) fn answer(&mut self, guard: Guard) -> Answer {
        match guard {
            Guard::Moved(term) => self.scene.values.get(term) & 1,
            Guard::Store { spot, len, whole } => {
                let (addr, len) = (self.address(spot), u64::from(len));
                match self.slicer.memory.maybe(addr, len) {
                    true => self.take(addr, len, whole),
                    false => 0,
                }
            }
        }
    }

    /// Takes what is wanted of a store, and says what it was.
    fn take(&mut self, addr: u64, len: u64, whole: bool) -> Answer {
        let (quick, slicer) = (&mut *self.quick, &mut *self.slicer);
        let mut words: SmallVec<[u64; 4]> = SmallVec::new();
        for (n, cell, bytes) in slicer.memory.wanted(addr, len) {
            let wanted = cell.iter().fold(0, |all, e| all | e.bytes) & bytes;
            if wanted == 0 {
                continue;
            }
            if words.is_empty() {
                words.push(addr % 8);
            }
            words.push((n - addr / 8) << 8 | u64::from(wanted));
            if whole {
                let who = cell.iter().map(|e| word(e.wants.who, e.bytes));
                words.push(quick.code(who));
                let taken = cell.iter().map(|e| runs(e.bytes & bytes).count() as u64);
                words.push(taken.sum());
            }
        }
        if words.is_empty() {
            return 0;
        }
        if whole {
            slicer.memory.take(addr, len, &mut quick.kept);
        } else {
            slicer.taken.clear();
            slicer.memory.take(addr, len, &mut slicer.taken);
        }
        quick.answer(&words)
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
