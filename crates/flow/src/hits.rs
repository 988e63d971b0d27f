//! Executions of certain instructions: where they are on the tape, and how many.

use tape::Event;

use crate::roll::{Chunk, Classes, Execution, Item, Record, Roll, View, What};

pub(crate) fn event_pc(event: &Event) -> Option<u64> {
    match event {
        Event::Enter { pc, .. } => Some(*pc),
        Event::Special(insn) => Some(insn.pc),
        _ => None,
    }
}

/// Where certain instructions are, in each superblock.
pub(crate) struct Hits<'a, W> {
    roll: &'a Roll,
    wanted: W,
    by_plan: Vec<Option<Box<[u8]>>>,
}

impl<'a, W: Fn(u64) -> bool> Hits<'a, W> {
    pub(crate) fn new(roll: &'a Roll, wanted: W) -> Self {
        let mut by_plan = Vec::new();
        by_plan.resize_with(roll.codes.plans().len(), || None);
        Hits {
            roll,
            wanted,
            by_plan,
        }
    }

    /// Which instructions of a shape's superblock, of those executed.
    fn in_shape(&mut self, shape: u32) -> &[u8] {
        let codes = &self.roll.codes;
        let steps = &codes.plan(shape).steps;
        let wanted = &self.wanted;
        let hits = self.by_plan[codes.plan_number(shape) as usize].get_or_insert_with(|| {
            let hits = steps.iter().enumerate().filter(|(_, s)| wanted(s.pc));
            hits.map(|(i, _)| i as u8).collect()
        });
        let executed = codes.way(shape).executed;
        &hits[..hits.partition_point(|i| *i < executed)]
    }

    pub(crate) fn of(&mut self, view: &View<'_>, item: &Item, out: &mut Vec<Execution>) {
        let mut found = |step, pc, frame| {
            out.push(Execution {
                step,
                pc,
                thread: item.thread,
                frame,
            });
        };
        match item.what {
            What::Record(Record {
                shape, first_frame, ..
            }) => {
                let plan = self.roll.codes.plan(shape);
                for &i in self.in_shape(shape) {
                    let frame = plan.frame_at(i as usize, item.frame, first_frame);
                    found(item.step + u64::from(i), plan.steps[i as usize].pc, frame);
                }
            }
            What::Event(n) => {
                if let Some(pc) = event_pc(view.event(n)).filter(|pc| (self.wanted)(*pc)) {
                    found(item.step, pc, item.frame);
                }
            }
        }
    }

    pub(crate) fn times(&mut self, chunk: &Chunk) -> u64 {
        let mut total = 0;
        let roll = self.roll;
        roll.count(chunk, &mut |shape, n| {
            total += self.in_shape(shape).len() as u64 * u64::from(n);
        });
        let pcs = chunk.events.iter().filter_map(|(_, e)| event_pc(e));
        total + pcs.filter(|pc| (self.wanted)(*pc)).count() as u64
    }

    pub(crate) fn occur(&mut self, chunk: &Chunk) -> bool {
        self.times(chunk) > 0
    }

    /// Counts by class what is in a chunk.
    pub(crate) fn add(&mut self, chunk: &Chunk, class: &Classes, counts: &mut [u64]) {
        let roll = self.roll;
        roll.count(chunk, &mut |shape, n| {
            let plan = roll.codes.plan(shape);
            for &i in self.in_shape(shape) {
                for c in &class[&plan.steps[i as usize].pc] {
                    counts[*c] += u64::from(n);
                }
            }
        });
        for pc in chunk.events.iter().filter_map(|(_, e)| event_pc(e)) {
            for c in class.get(&pc).into_iter().flatten() {
                counts[*c] += 1;
            }
        }
    }
}

impl Roll {
    /// Every execution of an instruction for which `wanted` holds, from `step` on or a little before,
    /// in the order of steps, until `f` returns false.
    pub fn executions_from(
        &self,
        step: u64,
        wanted: impl Fn(u64) -> bool,
        mut f: impl FnMut(Execution) -> bool,
    ) {
        let mut hits = Hits::new(self, wanted);
        let mut list = Vec::new();
        self.forward_from(step, |view, item| {
            list.clear();
            hits.of(view, item, &mut list);
            list.iter().all(|e| f(*e))
        });
    }

    /// The last execution of such an instruction.
    pub fn last_execution(&self, wanted: impl Fn(u64) -> bool) -> Option<Execution> {
        let mut hits = Hits::new(self, wanted);
        let last = (0..self.chunks.len())
            .rev()
            .find(|n| hits.occur(&self.chunks[*n]))?;
        let mut list = Vec::new();
        self.visit(last..last + 1, |view, items| {
            for item in items.iter().rev() {
                hits.of(view, item, &mut list);
                if !list.is_empty() {
                    return false;
                }
            }
            true
        });
        list.last().copied()
    }

    /// The `nth` execution of such an instruction, from 1, or else how many there are.
    pub fn nth_execution(&self, wanted: impl Fn(u64) -> bool, nth: u64) -> Result<Execution, u64> {
        let mut hits = Hits::new(self, wanted);
        let mut before = 0;
        for (n, chunk) in self.chunks.iter().enumerate() {
            let here = hits.times(chunk);
            if before + here < nth {
                before += here;
                continue;
            }
            let mut list = Vec::new();
            self.visit(n..n + 1, |view, items| {
                for item in items {
                    hits.of(view, item, &mut list);
                }
                true
            });
            return Ok(list[(nth - before - 1) as usize]);
        }
        Err(before)
    }
}
