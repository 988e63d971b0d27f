//! Values that were never written and decide, under `wherefore check`.

mod harness;

use harness::faults::{chain_lines, check, mark};
use serde_json::Value;

/// The block with the unwritten bytes, and where in it they are.
#[track_caller]
fn unwritten(fault: &Value) -> (u64, &str) {
    assert_eq!(fault["block"]["unwritten"], true);
    let size = fault["block"]["size"].as_u64().expect("a size");
    (size, fault["block"]["relation"].as_str().expect("a place"))
}

#[test]
fn numbers_in_vector_registers() {
    for fault in check(
        "uninitialised_number.c",
        "uninitialised_read",
        Some("Conditional jump"),
    ) {
        assert_eq!(unwritten(&fault), (240, "232 bytes inside"));
    }
}

/// Not the other elements that were added at the same time.
#[test]
fn one_of_many_that_were_added_at_once() {
    for fault in check(
        "uninitialised_sum.c",
        "uninitialised_read",
        Some("Conditional jump"),
    ) {
        assert_eq!(unwritten(&fault), (1600, "1000 bytes inside"));
        assert!(chain_lines(&fault["chains"][0]).contains(&mark("uninitialised_sum.c", "cause")));
    }
}
