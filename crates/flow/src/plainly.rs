//! One executed instruction, as the plain walk goes through it.

use image::effects::RegRange;
use tape::Term;

use crate::plan::{Step, Values};
use crate::reader::FrameId;
use crate::roll::View;
use crate::slice::{Shown, Slicer};
use crate::step::{Piece, State};
use crate::terms::{Edges, Kind, Node, Omission};
use crate::wanted::{Each, Taken, Took, Wants};

/// The instruction at hand.
pub(crate) struct Here<'a> {
    pub(crate) view: &'a View<'a>,
    pub(crate) insn: &'a Step,
    pub(crate) values: &'a Values<'a>,
    pub(crate) step: u64,
    pub(crate) frame: FrameId,
    /// The frame that it begins, if it is a call.
    pub(crate) callee: Option<FrameId>,
    /// rbp, if it matters and is known.
    pub(crate) rbp: Option<u64>,
}
/// An instruction by itself.
pub(crate) struct Plainly<'s, 'a, 'v, E> {
    pub(crate) slicer: &'s mut Slicer<'a, E>,
    pub(crate) here: Here<'v>,
    /// Who it is shown as is worked out when it is known to be in the slice.
    pub(crate) shown: Option<Shown>,
}

impl<E: Edges> Plainly<'_, '_, '_, E> {
    fn real(&self) -> Node {
        Node {
            step: self.here.step,
            pc: self.here.insn.pc,
        }
    }

    fn shown(&mut self) -> Shown {
        let (real, here) = (self.real(), &self.here);
        *self.shown.get_or_insert_with(|| {
            let id = Some(here.insn.id);
            self.slicer.shown(here.view, real, id, here.frame)
        })
    }

    fn edges(&mut self, answered: &[Wants], kind: Kind) {
        let to = self.shown();
        for w in answered {
            self.slicer.edge(*w, kind, to);
        }
    }

    /// Whether the branch might have led to a write of something wanted.
    fn is_relevant(&mut self, answered: &mut Vec<Wants>) -> bool {
        let mut relevant = false;
        for &Omission { local, at, len } in self.slicer.omitted(self.here.insn).iter() {
            let base = if local { self.here.rbp } else { Some(0) };
            let Some(base) = base else { continue };
            let addr = base.wrapping_add(at);
            answered.clear();
            self.slicer.memory.peek(addr, len, answered);
            if !answered.is_empty() {
                relevant = true;
                self.edges(answered, Kind::Omitted { addr, len });
            }
        }
        relevant
    }
}

impl<E: Edges> State for Plainly<'_, '_, '_, E> {
    type Wish = Wants;

    fn is_asked(&mut self) -> bool {
        let (s, slicer) = (self.here.insn, &mut *self.slicer);
        let mut inside = slicer.has_root(self.here.step, self.here.step + 1);
        let mut answered = std::mem::take(&mut slicer.answered);
        answered.clear();
        if s.may_branch {
            slicer.asked.branch(self.here.frame, s.pc, &mut answered);
        }
        if let Some(callee) = self.here.callee {
            slicer.asked.call(callee, &mut answered);
        }
        if !answered.is_empty() {
            inside = true;
            self.edges(&answered, Kind::Control);
        }
        if s.may_branch && self.slicer.options.relevant {
            inside |= self.is_relevant(&mut answered);
        }
        self.slicer.answered = answered;
        inside
    }

    fn moved(&mut self, condition: Term) -> bool {
        self.here.values.get(condition) & 1 != 0
    }

    fn take_register(&mut self, r: RegRange, out: &mut Taken) {
        self.slicer.registers().take(r, out);
    }

    fn take_memory(&mut self, at: Piece<'_>, len: u64, out: &mut Taken) {
        self.slicer.memory.take(at.addr, len, out);
    }

    fn pass_register(&mut self, r: RegRange, took: &Took) {
        self.slicer.registers().pass(r, took, &mut Each(E::EACH));
    }

    fn pass_memory(&mut self, at: Piece<'_>, took: &Took) {
        self.slicer.memory.pass(at.addr, took, Each(E::EACH));
    }

    fn found(&mut self, taken: &Taken) {
        let to = self.shown();
        self.slicer.edges_from(taken, to);
    }

    fn include(&mut self) {
        let shown = self.shown();
        let (real, id, frame) = (self.real(), self.here.insn.id, self.here.frame);
        self.slicer.include(real, id, shown, frame);
    }

    fn want_register(&mut self, r: RegRange) {
        let shown = self.shown();
        self.slicer.want_register(r, shown);
    }

    fn want_memory(&mut self, at: Piece<'_>, len: u64) {
        let shown = self.shown();
        self.slicer.want_memory(at.addr, len, shown);
    }
}
