//! Rule files as trees.

/// Bytes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start,
            end: other.end.max(self.end),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum Item {
    Define(Define),
    Rule(Rule),
    Allocator(Allocator),
}

/// `define Freed(r, r1) = ...`
#[derive(Clone, Debug)]
pub struct Define {
    pub name: Name,
    pub parameters: Vec<Name>,
    pub body: Expr,
}

/// `[name] detect <Trace; free r>: condition : VPC(r)`
#[derive(Clone, Debug)]
pub struct Rule {
    pub name: Name,
    /// The comment above it.
    pub about: String,
    /// What stands before the point in the angle brackets.
    pub state: Vec<Name>,
    pub point: Point,
    pub condition: Expr,
    pub chains: Vec<Name>,
}

/// `allocator my_alloc(size) / my_free(ptr)`
#[derive(Clone, Debug)]
pub struct Allocator {
    pub allocate: Name,
    /// Names of its parameters; one is `size`, or `count` and `size`.
    pub allocate_parameters: Vec<Name>,
    pub release: Name,
    /// One is `ptr`.
    pub release_parameters: Vec<Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointKind {
    DerefRead,
    DerefWrite,
    Deref,
    Free,
    Malloc,
    Call,
    Ret,
}

impl PointKind {
    pub const ALL: [(&'static str, PointKind); 7] = [
        ("deref_r", PointKind::DerefRead),
        ("deref_w", PointKind::DerefWrite),
        ("deref", PointKind::Deref),
        ("free", PointKind::Free),
        ("malloc", PointKind::Malloc),
        ("call", PointKind::Call),
        ("ret", PointKind::Ret),
    ];

    pub fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, k)| *k == self);
        found.map_or("", |(w, _)| w)
    }
}

/// Where a rule looks.
#[derive(Clone, Debug)]
pub struct Point {
    pub kind: PointKind,
    /// Of `call` and `ret`: which functions.
    pub function: Option<Pattern>,
    /// What is bound there; `_` for nothing.
    pub arguments: Vec<Name>,
    pub span: Span,
}

/// Names of functions: alternatives with `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub text: String,
    pub quoted: bool,
}

impl Pattern {
    pub fn matches(&self, name: &str) -> bool {
        self.text
            .split('|')
            .any(|p| glob(p.trim().as_bytes(), name.as_bytes()))
    }
}

fn glob(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|n| glob(rest, &name[n..])),
        Some((c, rest)) => name.first() == Some(c) && glob(rest, &name[1..]),
    }
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Number(i64),
    Text(String),
    Null,
    /// `_`
    Any,
    Name(String),
    Call(Name, Vec<Expr>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `exists X in SET suchthat (E)`, `forall ...`
    Quantified {
        all: bool,
        bound: Bound,
        set: Name,
        such: Option<Box<Expr>>,
    },
}

#[derive(Clone, Debug)]
pub enum Bound {
    /// `event(k, malloc, n, bid)`
    Event(Vec<Expr>),
    /// `bid`
    Block(Name),
    /// `r -> (bid, i)`
    Pointer {
        pointer: Box<Expr>,
        block: Box<Expr>,
        index: Box<Expr>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Plus,
    Minus,
    Times,
    Divide,
    Remainder,
}

impl Binary {
    /// Spelling, and how tightly it binds.
    pub const ALL: [(&'static str, Binary, u8); 18] = [
        ("||", Binary::Or, 1),
        ("&&", Binary::And, 2),
        ("==", Binary::Equal, 3),
        ("!=", Binary::Unequal, 3),
        ("<=", Binary::LessEqual, 3),
        (">=", Binary::GreaterEqual, 3),
        ("<<", Binary::ShiftLeft, 7),
        (">>", Binary::ShiftRight, 7),
        ("<", Binary::Less, 3),
        (">", Binary::Greater, 3),
        ("|", Binary::BitOr, 4),
        ("^", Binary::BitXor, 5),
        ("&", Binary::BitAnd, 6),
        ("+", Binary::Plus, 8),
        ("-", Binary::Minus, 8),
        ("*", Binary::Times, 9),
        ("/", Binary::Divide, 9),
        ("%", Binary::Remainder, 9),
    ];

    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|b| b.1 == self).map_or("", |b| b.0)
    }

    pub fn strength(self) -> u8 {
        Self::ALL.iter().find(|b| b.1 == self).map_or(0, |b| b.2)
    }

    pub fn compares(self) -> bool {
        self.strength() == 3
    }
}
