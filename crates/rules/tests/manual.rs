//! The examples in the manual are right, and those of errors are wrong.

use rules::{Severity, compile, parse, print};

const MANUAL: &str = include_str!("../../../docs/rules/language.md");

/// Blocks of code with this word behind the fence.
fn examples(kind: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut inside: Option<String> = None;
    for line in MANUAL.lines() {
        match (&mut inside, line.strip_prefix("```")) {
            (None, Some(k)) if k == kind => inside = Some(String::new()),
            (Some(_), Some("")) => out.extend(inside.take()),
            (Some(text), _) => {
                text.push_str(line);
                text.push('\n');
            }
            _ => {}
        }
    }
    out
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
fn no_text_makes_the_compiler_panic() {
    let seeds: Vec<String> = examples("rules")
        .into_iter()
        .chain(examples("rules-error"))
        .collect();
    let mut state = 1u64;
    let mut random = |n: usize| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as usize % n.max(1)
    };
    for _ in 0..3000 {
        let mut bytes = seeds[random(seeds.len())].clone().into_bytes();
        for _ in 0..1 + random(4) {
            let at = random(bytes.len());
            match random(3) {
                0 => {
                    bytes.remove(at);
                }
                1 => bytes.insert(at, b"(){}[]<>:;,&|!_\"\n ar0"[random(21)]),
                _ => bytes.truncate(at),
            }
            if bytes.is_empty() {
                break;
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for d in compile(&text).1 {
            let _ = d.render("broken", &text);
        }
    }
}
