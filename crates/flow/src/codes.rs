//! What is known of taped code, worked out once for each superblock.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tape::{Code, Event, Shape, Term, slot};

use crate::plan::{self, Plan, Values};
use crate::variant::is_regular;

/// Number of an instruction: for tables by address.
pub type InsnId = u32;

/// What following the tape needs to know of a way out of a superblock: a line of the CPU's caches, since that is done
/// for each record.
#[repr(align(64))]
pub(crate) struct Way {
    pub(crate) plan: u32,
    pub(crate) record_len: u16,
    pub(crate) executed: u8,
    /// Calls among the instructions executed.
    pub(crate) calls: u8,
    /// What they are afterwards.
    pub(crate) rsp: Term,
    pub(crate) rbp: Term,
    /// The last instruction executed.
    pub(crate) last: Option<Last>,
    /// That of its [`crate::plan::Values`].
    pub(crate) unit: u8,
}

#[derive(Clone, Copy)]
pub(crate) struct Last {
    pub(crate) pc: u64,
    pub(crate) leaves: bool,
    pub(crate) returns: bool,
}

/// What is known of taped code, for all rolls of a guest.
#[derive(Default)]
pub struct Codes {
    shapes: Vec<Shape>,
    ways: Vec<Way>,
    plans: Vec<Plan>,
    by_code: FxHashMap<usize, u32>,
    /// Keeps the addresses in `by_code` from being used again.
    codes: Vec<Arc<Code>>,
    numbers: FxHashMap<u64, InsnId>,
    /// By way, those that are read as one with it if they come next: they, and what that is. These ways are behind those of
    /// the shapes, and so are their plans.
    next: Vec<SmallVec<[(u32, u32); 2]>>,
}

/// What was in a slot when the record began.
pub(crate) fn unchanged(slot: u8) -> Term {
    Term { slot, offset: 0 }
}

/// Instructions of a row of ways: [`crate::effect`] has a bit for each.
const LONGEST: usize = 64;

impl Codes {
    pub(crate) fn add(&mut self, shapes: &[Shape]) {
        self.part();
        for s in shapes {
            let key = Arc::as_ptr(&s.code) as usize;
            let number = match self.by_code.get(&key) {
                Some(n) => *n,
                None => {
                    let mut plan = Plan::of(&s.code);
                    for step in &mut plan.steps {
                        step.id = self.number(step.pc);
                    }
                    self.plans.push(plan);
                    self.codes.push(s.code.clone());
                    let number = self.plans.len() as u32 - 1;
                    self.by_code.insert(key, number);
                    number
                }
            };
            let plan = &self.plans[number as usize];
            let executed = &plan.steps[..s.executed as usize];
            let calls = plan.calls.iter().filter(|(i, _)| *i < s.executed);
            self.ways.push(Way {
                plan: number,
                record_len: s.record_len() as u16,
                executed: s.executed,
                calls: calls.count() as u8,
                rsp: s.rsp.unwrap_or(unchanged(slot::RSP)),
                rbp: s.rbp.unwrap_or(unchanged(slot::RBP)),
                last: executed.last().map(|last| Last {
                    pc: last.pc,
                    leaves: last.leaves,
                    returns: last.returns,
                }),
                unit: Values::UNIT,
            });
            self.shapes.push(s.clone());
        }
    }

    /// Reads two ways as one from now on, the second of a shape; what that is. Only where it is certain that they are
    /// executed in one frame but for their calls, and where the tape says all.
    pub(crate) fn join(&mut self, first: u32, second: u32) -> Option<u32> {
        let (a, b) = (self.way(first), self.way(second));
        let long = a.executed as usize + b.executed as usize;
        let leaves = a.last.is_none_or(|last| last.leaves);
        if long > LONGEST || leaves || !self.is_regular(first) || !self.is_regular(second) {
            return None;
        }
        let (plan, mut way) = plan::join([(self.plan(first), a), (self.plan(second), b)])?;
        way.plan = self.plans.len() as u32;
        self.plans.push(plan);
        self.ways.push(way);
        let row = self.ways.len() as u32 - 1;
        self.next.resize_with(self.ways.len(), SmallVec::new);
        self.next[first as usize].push((second, row));
        Some(row)
    }

    fn is_regular(&self, way: u32) -> bool {
        let executed = self.way(way).executed as usize;
        executed > 0 && is_regular(&self.plan(way).steps[..executed])
    }

    /// What two ways are if they are read as one.
    #[inline]
    pub(crate) fn joined(&self, first: u32, second: u32) -> Option<u32> {
        let next = self.next.get(first as usize)?;
        next.iter().find(|n| n.0 == second).map(|n| n.1)
    }

    /// The most that can be read as one from where records begin, the first of this shape: what that is, and how many.
    #[inline]
    pub(crate) fn row(&self, records: &[u8], shape: u32) -> (u32, u32) {
        let (mut row, mut n) = (shape, 1);
        let mut at = self.way(shape).record_len as usize;
        while let Some(head) = records.get(at..).and_then(|b| b.first_chunk())
            && let Some(longer) = self.joined(row, u32::from_le_bytes(*head))
        {
            (row, n) = (longer, n + 1);
            at = self.way(row).record_len as usize;
        }
        (row, n)
    }

    /// No ways are read as one any more.
    fn part(&mut self) {
        if !self.next.is_empty() {
            self.ways.truncate(self.shapes.len());
            self.plans.truncate(self.codes.len());
            self.next.clear();
        }
    }

    /// All ways, also those that are read as one.
    pub(crate) fn ways(&self) -> usize {
        self.ways.len()
    }

    /// Numbers the instructions that events stand for.
    pub(crate) fn add_event(&mut self, event: &Event) {
        match event {
            Event::Enter { pc, .. } => self.number(*pc),
            Event::Special(insn) => self.number(insn.pc),
            _ => 0,
        };
    }

    fn number(&mut self, pc: u64) -> InsnId {
        let next = self.numbers.len() as InsnId;
        *self.numbers.entry(pc).or_insert(next)
    }

    /// The number of the instruction at `pc`, if it was executed.
    pub fn id(&self, pc: u64) -> Option<InsnId> {
        self.numbers.get(&pc).copied()
    }

    /// All instructions that were executed: address and number.
    pub fn ids(&self) -> impl Iterator<Item = (u64, InsnId)> {
        self.numbers.iter().map(|(pc, id)| (*pc, *id))
    }

    /// Instructions that are numbered.
    pub fn instructions(&self) -> usize {
        self.numbers.len()
    }

    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    pub(crate) fn way(&self, shape: u32) -> &Way {
        &self.ways[shape as usize]
    }

    pub fn plan(&self, shape: u32) -> &Plan {
        &self.plans[self.ways[shape as usize].plan as usize]
    }

    pub fn plan_number(&self, shape: u32) -> u32 {
        self.ways[shape as usize].plan
    }

    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    pub(crate) fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    pub fn shape(&self, shape: u32) -> &Shape {
        &self.shapes[shape as usize]
    }
}
