//! Superblocks go on behind calls: functions that mean something are entered and left in the middle of records.
//!
//! What is between two such places is the program's usual doing, and there is much of it where such calls are frequent,
//! as those of `strlen` or `memcpy` are. So machine code is also made for what a record does from some instruction on,
//! if that comes often: its *tail*. Tails begin where the machine has dealt with a call and looks into what follows. A
//! tail ends where the next call is, or with the record.

use super::*;

/// What records of a shape do from an instruction on.
pub(super) struct Tail {
    insn: u8,
    /// How often it was wanted before it was made.
    met: u32,
    /// Once it was made.
    pub(super) fast: Option<Fast>,
    code: Option<jit::TailId>,
}

/// A tail that has machine code.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    pub(super) code: jit::TailId,
    /// Its number among those of the shape.
    pub(super) number: usize,
    /// The instruction that it begins with.
    pub(super) insn: u8,
}

impl Machine {
    /// The tail of a record from an instruction on, if there is machine code for it.
    pub(super) fn tail(&mut self, shape: usize, insn: u8, plan: &Plan) -> Option<Ready> {
        let code = self.code.as_mut()?;
        let Warm::Made(_, tails) = &mut self.fasts[shape] else {
            return None;
        };
        let known = tails.iter().position(|t| t.insn == insn);
        let number = known.unwrap_or(tails.len());
        if known.is_none() {
            tails.push(Tail {
                insn,
                met: 0,
                fast: None,
                code: None,
            });
        }
        let tail = &mut tails[number];
        if tail.fast.is_none() {
            tail.met += 1;
            if tail.met <= self.patience {
                return None;
            }
            let fast = Fast::of(plan, &self.shapes[shape].1, insn, self.trackers);
            // A call with something before it in its instruction is left to others, and then there is no such tail.
            if fast.way.handed != Some(insn) {
                tail.code = code.add_tail(shape as u32, &fast.way);
            }
            tail.fast = Some(fast);
        }
        let code = tail.code?;
        Some(Ready { code, number, insn })
    }
}
