//! Doing again what was done before.
//!
//! What the walk does at a record depends on the code, on what is wanted of the registers that it
//! writes and who asks about its branches (which instructions, not which of their executions), and
//! on a few answers on the way: is this store wanted, did this conditional move move? When the same
//! is met again, [`crate::learn`] writes down what is done as *operations*, and where an answer is
//! needed, as a *knot* with a way on for each answer that there was. Later records with the same
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

use crate::asked::{Set, SetId};
use crate::codes::InsnId;
use crate::learn::Sym;
use crate::memory::Trace;
use crate::plan::{Spot, Sum, Values};
use crate::reader::FrameId;
use crate::roll::{Item, View, What};
use crate::rows::{Form, MANY_CALLS, Rows};
use crate::slice::{NOBODY, Shown, Slicer};
use crate::terms::{Edges, Node, OUTSIDE};
use crate::wanted::{Entry, Registers, Taken, Took, UNKNOWN, Wants, WhoId, part, runs};

/// Records that are to be gone through.
pub(crate) struct Scene<'v> {
    pub(crate) view: &'v View<'v>,
    /// The first of them.
    pub(crate) item: &'v Item,
    /// Number that the first call in them has.
    pub(crate) first_frame: u32,
    /// What each of them says.
    pub(crate) values: &'v [Values<'v>],
}

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
        /// What that was the last time: the number of the list before and afterwards, and where in it.
        before: u64,
        after: u64,
        n: u32,
    },
    Want {
        spot: Site,
        who: WhoId,
        by: Operand,
        /// Where that was the last time.
        trace: Trace,
    },
    Pass {
        spot: Site,
        who: WhoId,
        from: Operand,
        bytes: u8,
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
    /// What is wanted of a cell of registers afterwards: one of those, to be put aside until all are
    /// known,
    Final {
        who: WhoId,
        from: Operand,
        bytes: u8,
        base: u64,
    },
    /// then for a cell, so many of them, with the number of that list;
    End {
        cell: u16,
        first: u16,
        n: u16,
        code: u64,
    },
    /// or an instruction of the record alone.
    Alone {
        cell: u16,
        bytes: u8,
        who: WhoId,
        by: Operand,
        code: u64,
    },
}

/// What must be known to go on.
#[derive(Clone, Copy)]
pub(crate) enum Guard {
    /// Which bytes of a store are wanted, and if `whole`, by whom.
    Store { spot: Site, whole: bool },
    /// Whether this is odd: a conditional move moved.
    Moved(Site),
}

/// Bytes of memory, as a sum of values of one of the records.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    /// What is added; where it is more than a sum, one of `spots`.
    at: u64,
    pub(crate) len: u16,
    part: u8,
    scale: u8,
    base: u8,
    index: u8,
    sum: bool,
}

impl Site {
    pub(crate) fn of_term(term: tape::Term, part: u8) -> Self {
        Site {
            at: term.offset as u64,
            len: 0,
            part,
            scale: 0,
            base: term.slot,
            index: tape::slot::ZERO,
            sum: true,
        }
    }
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
    /// There is no more.
    End,
    Guard(Guard, SmallVec<[(Answer, u32); 2]>),
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

#[derive(Default)]
pub(crate) struct Quick<'a> {
    rows: Rows<'a>,
    pub(crate) knots: Vec<Knot>,
    pub(crate) always: Vec<Always>,
    pub(crate) ops: Vec<Op>,
    pub(crate) askers: Vec<(WhoId, Operand)>,
    spots: Vec<(Spot, u64)>,
    /// Where bytes begin, from where those of the operand do, and how many.
    pub(crate) pieces: Vec<(u64, u64)>,
    /// By operation, the numbers of the dependences that it found.
    pub(crate) hints: Vec<SmallVec<[(WhoId, u32); 4]>>,
    lists: Lists,
    key: Vec<u64>,
    path: Vec<u32>,
    pub(crate) kept: Taken,
    /// Those who asked about branches and calls of the record.
    pub(crate) asking: Vec<Wants>,
    pub(crate) entries: Vec<Entry>,
    /// Registers of which nothing is wanted, for a learner.
    pub(crate) room: Option<Registers<Sym>>,
}

/// Numbers for lists.
#[derive(Default)]
struct Lists {
    numbers: FxHashMap<Rc<[u64]>, u64>,
    list: Vec<Rc<[u64]>>,
}

impl Quick<'_> {
    pub(crate) fn new(shapes: usize, eager: bool) -> Box<Self> {
        Box::new(Quick {
            rows: Rows::new(shapes, eager),
            ..Quick::default()
        })
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
            [at, bytes] if bytes < 1 << 32 => one_cell(at, bytes),
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

fn one_cell(at: u64, bytes: u64) -> Answer {
    ONE_CELL | at << 32 | bytes
}

/// The number of a list that is too long.
pub(crate) const TOO_MANY: u64 = UNKNOWN - 1;

/// What is wanted of a cell, as a word.
pub(crate) fn word(who: WhoId, bytes: u8) -> u64 {
    u64::from(who) << 8 | u64::from(bytes)
}

/// A row of records being gone through.
pub(crate) struct Run<'r, 'a, E> {
    pub(crate) slicer: &'r mut Slicer<'a, E>,
    pub(crate) quick: &'r mut Quick<'a>,
    pub(crate) form: &'r Form<'a>,
    pub(crate) scene: &'r Scene<'r>,
    /// By frame of the row, what its library code is shown as.
    pub(crate) hidden: [Shown; MANY_CALLS + 1],
    /// Instructions that stand for what happened inside of them.
    pub(crate) squashed: SmallVec<[u8; 2]>,
    /// The questions that the record answers: frame, branches, and how many ask.
    pub(crate) questions: SmallVec<[(u8, SetId, u16); 4]>,
}

impl<'a, E: Edges> Slicer<'a, E> {
    /// Goes through the last of these records, and perhaps some before it from `from` on, by what is
    /// known of them, or learns that; how many that were.
    pub(crate) fn quickly(&mut self, view: &View<'_>, items: &[Item], from: u64) -> usize {
        let options = &self.options;
        if options.plain || options.relevant || !options.pruned_memory.is_empty() {
            return 0;
        }
        let Some(mut quick) = self.quick.take() else {
            return 0;
        };
        if quick.knots.len() > MANY_KNOTS {
            quick = self.settle_with(quick);
        }
        let mut row = Some(quick.rows.find(self.codes, items, from));
        let mut done = 0;
        let all = row.map_or(0, |r| quick.rows.records(r));
        let records = items[items.len() - all..].iter();
        let records = records.filter_map(|item| match &item.what {
            What::Record(record) => Some(record),
            What::Event(_) => None,
        });
        let values = records.clone().map(|record| view.values(record));
        let values: SmallVec<[Values<'_>; 4]> = values.collect();
        while let Some(r) = row {
            let n = quick.rows.records(r);
            let mut form = quick.rows.take(self, r);
            let first = records.clone().nth(all - n).expect("a row has one");
            let scene = Scene {
                view,
                item: &items[items.len() - n],
                first_frame: first.first_frame,
                values: &values[all - n..],
            };
            if form.usable && self.go(&mut form, &mut quick, &scene) {
                done = n;
                row = None;
            } else {
                row = quick.rows.shorter(r);
            }
            quick.rows.give_back(r, form);
        }
        self.quick = Some(quick);
        done
    }

    fn go(&mut self, form: &mut Form<'a>, quick: &mut Quick<'a>, scene: &Scene<'_>) -> bool {
        let begin = scene.item.step;
        let squashed = self.squashed_in(begin, begin + form.steps.len() as u64);
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
            let s = form.steps[i as usize].step;
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
            for k in 0..=form.calls {
                for (q, set) in self.asked.questions(scene.frame(k)) {
                    if k == 0 && !form.answers(set, q.set) {
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
        // Learning takes as long as going through it some ten times: much is never met again.
        let new = |form: &mut Form<'_>| !self.options.eager && !form.is_met(&key);
        if known.is_none() && (many || new(form)) {
            quick.key = key;
            return false;
        }
        quick.kept.clear();
        quick.path.clear();
        quick.asking.clear();
        quick.entries.clear();
        let mut last = None;
        for &(k, ..) in questions.iter().filter(|q| last.replace(q.0) != Some(q.0)) {
            let is_answered = |set: &Set, id| k > 0 || form.answers(set, id);
            let frame = scene.frame(k);
            self.asked.take(frame, is_answered, &mut quick.asking);
        }
        let n = known.unwrap_or_else(|| {
            let n = quick.knot(begin);
            let key: Rc<[u64]> = key[..].into();
            form.begins.insert(key.clone(), n);
            form.last = Some((key, n));
            n
        });
        quick.key = key;
        let mut run = Run {
            slicer: self,
            quick,
            form,
            scene,
            hidden,
            squashed,
            questions,
        };
        let learned = match known {
            Some(n) => run.follow(n),
            None => {
                run.quick.path.push(n);
                run.learn(None);
                true
            }
        };
        form.learned += u64::from(learned);
        form.used += 1;
        true
    }

    /// Counts what was done without being counted.
    pub(crate) fn settle(&mut self) {
        self.quick = self.quick.take().map(|quick| self.settle_with(quick));
    }

    fn settle_with(&mut self, mut quick: Box<Quick<'a>>) -> Box<Quick<'a>> {
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
        let mut empty = Quick::new(self.codes.len(), self.options.eager);
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

impl Quick<'_> {
    /// A new knot, passed at a step.
    pub(crate) fn knot(&mut self, step: u64) -> u32 {
        let first = self.ops.len() as u32;
        self.knots.push(Knot {
            ops: (first, first),
            times: 1,
            earliest: step,
            next: Next::Unknown,
        });
        self.always.push(Always {
            included: Vec::new(),
            edges: Vec::new(),
            latest: step,
        });
        self.knots.len() as u32 - 1
    }

    /// Some bytes of an access in one of the records.
    pub(crate) fn site(&mut self, spot: &Spot, offset: u64, len: u64, part: u8) -> Site {
        let len = len as u16;
        if let Some(Sum {
            base,
            index,
            scale,
            at,
        }) = spot.sum()
        {
            return Site {
                at: at.wrapping_add(offset),
                len,
                part,
                scale,
                base,
                index,
                sum: true,
            };
        }
        self.spots.push((*spot, offset));
        let none = tape::slot::ZERO;
        Site {
            at: self.spots.len() as u64 - 1,
            len,
            part,
            scale: 0,
            base: none,
            index: none,
            sum: false,
        }
    }
}

impl<E: Edges> Run<'_, '_, E> {
    /// Does what is known; whether something had to be learned.
    fn follow(&mut self, mut n: u32) -> bool {
        loop {
            self.quick.path.push(n);
            let knot = &mut self.quick.knots[n as usize];
            knot.times += 1;
            knot.earliest = self.scene.item.step;
            let (from, to) = knot.ops;
            for at in from..to {
                self.perform(at as usize);
            }
            let guard = match &self.quick.knots[n as usize].next {
                Next::End => return false,
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
                None => {
                    self.learn(Some(answer));
                    return true;
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn address(&self, site: Site) -> u64 {
        let values = &self.scene.values[site.part as usize];
        if !site.sum {
            let (spot, offset) = &self.quick.spots[site.at as usize];
            return spot.address(values).wrapping_add(*offset);
        }
        let index = values.slot(site.index);
        site.at
            .wrapping_add(values.slot(site.base))
            .wrapping_add(index.wrapping_mul(u64::from(site.scale)))
    }

    /// What is the case. What is wanted of a store is taken thereby.
    #[inline]
    pub(crate) fn answer(&mut self, guard: Guard) -> Answer {
        match guard {
            Guard::Moved(site) => self.address(site) & 1,
            Guard::Store { spot, whole } => {
                let (addr, len) = (self.address(spot), u64::from(spot.len));
                if addr % 8 + len <= 8 && !whole {
                    let Slicer { memory, taken, .. } = &mut *self.slicer;
                    taken.clear();
                    return match memory.take_within(addr, len, taken) {
                        0 => 0,
                        bytes => one_cell(addr % 8, u64::from(bytes)),
                    };
                }
                match self.slicer.memory.maybe(addr, len) {
                    true => self.take(addr, len, whole),
                    false => 0,
                }
            }
        }
    }

    /// Takes what is wanted of a store, and says what it was.
    fn take(&mut self, addr: u64, len: u64, whole: bool) -> Answer {
        if whole && addr % 8 + len <= 8 {
            return self.take_whole(addr, len);
        }
        let (quick, slicer) = (&mut *self.quick, &mut *self.slicer);
        let mut words: SmallVec<[u64; 4]> = SmallVec::new();
        for (n, wanted, bytes) in slicer.memory.wanted(addr, len) {
            if words.is_empty() {
                words.push(addr % 8);
            }
            words.push((n - addr / 8) << 8 | u64::from(wanted));
            if whole {
                let entries = || slicer.memory.entries(n);
                words.push(quick.code(entries().map(|e| word(e.wants.who, e.bytes))));
                let taken = entries().map(|e| runs(e.bytes & bytes).count() as u64);
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

    /// The same for bytes of one cell, where it matters who wants them: mostly a register that is saved.
    fn take_whole(&mut self, addr: u64, len: u64) -> Answer {
        let (quick, memory) = (&mut *self.quick, &mut self.slicer.memory);
        let bytes = part(addr / 8, addr, len);
        let (mut wanted, mut taken) = (0, 0);
        let mut list: SmallVec<[u64; 8]> = SmallVec::new();
        for e in memory.entries(addr / 8) {
            wanted |= e.bytes & bytes;
            taken += runs(e.bytes & bytes).count() as u64;
            list.push(word(e.wants.who, e.bytes));
        }
        if wanted == 0 {
            return 0;
        }
        memory.take_within(addr, len, &mut quick.kept);
        let code = quick.code(list.into_iter());
        quick.answer(&[addr % 8, u64::from(wanted), code, taken])
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
