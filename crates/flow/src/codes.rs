//! What is known of taped code, worked out once for each superblock.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tape::{Code, Event, Shape, Term};

use crate::plan::Plan;

/// Number of an instruction: for tables by address.
pub type InsnId = u32;

/// What following the tape needs to know of a way out of a superblock.
pub(crate) struct Way {
    pub(crate) plan: u32,
    pub(crate) record_len: u16,
    pub(crate) executed: u8,
    /// Calls among the instructions executed.
    pub(crate) calls: u8,
    pub(crate) rsp: Option<Term>,
    pub(crate) rbp: Option<Term>,
    /// The last instruction executed.
    pub(crate) last: Option<Last>,
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
}

impl Codes {
    pub(crate) fn add(&mut self, shapes: &[Shape]) {
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
                rsp: s.rsp,
                rbp: s.rbp,
                last: executed.last().map(|last| Last {
                    pc: last.pc,
                    leaves: last.leaves,
                    returns: last.returns,
                }),
            });
            self.shapes.push(s.clone());
        }
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
