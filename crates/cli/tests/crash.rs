//! What the crash report says, and that a replay says the same.

mod harness;

use std::path::Path;

use harness::Place;

/// The line of a mark in a guest of the repository.
#[track_caller]
fn mark(guest: &str, mark: &str) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
    let source = std::fs::read_to_string(root.join(guest)).expect("a guest");
    let found = source.lines().position(|l| l.contains(mark));
    found.expect("the mark is there") + 1
}

/// Runs a guest at several optimisation levels; the report must contain all of `texts`.
#[track_caller]
fn check(guest: &str, signal: i32, texts: &[String]) {
    for flags in [
        &["-O0"][..],
        &["-O2"],
        &["-O2", "-fomit-frame-pointer", "-static"],
    ] {
        let p = Place::new();
        std::fs::write(p.path("small.txt"), "tiny").unwrap();
        let program = p.guest(guest, flags);
        let ran = p.run(&program, &[]);
        ran.dies(signal);
        for text in texts {
            assert!(
                ran.err.contains(text.as_str()),
                "{flags:?}: no {text:?} in\n{}",
                ran.err
            );
        }
        for line in ran.err.lines() {
            assert!(
                line.chars().count() <= 100 || line.contains('/'),
                "too long: {line}"
            );
        }
        std::fs::remove_file(&program).unwrap();
        let replayed = p.say(&["replay"]);
        replayed.dies(signal);
        assert_eq!(
            (&ran.out, &ran.err),
            (&replayed.out, &replayed.err),
            "{flags:?}"
        );
        assert!(ran.says("to look further").err.contains("--to "));
    }
}

fn at(guest: &str, text: &str) -> String {
    let file = Path::new(guest)
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    format!("{file}:{}", mark(guest, text))
}

#[test]
fn null_dereference() {
    let g = "crash/null_deref.c";
    check(
        g,
        11,
        &[
            "SIGSEGV: invalid memory access".into(),
            "tried to read address 0x0, through a null pointer".into(),
            at(g, "MARK: fault"),
            " in last".into(),
            "while (node->next->value >= 0)".into(),
            "#1   main ()".into(),
        ],
    );
}

#[test]
fn smashed_return_names_the_last_function() {
    check(
        "crash/smashed_return.c",
        11,
        &[
            "`victim` returned to 0x4141414141414141, which is not code".into(),
            "in victim".into(),
            "#0   victim (".into(),
        ],
    );
}

#[test]
fn abort_shows_the_users_code() {
    let g = "crash/abort.c";
    check(
        g,
        6,
        &[
            "SIGABRT".into(),
            "the program called abort".into(),
            at(g, "        abort();"),
        ],
    );
}

#[test]
fn assertion() {
    let g = "crash/assert.c";
    check(g, 6, &["an assertion failed".into(), at(g, "    assert(")]);
}

#[test]
fn stack_overflow() {
    check(
        "crash/stack_overflow.c",
        11,
        &[
            "the stack overflowed: all of its 102".into(),
            "in sink".into(),
            "more frames ...".into(),
        ],
    );
}

#[test]
fn division() {
    let g = "crash/divide.c";
    check(
        g,
        8,
        &[
            "SIGFPE".into(),
            "divided an integer by zero".into(),
            at(g, "MARK: fault"),
            "in average".into(),
        ],
    );
}

#[test]
fn jump_into_data() {
    check(
        "crash/wild_jump.c",
        11,
        &[
            "`main` called 0x".into(),
            "may be read and written but not executed".into(),
            "in main".into(),
        ],
    );
}

#[test]
fn jump_through_a_bad_entry() {
    let g = "crash/wild_tail.c";
    check(
        g,
        11,
        &[
            "`dispatch` jumped to 0x1234567, which is not code".into(),
            at(g, "MARK: fault"),
        ],
    );
}

#[test]
fn call_of_a_null_pointer() {
    let g = "crash/null_call.c";
    check(
        g,
        11,
        &[
            "called 0x0, a null pointer".into(),
            at(g, "MARK: fault"),
            "in main".into(),
        ],
    );
}

#[test]
fn wild_write() {
    let g = "crash/wild_write.c";
    check(
        g,
        11,
        &[
            "tried to write address 0x6d616e2d676e6f6c".into(),
            at(g, "MARK: fault"),
        ],
    );
}

#[test]
fn file_that_ends_too_early() {
    check(
        "crash/bus_error.c",
        7,
        &[
            "SIGBUS".into(),
            "which lies beyond the end of".into(),
            "small.txt".into(),
        ],
    );
}

#[test]
fn illegal_instruction() {
    check(
        "crash/trap.c",
        4,
        &["SIGILL".into(), "ud2".into(), "in main".into()],
    );
}

#[test]
fn stripped_program_is_reported_by_address() {
    let p = Place::new();
    let program = p.guest("crash/null_deref.c", &["-O2", "-s"]);
    let r = p.run(&program, &[]);
    r.dies(11).says("null_deref+0x").says("instruction");
}

#[test]
fn quiet_says_nothing_and_json_says_it_all() {
    let p = Place::new();
    let program = p.guest("crash/null_deref.c", &[]);
    let mut c = p.wherefore(&["run", "-q", "--"]);
    c.arg(&program);
    let r = harness::finish(c);
    r.dies(11);
    assert_eq!(r.err, "");
    let r = p.say(&["replay", "--json"]);
    r.dies(11);
    let report: serde_json::Value = serde_json::from_str(&r.err).expect("JSON");
    let crash = &report["crash"];
    assert_eq!(crash["signal"]["name"], "SIGSEGV");
    assert_eq!(crash["address"], 0);
    let frame = &crash["position"]["stack"]["frames"][0];
    assert_eq!(frame["function"], "last");
    assert_eq!(frame["line"], mark("crash/null_deref.c", "MARK: fault"));
}

#[test]
fn no_colours_into_a_pipe() {
    let p = Place::new();
    let program = p.guest("crash/null_deref.c", &[]);
    assert!(!p.run(&program, &[]).err.contains('\x1b'));
}

#[test]
fn lost_debug_information_is_named() {
    let p = Place::new();
    let source = "int *where;\nint main(void)\n{\n    return *where;\n}\n";
    let guest = p.build("lost", source, &["-gsplit-dwarf"]);
    let lost = guest.with_extension("dwo");
    let whole = p.run(&guest, &[]);
    assert!(!whole.dies(11).err.contains("note:"), "{}", whole.err);
    p.say(&["value", "where", "--at", "crash"])
        .exits(0)
        .says("where = 0x0");
    std::fs::remove_file(&lost).expect("split debug information");
    p.run(&guest, &[])
        .dies(11)
        .says("lost.c:4")
        .says("note: ")
        .says("lost.dwo");
    p.say(&["value", "where", "--at", "crash"])
        .exits(2)
        .says("lost.dwo");
}
