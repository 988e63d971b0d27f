//! Programs of the calculus as C, so that the same program runs in the calculus and on the engine.
//!
//! One operation is one line, with its operands in variables of their own, for C leaves the order of evaluation
//! open; and so a line says which operation it was. Many programs become one C program, which runs them one after
//! another, each for a given number of operations on memory (see `prelude.c`).

use std::collections::BTreeMap;

use crate::syntax::{Definition, Expr, Kind, Program, Span, Value};

/// Whose `malloc` and `free` are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    Library,
    /// One of our own, which is not harmed by any misuse.
    Forgiving,
}

/// One of the programs in a C program.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// With spans, that is: from [`crate::parse()`].
    pub program: &'a Program,
    /// It is left behind so many reads, writes, allocations and frees.
    pub operations: Option<u64>,
}

/// A C program, and where things are in it.
#[derive(Clone, Debug)]
pub struct Translated {
    pub text: String,
    /// The line of each operation, by the number of its program and its place there.
    pub lines: BTreeMap<(usize, Span), u64>,
    /// Lines up to this one are not of any program.
    pub prelude: u64,
}

/// The name that a function of a program has in C.
pub fn function(part: usize, name: &str) -> String {
    format!("p{part}_{name}")
}

pub fn translate(parts: &[Part<'_>], allocator: Allocator) -> Translated {
    let mut text = include_str!("prelude.c").to_owned();
    if allocator == Allocator::Forgiving {
        text.push_str(include_str!("allocator.c"));
    }
    let mut out = Writer {
        line: text.lines().count() as u64,
        text,
        lines: BTreeMap::new(),
        part: 0,
        temporaries: 0,
    };
    let prelude = out.line;
    for (n, part) in parts.iter().enumerate() {
        out.part = n;
        for d in &part.program.definitions {
            match d {
                Definition::Variable { name, value } => {
                    let (name, value) = (function(n, name), out.constant(value));
                    out.say(&format!("static cell {name}[1] = {{{value}}};"));
                }
                Definition::Function {
                    name,
                    parameter,
                    body,
                } => out.function(name, Some(parameter), body),
            }
        }
        out.function("main", None, &part.program.main);
    }
    out.say("static void nothing(long a, long b, long c, long d, long e, long f) {}");
    out.say("int main(void) {");
    for (n, part) in parts.iter().enumerate() {
        let (operations, main) = (part.operations.unwrap_or(0), function(n, "main"));
        out.say(&format!("start({operations}, {main});"));
    }
    // No register keeps a pointer that the programs have lost.
    out.say("nothing(0, 0, 0, 0, 0, 0);");
    out.say("return 0;");
    out.say("}");
    Translated {
        text: out.text,
        lines: out.lines,
        prelude,
    }
}

struct Writer {
    text: String,
    line: u64,
    lines: BTreeMap<(usize, Span), u64>,
    part: usize,
    temporaries: u32,
}

/// Local names and what stands for them in C.
type Scope = Vec<(String, String)>;

impl Writer {
    fn say(&mut self, line: &str) {
        self.line += 1;
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn constant(&self, value: &Value) -> String {
        match value {
            Value::Number(n) => format!("{n}L"),
            Value::Symbol(z) => format!("(cell){}", function(self.part, z)),
            // Pointers have no syntax, so that no program contains one.
            Value::Pointer(r) => format!("{r}"),
        }
    }

    fn function(&mut self, name: &str, parameter: Option<&String>, body: &Expr) {
        let c_name = function(self.part, name);
        let mut scope = Scope::new();
        match parameter {
            Some(x) => {
                self.say(&format!("static cell {c_name}(cell argument) {{"));
                self.say("cell parameter[1];");
                self.say("WRITE(parameter, argument);");
                scope.push((x.clone(), "(cell)parameter".to_owned()));
            }
            None => self.say(&format!("static cell {c_name}(void) {{")),
        }
        let value = self.expr(body, &mut scope);
        self.say(&format!("return {value};"));
        self.say("}");
    }

    /// A variable that gets the outcome of an operation, on a line of its own.
    fn operation(&mut self, span: Span, code: &str) -> String {
        let name = self.temporary();
        self.say(&format!("cell {name} = {code};"));
        self.lines.insert((self.part, span), self.line);
        name
    }

    fn temporary(&mut self) -> String {
        self.temporaries += 1;
        format!("t{}", self.temporaries)
    }

    /// The code that evaluates an expression; what stands for its value.
    fn expr(&mut self, e: &Expr, scope: &mut Scope) -> String {
        let span = e.span;
        match &e.kind {
            Kind::Value(v) => self.constant(v),
            Kind::Variable(x) => {
                let known = scope.iter().rev().find(|(name, _)| name == x);
                known.map_or_else(|| x.clone(), |(_, c)| c.clone())
            }
            Kind::Let { name, value, body } => {
                let value = self.expr(value, scope);
                scope.push((name.clone(), value));
                let out = self.expr(body, scope);
                scope.pop();
                out
            }
            Kind::Salloc { name, size, body } => {
                let c = self.temporary();
                self.say(&format!("cell {c}[{size}];"));
                scope.push((name.clone(), format!("(cell){c}")));
                let out = self.expr(body, scope);
                scope.pop();
                out
            }
            Kind::Seq(a, b) => {
                self.expr(a, scope);
                self.expr(b, scope)
            }
            Kind::Ret(_, v) => self.expr(v, scope),
            Kind::If0(c, yes, no) => {
                let c = self.expr(c, scope);
                let out = self.temporary();
                self.say(&format!("cell {out};"));
                self.say(&format!("if ({c} == 0) {{"));
                for (e, end) in [(yes, "} else {"), (no, "}")] {
                    let value = self.expr(e, scope);
                    self.say(&format!("{out} = {value};"));
                    self.say(end);
                }
                out
            }
            Kind::Malloc(e) => self.unary("MALLOC", e, scope, span),
            Kind::Free(e) => self.unary("FREE", e, scope, span),
            Kind::Read(e) => self.unary("READ", e, scope, span),
            Kind::Apply(a, b) => self.binary("APPLY", a, b, scope, span),
            Kind::Assign(a, b) => self.binary("WRITE", a, b, scope, span),
            Kind::Shift(a, b) => self.binary("SHIFT", a, b, scope, span),
            Kind::Add(a, b) => {
                let (a, b) = (self.expr(a, scope), self.expr(b, scope));
                self.operation(span, &format!("{a} + {b}"))
            }
        }
    }

    fn unary(&mut self, word: &str, e: &Expr, scope: &mut Scope, span: Span) -> String {
        let e = self.expr(e, scope);
        self.operation(span, &format!("{word}({e})"))
    }

    fn binary(&mut self, word: &str, a: &Expr, b: &Expr, scope: &mut Scope, span: Span) -> String {
        let (a, b) = (self.expr(a, scope), self.expr(b, scope));
        self.operation(span, &format!("{word}({a}, {b})"))
    }
}
