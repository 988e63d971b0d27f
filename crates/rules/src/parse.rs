//! Words to trees, by recursive descent. A broken item is skipped to the beginning of the next, so that
//! one file gets all its errors at once.

use crate::diagnostic::{Diagnostic, nearest};
use crate::lex::{Token, Word, tokens};
use crate::syntax::*;

/// Depth of nesting beyond which an expression is refused.
const DEEPEST: usize = 200;

/// A file's items, and what is wrong with the rest of it.
pub fn parse(text: &str) -> (Vec<Item>, Vec<Diagnostic>) {
    let mut wrong = Vec::new();
    let tokens = tokens(text, &mut wrong);
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
    };
    let mut items = Vec::new();
    while parser.peek().word != Word::End {
        let begun = parser.at;
        match parser.item() {
            Ok(item) => items.push(item),
            Err(d) => {
                wrong.push(d);
                parser.depth = 0;
                parser.at = parser.at.max(begun + 1);
                parser.recover();
            }
        }
    }
    (items, wrong)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

type Parsed<T> = Result<T, Diagnostic>;

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn is(&self, sign: &str) -> bool {
        matches!(&self.peek().word, Word::Sign(s) if *s == sign)
    }

    fn is_word(&self, name: &str) -> bool {
        matches!(&self.peek().word, Word::Name(n) if n == name)
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, sign: &str, why: &str) -> Parsed<Token> {
        if self.is(sign) {
            return Ok(self.next());
        }
        Err(self.unexpected(&format!("`{sign}` {why}")))
    }

    fn unexpected(&self, wanted: &str) -> Diagnostic {
        let token = self.peek();
        let found = match &token.word {
            Word::Name(n) => format!("`{n}`"),
            Word::Number(n) => format!("`{n}`"),
            Word::Text(t) => format!("\"{t}\""),
            Word::Sign(s) => format!("`{s}`"),
            Word::End => "the end of the file".to_owned(),
        };
        Diagnostic::error(token.span, format!("expected {wanted}, found {found}"))
    }

    fn name(&mut self, wanted: &str) -> Parsed<Name> {
        match &self.peek().word {
            Word::Name(text) => {
                let text = text.clone();
                let span = self.next().span;
                Ok(Name { text, span })
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    /// To the next word that can begin an item.
    fn recover(&mut self) {
        loop {
            let t = self.peek();
            let begins = match &t.word {
                Word::End => true,
                Word::Name(n) => t.first && (n == "define" || n == "allocator"),
                Word::Sign(s) => t.first && *s == "[",
                _ => false,
            };
            if begins {
                return;
            }
            self.next();
        }
    }

    fn item(&mut self) -> Parsed<Item> {
        if self.is_word("define") {
            return self.define().map(Item::Define);
        }
        if self.is_word("allocator") {
            return self.allocator().map(Item::Allocator);
        }
        if self.is("[") {
            return self.rule().map(Item::Rule);
        }
        let mut d = self.unexpected("`define`, `allocator` or a rule in `[...]`");
        if let Word::Name(n) = &self.peek().word
            && let Some(meant) = nearest(n, ["define", "allocator"])
        {
            d = d.help(&format!("did you mean `{meant}`?"));
        }
        Err(d)
    }

    fn names(&mut self, wanted: &str) -> Parsed<Vec<Name>> {
        self.expect("(", "before the parameters")?;
        let mut out = Vec::new();
        while !self.is(")") {
            out.push(self.name(wanted)?);
            if !self.take(",") {
                break;
            }
        }
        self.expect(")", "after the parameters")?;
        Ok(out)
    }

    fn define(&mut self) -> Parsed<Define> {
        self.next();
        let name = self.name("the name of a predicate")?;
        let parameters = self.names("the name of a parameter")?;
        self.expect("=", "between a predicate and what it means")?;
        let body = self.expression()?;
        Ok(Define {
            name,
            parameters,
            body,
        })
    }

    fn allocator(&mut self) -> Parsed<Allocator> {
        self.next();
        let allocate = self.name("the function that allocates")?;
        let allocate_parameters = self.names("the name of a parameter")?;
        self.expect("/", "between the functions that allocate and free")?;
        let release = self.name("the function that frees")?;
        let release_parameters = self.names("the name of a parameter")?;
        Ok(Allocator {
            allocate,
            allocate_parameters,
            release,
            release_parameters,
        })
    }

    fn rule(&mut self) -> Parsed<Rule> {
        let open = self.next();
        let mut text = String::new();
        while !self.is("]") {
            match self.peek().word.clone() {
                Word::Name(n) => text.push_str(&n),
                Word::Number(n) => text.push_str(&n.to_string()),
                Word::Sign(s @ ("." | "-")) => text.push_str(s),
                _ => return Err(self.unexpected("`]` after the name of the rule")),
            }
            self.next();
        }
        let close = self.next();
        let span = open.span.to(close.span);
        if text.is_empty() {
            return Err(Diagnostic::error(span, "this rule has no name".to_owned()));
        }
        if !self.is_word("detect") {
            return Err(self.unexpected("`detect`"));
        }
        self.next();
        let (state, point) = self.detection()?;
        self.expect(":", "before the condition")?;
        let condition = self.expression()?;
        let mut chains = Vec::new();
        if self.take(":") {
            loop {
                if !self.is_word("VPC") {
                    return Err(self.unexpected("`VPC(...)`, a value propagation chain"));
                }
                self.next();
                self.expect("(", "after VPC")?;
                chains.push(self.name("the pointer whose chain is wanted")?);
                self.expect(")", "after the pointer")?;
                if !self.take(",") {
                    break;
                }
            }
        }
        Ok(Rule {
            name: Name { text, span },
            about: open.about,
            state,
            point,
            condition,
            chains,
        })
    }

    /// `<Trace; free r>`, or `free r` alone.
    fn detection(&mut self) -> Parsed<(Vec<Name>, Point)> {
        let bracket = self.take("<");
        let mut state = Vec::new();
        while bracket && matches!(&self.tokens[self.at + 1..], [t, ..] if t.word == Word::Sign(";"))
        {
            state.push(self.name("a part of the state")?);
            self.next();
        }
        let word = self.name("a detection point")?;
        let Some((_, kind)) = PointKind::ALL.iter().find(|(w, _)| *w == word.text) else {
            let mut d =
                Diagnostic::error(word.span, format!("`{}` is no detection point", word.text));
            let points = PointKind::ALL.map(|(w, _)| w);
            d = match nearest(&word.text, points) {
                Some(meant) => d.help(&format!("did you mean `{meant}`?")),
                None => d.help(&format!("the points are {}", points.join(", "))),
            };
            return Err(d);
        };
        let function = match kind {
            PointKind::Call | PointKind::Ret => Some(self.pattern()?),
            _ => None,
        };
        let mut arguments = Vec::new();
        let enclosed = self.take("(");
        while let Word::Name(_) = self.peek().word {
            arguments.push(self.name("a variable")?);
            if enclosed {
                self.take(",");
            }
        }
        if enclosed {
            self.expect(")", "after the arguments")?;
        }
        let span = word.span.to(self.tokens[self.at - 1].span);
        if bracket {
            self.expect(">", "after the detection point")?;
        }
        Ok((
            state,
            Point {
                kind: *kind,
                function,
                arguments,
                span,
            },
        ))
    }

    fn pattern(&mut self) -> Parsed<Pattern> {
        match self.peek().word.clone() {
            Word::Name(text) => {
                self.next();
                Ok(Pattern {
                    text,
                    quoted: false,
                })
            }
            Word::Text(text) => {
                self.next();
                Ok(Pattern { text, quoted: true })
            }
            _ => Err(self.unexpected("the name of a function, or a pattern such as \"gc_*\"")),
        }
    }

    fn expression(&mut self) -> Parsed<Expr> {
        self.binary(0)
    }

    fn binary(&mut self, least: u8) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Diagnostic::error(
                self.peek().span,
                "this is nested too deeply".to_owned(),
            ));
        }
        let mut left = self.unary()?;
        while let Word::Sign(sign) = self.peek().word {
            let Some((_, op, strength)) = Binary::ALL.iter().find(|b| b.0 == sign) else {
                break;
            };
            if *strength <= least {
                break;
            }
            self.next();
            let right = self.binary(*strength)?;
            let span = left.span.to(right.span);
            if op.compares() && self.peek_compares() {
                return Err(Diagnostic::error(
                    self.peek().span,
                    "comparisons cannot be chained".to_owned(),
                )
                .help("write `a < b && b < c`"));
            }
            left = Expr {
                kind: ExprKind::Binary(*op, Box::new(left), Box::new(right)),
                span,
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn peek_compares(&self) -> bool {
        let Word::Sign(sign) = self.peek().word else {
            return false;
        };
        // `>` may close the brackets of a detection point, but no condition is inside of them.
        Binary::ALL.iter().any(|b| b.0 == sign && b.1.compares())
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let token = self.peek().clone();
        if self.take("!") {
            let inner = self.nested()?;
            let span = token.span.to(inner.span);
            return Ok(Expr {
                kind: ExprKind::Not(Box::new(inner)),
                span,
            });
        }
        if self.take("-") {
            let inner = self.nested()?;
            let span = token.span.to(inner.span);
            return Ok(Expr {
                kind: ExprKind::Negative(Box::new(inner)),
                span,
            });
        }
        self.primary()
    }

    fn nested(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Diagnostic::error(
                self.peek().span,
                "this is nested too deeply".to_owned(),
            ));
        }
        let inner = self.unary();
        self.depth -= 1;
        inner
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.peek().clone();
        let kind = match token.word {
            Word::Number(n) => ExprKind::Number(n),
            Word::Text(t) => ExprKind::Text(t),
            Word::Sign("(") => {
                self.next();
                let mut inner = self.expression()?;
                let close = self.expect(")", "to close the parenthesis")?;
                inner.span = token.span.to(close.span);
                return Ok(inner);
            }
            Word::Name(ref n) if n == "exists" || n == "forall" => return self.quantified(),
            Word::Name(ref n) if n == "NULL" => ExprKind::Null,
            Word::Name(ref n) if n == "_" => ExprKind::Any,
            Word::Name(text) => {
                self.next();
                if !self.take("(") {
                    return Ok(Expr {
                        kind: ExprKind::Name(text),
                        span: token.span,
                    });
                }
                let arguments = self.arguments()?;
                let close = self.expect(")", "after the arguments")?;
                let name = Name {
                    text,
                    span: token.span,
                };
                return Ok(Expr {
                    kind: ExprKind::Call(name, arguments),
                    span: token.span.to(close.span),
                });
            }
            _ => return Err(self.unexpected("an expression")),
        };
        self.next();
        Ok(Expr {
            kind,
            span: token.span,
        })
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut out = Vec::new();
        while !self.is(")") {
            out.push(self.expression()?);
            if !self.take(",") {
                break;
            }
        }
        Ok(out)
    }

    fn quantified(&mut self) -> Parsed<Expr> {
        let first = self.next();
        let all = first.word == Word::Name("forall".to_owned());
        let bound = if self.is_word("event") {
            self.next();
            self.expect("(", "after `event`")?;
            let fields = self.arguments()?;
            self.expect(")", "after the event")?;
            Bound::Event(fields)
        } else {
            let name = self.name("what is bound: `event(...)`, a block, or `r -> (bid, i)`")?;
            if self.take("->") {
                self.expect("(", "before the block")?;
                let block = self.expression()?;
                self.expect(",", "between block and index")?;
                let index = self.expression()?;
                self.expect(")", "after the index")?;
                let kind = match name.text.as_str() {
                    "_" => ExprKind::Any,
                    _ => ExprKind::Name(name.text),
                };
                Bound::Pointer {
                    pointer: Box::new(Expr {
                        kind,
                        span: name.span,
                    }),
                    block: Box::new(block),
                    index: Box::new(index),
                }
            } else {
                Bound::Block(name)
            }
        };
        if !self.is_word("in") {
            return Err(self.unexpected("`in` and where to look: Trace, H, F, S or P"));
        }
        self.next();
        let set = self.name("where to look: Trace, H, F, S or P")?;
        let mut span = first.span.to(set.span);
        let mut such = None;
        if self.is_word("suchthat") {
            self.next();
            // Like `!`, it takes what stands right behind it; parentheses take more.
            let inner = self.nested()?;
            span = span.to(inner.span);
            such = Some(Box::new(inner));
        }
        Ok(Expr {
            kind: ExprKind::Quantified {
                all,
                bound,
                set,
                such,
            },
            span,
        })
    }
}
