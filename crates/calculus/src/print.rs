//! A program as text, which [`crate::parse()`] reads again.

use std::fmt::{Display, Formatter, Result};

use crate::syntax::{Definition, Expr, Kind, Program, Value};

/// How tightly an expression holds together; the levels of the grammar in `parse.rs`.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Level {
    Body,
    Act,
    Sum,
    Use,
    Unary,
}

fn level(e: &Expr) -> Level {
    match &e.kind {
        Kind::Let { .. } | Kind::Salloc { .. } | Kind::Seq(..) => Level::Body,
        Kind::If0(..) | Kind::Ret(..) | Kind::Assign(..) => Level::Act,
        Kind::Shift(..) | Kind::Add(..) => Level::Sum,
        Kind::Apply(..) => Level::Use,
        _ => Level::Unary,
    }
}

/// An expression where the grammar wants this level.
struct At<'a>(Level, &'a Expr);

impl Display for At<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match level(self.1) < self.0 {
            true => write!(f, "({})", self.1),
            false => write!(f, "{}", self.1),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        use Level::{Act, Body, Sum, Unary, Use};
        match &self.kind {
            Kind::Value(v) => write!(f, "{v}"),
            Kind::Variable(x) => write!(f, "{x}"),
            Kind::Let { name, value, body } => write!(f, "let {name} = {value} in\n{body}"),
            Kind::Salloc { name, size, body } => {
                write!(f, "let {name} = salloc {size} in\n{body}")
            }
            Kind::Seq(a, b) => write!(f, "{};\n{}", At(Act, a), At(Body, b)),
            Kind::If0(c, a, b) => {
                let (c, a, b) = (At(Sum, c), At(Act, a), At(Act, b));
                write!(f, "if0 {c} then {a} else {b}")
            }
            Kind::Ret(z, e) => write!(f, "ret {z} {}", At(Act, e)),
            Kind::Assign(a, b) => write!(f, "{} := {}", At(Sum, a), At(Act, b)),
            Kind::Shift(a, b) => write!(f, "{} +p {}", At(Sum, a), At(Use, b)),
            Kind::Add(a, b) => write!(f, "{} + {}", At(Sum, a), At(Use, b)),
            Kind::Apply(a, b) => write!(f, "{} {}", At(Use, a), At(Unary, b)),
            Kind::Malloc(e) => write!(f, "malloc {}", At(Unary, e)),
            Kind::Free(e) => write!(f, "free {}", At(Unary, e)),
            Kind::Read(e) => write!(f, "*{}", At(Unary, e)),
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Value::Number(n) => write!(f, "{n}"),
            Value::Symbol(z) => write!(f, "{z}"),
            Value::Pointer(r) => write!(f, "{r}"),
        }
    }
}

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for d in &self.definitions {
            match d {
                Definition::Variable { name, value } => writeln!(f, "var {name} = {value} in")?,
                Definition::Function {
                    name,
                    parameter,
                    body,
                } => writeln!(f, "fun {name}({parameter}) =\n{body}\nin")?,
            }
        }
        writeln!(f, "main\n{}", self.main)
    }
}
