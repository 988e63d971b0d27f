//! Conditions with their names resolved: what is evaluated.

use crate::syntax::{Binary, Pattern, PointKind};

/// A variable of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Bid,
    Idx,
    Begin,
    End,
    Size,
    Time,
    Value,
    Block,
    Family,
    Releaser,
    OnStack,
    Local,
    Global,
    Gone,
}

#[derive(Clone, Debug)]
pub enum Field {
    Any,
    /// Matches if it has this value; a variable without one gets it.
    Is(Slot),
    Equals(Box<Term>),
}

#[derive(Clone, Debug)]
pub enum Kind {
    Malloc,
    Free,
    Call(Pattern),
    Ret(Pattern),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Allocations that live.
    Heap,
    /// Allocations that were freed.
    Freed,
    /// Local variables of functions that run.
    Stack,
}

#[derive(Clone, Debug)]
pub enum Term {
    Number(i64),
    Text(String),
    Truth(bool),
    Variable(Slot),
    Apply(Function, Vec<Term>),
    Not(Box<Term>),
    Binary(Binary, Box<Term>, Box<Term>),
    /// There is such an event in the trace. The first that matches binds the variables, or the last.
    Event {
        kind: Kind,
        time: Field,
        fields: Vec<Field>,
        such: Box<Term>,
        /// All events are to be like that instead.
        all: bool,
        last: bool,
        /// The condition asks for this block, so there is no need to look at others.
        block: Option<Box<Term>>,
    },
    /// The memory that is accessed has been written before.
    Written,
    Blocks {
        all: bool,
        set: Set,
        variable: Slot,
        such: Box<Term>,
    },
    /// Some pointer that the program still has leads to this block.
    Pointed(Box<Term>),
}

/// A rule, ready to run.
#[derive(Clone, Debug)]
pub struct Checked {
    pub name: String,
    pub about: String,
    pub point: PointKind,
    pub function: Option<Pattern>,
    /// The variables that the point binds.
    pub arguments: Vec<Option<Slot>>,
    /// Names of all variables.
    pub variables: Vec<String>,
    pub condition: Term,
    pub chains: Vec<Slot>,
    /// As it is written.
    pub source: String,
}

/// A pair of functions that the user declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub allocate: String,
    /// Positions of the parameters whose product is the size.
    pub size: Vec<u8>,
    pub release: String,
    pub pointer: u8,
}

impl Term {
    /// Every part of it, itself first.
    pub fn walk(&self, f: &mut impl FnMut(&Term)) {
        f(self);
        match self {
            Term::Apply(_, list) => list.iter().for_each(|t| t.walk(f)),
            Term::Not(a) | Term::Pointed(a) => a.walk(f),
            Term::Binary(_, a, b) => {
                a.walk(f);
                b.walk(f);
            }
            Term::Event { such, fields, .. } => {
                for field in fields {
                    if let Field::Equals(t) = field {
                        t.walk(f);
                    }
                }
                such.walk(f);
            }
            Term::Blocks { such, .. } => such.walk(f),
            _ => {}
        }
    }

    pub fn has(&self, wanted: impl Fn(&Term) -> bool) -> bool {
        let mut found = false;
        self.walk(&mut |t| found |= wanted(t));
        found
    }
}

impl Checked {
    /// Functions whose calls and returns it must know.
    pub fn functions(&self) -> Vec<Pattern> {
        let mut out = self.remembered();
        out.extend(self.function.clone());
        out
    }

    /// Functions of which it asks whether they were called or returned before.
    pub fn remembered(&self) -> Vec<Pattern> {
        let mut out = Vec::new();
        self.condition.walk(&mut |t| {
            if let Term::Event {
                kind: Kind::Call(p) | Kind::Ret(p),
                ..
            } = t
            {
                out.push(p.clone());
            }
        });
        out
    }

    /// It asks whether memory has been written.
    pub fn asks_written(&self) -> bool {
        self.condition.has(|t| matches!(t, Term::Written))
    }

    /// It is about variables.
    pub fn asks_variables(&self) -> bool {
        let asks = |f: &Function| matches!(f, Function::Local | Function::Global | Function::Gone);
        self.condition.has(|t| match t {
            Term::Apply(f, _) => asks(f),
            Term::Blocks { set, .. } => *set == Set::Stack,
            _ => false,
        })
    }

    /// It cannot be decided without the guest's memory.
    pub fn asks_memory(&self) -> bool {
        self.asks_pointers() || self.asks_values()
    }

    /// It asks whether there is a pointer to a block.
    pub fn asks_pointers(&self) -> bool {
        self.condition.has(|t| matches!(t, Term::Pointed(_)))
    }

    /// It asks what is in memory.
    pub fn asks_values(&self) -> bool {
        self.condition
            .has(|t| matches!(t, Term::Apply(Function::Value | Function::Block, _)))
    }

    pub fn is_deref(&self) -> bool {
        matches!(
            self.point,
            PointKind::Deref | PointKind::DerefRead | PointKind::DerefWrite
        )
    }
}
