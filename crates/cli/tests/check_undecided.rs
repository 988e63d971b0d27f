//! `wherefore check` where the C library and the kernel are given values that were never written.

mod harness;

use std::process::Command;

use harness::Place;
use serde_json::Value;

const GUEST: &str = "undecided.c";

/// Lines that are marked, with what the marks say.
fn marks() -> Vec<(u64, String)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/rules/");
    let text = std::fs::read_to_string(format!("{root}{GUEST}")).expect("a guest");
    let mark = |line: &str| line.split_once("// MARK: ").map(|m| m.1.to_owned());
    let lines = (1..).zip(text.lines());
    lines.filter_map(|(n, l)| Some((n, mark(l)?))).collect()
}

fn faults(p: &Place, options: &[&str], program: &[&str]) -> Vec<Value> {
    let check = ["check", "--json", "--only", "uninitialised_read"];
    let r = p.say(&[&check[..], options, &["--"], program].concat());
    let at = r.err.find("{\n").expect("a report");
    let report: Value = serde_json::from_str(&r.err[at..]).expect("a report");
    report["faults"].as_array().expect("faults").clone()
}

/// The guest's own line.
fn line(fault: &Value) -> u64 {
    let frames = fault["at"]["stack"]["frames"].as_array().expect("frames");
    // Not what it calls, nor what a header has put into it.
    let called = [
        "compare",
        "says",
        "rest",
        "vsprintf",
        "vsnprintf",
        "atoi",
        "bsearch",
    ];
    let caller = |f: &&Value| f["own"] == true && !called.iter().any(|c| f["function"] == *c);
    let own = frames.iter().find(caller);
    own.and_then(|f| f["line"].as_u64()).expect("a line")
}

#[test]
fn what_was_never_written_decides_in_the_library() {
    let marks = marks();
    assert!(marks.len() > 30);
    for level in ["-O0", "-O2"] {
        let p = Place::new();
        let program = p.guest(&format!("rules/{GUEST}"), &[level]);
        let program = program.to_str().expect("a path");
        let all = ["--all", "--no-chains"];
        let found = faults(&p, &all, &[program]);
        let mut lines: Vec<u64> = found.iter().map(line).collect();
        lines.dedup();
        let expected: Vec<u64> = marks.iter().map(|m| m.0).collect();
        assert_eq!(lines, expected, "{level}");
        assert!(faults(&p, &all, &[program, "right"]).is_empty(), "{level}");

        let said = |name: &str| {
            let mark = marks.iter().find(|m| m.1 == name).expect("a mark");
            let fault = found.iter().find(|f| line(f) == mark.0).expect("a fault");
            fault["message"].as_str().expect("a message").to_owned()
        };
        for (mark, says) in [
            ("%d", "argument 2 of printf, for %d"),
            ("%g", "argument 2 of printf, for %g"),
            ("%x on the stack", "argument 8 of printf, for %x"),
            ("%2$x", "argument 3 of printf, for %2$x"),
            ("vsnprintf %x", "value 1 in argument 4 of vsnprintf, for %x"),
            (
                "vsnprintf in memory, again",
                "value 7 in argument 4 of vsnprintf",
            ),
            ("rest", "value 1 in argument 3 of vsprintf, for %x"),
            ("swprintf", "argument 4 of swprintf, for %x"),
            ("strlen", "strlen looks at 1 byte at 0x"),
            ("lseek", "argument 1 of sys_lseek"),
            ("memset", "argument 3 of memset"),
        ] {
            assert!(said(mark).starts_with(says), "{level}: {}", said(mark));
        }
        // What is told of it leads to where it came from.
        let strlen = &faults(&p, &[], &[program])[0];
        assert_eq!(strlen["block"]["size"], 40, "{strlen}");
        assert_eq!(strlen["block"]["unwritten"], true, "{strlen}");
    }
}

#[test]
fn valgrind_says_the_same() {
    let p = Place::new();
    let program = p.guest(&format!("rules/{GUEST}"), &["-O0"]);
    let out = Command::new("valgrind")
        .arg(&program)
        .output()
        .expect("these tests need valgrind");
    let text = String::from_utf8_lossy(&out.stderr);
    let mut said: Vec<u64> = text
        .split("\n==")
        .filter(|l| {
            ["strings", "formats", "others", "nothing"]
                .iter()
                .any(|f| l.contains(&format!(": {f} (")))
        })
        .filter_map(|l| l.rsplit_once(':')?.1.trim_end_matches(')').parse().ok())
        .collect();
    said.sort_unstable();
    said.dedup();
    // Valgrind tells once of what comes to the same place in the library by the same function.
    let marks = marks();
    let first = marks.iter().filter(|m| !m.1.ends_with("again"));
    let expected: Vec<u64> = first.map(|m| m.0).collect();
    assert_eq!(said, expected, "{text}");
}
