//! Who wrote a piece of memory, the latest first.

use tape::Event;

use crate::reader::FrameId;
use crate::roll::{Item, Record, Roll, View, What};
use crate::terms::Node;

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
    pub fn writes(
        &self,
        addr: u64,
        len: u64,
        step: u64,
        mut f: impl FnMut(&View<'_>, Write) -> bool,
    ) {
        let overlaps = |a: u64, n: u64| a < addr.saturating_add(len) && addr < a.saturating_add(n);
        // A call's effects are seen before the call itself.
        let mut open: Vec<(u32, u64, u64)> = Vec::new();
        self.backward_from(step, |view, item| {
            if item.step >= step {
                return true;
            }
            match item.what {
                What::Record(r) => record_writes(view, item, &r, step, &overlaps, &mut f),
                What::Event(n) => match view.event(n) {
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
                        let node = Node {
                            step: item.step,
                            pc: *pc,
                        };
                        let write = Write {
                            node,
                            frame: item.frame,
                            thread,
                            addr,
                            len,
                        };
                        f(view, write)
                    }
                    _ => true,
                },
            }
        });
    }
}

fn record_writes(
    view: &View<'_>,
    item: &Item,
    record: &Record,
    before: u64,
    overlaps: &dyn Fn(u64, u64) -> bool,
    f: &mut dyn FnMut(&View<'_>, Write) -> bool,
) -> bool {
    let plan = view.codes().plan(record.shape);
    let executed = view.codes().shape(record.shape).executed;
    let values = view.values(record);
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
        let write = Write {
            node: Node {
                step,
                pc: plan.steps[*i as usize].pc,
            },
            frame: plan.frame_at(*i as usize, item.frame, record.first_frame),
            thread: item.thread,
            addr,
            len,
        };
        if !f(view, write) {
            return false;
        }
    }
    true
}
