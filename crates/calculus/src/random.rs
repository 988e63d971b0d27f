//! Programs made from a list of choices, for tests.
//!
//! A program is well typed in the sense that numbers are used as numbers and pointers as pointers to something of
//! one depth: nothing else keeps it from going wrong, so about half of them do. The choices are plain bytes, and
//! when they are used up the program comes to its end: a shorter or smaller list makes a simpler program, which is
//! what a test wants to show when it fails. Functions call only earlier ones, so that every program ends.

use crate::syntax::{Definition, Expr, Kind, Program, Span, Value};

/// 0 is a number, n + 1 a pointer to what n is.
type Type = u8;
/// Pointers to pointers to pointers are enough.
const DEEPEST: Type = 3;

struct Maker<'a> {
    choices: &'a [u8],
    /// Names in scope and their types.
    scope: Vec<(String, Type)>,
    functions: Vec<(String, Type, Type)>,
    names: u32,
}

pub fn program(choices: &[u8]) -> Program {
    let mut m = Maker {
        choices,
        scope: Vec::new(),
        functions: Vec::new(),
        names: 0,
    };
    let mut definitions = Vec::new();
    for n in 0..m.below(3) {
        let name = format!("g{n}");
        let inside = m.below(3) as Type;
        // NULL is the only pointer that there is before the program runs.
        let value = if inside == 0 { m.small() } else { 0 };
        m.scope.push((name.clone(), inside + 1));
        definitions.push(Definition::Variable {
            name,
            value: Value::Number(value),
        });
    }
    let globals = m.scope.clone();
    for n in 0..m.below(3) {
        let name = format!("f{n}");
        let (takes, gives) = (m.below(3) as Type, m.below(3) as Type);
        m.scope = globals.clone();
        m.scope.push(("a".to_owned(), takes + 1));
        let length = m.below(4);
        let body = m.body(&name, gives, length);
        definitions.push(Definition::Function {
            name: name.clone(),
            parameter: "a".to_owned(),
            body,
        });
        m.functions.push((name, takes, gives));
    }
    m.scope = globals.clone();
    let length = 2 + m.below(16);
    let main = m.body("main", 0, length);
    let symbols: Vec<String> = globals.into_iter().map(|(name, _)| name).collect();
    let mut out = Program { definitions, main };
    for d in &mut out.definitions {
        if let Definition::Function { body, .. } = d {
            symbolic(body, &symbols);
        }
    }
    symbolic(&mut out.main, &symbols);
    out
}

/// Global variables are values, not variables. Their names are never those of local ones.
fn symbolic(e: &mut Expr, symbols: &[String]) {
    match &e.kind {
        Kind::Variable(x) if symbols.contains(x) => e.kind = Kind::Value(Value::Symbol(x.clone())),
        _ => e.parts_mut().into_iter().for_each(|p| symbolic(p, symbols)),
    }
}

fn expr(kind: Kind) -> Expr {
    Expr::new(kind, Span::default())
}

fn boxed(kind: Kind) -> Box<Expr> {
    Box::new(expr(kind))
}

fn number(n: i64) -> Expr {
    expr(Kind::Value(Value::Number(n)))
}

fn sequence(first: Vec<Expr>, last: Expr) -> Expr {
    let one = |rest, e| expr(Kind::Seq(Box::new(e), Box::new(rest)));
    first.into_iter().rev().fold(last, one)
}

impl Maker<'_> {
    /// 0 when there are no choices left.
    fn below(&mut self, n: u32) -> u32 {
        match self.choices {
            [] => 0,
            [first, rest @ ..] => {
                self.choices = rest;
                u32::from(*first) % n
            }
        }
    }

    fn small(&mut self) -> i64 {
        i64::from(self.below(6)) - 1
    }

    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("x{}", self.names)
    }

    /// Some statements, then the return.
    fn body(&mut self, function: &str, gives: Type, length: u32) -> Expr {
        if length == 0 || self.choices.is_empty() {
            let value = self.value(gives, 2);
            return expr(Kind::Ret(function.to_owned(), Box::new(value)));
        }
        let known = self.scope.len();
        let out = match self.below(20) {
            0..5 => {
                let inside = self.below(2) as Type;
                let name = self.fresh();
                let size = self.size();
                self.scope.push((name.clone(), inside + 1));
                let writes = self.writes(&name, inside, size);
                let rest = self.body(function, gives, length - 1);
                expr(Kind::Let {
                    name,
                    value: boxed(Kind::Malloc(Box::new(number(size)))),
                    body: Box::new(sequence(writes, rest)),
                })
            }
            5..8 => {
                let inside = self.below(3) as Type;
                let name = self.fresh();
                let size = 1 + self.below(2);
                self.scope.push((name.clone(), inside + 1));
                let writes = self.writes(&name, inside, i64::from(size));
                let rest = self.body(function, gives, length - 1);
                let body = Box::new(sequence(writes, rest));
                expr(Kind::Salloc { name, size, body })
            }
            8..10 => {
                let t = self.below(3) as Type;
                let name = self.fresh();
                let value = Box::new(self.value(t, 2));
                self.scope.push((name.clone(), t));
                let body = Box::new(self.body(function, gives, length - 1));
                expr(Kind::Let { name, value, body })
            }
            _ => {
                let first = Box::new(self.statement(2));
                let rest = Box::new(self.body(function, gives, length - 1));
                expr(Kind::Seq(first, rest))
            }
        };
        self.scope.truncate(known);
        out
    }

    /// Everything in a new block is given a value, most often.
    fn writes(&mut self, name: &str, inside: Type, size: i64) -> Vec<Expr> {
        let written = if self.below(8) == 7 { 1 } else { size };
        let mut out = Vec::new();
        for n in 0..written.min(size) {
            let mut to = expr(Kind::Variable(name.to_owned()));
            if n > 0 {
                to = expr(Kind::Shift(Box::new(to), Box::new(number(n))));
            }
            // What it is about is in scope already, but has no value yet.
            let own = self.scope.pop();
            let value = self.value(inside, 1);
            self.scope.extend(own);
            out.push(expr(Kind::Assign(Box::new(to), Box::new(value))));
        }
        out
    }

    fn statement(&mut self, depth: u32) -> Expr {
        match self.below(12) {
            0..5 => {
                let inside = self.below(u32::from(DEEPEST)) as Type;
                let to = Box::new(self.pointer(inside + 1, depth));
                let value = Box::new(self.value(inside, depth));
                expr(Kind::Assign(to, value))
            }
            5..8 => {
                let t = 1 + self.below(2) as Type;
                let p = self.pointer(t, depth);
                expr(Kind::Free(Box::new(p)))
            }
            8..10 if depth > 0 => {
                let c = Box::new(self.value(0, depth - 1));
                let yes = Box::new(self.statement(depth - 1));
                let no = Box::new(self.statement(depth - 1));
                expr(Kind::If0(c, yes, no))
            }
            _ => {
                let t = self.below(3) as Type;
                self.value(t, depth)
            }
        }
    }

    fn value(&mut self, t: Type, depth: u32) -> Expr {
        match t {
            0 => self.number(depth),
            _ => self.pointer(t, depth),
        }
    }

    fn number(&mut self, depth: u32) -> Expr {
        if depth == 0 {
            return self.variable(0).unwrap_or_else(|| number(1));
        }
        match self.below(8) {
            0..3 => number(self.small()),
            // Of what is made on the spot there is nothing to read.
            3..6 if self.scope.iter().any(|(_, t)| *t == 1) => {
                let from = self.pointer(1, depth - 1);
                expr(Kind::Read(Box::new(from)))
            }
            6 => {
                let (a, b) = (self.number(depth - 1), self.number(depth - 1));
                expr(Kind::Add(Box::new(a), Box::new(b)))
            }
            _ => self.call(0, depth).unwrap_or_else(|| number(2)),
        }
    }

    /// A pointer to what is of the type below.
    fn pointer(&mut self, t: Type, depth: u32) -> Expr {
        let at_hand = self.variable(t);
        match (self.below(24), at_hand) {
            (0..8, Some(known)) => known,
            (8..11, known) if depth > 0 && t < DEEPEST => {
                // Read from memory, if there is some that has such pointers.
                match self.variable(t + 1) {
                    Some(from) => expr(Kind::Read(Box::new(from))),
                    None => known.unwrap_or_else(|| self.block()),
                }
            }
            (11..13, Some(known)) => {
                let by = self.below(4) as i64 - 1;
                expr(Kind::Shift(Box::new(known), Box::new(number(by))))
            }
            (13, _) if depth > 0 => match self.call(t, depth) {
                Some(call) => call,
                None => self.block(),
            },
            (14, _) => number(0),
            (_, Some(known)) => known,
            _ => self.block(),
        }
    }

    fn block(&mut self) -> Expr {
        let size = self.size();
        expr(Kind::Malloc(Box::new(number(size))))
    }

    fn size(&mut self) -> i64 {
        const SIZES: [i64; 16] = [1, 2, 3, 4, 2, 3, 4, 5, 1, 2, 3, 4, 2, 3, 6, 0];
        SIZES[self.below(16) as usize]
    }

    fn variable(&mut self, t: Type) -> Option<Expr> {
        let fitting: Vec<String> = self
            .scope
            .iter()
            .rev()
            .filter(|(_, have)| *have == t)
            .map(|(name, _)| name.clone())
            .collect();
        let n = self.below(fitting.len().max(1) as u32) as usize;
        Some(expr(Kind::Variable(fitting.get(n)?.clone())))
    }

    fn call(&mut self, t: Type, depth: u32) -> Option<Expr> {
        let fitting: Vec<(String, Type)> = self
            .functions
            .iter()
            .filter(|f| f.2 == t)
            .map(|f| (f.0.clone(), f.1))
            .collect();
        let n = self.below(fitting.len().max(1) as u32) as usize;
        let (name, takes) = fitting.get(n)?.clone();
        let argument = Box::new(self.value(takes, depth - 1));
        let function = boxed(Kind::Value(Value::Symbol(name)));
        Some(expr(Kind::Apply(function, argument)))
    }
}
