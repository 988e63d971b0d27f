//! Units in registers.
//!
//! What an operation makes is nearly always used by one of the next, and to put it to memory and fetch it again takes
//! as long as many an operation. So registers that no anchor needs hold units: those that were made, and those that are
//! used more than once. What was made is put to its place only if its register is needed, or if the code stops in the
//! middle of the way: at its end temporaries are of no use to anybody.

use super::{ANCHORS, Maker, unit};
use crate::emit::{R64, rax};
use crate::ways::{Kind, Op};

#[derive(Clone, Copy)]
struct One {
    unit: u16,
    /// Memory does not have it.
    dirty: bool,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Held {
    all: [Option<One>; ANCHORS.len()],
    /// Registers before this one are anchors.
    first: usize,
}

impl Held {
    /// None yet, in all registers but those of so many anchors.
    pub(super) fn beside(anchors: usize) -> Held {
        Held {
            first: anchors,
            ..Held::default()
        }
    }

    /// What memory does not have.
    pub(super) fn dirty(&self) -> Vec<(R64, u16)> {
        let all = ANCHORS.into_iter().zip(self.all);
        all.filter_map(|(r, one)| one.filter(|o| o.dirty).map(|o| (r, o.unit)))
            .collect()
    }

    /// A unit is something else from here on.
    pub(super) fn forget(&mut self, unit: u16) {
        for one in &mut self.all {
            one.take_if(|o| o.unit == unit);
        }
    }

    fn find(&self, unit: u16) -> Option<R64> {
        let n = self
            .all
            .iter()
            .position(|o| o.is_some_and(|o| o.unit == unit))?;
        Some(ANCHORS[n])
    }
}

impl Op {
    /// It uses what is known of a unit.
    fn uses(&self, unit: u16) -> bool {
        let (two, stores) = match self.kind {
            Kind::Pointer | Kind::Arith(_) | Kind::Select => (true, false),
            Kind::Store | Kind::CheckedStore => (false, true),
            _ => (false, false),
        };
        (two || self.kind.is_checked()) && self.pointer == unit
            || two && self.other == unit
            || stores && self.value == unit
    }
}

impl Maker<'_> {
    /// A register with what is known of a unit: where it is held, or the one that is given.
    pub(super) fn source(&mut self, to: R64, n: u16) -> R64 {
        if let Some(register) = self.held.find(n) {
            return register;
        }
        let free = (self.held.first..ANCHORS.len()).find(|r| self.held.all[*r].is_none());
        if let Some(r) = free.filter(|_| self.next_use(n).is_some_and(|at| at < self.way.ops.len()))
        {
            self.a.mov(ANCHORS[r], unit(n));
            self.held.all[r] = Some(One {
                unit: n,
                dirty: false,
            });
            return ANCHORS[r];
        }
        self.a.mov(to, unit(n));
        to
    }

    /// rax is what is known of a unit from here on.
    pub(super) fn made(&mut self, n: u16) {
        self.held.forget(n);
        match self.room().filter(|_| self.next_use(n).is_some()) {
            Some(r) => {
                self.a.mov(ANCHORS[r], rax);
                self.held.all[r] = Some(One {
                    unit: n,
                    dirty: true,
                });
            }
            None => self.a.mov(unit(n), rax),
        }
    }

    /// A register, without what it has held: the one that is used last of all.
    fn room(&mut self) -> Option<usize> {
        let when = |r: &usize| match self.held.all[*r] {
            None => usize::MAX,
            Some(one) => self.next_use(one.unit).unwrap_or(usize::MAX - 1),
        };
        let r = (self.held.first..ANCHORS.len()).max_by_key(when)?;
        if let Some(one) = self.held.all[r].take().filter(|o| o.dirty) {
            self.a.mov(unit(one.unit), ANCHORS[r]);
        }
        Some(r)
    }

    /// The operation after the one at hand that uses a unit; behind the last one the end of the way does.
    fn next_use(&self, n: u16) -> Option<usize> {
        let ops = self.way.ops.iter().enumerate().skip(self.now + 1);
        let used = ops.into_iter().find(|(_, op)| op.uses(n)).map(|(at, _)| at);
        let end = || self.way.ends.iter().any(|(_, value)| *value == n);
        used.or_else(|| end().then_some(self.way.ops.len()))
    }
}
