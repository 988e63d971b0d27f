//! Rule files as words.

use crate::diagnostic::Diagnostic;
use crate::syntax::Span;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Name(String),
    Number(i64),
    Text(String),
    Sign(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) word: Word,
    pub(crate) span: Span,
    /// Comment lines right above it.
    pub(crate) about: String,
    /// The first of its line.
    pub(crate) first: bool,
}

/// The longest first.
const SIGNS: [&str; 31] = [
    "->", "||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "(", ")", "[", "]", "<", ">", ";", ":",
    ",", "=", "!", "|", "^", "&", "+", "-", "*", "/", "%", "{", "}", ".",
];

pub(crate) fn tokens(text: &str, wrong: &mut Vec<Diagnostic>) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let (mut at, mut first) = (0, true);
    let mut about = String::new();
    while at < bytes.len() {
        let start = at;
        let c = bytes[at];
        if c == b'\n' {
            // A blank line parts a comment from what follows.
            if first && text[..at].ends_with('\n') {
                about.clear();
            }
            first = true;
            at += 1;
            continue;
        }
        if c.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if c == b'#' || text[at..].starts_with("//") {
            let end = text[at..].find('\n').map_or(bytes.len(), |n| at + n);
            let line = text[at..end].trim_start_matches(['#', '/']).trim();
            if first {
                if !about.is_empty() {
                    about.push('\n');
                }
                about.push_str(line);
            }
            at = end;
            // The line counts as one with something on it.
            if at < bytes.len() {
                at += 1;
                first = true;
                if text[at..].starts_with('\n') {
                    about.clear();
                }
            }
            continue;
        }
        let word = if c.is_ascii_alphabetic() || c == b'_' {
            while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
                at += 1;
            }
            Word::Name(text[start..at].to_owned())
        } else if c.is_ascii_digit() {
            while at < bytes.len() && bytes[at].is_ascii_alphanumeric() {
                at += 1;
            }
            Word::Number(number(&text[start..at]).unwrap_or_else(|| {
                let span = Span { start, end: at };
                wrong.push(
                    Diagnostic::error(span, format!("`{}` is no number", &text[start..at]))
                        .help("numbers are decimal or hexadecimal, such as 64 or 0x40"),
                );
                0
            }))
        } else if c == b'"' {
            let line = text[at + 1..].find('\n').unwrap_or(text.len() - at - 1);
            match text[at + 1..at + 1 + line].find('"') {
                Some(n) => {
                    at += n + 2;
                    Word::Text(text[start + 1..at - 1].to_owned())
                }
                None => {
                    at += 1 + line;
                    let span = Span { start, end: at };
                    wrong.push(
                        Diagnostic::error(span, "this text has no end".to_owned())
                            .help("close it with \" on the same line"),
                    );
                    Word::Text(text[start + 1..at].to_owned())
                }
            }
        } else if let Some(sign) = SIGNS.iter().find(|s| text[at..].starts_with(**s)) {
            at += sign.len();
            Word::Sign(sign)
        } else {
            let c = text[at..].chars().next().unwrap_or('?');
            at += c.len_utf8();
            let span = Span { start, end: at };
            let logic = [
                ('¬', "!"),
                ('∧', "&&"),
                ('∨', "||"),
                ('∃', "exists"),
                ('∀', "forall"),
                ('∈', "in"),
                ('≠', "!="),
                ('≥', ">="),
                ('≤', "<="),
                ('σ', "Trace"),
                ('∅', "{}"),
                ('↦', "->"),
            ];
            let mut d = Diagnostic::error(span, format!("`{c}` means nothing in a rule file"));
            if let Some((_, spelt)) = logic.iter().find(|(l, _)| *l == c) {
                d = d.help(&format!("it is spelt `{spelt}` here"));
            }
            wrong.push(d);
            continue;
        };
        out.push(Token {
            word,
            span: Span { start, end: at },
            about: std::mem::take(&mut about),
            first: std::mem::replace(&mut first, false),
        });
    }
    out.push(Token {
        word: Word::End,
        span: Span {
            start: bytes.len(),
            end: bytes.len(),
        },
        about: String::new(),
        first: true,
    });
    out
}

fn number(text: &str) -> Option<i64> {
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => text.parse().ok()?,
    };
    Some(value as i64)
}
