//! Fig. 8, bottom: the error rules; and the leaks of Fig. 6, which are no errors of the machine but faults of
//! the program.

use crate::state::{Bid, Event, Region, State};
use crate::step::Point;
use crate::syntax::Value;

/// Why a state cannot go on: one for each error rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    UnmatchedFree,
    /// The paper counts it among the unmatched ones; the shipped rules have a name for it.
    StackFree,
    DoubleFree,
    DanglingDeref,
    NullDeref,
    /// The figure has one rule for both sides.
    Overflow,
    Underflow,
    UninitialisedRead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leak {
    Possible,
    Definite,
    Transaction,
}

/// Addresses this close to NULL are not used, so that a field of a structure at NULL is seen as well.
const NEAR_NULL: std::ops::Range<i64> = 0..4096;

impl Class {
    pub const ALL: [Class; 8] = [
        Class::UnmatchedFree,
        Class::StackFree,
        Class::DoubleFree,
        Class::DanglingDeref,
        Class::NullDeref,
        Class::Overflow,
        Class::Underflow,
        Class::UninitialisedRead,
    ];

    /// The shipped rule that has to see it.
    pub fn rule(self) -> &'static str {
        match self {
            Class::UnmatchedFree => "unmatched_free",
            Class::StackFree => "stack_free",
            Class::DoubleFree => "double_free",
            Class::DanglingDeref => "dangling_deref",
            Class::NullDeref => "null_deref",
            Class::Overflow => "heap_overflow",
            Class::Underflow => "heap_underflow",
            Class::UninitialisedRead => "uninitialised_read",
        }
    }
}

impl Leak {
    pub fn rule(self) -> &'static str {
        match self {
            Leak::Possible => "possible_leak",
            Leak::Definite => "definite_leak",
            Leak::Transaction => "transaction_leak",
        }
    }
}

impl State {
    /// The error rule that applies before this reduction, if one does.
    pub(crate) fn error(&self, point: &Point) -> Option<Class> {
        match point {
            Point::Free(v) => self.error_of_free(v),
            Point::Read(v) => self.error_of_access(v, true),
            Point::Write(v, _) => self.error_of_access(v, false),
            _ => None,
        }
    }

    fn error_of_free(&self, value: &Value) -> Option<Class> {
        // free(NULL) does nothing.
        if *value == Value::Number(0) {
            return None;
        }
        let Some(p) = self.pointer(value) else {
            return Some(Class::UnmatchedFree);
        };
        match p.bid.region {
            Region::Stack => Some(Class::StackFree),
            Region::Global => Some(Class::UnmatchedFree),
            Region::Heap if self.freed.contains(&p.bid) => Some(Class::DoubleFree),
            Region::Heap => (p.index != 0).then_some(Class::UnmatchedFree),
        }
    }

    fn error_of_access(&self, value: &Value, reads: bool) -> Option<Class> {
        if let Value::Number(n) = value {
            return NEAR_NULL.contains(n).then_some(Class::NullDeref);
        }
        let p = self.pointer(value)?;
        let heap = p.bid.region == Region::Heap;
        if heap && self.freed.contains(&p.bid) {
            return Some(Class::DanglingDeref);
        }
        match self.block(p.bid)?.at(p.index) {
            Some(None) if reads => Some(Class::UninitialisedRead),
            Some(_) => None,
            None if !heap => None,
            None if p.index < 0 => Some(Class::Underflow),
            None => Some(Class::Overflow),
        }
    }

    /// The leaks that are there before this reduction, which must be a return.
    pub fn leaks(&self, point: &Point) -> Vec<(Leak, Vec<Bid>)> {
        let Point::Ret(z, value) = point else {
            return Vec::new();
        };
        let live = self.heap.iter();
        let mut out: Vec<(Leak, Vec<Bid>)> = Vec::new();
        if z == "main" {
            let kept = self.kept(Some(value));
            let all: Vec<Bid> = self.heap.keys().copied().collect();
            let lost = all.iter().filter(|b| !kept.contains(b)).copied().collect();
            out.push((Leak::Possible, all));
            out.push((Leak::Definite, lost));
        } else {
            // FindLast(k, call, z, _)
            let called = self.trace.iter().rev().find_map(|t| match &t.event {
                Event::Call(name, _) if name == z => Some(t.time),
                _ => None,
            });
            let inside = live.filter(|(_, b)| called.is_some_and(|k| b.time > k));
            let list = inside.map(|(bid, _)| *bid).collect();
            out.push((Leak::Transaction, list));
        }
        out.retain(|(_, list)| !list.is_empty());
        out
    }
}
