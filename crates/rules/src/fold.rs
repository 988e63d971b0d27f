//! Conditions decided in advance, from what is known of every event of a class.
//!
//! This is what makes rules cheap. Almost every access of a program goes through a pointer to a block
//! that lives, inside of it, or through one of which nothing is known. If a condition is false for all
//! of these, the rule needs no look at them, and a detector is a comparison with two bounds. The
//! condition itself is evaluated only for the rest.

use crate::syntax::{Binary, PointKind};
use crate::term::{Checked, Field, Function, Kind, Slot, Term};

/// Accesses of which some things are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Through a pointer of which no block is known, to memory that is there and has been written.
    Untracked,
    /// Inside the block that the pointer came from, which lives; the memory has been written.
    Inside,
    /// Beside the block that the pointer came from, which lives.
    Beside,
    /// The block was freed.
    Dangling,
    /// At address zero, or close to it.
    Null,
    /// The memory was never written.
    Unwritten,
    /// Not an access, but a call with a pointer to the beginning of an allocation that lives and is not on the
    /// stack; if it is to free that, by a function of the right family.
    Owned,
}

impl Class {
    pub const ALL: [(Class, &'static str); 6] = [
        (Class::Untracked, "untracked"),
        (Class::Inside, "inside"),
        (Class::Beside, "beside"),
        (Class::Dangling, "dangling"),
        (Class::Null, "null"),
        (Class::Unwritten, "unwritten"),
    ];
}

/// The truth of a condition that is the same for everything.
pub(crate) fn constant(t: &Term) -> Option<bool> {
    Fold {
        class: None,
        pointer: None,
        frees: false,
    }
    .truth(t)
}

/// The truth of a rule's condition for all accesses of a class; `None` if it depends.
pub fn decide(rule: &Checked, class: Class) -> Option<bool> {
    let pointer = rule.arguments.first().copied().flatten();
    Fold {
        class: Some(class),
        pointer,
        frees: rule.point == PointKind::Free,
    }
    .truth(&rule.condition)
}

/// Whether calls with a pointer to the beginning of an allocation that lives need no look.
pub fn is_quiet_of_owned(rule: &Checked) -> bool {
    decide(rule, Class::Owned) == Some(false)
}

/// Whether the numbers that a function was called with make a condition false, whatever else is the case.
pub(crate) fn is_refuted(rule: &Checked, numbers: &[u64]) -> bool {
    Numbers { rule, numbers }.truth(&rule.condition) == Some(false)
}

/// Whether accesses of the two ordinary classes need no look.
pub fn is_quiet(rule: &Checked) -> bool {
    [Class::Untracked, Class::Inside]
        .iter()
        .all(|c| decide(rule, *c) == Some(false))
}

struct Fold {
    class: Option<Class>,
    pointer: Option<Slot>,
    /// The pointer is given to a function that frees it.
    frees: bool,
}

impl Fold {
    fn is_pointer(&self, t: &Term) -> bool {
        matches!(t, Term::Variable(s) if Some(*s) == self.pointer)
    }

    /// `Bid(r)` of the pointer at hand.
    fn is_block(&self, t: &Term) -> bool {
        matches!(t, Term::Apply(Function::Bid, list) if self.is_pointer(&list[0]))
    }

    fn truth(&self, t: &Term) -> Option<bool> {
        match t {
            Term::Truth(b) => Some(*b),
            Term::Not(inner) => self.truth(inner).map(|b| !b),
            Term::Binary(Binary::And, a, b) => match (self.truth(a), self.truth(b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Term::Binary(Binary::Or, a, b) => match (self.truth(a), self.truth(b)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Term::Binary(op, a, b) => self.compare(*op, a, b),
            Term::Apply(f @ (Function::Local | Function::Global | Function::Gone), list)
                if self.is_pointer(&list[0]) =>
            {
                match (f, self.class?) {
                    (_, Class::Untracked | Class::Null | Class::Owned) => Some(false),
                    (Function::Gone, Class::Inside | Class::Beside) => Some(false),
                    (Function::Gone, Class::Dangling) => Some(true),
                    _ => None,
                }
            }
            Term::Apply(Function::OnStack, list) if self.is_pointer(&list[0]) => {
                (self.class? == Class::Owned).then_some(false)
            }
            Term::Written => match self.class? {
                Class::Unwritten => Some(false),
                Class::Inside | Class::Untracked => Some(true),
                _ => None,
            },
            Term::Event {
                kind,
                time: Field::Any,
                fields,
                such,
                all: false,
                block: Some(block),
                ..
            } if self.is_block(block) => {
                let loose = matches!(&fields[0], Field::Any | Field::Is(_));
                let plain = matches!(**such, Term::Binary(Binary::Equal, ..));
                match (kind, self.class?) {
                    // Of a pointer without a block there is no event.
                    (_, Class::Untracked | Class::Null) => Some(false),
                    (Kind::Free, Class::Inside | Class::Beside | Class::Owned) => Some(false),
                    (
                        Kind::Malloc,
                        Class::Inside | Class::Beside | Class::Dangling | Class::Owned,
                    ) if loose && plain => Some(true),
                    (Kind::Free, Class::Dangling) if loose && plain => Some(true),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn number(&self, t: &Term) -> Option<i64> {
        match t {
            Term::Number(n) => Some(*n),
            Term::Binary(op, a, b) => {
                let (a, b) = (self.number(a)?, self.number(b)?);
                match op {
                    Binary::Plus => a.checked_add(b),
                    Binary::Minus => a.checked_sub(b),
                    Binary::Times => a.checked_mul(b),
                    Binary::BitAnd => Some(a & b),
                    Binary::BitOr => Some(a | b),
                    Binary::BitXor => Some(a ^ b),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn compare(&self, op: Binary, a: &Term, b: &Term) -> Option<bool> {
        if let (Some(x), Some(y)) = (self.number(a), self.number(b)) {
            return Some(match op {
                Binary::Equal => x == y,
                Binary::Unequal => x != y,
                Binary::Less => x < y,
                Binary::LessEqual => x <= y,
                Binary::Greater => x > y,
                _ => x >= y,
            });
        }
        let class = self.class?;
        let of = |f: Function, t: &Term| matches!(t, Term::Apply(g, list) if *g == f && self.is_pointer(&list[0]));
        let pointer = self.is_pointer(a);
        let tracked = !matches!(class, Class::Untracked | Class::Null);
        // The first page is never there, so an access that happened was elsewhere.
        if pointer && let Some(n) = self.number(b) {
            let elsewhere = class != Class::Null && (0..=4096).contains(&n);
            return match op {
                Binary::Equal if elsewhere && n < 4096 => Some(false),
                Binary::Unequal if elsewhere && n < 4096 => Some(true),
                Binary::Less | Binary::LessEqual if elsewhere && n < 4096 => Some(false),
                Binary::Less if elsewhere => Some(false),
                Binary::GreaterEqual if elsewhere => Some(true),
                _ => None,
            };
        }
        let begin = of(Function::Begin, b);
        let end = of(Function::End, b);
        if pointer && (begin || end) && !tracked {
            // There is no such value, and a comparison with it is false.
            return Some(false);
        }
        match (op, class) {
            (Binary::Less, Class::Inside) if pointer && begin => Some(false),
            (Binary::GreaterEqual, Class::Inside) if pointer && end => Some(false),
            (Binary::Greater, Class::Inside) if pointer && end => Some(false),
            (Binary::Equal, Class::Owned) if pointer && begin => Some(true),
            (Binary::Unequal, Class::Owned) if pointer && begin => Some(false),
            (Binary::Unequal, Class::Owned)
                if self.frees
                    && of(Function::Family, a)
                    && matches!(b, Term::Apply(Function::Releaser, _)) =>
            {
                Some(false)
            }
            _ => None,
        }
    }
}

/// What follows from the numbers that a point binds.
struct Numbers<'a> {
    rule: &'a Checked,
    numbers: &'a [u64],
}

impl Numbers<'_> {
    fn truth(&self, t: &Term) -> Option<bool> {
        match t {
            Term::Truth(b) => Some(*b),
            Term::Not(inner) => self.truth(inner).map(|b| !b),
            Term::Binary(Binary::And, a, b) => match (self.truth(a), self.truth(b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Term::Binary(Binary::Or, a, b) => match (self.truth(a), self.truth(b)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Term::Binary(op, a, b) => {
                let (x, y) = (self.number(a)? as i64, self.number(b)? as i64);
                match op {
                    Binary::Equal => Some(x == y),
                    Binary::Unequal => Some(x != y),
                    Binary::Less => Some(x < y),
                    Binary::LessEqual => Some(x <= y),
                    Binary::Greater => Some(x > y),
                    Binary::GreaterEqual => Some(x >= y),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn number(&self, t: &Term) -> Option<u64> {
        match t {
            Term::Number(n) => Some(*n as u64),
            Term::Variable(slot) => {
                let bound = self.rule.arguments.iter().zip(self.numbers);
                // What binds it last counts.
                let mut bound = bound.rev().filter(|(s, _)| **s == Some(*slot));
                bound.next().map(|(_, n)| *n)
            }
            Term::Binary(op, a, b) => {
                let (a, b) = (self.number(a)?, self.number(b)?);
                match op {
                    Binary::Plus => Some(a.wrapping_add(b)),
                    Binary::Minus => Some(a.wrapping_sub(b)),
                    Binary::Times => Some(a.wrapping_mul(b)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
