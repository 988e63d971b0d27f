//! Watching what every instruction of some code works on.

use crate::Error;
use crate::engine::Engine;
use crate::layout::{seen, slot};
use crate::replay::{Halt, Replay, Until};

/// Records that a stretch leaves free: an instruction that is retried is logged twice.
const SLACK: u64 = 1024;

/// An instruction that is about to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub pc: u64,
    pub step: u64,
    /// What its memory operand holds, as an unsigned number, if it has one of 1, 2, 4 or 8 bytes.
    pub memory: u64,
    /// The general registers by hardware number, rax first.
    pub regs: [u64; 16],
    /// What its memory operand holds when it is done, if it writes it.
    pub after: u64,
}

impl Engine {
    /// Logs the execution of code in `ranges` from here on, or of nothing any more.
    fn set_observed(&mut self, ranges: Vec<(u64, u64)>) {
        self.observed = ranges;
        self.cache.clear();
    }

    fn rewind_log(&mut self) -> Result<(), Error> {
        let at = self.cache.layout.ring() + seen::BIAS as u64;
        self.set_slot(slot::OBSERVE_AT, at)
    }

    /// Passes on what was logged since the log was rewound.
    fn drain_log(&mut self, f: &mut dyn FnMut(&Seen)) -> Result<(), Error> {
        let ring = self.cache.layout.ring();
        let end = self.slot(slot::OBSERVE_AT)? - seen::BIAS as u64;
        let mut bytes = vec![0; (end - ring) as usize];
        self.cache.read_shared(ring, &mut bytes);
        let mut words = bytes
            .chunks_exact(8)
            .map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")));
        let mut last: Option<Seen> = None;
        while let Some(pc) = words.next() {
            let mut next = || words.next().unwrap_or(0);
            let this = Seen {
                pc,
                step: next(),
                memory: next(),
                regs: std::array::from_fn(|_| next()),
                after: next(),
            };
            if let Some(last) = last.replace(this)
                && last.step != this.step
            {
                f(&last);
            }
        }
        if let Some(last) = last {
            f(&last);
        }
        self.rewind_log()
    }
}

impl Replay {
    /// Runs to the end, or to a step, and shows each execution of an instruction in `code` (ranges
    /// of addresses) on the way, in order. Costs some tens of nanoseconds for each.
    pub fn observe(
        &mut self,
        code: &[(u64, u64)],
        until: Option<u64>,
        f: &mut dyn FnMut(&Seen),
    ) -> Result<Halt, Error> {
        let mut ranges = code.to_vec();
        ranges.sort_unstable();
        self.engine.set_observed(ranges);
        let result = self.run_observed(until, f);
        self.engine.set_observed(Vec::new());
        result
    }

    fn run_observed(
        &mut self,
        until: Option<u64>,
        f: &mut dyn FnMut(&Seen),
    ) -> Result<Halt, Error> {
        let room = self.engine.cache.layout.ring_size() / seen::SIZE as u64 - SLACK;
        self.engine.rewind_log()?;
        loop {
            let goal = self.step()?.saturating_add(room);
            let goal = until.map_or(goal, |u| u.min(goal));
            let halt = self.run(&Until::step(goal))?;
            self.engine.drain_log(f)?;
            if halt != Halt::Step || until.is_some_and(|u| goal >= u) {
                return Ok(halt);
            }
        }
    }
}
