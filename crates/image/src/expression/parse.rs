//! From text to a tree. Recursive descent with one token of look-ahead; the ambiguity of `(name)`
//! between a cast and a parenthesis is settled by asking whether the name is a type.

use super::ExpressionError;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// Where it is in the text, for messages.
    pub(super) at: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// `a`, `ns::a`, `function::a`.
    Name(Vec<String>),
    /// `file.c::a`.
    InFile(String, String),
    Register(String),
    Integer {
        value: u128,
        unsigned: bool,
        long: bool,
    },
    Float(f64),
    Character(u8),
    Unary(&'static str, Box<Node>),
    Binary(&'static str, Box<Node>, Box<Node>),
    Choice(Box<Node>, Box<Node>, Box<Node>),
    Index(Box<Node>, Box<Node>),
    Member(Box<Node>, String),
    Arrow(Box<Node>, String),
    Cast(TypeName, Box<Node>),
    SizeOf(Box<Node>),
    SizeOfType(TypeName),
}

/// A type as it is written: words, then stars.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TypeName {
    pub(super) at: usize,
    /// `struct`, `union`, `enum` or nothing.
    pub(super) tag: Option<String>,
    pub(super) words: Vec<String>,
    pub(super) stars: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Number(String),
    Character(u8),
    Register(String),
    Mark(&'static str),
    End,
}

const MARKS: [&str; 33] = [
    "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "->", "::", "+", "-", "*", "/", "%", "&", "|",
    "^", "~", "!", "<", ">", "(", ")", "[", "]", ".", "?", ":", ",", "=", "{", "}",
];
const BASE_WORDS: [&str; 11] = [
    "int", "char", "short", "long", "unsigned", "signed", "float", "double", "void", "_Bool",
    "bool",
];
const TAGS: [&str; 4] = ["struct", "union", "enum", "class"];
/// Longer expressions are refused, deeper ones too: each level is a call.
const LONGEST: usize = 4096;
const DEEPEST: usize = 128;

pub(super) fn parse(text: &str, is_type: &dyn Fn(&str) -> bool) -> Result<Node, ExpressionError> {
    if text.len() > LONGEST {
        return Err(error(0, "the expression is too long"));
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        is_type,
    };
    if parser.peek() == &Token::End {
        return Err(error(0, "there is no expression"));
    }
    let node = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(node),
        Token::Mark("=") => Err(parser.error("nothing can be assigned here")),
        _ => Err(parser.error("the expression should end here")),
    }
}

fn error(at: usize, reason: impl Into<String>) -> ExpressionError {
    ExpressionError {
        at,
        reason: reason.into(),
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ExpressionError> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    let word_end = |from: usize| {
        let rest = bytes[from..].iter();
        let inside = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_' || **b >= 0x80;
        from + rest.take_while(inside).count()
    };
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let token = if byte.is_ascii_digit() {
            at = word_end(at);
            // A fraction and an exponent with a sign.
            if bytes.get(at) == Some(&b'.') && !text[start..at].starts_with("0x") {
                at = word_end(at + 1);
            }
            let hexadecimal = text[start..at].starts_with("0x");
            if !hexadecimal
                && matches!(bytes[at - 1], b'e' | b'E')
                && matches!(bytes.get(at), Some(b'+' | b'-'))
            {
                at = word_end(at + 1);
            }
            Token::Number(text[start..at].to_owned())
        } else if byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80 {
            at = word_end(at);
            Token::Word(text[start..at].to_owned())
        } else if byte == b'$' {
            at = word_end(at + 1);
            Token::Register(text[start + 1..at].to_owned())
        } else if byte == b'\'' {
            let (value, end) = character(bytes, at)?;
            at = end;
            Token::Character(value)
        } else if let Some(mark) = MARKS.iter().find(|m| text[at..].starts_with(**m)) {
            at += mark.len();
            Token::Mark(mark)
        } else {
            let shown = text[at..].chars().next().unwrap_or('?');
            return Err(error(at, format!("`{shown}` means nothing here")));
        };
        out.push((start, token));
    }
    out.push((text.len(), Token::End));
    Ok(out)
}

fn character(bytes: &[u8], at: usize) -> Result<(u8, usize), ExpressionError> {
    let bad = || error(at, "a character constant is one character in quotes");
    let first = *bytes.get(at + 1).ok_or_else(bad)?;
    let (value, next) = if first == b'\\' {
        let escaped = *bytes.get(at + 2).ok_or_else(bad)?;
        match escaped {
            b'n' => (b'\n', at + 3),
            b't' => (b'\t', at + 3),
            b'r' => (b'\r', at + 3),
            b'0'..=b'7' => {
                let digits = bytes[at + 2..].iter().take(3);
                let digits: Vec<u8> = digits
                    .take_while(|b| (b'0'..=b'7').contains(b))
                    .copied()
                    .collect();
                let value = digits.iter().fold(0u32, |v, d| v * 8 + u32::from(d - b'0'));
                (value as u8, at + 2 + digits.len())
            }
            other => (other, at + 3),
        }
    } else {
        (first, at + 2)
    };
    match bytes.get(next) {
        Some(b'\'') => Ok((value, next + 1)),
        _ => Err(bad()),
    }
}

struct Parser<'a> {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    is_type: &'a dyn Fn(&str) -> bool,
}

/// Binary operators, the weakest first.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].1
    }

    fn after(&self, n: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.at + n).min(last)].1
    }

    fn here(&self) -> usize {
        self.tokens[self.at].0
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = matches!(self.peek(), Token::Mark(m) if *m == mark);
        if found {
            self.next();
        }
        found
    }

    fn need(&mut self, mark: &str) -> Result<(), ExpressionError> {
        if self.take(mark) {
            return Ok(());
        }
        Err(self.error(format!("`{mark}` should stand here")))
    }

    fn error(&self, reason: impl Into<String>) -> ExpressionError {
        error(self.here(), reason)
    }

    fn expression(&mut self) -> Result<Node, ExpressionError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error("the expression is nested too deeply"));
        }
        let at = self.here();
        let condition = self.binary(0)?;
        let node = if self.take("?") {
            let yes = self.expression()?;
            self.need(":")?;
            let no = self.expression()?;
            Node {
                at,
                kind: Kind::Choice(Box::new(condition), Box::new(yes), Box::new(no)),
            }
        } else {
            condition
        };
        self.depth -= 1;
        Ok(node)
    }

    fn binary(&mut self, level: usize) -> Result<Node, ExpressionError> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        loop {
            let at = self.here();
            let found = match self.peek() {
                Token::Mark(m) => operators.iter().find(|o| *o == m),
                _ => None,
            };
            let Some(operator) = found else {
                return Ok(left);
            };
            self.next();
            let right = self.binary(level + 1)?;
            left = Node {
                at,
                kind: Kind::Binary(operator, Box::new(left), Box::new(right)),
            };
        }
    }

    fn unary(&mut self) -> Result<Node, ExpressionError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error("the expression is nested too deeply"));
        }
        let at = self.here();
        let node = match self.peek().clone() {
            Token::Mark(m @ ("*" | "&" | "-" | "+" | "!" | "~")) => {
                self.next();
                let operand = self.unary()?;
                Node {
                    at,
                    kind: Kind::Unary(m, Box::new(operand)),
                }
            }
            Token::Word(word) if word == "sizeof" => {
                self.next();
                let kind = if matches!(self.peek(), Token::Mark("(")) && self.type_follows(1) {
                    self.next();
                    let name = self.type_name()?;
                    self.need(")")?;
                    Kind::SizeOfType(name)
                } else {
                    Kind::SizeOf(Box::new(self.unary()?))
                };
                Node { at, kind }
            }
            Token::Mark("(") if self.type_follows(1) => {
                self.next();
                let name = self.type_name()?;
                self.need(")")?;
                let operand = self.unary()?;
                Node {
                    at,
                    kind: Kind::Cast(name, Box::new(operand)),
                }
            }
            _ => self.postfix()?,
        };
        self.depth -= 1;
        Ok(node)
    }

    /// Whether the token after the next `n` begins the name of a type.
    fn type_follows(&self, n: usize) -> bool {
        let Token::Word(word) = self.after(n) else {
            return false;
        };
        let word = word.as_str();
        if BASE_WORDS.contains(&word)
            || TAGS.contains(&word)
            || matches!(word, "const" | "volatile")
        {
            return true;
        }
        let mut path = word.to_owned();
        let mut next = n + 1;
        while let (Token::Mark("::"), Token::Word(part)) = (self.after(next), self.after(next + 1))
        {
            path = format!("{path}::{part}");
            next += 2;
        }
        let ends = matches!(self.after(next), Token::Mark("*" | ")"));
        ends && (self.is_type)(&path)
    }

    fn type_name(&mut self) -> Result<TypeName, ExpressionError> {
        let mut name = TypeName {
            at: self.here(),
            tag: None,
            words: Vec::new(),
            stars: 0,
        };
        loop {
            match self.peek().clone() {
                Token::Word(w) if matches!(w.as_str(), "const" | "volatile" | "restrict") => {}
                Token::Word(w) if TAGS.contains(&w.as_str()) => name.tag = Some(w),
                Token::Word(w) if name.stars == 0 => name.words.push(w),
                Token::Mark("::") if name.stars == 0 => {
                    self.next();
                    let Token::Word(rest) = self.peek().clone() else {
                        return Err(self.error("a name should stand here"));
                    };
                    match name.words.last_mut() {
                        Some(last) => *last = format!("{last}::{rest}"),
                        None => name.words.push(rest),
                    }
                }
                Token::Mark("*") => name.stars += 1,
                _ => break,
            }
            self.next();
        }
        if name.words.is_empty() {
            return Err(self.error("the name of a type should stand here"));
        }
        Ok(name)
    }

    fn postfix(&mut self) -> Result<Node, ExpressionError> {
        let mut node = self.primary()?;
        loop {
            let at = self.here();
            let kind = if self.take("[") {
                let index = self.expression()?;
                self.need("]")?;
                Kind::Index(Box::new(node), Box::new(index))
            } else if self.take(".") {
                Kind::Member(Box::new(node), self.name()?)
            } else if self.take("->") {
                Kind::Arrow(Box::new(node), self.name()?)
            } else if matches!(self.peek(), Token::Mark("(")) {
                return Err(self.error("functions cannot be called in an expression"));
            } else {
                return Ok(node);
            };
            node = Node { at, kind };
        }
    }

    fn name(&mut self) -> Result<String, ExpressionError> {
        match self.peek().clone() {
            Token::Word(word) => {
                self.next();
                Ok(word)
            }
            _ => Err(self.error("the name of a member should stand here")),
        }
    }

    fn primary(&mut self) -> Result<Node, ExpressionError> {
        let at = self.here();
        let kind = match self.peek().clone() {
            Token::Number(text) => {
                self.next();
                number(&text).ok_or_else(|| error(at, format!("`{text}` is no number")))?
            }
            Token::Character(value) => {
                self.next();
                Kind::Character(value)
            }
            Token::Register(name) => {
                self.next();
                Kind::Register(name)
            }
            Token::Word(first) => {
                self.next();
                // `file.c::name`
                if let (Token::Mark("."), Token::Word(extension), Token::Mark("::")) =
                    (self.peek().clone(), self.after(1).clone(), self.after(2))
                {
                    self.at += 3;
                    let name = self.name()?;
                    return Ok(Node {
                        at,
                        kind: Kind::InFile(format!("{first}.{extension}"), name),
                    });
                }
                let mut path = vec![first];
                while self.take("::") {
                    path.push(self.name()?);
                }
                Kind::Name(path)
            }
            Token::Mark("::") => {
                self.next();
                Kind::Name(vec![self.name()?])
            }
            Token::Mark("(") => {
                self.next();
                let inner = self.expression()?;
                self.need(")")?;
                return Ok(inner);
            }
            Token::End => return Err(error(at, "the expression ends too early")),
            Token::Mark(mark) => {
                return Err(error(
                    at,
                    format!("a value should stand here, not `{mark}`"),
                ));
            }
        };
        Ok(Node { at, kind })
    }
}

fn number(text: &str) -> Option<Kind> {
    let lower = text.to_ascii_lowercase();
    let hexadecimal = lower.starts_with("0x");
    if !hexadecimal && lower.contains(['.', 'e']) {
        return lower
            .trim_end_matches(['f', 'l'])
            .parse()
            .ok()
            .map(Kind::Float);
    }
    let digits = lower.trim_end_matches(['u', 'l']);
    let suffix = &lower[digits.len()..];
    let value = if hexadecimal {
        u128::from_str_radix(&digits[2..], 16).ok()?
    } else if let Some(binary) = digits.strip_prefix("0b") {
        u128::from_str_radix(binary, 2).ok()?
    } else if digits.len() > 1 && digits.starts_with('0') {
        u128::from_str_radix(&digits[1..], 8).ok()?
    } else {
        digits.parse().ok()?
    };
    (value <= u128::from(u64::MAX)).then(|| Kind::Integer {
        value,
        unsigned: suffix.contains('u'),
        long: suffix.contains('l'),
    })
}
