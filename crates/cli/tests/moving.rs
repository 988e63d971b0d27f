//! Variables that are moved: a correct program does the same, and one that is not shows it.

mod harness;

use harness::Place;
use harness::gdb::{answer, contains, debug, told};

/// How programs are built: how code refers to variables differs.
const WAYS: [&[&str]; 6] = [
    &["-O0"],
    &["-O2"],
    &["-O0", "-no-pie", "-fno-pie"],
    &["-O2", "-no-pie", "-fno-pie"],
    &["-O1", "-static"],
    &["-O3", "-static-pie", "-fstack-protector-all"],
];

/// With each of the moves, the program does what it does without.
fn unmoved(guest: &str, globals: &[&str], function: &str, locals: &[&str]) {
    for flags in WAYS {
        let p = Place::new();
        let program = p.guest(guest, flags);
        let plain = p.run(&program, &[]).exits(0).out.clone();
        for names in globals {
            let r = p.say(&["replay", "--move", names]);
            assert_eq!(r.out, plain, "{flags:?}: {names}: {}", r.err);
            r.exits(0).says("its output is the same");
        }
        let mut moved = 0;
        for names in locals {
            let r = p.say(&["replay", "--move", &format!("{function}:{names}")]);
            // What is in no memory of its own cannot be moved, and one order is the one that it has.
            let said = [
                "that is the order",
                "with a place of its own",
                "has no room",
            ];
            if r.status == Some(2) && said.iter().any(|s| r.err.contains(s)) {
                continue;
            }
            assert_eq!(r.out, plain, "{flags:?}: {names}: {}", r.err);
            r.exits(0).says("its output is the same");
            moved += 1;
        }
        assert!(moved > 0, "{flags:?}");
    }
}

#[test]
fn a_correct_program_does_the_same() {
    let globals = [
        "table",
        "name",
        "after",
        "pointer",
        "last",
        "counter",
        "pairs",
        "levels",
        "nothing",
        "seen",
        "table,name",
        "name,table,pairs",
        "counter,levels,seen,nothing",
    ];
    let locals = [
        "small",
        "numbers",
        "total",
        "p",
        "small,numbers",
        "numbers,small",
    ];
    unmoved("debug/places.c", &globals, "locals", &locals);
}

#[test]
fn so_does_one_in_cxx() {
    let globals = [
        "shop::stock",
        "shop::sold",
        "shop::Item::count",
        "numbers",
        "greeting",
        "greeting,shop::stock,numbers",
    ];
    let locals = ["text", "values", "s", "text,s", "s,text"];
    unmoved("debug/moved_objects.cpp", &globals, "work", &locals);
}

#[test]
fn variables_are_where_they_were_put() {
    for flags in WAYS {
        let p = Place::new();
        let program = p.guest("debug/neighbours.c", flags);
        p.run(&program, &[]).exits(0);
        let says = |names: &str| p.say(&["replay", "--move", names]).out;
        // One behind the other, as far as their alignment lets them.
        let distances = |text: &str| -> Vec<i64> {
            let words = text.lines().next().unwrap_or_default().split(' ');
            words.filter_map(|w| w.parse().ok()).collect()
        };
        let moved = distances(&says("first,second,third"));
        let close = moved[0] >= 40 && moved[0] < 56 && moved[1] >= 24 && moved[1] < 40;
        assert!(close, "{flags:?}: {moved:?}");
        let moved = distances(&says("third,second"));
        assert!(moved[1] <= -24 && moved[1] > -40, "{flags:?}: {moved:?}");
        // Of the orders of three in a frame, one is there already.
        let orders = [
            "low,middle,high",
            "high,middle,low",
            "middle,low,high",
            "high,low,middle",
        ];
        let expected = ["1 1", "0 0", "0 1", "1 0"];
        let mut moved = 0;
        for (names, expected) in orders.iter().zip(expected) {
            let r = p.say(&["replay", "--move", &format!("locals:{names}")]);
            if r.status == Some(2) && (r.err.contains("already") || r.err.contains("no room")) {
                continue;
            }
            let last = r.out.lines().last().unwrap_or_default();
            assert_eq!(last, expected, "{flags:?}: {names}: {}", r.err);
            moved += 1;
        }
        assert!(moved >= 2, "{flags:?}: {moved}");
    }
}

#[test]
fn a_hidden_overflow_shows() {
    for flags in WAYS {
        let p = Place::new();
        let program = p.guest("debug/hidden_overflow.c", flags);
        let plain = p.run(&program, &[]).exits(0).out.clone();
        let r = p.say(&["replay", "--move", "label,action"]);
        r.dies(11).says("that is a new failure");
        // Alone it does no harm, nor does another neighbour.
        let r = p.say(&["replay", "--move", "action"]);
        assert_eq!(r.out, plain, "{}", r.err);
        let r = p.say(&[
            "run",
            "--move",
            "label,action",
            "--",
            &program.display().to_string(),
        ]);
        assert_eq!(r.out, plain, "the run itself is as it is: {}", r.err);
    }
}

#[test]
fn what_cannot_be_moved_is_named() {
    let p = Place::new();
    let program = p.guest("debug/places.c", &["-O0"]);
    p.run(&program, &[]).exits(0);
    for (names, said) in [
        ("", "NAME,NAME"),
        (":x", "no function before"),
        ("table,table", "twice"),
        ("nowhere", "no global variable `nowhere`"),
        ("0x1234", "no global variable at 0x1234"),
        ("nowhere:x", "no function `nowhere`"),
        ("locals:nothing", "small"),
    ] {
        p.say(&["replay", "--move", names]).exits(2).says(said);
    }
}

#[test]
fn moving_in_the_debugger() {
    let p = Place::new();
    let program = p.guest("debug/hidden_overflow.c", &["-O0"]);
    p.run(&program, &[]).exits(0);
    let commands = "move label,action\ninfo edits\ncontinue\ninfo timelines\ntimeline 0\ncontinue\n\
                    goto 0\nmove action\nmove unused\nedit delete 1\ninfo edits\n\
                    break answer\nrun\nmove answer:x\nmove main:argc\n";
    let all = told(&debug(&p, commands), commands);
    contains(
        answer(&all, "move label,action", 0),
        &["edit 1: move label,action (label at 0x", "action at 0x"],
    );
    contains(answer(&all, "info edits", 0), &["1  move label,action"]);
    contains(answer(&all, "continue", 0), &["SIGSEGV"]);
    contains(
        answer(&all, "info timelines", 0),
        &["* 1  move label,action"],
    );
    contains(answer(&all, "continue", 1), &["42 a x"]);
    contains(answer(&all, "move unused", 0), &["edit 2: move unused"]);
    contains(answer(&all, "info edits", 1), &["1  move unused"]);
    contains(answer(&all, "move main:argc", 0), &["main is running"]);
}
