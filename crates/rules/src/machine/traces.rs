//! Records that often follow each other.
//!
//! Most of what is done for a record has to do with its beginning and its end: finding its code, fetching what is known
//! of registers and putting it back, finding the cells of the stack. Where records come in the same order over and
//! over, as in loops, machine code is made for several at once, a *trace*. What comes is on the tape already, so such
//! code first looks whether it is the trace, and then goes through all of it: it is never left because the program
//! goes elsewhere.
//!
//! Which records follow each other is found by looking at a few of each piece of tape.

use super::*;

/// Records of a piece of tape that are looked at.
const SAMPLE: usize = 4096;
/// After so many it is looked which traces there are.
const ENOUGH: u32 = 4 * SAMPLE as u32;
/// One in so many records is worth a trace.
const SHARE: u32 = 256;
/// Records of a trace.
const LONGEST: usize = 8;
/// And of a shorter one, for where the longer one is not gone through.
const SHORT: usize = 2;
/// Traces; there are not many loops in which a program spends its time.
const MOST: usize = 4096;
/// Pieces of tape between two that are looked at, once all is known of the first ones.
const PAUSE: u32 = 8;

#[derive(Default)]
pub(super) struct Traces {
    /// All that there are, by number.
    pub(super) made: Vec<Fast>,
    /// Shapes that traces begin with, or cannot.
    heads: FxHashSet<u32>,
    /// How often each shape was seen, and which one after it.
    seen: FxHashMap<u32, u32>,
    followed: FxHashMap<(u32, u32), u32>,
    sampled: u32,
    pieces: u32,
    /// Those that were looked at and nothing came of it.
    vain: u32,
}

impl Machine {
    /// Looks at the first records of a piece of tape.
    pub(super) fn sample(&mut self, tape: &Part<'_>) {
        if self.code.is_none() || self.lost || self.traces.made.len() >= MOST {
            return;
        }
        self.traces.pieces += 1;
        let every = 1 + PAUSE * self.traces.vain.min(4);
        if !self.traces.pieces.is_multiple_of(every) {
            return;
        }
        let mut last = None;
        let mut at = 0;
        for _ in 0..SAMPLE {
            let Some(head) = tape.records.get(at..at + 4) else {
                break;
            };
            let number = u32::from_le_bytes(head.try_into().expect("four bytes"));
            let Some((_, shape)) = self.shapes.get(number as usize) else {
                break;
            };
            at += shape.record_len();
            *self.traces.seen.entry(number).or_default() += 1;
            if let Some(last) = last.replace(number) {
                *self.traces.followed.entry((last, number)).or_default() += 1;
            }
            self.traces.sampled += 1;
        }
        if self.traces.sampled >= ENOUGH {
            self.find_traces();
        }
    }

    /// Makes traces of what was seen.
    fn find_traces(&mut self) {
        let seen = std::mem::take(&mut self.traces.seen);
        let followed = std::mem::take(&mut self.traces.followed);
        let least = std::mem::take(&mut self.traces.sampled) / SHARE;
        // The one that comes after another more often than not.
        let mut next: FxHashMap<u32, u32> = FxHashMap::default();
        for ((from, to), times) in &followed {
            if 2 * times > seen[from] {
                next.insert(*from, *to);
            }
        }
        let known = self.traces.made.len();
        let mut heads: Vec<u32> = seen
            .iter()
            .filter(|(_, n)| **n >= least)
            .map(|(n, _)| *n)
            .collect();
        heads.sort_unstable();
        for head in heads {
            if self.traces.heads.contains(&head) {
                continue;
            }
            let mut list = vec![head];
            while list.len() < LONGEST
                && let Some(to) = next.get(list.last().expect("there is one"))
            {
                list.push(*to);
            }
            // What was not met often enough yet may be later.
            if self.has_code(head) {
                self.traces.heads.insert(head);
                if list.len() > SHORT {
                    self.trace(&list[..SHORT]);
                }
                self.trace(&list);
            }
        }
        self.traces.vain = match self.traces.made.len() > known {
            true => 0,
            false => self.traces.vain + 1,
        };
    }

    /// There is machine code for records of a shape.
    fn has_code(&self, shape: u32) -> bool {
        matches!(&self.fasts[shape as usize], Warm::Made(fast) if fast.way.usable)
    }

    /// Makes a trace of records of these shapes, up to where there is no code for them or others take over.
    pub(super) fn trace(&mut self, shapes: &[u32]) {
        let goes_on = |n: &&u32| match &self.fasts[**n as usize] {
            Warm::Made(fast) => {
                fast.way.usable
                    && fast.way.handed.is_none()
                    && fast.way.rsp.is_some()
                    && fast.way.rbp.is_some()
            }
            Warm::Met(_) => false,
        };
        let fitting = shapes.iter().take_while(goes_on);
        let mut list = Vec::new();
        for n in fitting.take(jit::MOST_PARTS) {
            let (plan, shape) = &self.shapes[*n as usize];
            let plan = self.plans[*plan as usize].as_deref();
            list.push((*n, plan.expect("its code was made by it"), shape));
        }
        while list.len() > 1 {
            let fast = Fast::over(&list, self.trackers);
            if !fast.way.usable {
                // There is too much in it.
                list.pop();
                continue;
            }
            let number = self.traces.made.len() as u32;
            if let Some(code) = &mut self.code
                && code.add_trace(list[0].0, number, &fast.way)
            {
                self.traces.made.push(fast);
            }
            return;
        }
    }
}
