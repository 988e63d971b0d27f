//! Last writers against the obvious way: every instruction, every byte, ordinary maps.

use std::collections::BTreeMap;

use flow::{Roll, Step, What};
use image::effects::{self, RegRange, SIZE};
use tape::Event;

#[derive(Default)]
struct Plain {
    /// By thread and cell.
    registers: BTreeMap<(u32, u16), u64>,
    /// By address, of eight bytes.
    memory: BTreeMap<u64, u64>,
    /// The last system call of each thread.
    calls: BTreeMap<u32, u64>,
}

impl Plain {
    fn register(&mut self, thread: u32, r: RegRange, step: u64) {
        for byte in r.at..r.end() {
            self.registers.insert((thread, byte / 8), step);
        }
    }

    fn memory(&mut self, addr: u64, len: u64, step: u64) {
        for addr in addr..addr + len {
            self.memory.insert(addr & !7, step);
        }
    }

    fn of(roll: &Roll, before: u64) -> Plain {
        let mut plain = Plain::default();
        roll.forward(|view, item| {
            let (step, thread) = (item.step, item.thread);
            match item.what {
                What::Record(record) => {
                    if step >= before {
                        return false;
                    }
                    let executed = roll.codes.shape(record.shape).executed as usize;
                    let steps = &roll.codes.plan(record.shape).steps[..executed];
                    for (step, insn) in (step..before).zip(steps) {
                        for r in insn.effects.registers_written() {
                            plain.register(thread, r, step);
                        }
                        let mut list = Vec::new();
                        for spot in insn.spots.iter().filter(|s| s.access.writes) {
                            spot.stretches(&view.values(&record), &mut list);
                        }
                        for (addr, len) in list {
                            plain.memory(addr, len, step);
                        }
                    }
                }
                What::Event(n) => match view.event(n) {
                    event if step + event.steps() > before => return false,
                    Event::Enter { .. } => {
                        plain.calls.insert(thread, step);
                        plain.register(thread, effects::RCX, step);
                        plain.register(thread, effects::R11, step);
                    }
                    Event::Leave { writes, .. } => {
                        let call = plain.calls.get(&thread).copied().unwrap_or(step);
                        plain.register(thread, effects::RAX, call);
                        for w in writes {
                            plain.memory(w.addr, w.len, call);
                        }
                    }
                    Event::Special(insn) => {
                        for r in Step::of(insn, &[]).effects.registers_written() {
                            plain.register(thread, r, step);
                        }
                    }
                    Event::Signal { frame, .. } => plain.memory(frame.addr, frame.len, step),
                    Event::Outside { writes } => {
                        for w in writes {
                            plain.memory(w.addr, w.len, step);
                        }
                    }
                    Event::State { .. } | Event::Followed(_) | Event::Exec => {}
                },
            }
            true
        });
        plain
    }
}

/// Compares the two before the first instruction, behind the last one, and at steps in between, which are mostly
/// in the middle of records.
#[track_caller]
pub(crate) fn check(roll: &Roll, threads: &[u32]) {
    let first = roll.first_step();
    let len = roll.end_step() - first;
    let between = (1..4).map(|n| first + len * n / 4 + n);
    for step in between.chain([first, first + 1, u64::MAX]) {
        let (quick, plain) = (roll.last_writers(step), Plain::of(roll, step));
        let written: BTreeMap<u64, u64> = quick.written().collect();
        assert_eq!(written, plain.memory, "memory before step {step}");
        for (addr, step) in plain.memory {
            assert_eq!(quick.memory(addr + 7), Some(step), "memory at {addr:#x}");
        }
        for (thread, cell) in threads.iter().flat_map(|t| (0..SIZE / 8).map(|c| (*t, c))) {
            let at = RegRange {
                at: 8 * cell,
                len: 8,
            };
            let expected = plain.registers.get(&(thread, cell)).copied();
            let found = quick.register(thread, at);
            assert_eq!(found, expected, "{at:?} of {thread} before step {step}");
        }
    }
}
