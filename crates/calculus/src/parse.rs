//! From text to a program.
//!
//! The figure gives an abstract syntax; this is its concrete one, loosest first:
//!
//! ```text
//! program ::= { var g = v in | fun f(x) = body in } main body
//! body    ::= let x = body in body | let x = salloc n in body | act [; body]
//! act     ::= if0 sum then act else act | ret z act | sum [:= act]
//! sum     ::= use { (+ | +p) use }
//! use     ::= unary { unary }
//! unary   ::= malloc unary | free unary | * unary | n | - n | x | z | ( body )
//! ```

use crate::lex::{Token, lex};
use crate::resolve::resolve;
use crate::syntax::{Definition, Expr, Kind, Program, Span, Value};

/// Deeper nesting than anyone writes; the parser is recursive.
const DEEPEST: u32 = 1000;

pub(crate) const WORDS: [&str; 12] = [
    "main", "var", "fun", "in", "let", "salloc", "if0", "then", "else", "ret", "malloc", "free",
];

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub span: Span,
    pub message: String,
}

impl Wrong {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Wrong {
        Wrong {
            span,
            message: message.into(),
        }
    }

    /// The message with its line, and a mark under the place.
    pub fn render(&self, text: &str) -> String {
        let start = self.span.start.min(text.len());
        let begin = text[..start].rfind('\n').map_or(0, |n| n + 1);
        let number = text[..begin].matches('\n').count() + 1;
        let line = text[begin..].lines().next().unwrap_or("");
        let column = text[begin..start].chars().count();
        let end = self
            .span
            .end
            .clamp(start, begin + line.len().max(start - begin));
        let marks = text[start..end].chars().count().max(1);
        format!(
            "{number}:{}: {}\n  {line}\n  {}{}\n",
            column + 1,
            self.message,
            " ".repeat(column),
            "^".repeat(marks)
        )
    }
}

/// The program, or all that is wrong with its names, or the first thing that is wrong with its form.
pub fn parse(text: &str) -> Result<Program, Vec<Wrong>> {
    let mut wrong = Vec::new();
    let tokens = lex(text, &mut wrong);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
    };
    let mut program = parser.program().map_err(|w| vec![w])?;
    resolve(&mut program, &mut wrong);
    match wrong.is_empty() {
        true => Ok(program),
        false => Err(wrong),
    }
}

struct Parser {
    tokens: Vec<(Token, Span)>,
    at: usize,
    depth: u32,
}

type Parsed<T> = Result<T, Wrong>;

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn span(&self) -> Span {
        self.tokens[self.at].1
    }

    fn next(&mut self) -> (Token, Span) {
        let token = self.tokens[self.at].clone();
        // The end stays where it is.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn is(&self, text: &str) -> bool {
        match self.peek() {
            Token::Word(w) => w == text,
            Token::Sign(s) => *s == text,
            _ => false,
        }
    }

    fn accept(&mut self, text: &str) -> Option<Span> {
        self.is(text).then(|| self.next().1)
    }

    fn expect(&mut self, text: &str) -> Parsed<Span> {
        match self.accept(text) {
            Some(span) => Ok(span),
            None => Err(self.unexpected(&format!("`{text}`"))),
        }
    }

    fn unexpected(&self, wanted: &str) -> Wrong {
        let found = match self.peek() {
            Token::Number(n) => format!("`{n}`"),
            Token::Word(w) => format!("`{w}`"),
            Token::Sign(s) => format!("`{s}`"),
            Token::End => "the end".to_owned(),
        };
        Wrong::new(self.span(), format!("{wanted} is expected, not {found}"))
    }

    fn name(&mut self) -> Parsed<(String, Span)> {
        match self.peek() {
            Token::Word(w) if !WORDS.contains(&w.as_str()) => {
                let name = w.clone();
                Ok((name, self.next().1))
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    fn number(&mut self) -> Parsed<(i64, Span)> {
        let minus = self.accept("-");
        match *self.peek() {
            Token::Number(n) => {
                let span = self.next().1;
                Ok(match minus {
                    Some(from) => (-n, from.to(span)),
                    None => (n, span),
                })
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    /// A name that is not defined yet.
    fn fresh(&mut self, definitions: &[Definition]) -> Parsed<String> {
        let (name, span) = self.name()?;
        if definitions.iter().any(|d| d.name() == name) {
            return Err(Wrong::new(span, format!("`{name}` is defined twice")));
        }
        Ok(name)
    }

    fn program(&mut self) -> Parsed<Program> {
        let mut definitions = Vec::new();
        loop {
            if self.accept("var").is_some() {
                let name = self.fresh(&definitions)?;
                self.expect("=")?;
                let value = match self.peek() {
                    Token::Word(_) => {
                        let (z, span) = self.name()?;
                        if definitions.iter().all(|d| d.name() != z) {
                            return Err(Wrong::new(span, format!("`{z}` is not defined")));
                        }
                        Value::Symbol(z)
                    }
                    _ => Value::Number(self.number()?.0),
                };
                definitions.push(Definition::Variable { name, value });
            } else if self.accept("fun").is_some() {
                let name = self.fresh(&definitions)?;
                self.expect("(")?;
                let (parameter, _) = self.name()?;
                self.expect(")")?;
                self.expect("=")?;
                let body = self.body()?;
                definitions.push(Definition::Function {
                    name,
                    parameter,
                    body,
                });
            } else {
                break;
            }
            self.expect("in")?;
        }
        if self.accept("main").is_none() {
            return Err(self.unexpected("`var`, `fun` or `main`"));
        }
        let main = self.body()?;
        match self.peek() {
            Token::End => Ok(Program { definitions, main }),
            _ => Err(self.unexpected("the end")),
        }
    }

    fn body(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Wrong::new(self.span(), "this is nested too deeply"));
        }
        let out = self.body_inside();
        self.depth -= 1;
        out
    }

    fn body_inside(&mut self) -> Parsed<Expr> {
        if let Some(start) = self.accept("let") {
            let (name, _) = self.name()?;
            self.expect("=")?;
            if self.accept("salloc").is_some() {
                let (size, span) = self.number()?;
                let size = u32::try_from(size)
                    .ok()
                    .filter(|n| (1..=1 << 20).contains(n))
                    .ok_or_else(|| Wrong::new(span, "this is no size of a local variable"))?;
                self.expect("in")?;
                let body = Box::new(self.body()?);
                let span = start.to(body.span);
                return Ok(Expr::new(Kind::Salloc { name, size, body }, span));
            }
            let value = Box::new(self.body()?);
            self.expect("in")?;
            let body = Box::new(self.body()?);
            let span = start.to(body.span);
            return Ok(Expr::new(Kind::Let { name, value, body }, span));
        }
        let first = self.act()?;
        if self.accept(";").is_none() {
            return Ok(first);
        }
        let rest = self.body()?;
        let span = first.span.to(rest.span);
        Ok(Expr::new(Kind::Seq(Box::new(first), Box::new(rest)), span))
    }

    fn act(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Wrong::new(self.span(), "this is nested too deeply"));
        }
        let out = self.act_inside();
        self.depth -= 1;
        out
    }

    fn act_inside(&mut self) -> Parsed<Expr> {
        if let Some(start) = self.accept("if0") {
            let condition = Box::new(self.sum()?);
            self.expect("then")?;
            let yes = Box::new(self.act()?);
            self.expect("else")?;
            let no = Box::new(self.act()?);
            let span = start.to(no.span);
            return Ok(Expr::new(Kind::If0(condition, yes, no), span));
        }
        if let Some(start) = self.accept("ret") {
            let name = match self.accept("main") {
                Some(_) => "main".to_owned(),
                None => self.name()?.0,
            };
            let value = Box::new(self.act()?);
            let span = start.to(value.span);
            return Ok(Expr::new(Kind::Ret(name, value), span));
        }
        let to = self.sum()?;
        if self.accept(":=").is_none() {
            return Ok(to);
        }
        let value = Box::new(self.act()?);
        let span = to.span.to(value.span);
        Ok(Expr::new(Kind::Assign(Box::new(to), value), span))
    }

    fn sum(&mut self) -> Parsed<Expr> {
        let mut left = self.application()?;
        loop {
            let make = if self.accept("+").is_some() {
                Kind::Add
            } else if self.accept("+p").is_some() {
                Kind::Shift
            } else {
                return Ok(left);
            };
            let right = self.application()?;
            let span = left.span.to(right.span);
            left = Expr::new(make(Box::new(left), Box::new(right)), span);
        }
    }

    fn application(&mut self) -> Parsed<Expr> {
        let mut left = self.unary()?;
        while self.begins_operand() {
            let right = self.unary()?;
            let span = left.span.to(right.span);
            left = Expr::new(Kind::Apply(Box::new(left), Box::new(right)), span);
        }
        Ok(left)
    }

    /// `f *x` and `f -1` are applications: there is neither product nor difference.
    fn begins_operand(&self) -> bool {
        match self.peek() {
            Token::Number(_) => true,
            Token::Word(w) => {
                matches!(w.as_str(), "malloc" | "free") || !WORDS.contains(&w.as_str())
            }
            Token::Sign(s) => matches!(*s, "(" | "*" | "-"),
            Token::End => false,
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Wrong::new(self.span(), "this is nested too deeply"));
        }
        let out = self.unary_inside();
        self.depth -= 1;
        out
    }

    fn unary_inside(&mut self) -> Parsed<Expr> {
        for (word, make) in [
            ("malloc", Kind::Malloc as fn(Box<Expr>) -> Kind),
            ("free", Kind::Free),
            ("*", Kind::Read),
        ] {
            if let Some(start) = self.accept(word) {
                let inner = Box::new(self.unary()?);
                let span = start.to(inner.span);
                return Ok(Expr::new(make(inner), span));
            }
        }
        if self.accept("(").is_some() {
            let inner = self.body()?;
            self.expect(")")?;
            return Ok(inner);
        }
        match self.peek() {
            Token::Number(_) | Token::Sign("-") => {
                let (n, span) = self.number()?;
                Ok(Expr::new(Kind::Value(Value::Number(n)), span))
            }
            Token::Word(w) if !WORDS.contains(&w.as_str()) => {
                let (name, span) = self.name()?;
                Ok(Expr::new(Kind::Variable(name), span))
            }
            _ => Err(self.unexpected("an expression")),
        }
    }
}
