//! Conditions decided in advance, from what is known of every event of a class.
//!
//! This is what makes rules cheap. Almost every access of a program goes through a pointer to a block
//! that lives, inside of it, or through one of which nothing is known. If a condition is false for all
//! of these, the rule needs no look at them, and a detector is a comparison with two bounds. The
//! condition itself is evaluated only for the rest.

use std::collections::HashMap;

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

/// Whether parts of a condition that have to hold together leave no number for something: `r < 4 && r > 8`.
pub(crate) fn contradicts_itself(t: &Term) -> bool {
    /// What can still be: from, to, and what not.
    type Left = (i64, i64, Vec<i64>);
    fn narrow(t: &Term, left: &mut HashMap<String, Left>) {
        let Term::Binary(op, a, b) = t else { return };
        if *op == Binary::And {
            narrow(a, left);
            narrow(b, left);
            return;
        }
        let plain = Fold {
            class: None,
            pointer: None,
            frees: false,
        };
        let turned = match op {
            Binary::Less => Binary::Greater,
            Binary::LessEqual => Binary::GreaterEqual,
            Binary::Greater => Binary::Less,
            Binary::GreaterEqual => Binary::LessEqual,
            same => *same,
        };
        let (of, op, n) = match (plain.number(a), plain.number(b)) {
            (None, Some(n)) => (a, *op, n),
            (Some(n), None) => (b, turned, n),
            _ => return,
        };
        let fresh = || (i64::MIN, i64::MAX, Vec::new());
        let (from, to, not) = left.entry(format!("{of:?}")).or_insert_with(fresh);
        match op {
            Binary::Equal => (*from, *to) = ((*from).max(n), (*to).min(n)),
            Binary::Unequal => not.push(n),
            Binary::Less => *to = (*to).min(n.saturating_sub(1)),
            Binary::LessEqual => *to = (*to).min(n),
            Binary::Greater => *from = (*from).max(n.saturating_add(1)),
            Binary::GreaterEqual => *from = (*from).max(n),
            _ => {}
        }
    }
    if let Term::Binary(Binary::Or, a, b) = t {
        return contradicts_itself(a) && contradicts_itself(b);
    }
    let mut left = HashMap::new();
    narrow(t, &mut left);
    let none = |(from, to, not): &Left| from > to || from == to && not.contains(from);
    left.values().any(none)
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

/// What has to be so of the numbers that a function is called with for a condition to be false, whatever else is the
/// case. Functions are called often, so it is a form that is quick to look at: anything that does not follow from the
/// numbers is left out.
#[derive(Debug)]
pub(crate) enum Refuted {
    Never,
    Always,
    /// A comparison that does not hold.
    Not(Comparison),
    /// One of these.
    Any(Box<[Refuted]>),
    All(Box<[Refuted]>),
}

#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    op: Binary,
    a: Number,
    b: Number,
}

#[derive(Clone, Debug)]
enum Number {
    /// A constant, and what the function was called with: up to two arguments, by number. It is what conditions are made
    /// of, and found out at each call.
    Short {
        constant: u64,
        arguments: [usize; 2],
    },
    Sum(Box<[Number; 2]>),
    Difference(Box<[Number; 2]>),
    Product(Box<[Number; 2]>),
}

/// No argument.
const ABSENT: usize = 6;

impl Refuted {
    pub(crate) fn of(rule: &Checked) -> Refuted {
        refuted(rule, &rule.condition, false)
    }

    /// One of these, which may be lists of such.
    fn any(list: [Refuted; 2]) -> Refuted {
        let mut flat = Vec::new();
        for one in list {
            match one {
                Refuted::Any(more) => flat.extend(more),
                one => flat.push(one),
            }
        }
        Refuted::Any(flat.into())
    }

    pub(crate) fn by(&self, numbers: &[u64; 6]) -> bool {
        match self {
            Refuted::Never => false,
            Refuted::Always => true,
            Refuted::Not(c) => !c.holds(numbers),
            Refuted::Any(list) => list.iter().any(|r| match r {
                Refuted::Not(c) => !c.holds(numbers),
                r => r.by(numbers),
            }),
            Refuted::All(list) => list.iter().all(|r| r.by(numbers)),
        }
    }
}

impl Comparison {
    #[inline]
    fn holds(&self, numbers: &[u64; 6]) -> bool {
        let (x, y) = (self.a.of(numbers) as i64, self.b.of(numbers) as i64);
        match self.op {
            Binary::Equal => x == y,
            Binary::Unequal => x != y,
            Binary::Less => x < y,
            Binary::LessEqual => x <= y,
            Binary::Greater => x > y,
            _ => x >= y,
        }
    }
}

impl Number {
    #[inline]
    fn of(&self, numbers: &[u64; 6]) -> u64 {
        match self {
            Number::Short {
                constant,
                arguments: [a, b],
            } => {
                let argument = |n: &usize| numbers.get(*n).copied().unwrap_or(0);
                constant.wrapping_add(argument(a)).wrapping_add(argument(b))
            }
            _ => self.long(numbers),
        }
    }

    fn long(&self, numbers: &[u64; 6]) -> u64 {
        match self {
            Number::Short { .. } => self.of(numbers),
            Number::Sum(p) => p[0].of(numbers).wrapping_add(p[1].of(numbers)),
            Number::Difference(p) => p[0].of(numbers).wrapping_sub(p[1].of(numbers)),
            Number::Product(p) => p[0].of(numbers).wrapping_mul(p[1].of(numbers)),
        }
    }
}

impl Number {
    fn constant(n: u64) -> Number {
        Number::Short {
            constant: n,
            arguments: [ABSENT; 2],
        }
    }

    fn sum(a: Number, b: Number) -> Number {
        let short = |n: &Number| match n {
            Number::Short {
                constant,
                arguments,
            } => Some((*constant, *arguments)),
            _ => None,
        };
        if let (Some((c, x)), Some((d, y))) = (short(&a), short(&b)) {
            let mut there = x.into_iter().chain(y).filter(|n| *n != ABSENT);
            let arguments = [(); 2].map(|()| there.next().unwrap_or(ABSENT));
            if there.next().is_none() {
                return Number::Short {
                    constant: c.wrapping_add(d),
                    arguments,
                };
            }
        }
        Number::Sum(Box::new([a, b]))
    }
}

/// When a condition is false, or true if that is asked for (`turned`).
fn refuted(rule: &Checked, t: &Term, turned: bool) -> Refuted {
    let both = |a: &Term, b: &Term| [a, b].map(|t| refuted(rule, t, turned));
    match t {
        Term::Truth(b) if *b == turned => Refuted::Always,
        Term::Not(inner) => refuted(rule, inner, !turned),
        Term::Binary(op @ (Binary::And | Binary::Or), a, b) => match (op, turned) {
            (Binary::And, false) | (Binary::Or, true) => Refuted::any(both(a, b)),
            _ => Refuted::All(both(a, b).into()),
        },
        Term::Binary(op, a, b) => {
            let op = match (op, turned) {
                (op, false) => *op,
                (Binary::Equal, true) => Binary::Unequal,
                (Binary::Unequal, true) => Binary::Equal,
                (Binary::Less, true) => Binary::GreaterEqual,
                (Binary::LessEqual, true) => Binary::Greater,
                (Binary::Greater, true) => Binary::LessEqual,
                (Binary::GreaterEqual, true) => Binary::Less,
                _ => return Refuted::Never,
            };
            let compares = matches!(
                op,
                Binary::Equal
                    | Binary::Unequal
                    | Binary::Less
                    | Binary::LessEqual
                    | Binary::Greater
                    | Binary::GreaterEqual
            );
            match (number(rule, a), number(rule, b)) {
                (Some(a), Some(b)) if compares => Refuted::Not(Comparison { op, a, b }),
                _ => Refuted::Never,
            }
        }
        _ => Refuted::Never,
    }
}

fn number(rule: &Checked, t: &Term) -> Option<Number> {
    match t {
        Term::Number(n) => Some(Number::constant(*n as u64)),
        Term::Variable(slot) => {
            // What binds it last counts.
            let n = rule.arguments.iter().rposition(|s| *s == Some(*slot))?;
            (n < ABSENT).then_some(Number::Short {
                constant: 0,
                arguments: [n, ABSENT],
            })
        }
        Term::Binary(op, a, b) => {
            let [a, b] = [number(rule, a)?, number(rule, b)?];
            match op {
                Binary::Plus => Some(Number::sum(a, b)),
                Binary::Minus => Some(Number::Difference(Box::new([a, b]))),
                Binary::Times => Some(Number::Product(Box::new([a, b]))),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::{Facts, Value, holds};
    use crate::heap::{Heap, NONE};

    #[test]
    fn what_is_refuted_does_not_hold() {
        let conditions = [
            "n > 0 && d != s && d < s + n && s < d + n",
            "!(n > 0 && d != s) || d < s + n",
            "!(d <= s || !(n * 2 >= s - d))",
            "d == 3 && !(s == n || OnStack(d))",
            "OnStack(d) && n > 4",
        ];
        let heap = Heap::new().expect("addresses");
        let (mut refuted, mut held) = (0, 0);
        for condition in conditions {
            let text = format!("[one] detect <Trace; call f d s n>: {condition}\n");
            let (compiled, _) = crate::compile(&text);
            let rule = &compiled.rules[0];
            let quick = Refuted::of(rule);
            for case in 0..6u64.pow(3) {
                let numbers = [case % 6, case / 6 % 6, case / 36, 0, 0, 0];
                let facts = Facts {
                    heap: &heap,
                    calls: &[],
                    step: 0,
                    releaser: "",
                    family: &|_| String::new(),
                    on_stack: &|_| true,
                    written: None,
                    contents: None,
                };
                let mut bindings = vec![None; rule.variables.len()];
                for (slot, n) in rule.arguments.iter().zip(numbers) {
                    if let Some(slot) = slot {
                        bindings[slot.0 as usize] = Some(Value::Number(n, NONE));
                    }
                }
                let truth = holds(rule, &mut bindings, &facts) == Some(true);
                assert!(!(truth && quick.by(&numbers)), "{condition} {numbers:?}");
                // Nothing but numbers is asked for: then it is refuted wherever it does not hold.
                if !condition.contains("OnStack") {
                    assert!(truth || quick.by(&numbers), "{condition} {numbers:?}");
                }
                refuted += u32::from(quick.by(&numbers));
                held += u32::from(truth);
            }
        }
        assert!(refuted > 100 && held > 100, "{refuted} {held}");
    }
}
