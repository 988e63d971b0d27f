//! Fig. 7: definitions, expressions, values.

use crate::state::Ref;

/// A stretch of the text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub(crate) fn to(self, other: Span) -> Span {
        Span {
            start: self.start,
            end: other.end,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub definitions: Vec<Definition>,
    pub main: Expr,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// `var g = v in`
    Variable { name: String, value: Value },
    /// `fun f(x) = e in`
    Function {
        name: String,
        parameter: String,
        body: Expr,
    },
}

impl Definition {
    pub fn name(&self) -> &str {
        match self {
            Definition::Variable { name, .. } | Definition::Function { name, .. } => name,
        }
    }
}

/// An expression, and where it stands. Two are equal if they say the same, wherever they stand.
#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: Kind,
    pub span: Span,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        self.kind == other.kind
    }
}

impl Eq for Expr {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Value(Value),
    Variable(String),
    Let {
        name: String,
        value: Box<Expr>,
        body: Box<Expr>,
    },
    /// `let x = salloc n in e`
    Salloc {
        name: String,
        size: u32,
        body: Box<Expr>,
    },
    Seq(Box<Expr>, Box<Expr>),
    Apply(Box<Expr>, Box<Expr>),
    Ret(String, Box<Expr>),
    If0(Box<Expr>, Box<Expr>, Box<Expr>),
    Malloc(Box<Expr>),
    Free(Box<Expr>),
    Read(Box<Expr>),
    Assign(Box<Expr>, Box<Expr>),
    /// `e +p e`
    Shift(Box<Expr>, Box<Expr>),
    Add(Box<Expr>, Box<Expr>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// 0 is also the null pointer.
    Number(i64),
    Symbol(String),
    /// Comes into being while a program runs, and has no syntax.
    Pointer(Ref),
}

impl Expr {
    pub fn new(kind: Kind, span: Span) -> Expr {
        Expr { kind, span }
    }

    pub fn value(&self) -> Option<&Value> {
        match &self.kind {
            Kind::Value(v) => Some(v),
            _ => None,
        }
    }

    /// The parts that are evaluated before it is reduced itself, in this order: the evaluation contexts of
    /// Fig. 8.
    pub(crate) fn evaluated(&self) -> Vec<&Expr> {
        match &self.kind {
            Kind::Value(_) | Kind::Variable(_) | Kind::Salloc { .. } => vec![],
            Kind::Let { value: e, .. }
            | Kind::Seq(e, _)
            | Kind::Ret(_, e)
            | Kind::If0(e, ..)
            | Kind::Malloc(e)
            | Kind::Free(e)
            | Kind::Read(e) => vec![e],
            Kind::Apply(a, b) | Kind::Assign(a, b) | Kind::Shift(a, b) | Kind::Add(a, b) => {
                vec![a, b]
            }
        }
    }

    /// All parts, also those that are not evaluated yet.
    pub(crate) fn parts_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.kind {
            Kind::Value(_) | Kind::Variable(_) => vec![],
            Kind::Salloc { body, .. } => vec![body],
            Kind::Let { value, body, .. } => vec![value, body],
            Kind::Ret(_, e) | Kind::Malloc(e) | Kind::Free(e) | Kind::Read(e) => vec![e],
            Kind::Seq(a, b)
            | Kind::Apply(a, b)
            | Kind::Assign(a, b)
            | Kind::Shift(a, b)
            | Kind::Add(a, b) => vec![a, b],
            Kind::If0(a, b, c) => vec![a, b, c],
        }
    }

    /// e[v/x]. The value is closed, so that nothing can be captured.
    pub(crate) fn substitute(&mut self, name: &str, value: &Value) {
        match &mut self.kind {
            Kind::Variable(x) if x == name => self.kind = Kind::Value(value.clone()),
            Kind::Let {
                name: bound,
                value: inner,
                body,
            } => {
                inner.substitute(name, value);
                if bound != name {
                    body.substitute(name, value);
                }
            }
            Kind::Salloc { name: bound, .. } if bound == name => {}
            _ => {
                for part in self.parts_mut() {
                    part.substitute(name, value);
                }
            }
        }
    }
}
