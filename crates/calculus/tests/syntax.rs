//! Texts: the examples of the manual do what they say, and errors are told with their places.

#[path = "../../rules/tests/examples/mod.rs"]
mod examples;

use calculus::{Outcome, State, parse};
use examples::{damaged, fenced};

const MANUAL: &str = include_str!("../../../docs/rules/calculus.md");

/// What is said of each example, and its text.
fn examples() -> Vec<(String, String)> {
    let blocks = fenced(MANUAL).into_iter();
    let ours =
        blocks.filter_map(|(word, text)| Some((word.strip_prefix("core ")?.to_owned(), text)));
    ours.collect()
}

/// The rules that must see it, or `done`.
fn outcome(text: &str) -> Vec<&'static str> {
    let program = parse(text).unwrap_or_else(|w| {
        let shown: String = w.iter().map(|w| w.render(text)).collect();
        panic!("{shown}")
    });
    let mut state = State::new(&program);
    loop {
        let point = state.point();
        let leaks = point.map_or(Vec::new(), |(p, _)| state.leaks(&p));
        match state.step() {
            Outcome::Next if leaks.iter().any(|l| l.0 == calculus::Leak::Definite) => {
                return vec!["definite_leak"];
            }
            Outcome::Next => {}
            Outcome::Done(v) => {
                assert_eq!(v, calculus::Value::Number(0), "{text}");
                return vec!["done"];
            }
            Outcome::Error(class) => return vec![class.rule()],
            Outcome::Stuck(why) => panic!("{why}: {text}"),
        }
    }
}

#[test]
fn examples_do_what_the_manual_says() {
    let list = examples();
    assert!(list.len() >= 4);
    for (said, text) in list {
        assert_eq!(outcome(&text), [said.as_str()], "{text}");
    }
}

/// The marked part of the text is complained about, in these words.
#[track_caller]
fn refuses(marked: &str, messages: &[&str]) {
    let text = marked.replace(['[', ']'], "");
    let mut places = Vec::new();
    for (n, piece) in marked.split('[').enumerate().skip(1) {
        let before: usize = marked.split('[').take(n).map(str::len).sum();
        let start = before
            - marked
                .split('[')
                .take(n)
                .map(|p| p.matches(']').count())
                .sum::<usize>();
        places.push(start..start + piece.find(']').expect("an end"));
    }
    let wrong = parse(&text).expect_err("it is wrong");
    let told: Vec<_> = wrong.iter().map(|w| w.message.as_str()).collect();
    assert_eq!(told, messages);
    let spans: Vec<_> = wrong.iter().map(|w| w.span.start..w.span.end).collect();
    assert_eq!(spans, places);
}

#[test]
fn errors_have_places() {
    refuses(
        "main ret main [x] + [y]",
        &["`x` is not defined", "`y` is not defined"],
    );
    refuses("main [1]", &["`main` must end in `ret main` on every way"]);
    refuses(
        "fun f(x) = [ret main 1] in main ret main 0",
        &["this returns from `main`, but it is in `f`"],
    );
    refuses(
        "main 1 + ([ret main 1]); ret main 2",
        &["`ret` can only be the last thing"],
    );
    refuses(
        "main if0 1 then ret main 1 else [2]",
        &["`main` must end in `ret main` on every way"],
    );
    refuses(
        "main let x = 1 [ret] main 1",
        &["`in` is expected, not `ret`"],
    );
    refuses(
        "main let x = salloc [0] in ret main 1",
        &["this is no size of a local variable"],
    );
    refuses("main ret main 1 [)]", &["the end is expected, not `)`"]);
    refuses(
        "var g = 1 in var [g] = 2 in main ret main g",
        &["`g` is defined twice"],
    );
    refuses(
        "main ret main [99999999999999999999]",
        &["the number is too large"],
    );
    refuses(
        "main ret main 1 [$] 2 [?]",
        &["`$` means nothing here", "`?` means nothing here"],
    );
    refuses(
        "main ret main[]",
        &["an expression is expected, not the end"],
    );
}

#[test]
fn an_error_is_shown_with_its_line() {
    let text = "main\nlet ü = 1 in ret main 0";
    let wrong = parse(text).expect_err("a letter");
    assert_eq!(
        wrong[0].render(text),
        "2:5: `ü` means nothing here\n  let ü = 1 in ret main 0\n      ^\n"
    );
}

#[test]
fn no_text_makes_the_parser_panic() {
    let seeds: Vec<String> = examples().into_iter().map(|e| e.1).collect();
    for text in damaged(&seeds, "()*;+p0-é\n", 3000) {
        for w in parse(&text).err().unwrap_or_default() {
            assert!(w.span.start <= w.span.end && w.span.end <= text.len());
            assert!(!w.render(&text).is_empty());
        }
    }
    // Nor does one that is nested without end.
    for part in ["(", "*", "let x = ", "1;", "if0 1 then "] {
        let text = format!("main {}", part.repeat(100_000));
        assert!(parse(&text).is_err());
    }
}
