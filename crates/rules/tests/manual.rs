//! The examples in the manual are right, and those of errors are wrong.

mod examples;

use examples::{damaged, fenced};
use rules::{Severity, compile, parse, print};

const MANUAL: &str = include_str!("../../../docs/rules/language.md");

/// Blocks of code with this word behind the fence.
fn examples(kind: &str) -> Vec<String> {
    let blocks = fenced(MANUAL).into_iter();
    let ours = blocks.filter(|(word, _)| word == kind);
    ours.map(|(_, text)| text).collect()
}

#[test]
fn examples_compile_and_print() {
    let list = examples("rules");
    assert!(list.len() >= 3);
    for text in list {
        let (rules, wrong) = compile(&text);
        let shown: Vec<String> = wrong.iter().map(|d| d.render("example", &text)).collect();
        assert!(shown.is_empty(), "{}", shown.join("\n"));
        assert!(!rules.rules.is_empty() || !rules.pairs.is_empty());
        let (items, _) = parse(&text);
        let printed = print::print(&items);
        let (again, wrong) = parse(&printed);
        assert!(wrong.is_empty(), "{printed}");
        assert_eq!(print::print(&again), printed);
    }
}

#[test]
fn examples_of_errors_are_refused() {
    let list = examples("rules-error");
    assert!(list.len() >= 5);
    for text in list {
        let (rules, wrong) = compile(&text);
        assert!(
            wrong.iter().any(|d| d.severity == Severity::Error),
            "{text}"
        );
        assert!(rules.rules.is_empty(), "{text}");
        // The place is inside of the text, and the message shows it.
        for d in &wrong {
            assert!(d.span.start <= d.span.end && d.span.end <= text.len());
            assert!(d.render("example", &text).contains("example:"), "{text}");
        }
    }
}

#[test]
fn examples_of_warnings_are_warned_of() {
    let list = examples("rules-warning");
    assert!(list.len() >= 3);
    for text in list {
        let (rules, wrong) = compile(&text);
        let severity: Vec<Severity> = wrong.iter().map(|d| d.severity).collect();
        assert_eq!(severity, [Severity::Warning], "{text}");
        assert_eq!(rules.rules.len(), 1, "{text}");
    }
}

#[test]
fn no_text_makes_the_compiler_panic() {
    let seeds: Vec<String> = examples("rules")
        .into_iter()
        .chain(examples("rules-error"))
        .collect();
    for text in damaged(&seeds, "(){}[]<>:;,&|!_\"\n ar0", 3000) {
        for d in compile(&text).1 {
            let _ = d.render("broken", &text);
        }
    }
}
