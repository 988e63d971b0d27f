//! What `wherefore check` says of the guests of `guests/rules`.
//!
//! Each of them takes the right way if it is given an argument. So its repaired twin is the same program, and what makes
//! the difference is the fault alone.

use std::process::Command;

use serde_json::Value;

use super::Place;

pub(crate) fn source(guest: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/rules/");
    std::fs::read_to_string(format!("{root}{guest}")).expect("a guest")
}

/// The line that is marked.
#[track_caller]
pub(crate) fn mark(guest: &str, name: &str) -> u64 {
    let wanted = format!("// MARK: {name}");
    let text = source(guest);
    let found = text.lines().position(|l| l.ends_with(&wanted));
    found.expect("a mark") as u64 + 1
}

#[track_caller]
pub(crate) fn faults(p: &Place, args: &[&str]) -> Vec<Value> {
    let r = p.say(args);
    let at = r
        .err
        .find("{\n")
        .unwrap_or_else(|| panic!("no report: {}", r.err));
    let report: Value =
        serde_json::from_str(&r.err[at..]).unwrap_or_else(|e| panic!("{e}: {}", r.err));
    let list = report["faults"].as_array().expect("faults").clone();
    r.exits(i32::from(!list.is_empty()));
    list
}

/// Lines of the guest's own frames on a stack, innermost first.
pub(crate) fn own_lines(site: &Value) -> Vec<u64> {
    let frames = site["stack"]["frames"].as_array().expect("frames");
    let own = frames.iter().filter(|f| f["own"] == true);
    own.filter_map(|f| f["line"].as_u64()).collect()
}

pub(crate) fn chain_lines(chain: &Value) -> Vec<u64> {
    let hops = chain["hops"].as_array().expect("hops");
    hops.iter().filter_map(|h| h["line"].as_u64()).collect()
}

/// The rule finds the fault at its mark, at both levels of optimisation; the repaired run is clean.
#[track_caller]
pub(crate) fn check(guest: &str, rule: &str, valgrind: Option<&str>) -> Vec<Value> {
    check_with(guest, rule, valgrind, &[])
}

#[track_caller]
pub(crate) fn check_with(
    guest: &str,
    rule: &str,
    valgrind: Option<&str>,
    options: &[&str],
) -> Vec<Value> {
    let mut out = Vec::new();
    for level in ["-O0", "-O2"] {
        let p = Place::new();
        let program = p.guest(&format!("rules/{guest}"), &[level]);
        let program = program.to_str().expect("a path");
        let mut args = vec!["check", "--json"];
        args.extend(options);
        args.extend(["--", program]);
        let found = faults(&p, &args);
        assert!(!found.is_empty(), "{guest} {level}: nothing was found");
        assert_eq!(found[0]["rule"], rule, "{guest} {level}");
        let site = match found[0]["leaks"].as_array().and_then(|l| l.first()) {
            Some(leak) => &leak["allocated"],
            None => &found[0]["at"],
        };
        assert_eq!(
            own_lines(site).first(),
            Some(&mark(guest, "fault")),
            "{guest} {level}"
        );
        out.push(found[0].clone());

        args.insert(1, "--all");
        args.push("right");
        let none = faults(&p, &args);
        assert!(none.is_empty(), "{guest} {level}, repaired: {none:?}");
        if let Some(words) = valgrind {
            let said = |args: &[&str]| {
                let out = Command::new("valgrind")
                    .args(["--leak-check=full", program])
                    .args(args)
                    .output()
                    .expect("these tests need valgrind");
                String::from_utf8_lossy(&out.stderr).into_owned()
            };
            assert!(
                said(&[]).contains(words),
                "{guest} {level}: valgrind disagrees"
            );
            assert!(
                !said(&["right"]).contains(words),
                "{guest} {level}: valgrind disagrees"
            );
        }
    }
    out
}
