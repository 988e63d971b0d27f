//! Records that often follow each other, as one.
//!
//! What is learned of a record spares looking at its instructions, but not the wishes that it hands
//! to the record before it. Where records follow each other again and again, as in loops, the *row*
//! of them is learned as if it were one: what begins and ends within it costs nothing.
//!
//! Rows grow by a record at a time. A row that is gone through notes which record was before it, and
//! where that was often the same, the longer row is used from then on, unless too much of it is
//! different each time. A row ends where control may have left the function, so that the calls in it
//! are one inside the other.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use image::effects::Place;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::asked::{Set, SetId, bits};
use crate::codes::Codes;
use crate::plan::Step;
use crate::roll::{Item, What};
use crate::slice::Slicer;
use crate::terms::Edges;

/// Calls in a row beyond which it is gone through plainly.
pub(crate) const MANY_CALLS: usize = 7;
/// Instructions of a row.
const LONG: usize = 250;
/// Records of a row.
const MANY_RECORDS: usize = 12;
/// A longer row is used when it was seen so often, or if one is eager.
const OFTEN: u32 = 512;
const TWICE: u32 = 2;
/// Rows beyond which no more are made.
const MANY_ROWS: usize = 1 << 14;
/// What is learned of a row must be of use so often, but for the first few times.
const USES: u64 = 64;
const FEW: u64 = 4;
/// Beginnings of a row that are known to have been met once.
const MARKS: usize = 16;
/// Sets of branches of which a row remembers whether it decides about them.
const ANSWERS: usize = 8;

pub(crate) type RowId = u32;

/// An instruction of a row.
pub(crate) struct At<'a> {
    pub(crate) step: &'a Step,
    /// Which record it is in.
    pub(crate) part: u8,
    /// The frame it is executed in, from that of the first instruction on, and the one it begins.
    pub(crate) frame: u8,
    pub(crate) callee: Option<u8>,
}

/// What is known of a row.
pub(crate) struct Form<'a> {
    /// It can be learned.
    pub(crate) usable: bool,
    pub(crate) steps: Box<[At<'a>]>,
    /// The cells of registers that it writes.
    pub(crate) cells: Box<[u16]>,
    /// Frames that have code of libraries, with the number of such an instruction.
    pub(crate) hidden: SmallVec<[(u8, u8); 1]>,
    /// By frame, the first that is shown as the same call.
    pub(crate) shown_as: [u8; MANY_CALLS + 1],
    /// Calls that it makes.
    pub(crate) calls: u8,
    /// Branches before the first call, and their bits.
    branches: Box<[u64]>,
    bits: u64,
    /// Sets of branches that were asked about lately and have one of these bits: whether one of the
    /// branches is in it.
    answers: [(SetId, bool); ANSWERS],
    pub(crate) begins: FxHashMap<Rc<[u64]>, u32>,
    /// The beginning that was used last.
    pub(crate) last: Option<(Rc<[u64]>, u32)>,
    pub(crate) learned: u64,
    pub(crate) used: u64,
    /// Marks of beginnings that were met once.
    met: [u32; MARKS],
}

/// Records that follow each other, or one.
struct Row<'a> {
    form: Option<Box<Form<'a>>>,
    /// The row without the first of its records.
    shorter: Option<RowId>,
    shape: u32,
    records: usize,
    /// Rows with one more record before: its shape.
    longer: SmallVec<[(u32, RowId); 2]>,
    /// How often it was seen before it was used.
    seen: u32,
    /// It is of no use.
    dead: bool,
}

#[derive(Default)]
pub(crate) struct Rows<'a> {
    list: Vec<Row<'a>>,
    /// By shape, the row of one record.
    single: Vec<Option<RowId>>,
    eager: bool,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(shapes: usize, eager: bool) -> Self {
        Rows {
            list: Vec::new(),
            single: vec![None; shapes],
            eager,
        }
    }

    fn add(&mut self, shape: u32, shorter: Option<RowId>) -> RowId {
        let records = shorter.map_or(0, |s| self.list[s as usize].records) + 1;
        self.list.push(Row {
            form: None,
            shorter,
            shape,
            records,
            longer: SmallVec::new(),
            seen: 0,
            dead: false,
        });
        self.list.len() as RowId - 1
    }

    /// The longest row that the last of these records end, as far as `from` allows; and how many
    /// records it has.
    pub(crate) fn find(&mut self, codes: &Codes, items: &[Item], from: u64) -> RowId {
        let mut shapes = items.iter().rev().map_while(|item| match item.what {
            What::Record(record) if item.step >= from => Some(record.shape),
            _ => None,
        });
        let often = if self.eager { TWICE } else { OFTEN };
        let last = shapes.next().expect("the record at hand");
        let single = self.single[last as usize];
        let mut row = single.unwrap_or_else(|| {
            let row = self.add(last, None);
            self.single[last as usize] = Some(row);
            row
        });
        for shape in shapes {
            let way = codes.way(shape);
            if way.last.is_none_or(|l| l.leaves) || self.list[row as usize].records == MANY_RECORDS
            {
                break;
            }
            let longer = &mut self.list[row as usize].longer;
            let Some(at) = longer.iter().position(|l| l.0 == shape) else {
                if self.list.len() < MANY_ROWS {
                    let new = self.add(shape, Some(row));
                    self.list[row as usize].longer.push((shape, new));
                }
                break;
            };
            let next = longer[at].1;
            if at > 0 {
                longer.swap(at, at - 1);
            }
            let known = &mut self.list[next as usize];
            known.seen = known.seen.saturating_add(1);
            if known.dead || known.seen < often {
                break;
            }
            row = next;
        }
        row
    }

    pub(crate) fn records(&self, row: RowId) -> usize {
        self.list[row as usize].records
    }

    pub(crate) fn shorter(&self, row: RowId) -> Option<RowId> {
        self.list[row as usize].shorter
    }

    /// The form of a row, until it is given back.
    pub(crate) fn take<E: Edges>(
        &mut self,
        slicer: &mut Slicer<'a, E>,
        row: RowId,
    ) -> Box<Form<'a>> {
        if let Some(form) = self.list[row as usize].form.take() {
            return form;
        }
        let mut shapes = Vec::new();
        let mut at = Some(row);
        while let Some(row) = at {
            shapes.push(self.list[row as usize].shape);
            at = self.list[row as usize].shorter;
        }
        Box::new(Form::of(slicer, &shapes))
    }

    pub(crate) fn give_back(&mut self, row: RowId, form: Box<Form<'a>>) {
        let useless = !self.eager && form.learned > FEW && form.learned * USES > form.used;
        let known = &mut self.list[row as usize];
        known.dead = !form.usable || useless && known.records > 1;
        known.form = Some(form);
    }
}

impl<'a> Form<'a> {
    /// `shapes` in the order in which they were executed.
    fn of<E: Edges>(slicer: &mut Slicer<'a, E>, shapes: &[u32]) -> Self {
        let codes: &'a Codes = slicer.codes;
        let mut steps = Vec::new();
        let mut calls = 0usize;
        for (part, &shape) in shapes.iter().enumerate() {
            let plan = codes.plan(shape);
            let executed = codes.way(shape).executed as usize;
            for (i, step) in plan.steps[..executed].iter().enumerate() {
                let frame = calls;
                let begins = plan.calls.iter().any(|c| c.0 as usize == i);
                calls += usize::from(begins);
                steps.push(At {
                    step,
                    part: part as u8,
                    frame: frame.min(MANY_CALLS) as u8,
                    callee: begins.then_some(calls.min(MANY_CALLS) as u8),
                });
            }
        }
        let mut usable = calls <= MANY_CALLS && steps.len() <= LONG;
        let mut cells = Vec::new();
        let mut hidden: SmallVec<[(u8, u8); 1]> = SmallVec::new();
        let mut shown_as = [0, 1, 2, 3, 4, 5, 6, 7];
        for (i, at) in steps.iter().enumerate().take(LONG) {
            let s = at.step;
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
            if slicer.is_visible(s.pc, s.id) {
                continue;
            }
            let k = shown_as[at.frame as usize];
            if hidden.iter().all(|h| h.0 != k) {
                hidden.push((k, i as u8));
            }
            if let Some(callee) = at.callee {
                // What a library calls is shown as the same.
                shown_as[callee as usize] = k;
            }
        }
        cells.sort_unstable();
        cells.dedup();
        let branches = steps
            .iter()
            .filter(|at| at.frame == 0 && at.step.may_branch);
        Form {
            usable,
            cells: cells.into(),
            hidden,
            shown_as,
            calls: calls as u8,
            bits: bits(branches.clone().map(|at| at.step.pc)),
            branches: branches.map(|at| at.step.pc).collect(),
            steps: steps.into(),
            answers: [(SetId::MAX, false); ANSWERS],
            begins: FxHashMap::default(),
            last: None,
            learned: 0,
            used: 0,
            met: [0; MARKS],
        }
    }

    /// Whether a beginning was met before, lately.
    pub(crate) fn is_met(&mut self, key: &[u64]) -> bool {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        let (place, mark) = (hash as usize % MARKS, (hash >> 32) as u32 | 1);
        std::mem::replace(&mut self.met[place], mark) == mark
    }

    /// Whether one of the branches before the first call is in the set.
    #[inline]
    pub(crate) fn answers(&mut self, set: &Set, id: SetId) -> bool {
        if !set.may_have(self.bits) {
            return false;
        }
        let known = &mut self.answers[id as usize % ANSWERS];
        if known.0 != id {
            *known = (id, self.branches.iter().any(|b| set.has(*b)));
        }
        known.1
    }
}
