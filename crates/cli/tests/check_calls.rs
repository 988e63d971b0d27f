//! `wherefore check` on what the kernel is asked to touch: through arguments, through pointers that lie in memory, and
//! as names of files.
//!
//! The guests of these tests have many faults each. Every line with one says by which rule it is found.

mod harness;

use harness::Place;
use serde_json::Value;

/// The lines with faults, each with the rule.
fn marks(guest: &str) -> Vec<(String, u64)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/rules/");
    let text = std::fs::read_to_string(format!("{root}{guest}")).expect("a guest");
    let lines = (1..).zip(text.lines());
    let marked = lines.filter_map(|(n, l)| Some((l.split_once("// MARK: ")?.1.to_owned(), n)));
    marked.collect()
}

/// The faults of a report.
#[track_caller]
fn faults(p: &Place, args: &[&str]) -> Vec<Value> {
    let r = p.say(args);
    let at = r.err.find("{\n");
    let at = at.unwrap_or_else(|| panic!("no report: {}", r.err));
    let report: Value =
        serde_json::from_str(&r.err[at..]).unwrap_or_else(|e| panic!("{e}: {}", r.err));
    let list = report["faults"].as_array().expect("faults").clone();
    r.exits(i32::from(!list.is_empty()));
    list
}

/// The line of the guest's innermost frame.
fn line(fault: &Value) -> u64 {
    let frames = fault["at"]["stack"]["frames"].as_array().expect("frames");
    let own = frames.iter().find(|f| f["own"] == true);
    own.and_then(|f| f["line"].as_u64())
        .unwrap_or_else(|| panic!("no line of the guest: {fault:#}"))
}

/// All faults are found, each by its rule and once, when the guest runs and when its recording is looked at; the repaired
/// run has none.
#[track_caller]
fn check(guest: &str) -> Vec<Value> {
    const RULES: &str = "heap_overflow,dangling_deref,stack_overflow,global_overflow";
    let marks = marks(guest);
    let mut all = Vec::new();
    for level in ["-O0", "-O2"] {
        let p = Place::new();
        let program = p.guest(&format!("rules/{guest}"), &[level]);
        let program = program.to_str().expect("a path");
        let args = ["check", "--json", "--all", "--no-chains", "--only", RULES];
        let found = faults(&p, &[&args[..], &["--", program]].concat());
        let rule = |f: &Value| f["rule"].as_str().expect("a rule").to_owned();
        let told: Vec<(String, u64)> = found.iter().map(|f| (rule(f), line(f))).collect();
        assert_eq!(told, marks, "{guest} {level}");
        assert_eq!(found, faults(&p, &args), "{guest} {level}: its recording");
        all.extend(found);
        let none = faults(&p, &["check", "--json", "--all", "--", program, "right"]);
        assert!(none.is_empty(), "{guest} {level}: {none:#?}");
    }
    all
}

#[test]
fn lists() {
    for fault in check("lists.c") {
        let message = fault["message"].as_str().expect("a message");
        let size = fault["block"]["size"].as_u64().expect("a size");
        assert!(size < 1000 && message.contains(" by "), "{message}");
    }
}

/// The chain of a pointer that lies in memory goes through where it was put there.
#[test]
fn the_way_into_a_list() {
    let p = Place::new();
    let program = p.build("way", WAY, &["-O0", "-g"]);
    let found = faults(
        &p,
        &["check", "--json", "--", program.to_str().expect("a path")],
    );
    let message = found[0]["message"].as_str().expect("a message");
    assert!(message.starts_with("read of 50 bytes at "), "{message}");
    assert!(message.contains(" by writev: "), "{message}");
    let hops = found[0]["chains"][0]["hops"].as_array().expect("hops");
    let texts: Vec<&str> = hops.iter().filter_map(|h| h["text"].as_str()).collect();
    assert_eq!(
        texts,
        ["char *block = calloc(1, 40);", "list.iov_base = block;"]
    );
    assert_eq!(hops[1]["variable"], "list");
}

const WAY: &str = "
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>

int main(void)
{
    struct iovec list;
    char *block = calloc(1, 40);
    list.iov_base = block;
    list.iov_len = 50;
    return writev(open(\"/dev/null\", O_WRONLY), &list, 1) != 50;
}
";

#[test]
fn arguments() {
    check("arguments.c");
}

/// A text that the C library gives to the kernel, and a function of the program that is called like one of the library.
#[test]
fn paths() {
    check("paths.c");
}
