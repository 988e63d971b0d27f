//! Following the tape: where the stack is, and which call is being executed.
//!
//! Each call gets a *frame*, which is over when it returns, or when after an indirect jump the stack
//! pointer has passed the place of its return address. Where that was `longjmp` or an exception,
//! what is executed next has a frame of its own, which that jump began: it is the reason why control
//! came there.

use serde::{Deserialize, Serialize};
use tape::Event;

use crate::codes::Codes;
use crate::plan::Values;
use crate::terms::Node;

/// Number of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FrameId(pub u32);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Frame {
    pub parent: FrameId,
    /// The call, or what a signal interrupted.
    pub call: Node,
    /// Where the return address is; the frame is over when the stack is above that.
    pub slot: u64,
}

impl Frame {
    /// What nobody called.
    pub(crate) const FIRST: Frame = Frame {
        parent: FrameId(0),
        call: Node { step: 0, pc: 0 },
        slot: u64::MAX,
    };
}

/// The frames that are known where the reader is.
pub(crate) trait Frames {
    fn get(&self, f: FrameId) -> Frame;
    /// Frames are made in the order of their numbers.
    fn make(&mut self, frame: Frame);
}

/// The state of a reader between two records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reader {
    pub(crate) step: u64,
    /// The last instruction executed, or where the guest stood when the tracer had it.
    pc: u64,
    pub(crate) rsp: u64,
    pub(crate) rbp: u64,
    pub(crate) fs_base: u64,
    pub(crate) thread: u32,
    pub(crate) frame: FrameId,
    /// Number of the next frame.
    pub(crate) next: u32,
    /// The last instruction may have left the frame.
    left: bool,
    /// And it was a return.
    returned: bool,
    /// Frames of the threads that do not run.
    pub(crate) others: Vec<(u32, FrameId)>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Reader {
            step: 0,
            pc: 0,
            rsp: 0,
            rbp: 0,
            fs_base: 0,
            thread: 0,
            frame: FrameId(0),
            next: 1,
            left: false,
            returned: false,
            others: Vec::new(),
        }
    }

    /// Leaves the frames that are over.
    #[inline]
    pub(crate) fn pop(&mut self, frames: &mut impl Frames) {
        if !std::mem::take(&mut self.left) {
            return;
        }
        let frame = frames.get(self.frame);
        if self.rsp <= frame.slot {
            return;
        }
        if self.returned && self.rsp == frame.slot + 8 {
            self.frame = frame.parent;
            // Where a leap led into a function, that has two: from before it and from then on.
            while self.rsp > frames.get(self.frame).slot {
                self.frame = frames.get(self.frame).parent;
            }
            return;
        }
        self.leap(frames);
    }

    /// Leaves all frames that are over, otherwise than by returning from them.
    #[cold]
    fn leap(&mut self, frames: &mut impl Frames) {
        while self.rsp > frames.get(self.frame).slot {
            self.frame = frames.get(self.frame).parent;
        }
        let slot = frames.get(self.frame).slot;
        let by = Node {
            step: self.step - 1,
            pc: self.pc,
        };
        self.push(by, slot, frames);
    }

    fn push(&mut self, call: Node, slot: u64, frames: &mut impl Frames) {
        frames.make(Frame {
            parent: self.frame,
            call,
            slot,
        });
        self.frame = FrameId(self.next);
        self.next += 1;
    }

    /// Goes past a record; its length.
    #[inline]
    pub(crate) fn record(
        &mut self,
        codes: &Codes,
        bytes: &[u8],
        shape: u32,
        frames: &mut impl Frames,
    ) -> usize {
        self.pop(frames);
        let way = codes.way(shape);
        let values = Values {
            record: bytes,
            rsp: self.rsp,
            rbp: self.rbp,
            fs_base: self.fs_base,
            unit: way.unit,
        };
        if way.calls > 0 {
            let plan = codes.plan(shape);
            for &(i, slot) in &plan.calls[..way.calls as usize] {
                let call = Node {
                    step: self.step + u64::from(i),
                    pc: plan.steps[i as usize].pc,
                };
                self.push(call, values.get(slot), frames);
            }
        }
        (self.rsp, self.rbp) = (values.get(way.rsp), values.get(way.rbp));
        self.step += u64::from(way.executed);
        if let Some(last) = way.last {
            self.left = last.leaves;
            self.returned = last.returns;
            self.pc = last.pc;
        }
        way.record_len as usize
    }

    pub(crate) fn event(&mut self, event: &Event, frames: &mut impl Frames) {
        self.step += event.steps();
        match event {
            Event::State {
                thread,
                rsp,
                rbp,
                fs_base,
                pc,
            } => {
                if *thread != self.thread {
                    self.others.push((self.thread, self.frame));
                    let known = self.others.iter().position(|(t, _)| t == thread);
                    self.frame = known.map_or(FrameId(0), |i| self.others.remove(i).1);
                    self.thread = *thread;
                }
                (self.rsp, self.rbp, self.fs_base) = (*rsp, *rbp, *fs_base);
                if !self.left {
                    self.pc = *pc;
                }
            }
            Event::Signal { frame, .. } => {
                let here = Node {
                    step: self.step,
                    pc: self.pc,
                };
                self.push(here, frame.addr, frames);
            }
            Event::Exec => self.frame = FrameId(0),
            _ => {}
        }
    }
}
