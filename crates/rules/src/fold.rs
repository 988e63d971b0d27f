//! Conditions decided in advance, from what is known of every event of a class.
//!
//! This is what makes rules cheap. Almost every access of a program goes through a pointer to a block
//! that lives, inside of it, or through one of which nothing is known. If a condition is false for all
//! of these, the rule needs no look at them, and a detector is a comparison with two bounds. The
//! condition itself is evaluated only for the rest.

use crate::syntax::Binary;
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
    }
    .truth(t)
}

/// The truth of a rule's condition for all accesses of a class; `None` if it depends.
pub fn decide(rule: &Checked, class: Class) -> Option<bool> {
    let pointer = rule.arguments.first().copied().flatten();
    Fold {
        class: Some(class),
        pointer,
    }
    .truth(&rule.condition)
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
                    (_, Class::Untracked | Class::Null) => Some(false),
                    (Function::Gone, Class::Inside | Class::Beside) => Some(false),
                    (Function::Gone, Class::Dangling) => Some(true),
                    _ => None,
                }
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
                    (Kind::Free, Class::Inside | Class::Beside) => Some(false),
                    (Kind::Malloc, Class::Inside | Class::Beside | Class::Dangling)
                        if loose && plain =>
                    {
                        Some(true)
                    }
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
            _ => None,
        }
    }
}
