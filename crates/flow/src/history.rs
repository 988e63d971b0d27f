//! Who wrote a piece of memory, the latest first.

use tape::Event;

use crate::plan::Values;
use crate::roll::{FrameId, Item, Roll, What};
use crate::slice::Node;

/// An instruction, or the kernel for a system call, wrote to memory that was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    pub node: Node,
    pub frame: FrameId,
    pub thread: u32,
    /// What it wrote in all.
    pub addr: u64,
    pub len: u64,
}

impl Roll {
    /// Tells `f` of every write to `[addr, addr + len)` before `step`, until it returns false.
    pub fn writes(&self, addr: u64, len: u64, step: u64, mut f: impl FnMut(Write) -> bool) {
        let overlaps = |a: u64, n: u64| a < addr.saturating_add(len) && addr < a.saturating_add(n);
        // A call's effects are seen before the call itself.
        let mut open: Vec<(u32, u64, u64)> = Vec::new();
        self.backward(|item| {
            if item.step >= step {
                return true;
            }
            match item.what {
                What::Record { .. } => self.record_writes(item, step, &overlaps, &mut f),
                What::Event { piece, n } => match self.event(piece, n) {
                    Event::Leave { writes, .. } => {
                        let hit = writes.iter().find(|w| overlaps(w.addr, w.len));
                        if let Some(w) = hit {
                            open.push((item.thread, w.addr, w.len));
                        }
                        true
                    }
                    Event::Enter { pc, .. } => {
                        let mine = open.iter().position(|(t, ..)| *t == item.thread);
                        let Some(i) = mine else { return true };
                        let (thread, addr, len) = open.remove(i);
                        f(Write {
                            node: Node {
                                step: item.step,
                                pc: *pc,
                            },
                            frame: item.frame,
                            thread,
                            addr,
                            len,
                        })
                    }
                    _ => true,
                },
            }
        });
    }

    fn record_writes(
        &self,
        item: &Item,
        before: u64,
        overlaps: &dyn Fn(u64, u64) -> bool,
        f: &mut dyn FnMut(Write) -> bool,
    ) -> bool {
        let What::Record {
            piece,
            at,
            shape,
            rsp,
            rbp,
            fs_base,
            first_frame,
        } = item.what
        else {
            return true;
        };
        let plan = self.codes.plan(shape);
        let executed = self.codes.shape(shape).executed;
        let values = Values {
            record: self.values(piece, at),
            rsp,
            rbp,
            fs_base,
        };
        let mut stretches = Vec::new();
        for (i, spot) in plan.stores.iter().rev() {
            let step = item.step + u64::from(*i);
            if *i >= executed || step >= before {
                continue;
            }
            stretches.clear();
            spot.stretches(&values, &mut stretches);
            let Some(&(addr, len)) = stretches.iter().find(|(a, n)| overlaps(*a, *n)) else {
                continue;
            };
            let go_on = f(Write {
                node: Node {
                    step,
                    pc: plan.steps[*i as usize].pc,
                },
                frame: plan.frame_at(*i as usize, item.frame, first_frame),
                thread: item.thread,
                addr,
                len,
            });
            if !go_on {
                return false;
            }
        }
        true
    }
}
