//! Units in registers.
//!
//! What an operation makes is nearly always used by one of the next, and to put it to memory and fetch it again takes
//! as long as many an operation. So registers hold units, those that were made and those that are
//! used more than once, and the first cells of anchors. Where there are more of them than registers, those are in memory that
//! are used last. What was made is put to its place only if its register is needed, or if the code stops in the
//! middle of the way: at its end temporaries are of no use to anybody.

use super::{HOLDERS, Maker, first_cell, unit};
use crate::emit::{R64, rax, rcx};
use crate::ways::{Kind, Op, ROOM};

#[derive(Clone, Copy)]
struct One {
    unit: u16,
    /// Memory does not have it.
    dirty: bool,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Held {
    all: [Option<One>; HOLDERS.len()],
}

impl Held {
    /// What memory does not have and others ask for.
    pub(super) fn dirty(&self) -> Vec<(R64, u16)> {
        let all = HOLDERS.into_iter().zip(self.all);
        let asked = |one: &One| one.dirty && usize::from(one.unit) < ROOM;
        all.filter_map(|(r, one)| one.filter(asked).map(|o| (r, o.unit)))
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
        Some(HOLDERS[n])
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
        let free = self.held.all.iter().position(Option::is_none);
        if let Some(r) = free.filter(|_| self.next_use(n) < self.way.ops.len()) {
            self.hold(r, n);
            return HOLDERS[r];
        }
        self.a.mov(to, unit(n));
        to
    }

    /// A register with the first cell of an anchor: where it is held, or rcx. Another may have to leave its register, so
    /// where the code may stop is said after this.
    pub(super) fn source_of_cells(&mut self, anchor: usize) -> R64 {
        let n = first_cell(anchor);
        if let Some(register) = self.held.find(n) {
            return register;
        }
        let next = self.next_use(n);
        if next < self.way.ops.len()
            && let Some(r) = self.room(next)
        {
            self.hold(r, n);
            return HOLDERS[r];
        }
        self.a.mov(rcx, unit(n));
        rcx
    }

    /// Has a register hold what memory has of a unit.
    fn hold(&mut self, r: usize, n: u16) {
        self.a.mov(HOLDERS[r], unit(n));
        self.held.all[r] = Some(One {
            unit: n,
            dirty: false,
        });
    }

    /// rax is what is known of a unit from here on.
    pub(super) fn made(&mut self, n: u16) {
        self.held.forget(n);
        match self.room(self.next_use(n)) {
            Some(r) => {
                self.a.mov(HOLDERS[r], rax);
                self.held.all[r] = Some(One {
                    unit: n,
                    dirty: true,
                });
            }
            None => self.a.mov(unit(n), rax),
        }
    }

    /// A register, without what it has held, for something that is used next by this operation: the one of what is used last
    /// of all. None if that is the something.
    fn room(&mut self, next: usize) -> Option<usize> {
        let when = |r: &usize| match self.held.all[*r] {
            None => NEVER + 1,
            Some(one) => self.next_use(one.unit),
        };
        let r = (0..HOLDERS.len()).max_by_key(when)?;
        if when(&r) <= next {
            return None;
        }
        if let Some(one) = self.held.all[r].take().filter(|o| o.dirty) {
            self.a.mov(unit(one.unit), HOLDERS[r]);
        }
        Some(r)
    }

    /// The next operation that uses a unit; behind the last one the end of the way does.
    fn next_use(&self, n: u16) -> usize {
        let near = usize::from(n).checked_sub(ROOM);
        let uses = |at: &usize| match near {
            None => self.way.ops[*at].uses(n),
            Some(anchor) => self.nears[*at].is_some_and(|near| near.anchor == anchor),
        };
        let ops = self.upcoming..self.way.ops.len();
        let ends = || self.way.ends.iter().any(|(_, value)| *value == n);
        match ops.into_iter().find(uses) {
            Some(at) => at,
            None if ends() => self.way.ops.len(),
            None => NEVER,
        }
    }
}

/// It is not used any more.
const NEVER: usize = usize::MAX - 1;
