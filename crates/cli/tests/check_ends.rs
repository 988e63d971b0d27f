//! How programs end under `wherefore check`: what they die of, and what they leave behind.

mod harness;

use harness::Place;
use harness::faults::{chain_lines, check, faults, mark};

/// What the allocator notes of free memory is no pointer that the program has.
#[test]
fn blocks_that_only_the_allocator_knows_are_leaked() {
    for fault in check(
        "leaks_of_all_sizes.c",
        "definite_leak",
        Some("definitely lost: 20,100 bytes in 200 blocks"),
    ) {
        assert_eq!(fault["leaks"][0]["bytes"], 20_100);
        assert_eq!(fault["leaks"][0]["blocks"], 200);
    }
}

/// Memory that the program has made read-only, or the loader, still holds what was put there, and so does what is mapped where a
/// block was that is freed.
#[test]
fn all_memory_is_searched_for_pointers() {
    // Valgrind does not look there.
    check("read_only.c", "definite_leak", None);
    check("mapped_again.c", "definite_leak", None);
    let p = Place::new();
    let program = p.guest(
        "threads/producer_consumer.c",
        &["-O0", "-static", "-pthread"],
    );
    let program = program.to_str().expect("a path");
    p.say(&["check", "--all", "--", program]).exits(0);
}

#[test]
fn calls_of_nothing() {
    for fault in check(
        "null_call.c",
        "null_deref",
        Some("Jump to the invalid address"),
    ) {
        assert!(chain_lines(&fault["chains"][0]).contains(&mark("null_call.c", "cause")));
    }
}

/// A program that no rule says anything of, but that dies of a fault, is not one in which nothing is wrong.
#[test]
fn a_crash_is_a_fault() {
    let p = Place::new();
    let program = p.guest("crash/divide.c", &["-O0"]);
    let program = program.to_str().expect("a path");
    let ran = p.say(&["check", "--", program]);
    ran.says("found no fault")
        .says("SIGFPE")
        .says("divided an integer by zero")
        .exits(1);
    let again = p.say(&["check"]);
    again.says("divided an integer by zero").exits(1);
    let report = p.say(&["check", "--json"]);
    report.exits(1);
    let report: serde_json::Value = serde_json::from_str(&report.err).expect("a report");
    assert_eq!(report["crash"]["signal"]["name"], "SIGFPE");
    assert_eq!(report["faults"].as_array().map(Vec::len), Some(0));
}

/// gdb opens before the fault, with the libraries that there are.
#[test]
fn a_debugger_stands_before_the_fault() {
    let p = Place::new();
    let program = p.guest("rules/double_free.c", &["-O0"]);
    let program = program.to_str().expect("a path");
    let found = faults(&p, &["check", "--json", "--name", "twice", "--", program]);
    let step = found[0]["step"].as_u64().expect("a step").to_string();
    p.say(&["check", "twice"])
        .says(&format!("wherefore debug twice --to {step}"))
        .exits(1);
    let script = p.path("script");
    std::fs::write(&script, "where 2\n").expect("a script");
    let script = script.to_str().expect("a path");
    let ran = p.say(&["debug", "twice", "--to", &step, "--batch", "-x", script]);
    let line = format!("double_free.c:{}", mark("double_free.c", "fault"));
    assert!(ran.out.contains(&line), "{} {}", ran.out, ran.err);
    assert!(ran.out.contains("free ("), "{} {}", ran.out, ran.err);
}

/// Of an allocator that was inlined here and there, not all blocks are seen to be made, so none is followed.
#[test]
fn allocators_that_are_inlined_somewhere() {
    let p = Place::new();
    let rules = p.path("pool.rules");
    std::fs::write(&rules, "allocator pool_take(size) / pool_give(ptr)\n").expect("a file");
    let rules = rules.to_str().expect("a path");
    let program = p.guest("rules/inlined_pool.c", &["-O2"]);
    let program = program.to_str().expect("a path");
    let args = ["check", "--all", "--rules", rules, "--", program, "right"];
    p.say(&args)
        .says("`pool_take` was inlined where some functions call it; build with -fno-inline")
        .exits(0);
    let found = check("inlined_pool.c", "heap_overflow", Some("Invalid read"));
    assert_eq!(found.len(), 2);
}
