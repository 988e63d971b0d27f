//! Words and signs of the concrete syntax.

use crate::parse::Wrong;
use crate::syntax::Span;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Number(i64),
    /// A name or a word of the language.
    Word(String),
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 8] = [":=", "+", "*", ";", "=", "(", ")", "-"];

/// All tokens, the last of which is [`Token::End`]; what is none is complained about and left out.
pub(crate) fn lex(text: &str, wrong: &mut Vec<Wrong>) -> Vec<(Token, Span)> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let run = |ok: fn(char) -> bool| {
            let rest = &text[at..];
            at + rest.find(|c| !ok(c)).unwrap_or(rest.len())
        };
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end;
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if c == '#' {
            at = run(|c| c != '\n');
            continue;
        } else if c.is_ascii_digit() {
            end = run(|c| c.is_ascii_digit());
            let span = Span { start: at, end };
            match text[at..end].parse() {
                Ok(n) => out.push((Token::Number(n), span)),
                Err(_) => wrong.push(Wrong::new(span, "the number is too large")),
            }
        } else if word(c) {
            end = run(|c| c.is_ascii_alphanumeric() || c == '_');
            let span = Span { start: at, end };
            out.push((Token::Word(text[at..end].to_owned()), span));
        } else if text[at..].starts_with("+p") && !text[at + 2..].starts_with(word) {
            end = at + 2;
            out.push((Token::Sign("+p"), Span { start: at, end }));
        } else if let Some(sign) = SIGNS.iter().find(|s| text[at..].starts_with(**s)) {
            end = at + sign.len();
            out.push((Token::Sign(sign), Span { start: at, end }));
        } else {
            end = at + c.len_utf8();
            let span = Span { start: at, end };
            wrong.push(Wrong::new(span, format!("`{c}` means nothing here")));
        }
        at = end;
    }
    let end = Span {
        start: text.len(),
        end: text.len(),
    };
    out.push((Token::End, end));
    out
}
