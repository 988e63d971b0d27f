//! `wherefore check` on small programs: each fault is found, and its repaired twin is clean.
//!
//! That the faults are faults is the word of valgrind, which is run beside us where it can see them.

mod harness;

use std::process::Command;

use harness::Place;
use harness::faults::{chain_lines, check, check_with, faults, mark, own_lines, source};
use serde_json::Value;

#[test]
fn double_free() {
    for fault in check("double_free.c", "double_free", Some("Invalid free()")) {
        // The second free's pointer went through the shallow copy, the first one's did not.
        let chains = fault["chains"].as_array().expect("chains");
        let cause = mark("double_free.c", "cause");
        assert!(chain_lines(&chains[0]).contains(&cause), "{chains:?}");
        assert!(!chain_lines(&chains[1]).contains(&cause), "{chains:?}");
        assert!(fault["block"]["freed"]["step"].as_u64() < fault["step"].as_u64());
    }
}

#[test]
fn dangling() {
    // The block was handed out again, so that an address alone says nothing: valgrind is silent.
    for fault in check("dangling.c", "dangling_deref", None) {
        assert!(chain_lines(&fault["chains"][0]).contains(&mark("dangling.c", "cause")));
    }
}

#[test]
fn overflow() {
    for fault in check("overflow.c", "heap_overflow", Some("Invalid write")) {
        assert_eq!(fault["block"]["relation"], "0 bytes past the end of");
        assert_eq!(fault["block"]["size"], 44);
    }
}

#[test]
fn overflow_in_a_frame_that_was_aligned() {
    check("aligned_frame.c", "heap_overflow", Some("Invalid read"));
}

#[test]
fn overflow_in_a_function_in_a_function() {
    check("inner_function.c", "heap_overflow", Some("Invalid write"));
}

#[test]
fn overflow_into_a_neighbour() {
    check("neighbour.c", "heap_overflow", None);
}

#[test]
fn overflow_of_a_string_function() {
    let p = Place::new();
    let program = p.guest("rules/strings.c", &["-O0"]);
    let program = program.to_str().expect("a path");
    let found = faults(&p, &["check", "--json", "--", program]);
    assert_eq!(found[0]["rule"], "heap_overflow");
    assert_eq!(own_lines(&found[0]["at"])[0], mark("strings.c", "fault"));
    assert!(faults(&p, &["check", "--json", "--all", "--", program, "right"]).is_empty());
}

#[test]
fn underflow() {
    check("underflow.c", "heap_underflow", Some("Invalid read"));
}

#[test]
fn null() {
    for level in ["-O0", "-O2"] {
        let p = Place::new();
        let program = p.guest("rules/null.c", &[level]);
        let program = program.to_str().expect("a path");
        let found = faults(&p, &["check", "--json", "--", program]);
        assert_eq!(found[0]["rule"], "null_deref", "{level}");
        assert_eq!(
            own_lines(&found[0]["at"])[0],
            mark("null.c", "fault"),
            "{level}"
        );
        assert_eq!(found[0]["chains"][0]["origin"], "the constant 0", "{level}");
        assert!(faults(&p, &["check", "--json", "--all", "--", program, "right"]).is_empty());
    }
}

#[test]
fn null_inside_of_the_library() {
    let p = Place::new();
    let program = p.guest("rules/null_compared.c", &["-O0"]);
    let program = program.to_str().expect("a path");
    let found = faults(&p, &["check", "--json", "--", program]);
    assert_eq!(found[0]["rule"], "null_deref");
    let at = own_lines(&found[0]["at"]);
    assert!(at.contains(&mark("null_compared.c", "fault")), "{at:?}");
    assert!(faults(&p, &["check", "--json", "--all", "--", program, "right"]).is_empty());
}

#[test]
fn uninitialised() {
    const SAID: Option<&str> = Some("depends on uninitialised value");
    check("uninitialised.c", "uninitialised_read", SAID);
    check("uninitialised_local.c", "uninitialised_read", SAID);
    // One of many operands was never written; the chain leads to that one, and to its block.
    for fault in check("uninitialised_element.c", "uninitialised_read", SAID) {
        let chain = &fault["chains"][0];
        assert!(chain_lines(chain).contains(&mark("uninitialised_element.c", "sum")));
        let block = &fault["block"];
        assert_eq!(block["size"], 4 * 300, "{fault}");
        assert_eq!(block["relation"], "828 bytes inside", "{fault}");
        let made = own_lines(&block["allocated"]);
        assert_eq!(
            made.first(),
            Some(&mark("uninitialised_element.c", "cause"))
        );
    }
}

#[test]
fn frees_of_the_wrong_thing() {
    check("unmatched_free.c", "unmatched_free", Some("Invalid free()"));
    check("stack_free.c", "stack_free", Some("Invalid free()"));
    check("realloc.c", "invalid_realloc", Some("Invalid"));
}

#[test]
fn mismatched() {
    let p = Place::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests");
    let (file, program) = (format!("{root}/rules/mismatched.cpp"), p.path("mismatched"));
    let status = Command::new("g++")
        .args(["-g", "-w", "-O0", "-I", root, "-o"])
        .arg(&program)
        .arg(&file)
        .status()
        .expect("these tests need g++");
    assert!(status.success());
    let program = program.to_str().expect("a path");
    let found = faults(&p, &["check", "--json", "--", program]);
    assert_eq!(found[0]["rule"], "mismatched_free");
    assert_eq!(
        own_lines(&found[0]["at"])[0],
        mark("mismatched.cpp", "fault")
    );
    assert!(faults(&p, &["check", "--json", "--all", "--", program, "right"]).is_empty());
}

/// What a function has left in a register that it need not keep is no pointer that the program has.
#[test]
fn leak_of_what_is_left_in_registers() {
    check("left_in_register.c", "definite_leak", None);
}

#[test]
fn leak() {
    let found = check(
        "leak.c",
        "definite_leak",
        Some("definitely lost: 80 bytes in 2 blocks"),
    );
    for fault in found {
        assert_eq!(fault["leaks"][0]["bytes"], 80);
        assert_eq!(fault["leaks"][0]["blocks"], 2);
    }
}

#[test]
fn overlap() {
    // Valgrind takes the call for one of memmove.
    check("overlap.c", "overlapping_copy", None);
    sanitiser_says("overlap.c", "memcpy-param-overlap");
    // Valgrind copies until it fails.
    check("text_overlap.c", "overlapping_copy", None);
    sanitiser_says("text_overlap.c", "strcpy-param-overlap");
    // A call of memmove may do that, even if it is the same code.
    let p = Place::new();
    let source = source("overlap.c").replace("memcpy", "memmove");
    let root = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../guests");
    let program = p.build("move", &source, &["-fno-builtin", root]);
    let program = program.to_str().expect("a path");
    let none = faults(&p, &["check", "--json", "--all", "--", program]);
    assert!(none.is_empty(), "{none:?}");
}

/// Code that was made while the program runs looks for things as the C library does.
#[test]
fn code_in_no_file() {
    // Valgrind takes both for a fault.
    check("made_code.c", "heap_overflow", None);
}

/// What the sanitiser says of the same guest, faulty and repaired.
#[track_caller]
fn sanitiser_says(guest: &str, words: &str) {
    let p = Place::new();
    let program = p.guest(&format!("rules/{guest}"), &["-O0", "-fsanitize=address"]);
    let said = |args: &[&str]| {
        let out = Command::new(&program)
            .args(args)
            .env("ASAN_OPTIONS", "detect_stack_use_after_return=1")
            .output()
            .expect("it can be run");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert!(said(&[]).contains(words), "{guest}: {}", said(&[]));
    assert!(!said(&["right"]).contains(words), "{guest}");
}

#[test]
fn overflow_of_global_variables() {
    for fault in check("global_overflow.c", "global_overflow", None) {
        assert_eq!(fault["block"]["variable"], "table");
        assert!(
            chain_lines(&fault["chains"][0]).contains(&mark("global_overflow.c", "cause")),
            "{fault}"
        );
    }
    check("global_index.c", "global_overflow", None);
    check("global_straddled.c", "global_overflow", None);
    sanitiser_says("global_overflow.c", "global-buffer-overflow");
    sanitiser_says("global_index.c", "global-buffer-overflow");
}

/// A pointer into the middle of a variable means it, once something of it was accessed.
#[test]
fn overflow_behind_the_middle_of_global_variables() {
    for (guest, variable) in [
        ("global_field.c", "settings"),
        ("global_row.c", "names"),
        ("global_cell.c", "cells"),
    ] {
        for fault in check(guest, "global_overflow", None) {
            assert_eq!(fault["block"]["variable"], variable);
        }
        sanitiser_says(guest, "global-buffer-overflow");
    }
}

#[test]
fn overflow_of_local_variables() {
    for fault in check("stack_overflow.c", "stack_overflow", None) {
        assert_eq!(fault["block"]["variable"], "name");
    }
    sanitiser_says("stack_overflow.c", "stack-buffer-overflow");
}

/// Arrays whose length is no constant, and what `alloca` gives.
#[test]
fn overflow_of_what_is_set_aside_on_the_stack() {
    check("variable_length.c", "stack_overflow", None);
    check("alloca.c", "stack_overflow", None);
    check("alloca_kept.c", "dead_frame", None);
    sanitiser_says("variable_length.c", "dynamic-stack-buffer-overflow");
    sanitiser_says("alloca.c", "dynamic-stack-buffer-overflow");
}

/// Temporary objects have no names, and optimised code may give them the memory of a variable that is declared later.
#[test]
fn temporary_objects() {
    let p = Place::new();
    for (level, words, lines) in [
        ("-O0", &[][..], &[mark("temporary.cpp", "fault")][..]),
        ("-O0", &["right"], &[]),
        ("-O2", &["right"], &[]),
    ] {
        let program = p.guest("rules/temporary.cpp", &[level]);
        let program = program.to_str().expect("a path");
        let found = faults(&p, &[&["check", "--json", "--", program], words].concat());
        let found: Vec<u64> = found.iter().map(|f| own_lines(&f["at"])[0]).collect();
        assert_eq!(found, lines, "{level} {words:?}");
    }
}

#[test]
fn use_of_a_dead_frame() {
    for fault in check("dead_frame.c", "dead_frame", None) {
        assert!(
            chain_lines(&fault["chains"][0]).contains(&mark("dead_frame.c", "cause")),
            "{fault}"
        );
    }
    sanitiser_says("dead_frame.c", "stack-use-after-return");
}

#[test]
fn leaks_that_are_asked_for() {
    let only = |rule: &'static str| ["--only", rule];
    let still = Some("still reachable: 40 bytes in 1 blocks");
    check_with("possible.c", "possible_leak", still, &only("possible_leak"));
    check_with(
        "transaction.c",
        "transaction_leak",
        None,
        &only("transaction_leak"),
    );
    check_with("collector.c", "collector_bug", None, &only("collector_bug"));
}

#[test]
fn descriptors() {
    let only = |rule: &'static str| ["--only", rule];
    let found = check_with(
        "double_close.c",
        "double_close",
        None,
        &only("double_close"),
    );
    for fault in found {
        let before = own_lines(&fault["events"][0]["at"]);
        assert_eq!(before[0], mark("double_close.c", "before"));
    }
    let found = check_with(
        "descriptor_leak.c",
        "descriptor_leak",
        None,
        &only("descriptor_leak"),
    );
    for fault in found {
        let opened = own_lines(&fault["events"][0]["at"]);
        assert_eq!(opened[0], mark("descriptor_leak.c", "cause"));
    }
}

#[test]
fn allocators_that_are_declared() {
    let p = Place::new();
    let rules = p.path("pool.rules");
    std::fs::write(&rules, "allocator pool_take(size) / pool_give(ptr)\n").expect("a file");
    let program = p.guest("rules/allocator.c", &["-O0"]);
    let (rules, program) = (
        rules.to_str().expect("a path"),
        program.to_str().expect("a path"),
    );
    let args = ["check", "--json", "--rules", rules, "--", program];
    let found = faults(&p, &args);
    assert_eq!(found[0]["rule"], "heap_overflow");
    assert_eq!(own_lines(&found[0]["at"])[0], mark("allocator.c", "fault"));
    // Without the declaration there is nothing to overflow.
    assert!(faults(&p, &["check", "--json", "--", program]).is_empty());
    let mut right = args.to_vec();
    right.push("right");
    assert!(faults(&p, &right).is_empty());
}

/// What a pool hands out is a part of a block of its own, which is freed with the pool.
#[test]
fn pools_that_are_declared() {
    let text = "allocator pool_take(pool, size) / pool_give(pool, ptr)\n";
    for level in ["-O0", "-O2"] {
        let p = Place::new();
        let rules = p.path("pool.rules");
        std::fs::write(&rules, text).expect("a file");
        let program = p.guest("rules/pool.c", &[level]);
        let (rules, program) = (
            rules.to_str().expect("a path"),
            program.to_str().expect("a path"),
        );
        let args = ["check", "--json", "--all", "--rules", rules, "--", program];
        let found = faults(&p, &args);
        assert_eq!(found.len(), 1, "{level}: {found:#?}");
        let fault = &found[0];
        assert_eq!(fault["rule"], "double_free");
        let at = own_lines(&fault["at"]);
        assert_eq!(at[1], mark("pool.c", "fault"), "{level}");
        // The second argument is the pointer, and its chain comes from where it was made.
        assert_eq!(fault["block"]["relation"], "0 bytes inside");
        for chain in fault["chains"].as_array().expect("chains") {
            assert!(
                chain_lines(chain).contains(&mark("pool.c", "cause")),
                "{chain:#?}"
            );
        }
        // Unoptimised code has not put its arguments where the debug information says.
        let parameters = &fault["at"]["stack"]["frames"][0]["parameters"];
        let begin = fault["block"]["begin"].as_u64().expect("an address");
        assert_eq!(parameters[1]["value"], format!("{begin:#x}"), "{level}");
        let mut right = args.to_vec();
        right.push("right");
        assert!(faults(&p, &right).is_empty(), "{level}");
    }
}

/// A function of which the compiler has made another is not followed, nor is the one that belongs to it.
#[test]
fn allocators_that_cannot_be_followed() {
    let p = Place::new();
    let rules = p.path("pool.rules");
    let check = |program: &std::path::Path, text: &str| {
        std::fs::write(&rules, text).expect("a file");
        let (rules, program) = (
            rules.to_str().expect("a path"),
            program.to_str().expect("a path"),
        );
        let r = p.say(&["check", "--rules", rules, "--", program, "right"]);
        r.exits(0);
        r.err
    };
    let pool = "allocator pool_take(pool, size) / pool_give(pool, ptr)\n";
    let copied = p.guest("rules/pool.c", &["-O2", "-DAPART=noinline"]);
    let said = check(&copied, pool);
    assert!(
        said.contains("note: the allocator pool_take / pool_give was not followed"),
        "{said}"
    );
    assert!(said.contains("has made `pool_take."), "{said}");
    let plain = p.guest("rules/allocator.c", &["-O0"]);
    let said = check(&plain, "allocator pool_take(size) / pool_drop(ptr)\n");
    assert!(said.contains("there is no function `pool_drop`"), "{said}");
}

#[test]
fn a_block_is_as_large_as_the_allocator_says() {
    check("usable_size.c", "heap_overflow", None);
}

/// Terabytes that are only set aside take neither time nor memory.
#[test]
fn memory_that_is_set_aside() {
    check("reserved.c", "heap_overflow", None);
}

/// What functions of the library and the kernel were asked to read is held against the one who asked.
#[test]
fn what_others_were_asked_to_touch() {
    let stale = [
        "memcpy", "strcmp", "strncmp", "strchr", "strstr", "memchr", "strlen", "strcpy", "strncpy",
        "write",
    ];
    let long = ["memcpy", "memcmp", "memchr", "write", "read"];
    for (guest, rule, marks) in [
        ("stale_argument.c", "dangling_deref", &stale[..]),
        ("long_reads.c", "heap_overflow", &long),
    ] {
        for level in ["-O0", "-O2"] {
            let p = Place::new();
            let program = p.guest(&format!("rules/{guest}"), &[level]);
            let program = program.to_str().expect("a path");
            let args = ["check", "--json", "--all", "--only", rule, "--", program];
            let found = faults(&p, &args);
            let mut lines: Vec<u64> = found.iter().map(|f| own_lines(&f["at"])[0]).collect();
            lines.dedup();
            let expected: Vec<u64> = marks.iter().map(|name| mark(guest, name)).collect();
            assert_eq!(lines, expected, "{guest} {level}");
            let none = faults(&p, &[&args[..], &["right"]].concat());
            assert!(none.is_empty(), "{guest} {level}: {none:#?}");
        }
    }
}

/// A string is read up to its end, wherever that is: however long it is, and whatever reads it.
#[test]
fn strings_without_an_end() {
    let guest = "unterminated.c";
    let text = source(guest);
    let marked = (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.contains("// MARK: "));
    let marks: Vec<u64> = marked.map(|(n, _)| n).collect();
    assert!(marks.len() > 20);
    let p = Place::new();
    let program = p.guest(&format!("rules/{guest}"), &["-O0"]);
    let program = program.to_str().expect("a path");
    // By what the processor has, the library chooses other code.
    let plain = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX512VL,-AVX512BW,-SSE4_2";
    let check = ["check", "--json", "--all", "--only", "heap_overflow", "--"];
    for start in [&[program][..], &["env", plain, program]] {
        for (rest, expected) in [
            (&[][..], &marks[..]),
            (&["ended"], &[]),
            (&["ended", "long"], &[]),
        ] {
            let found = faults(&p, &[&check, start, rest].concat());
            let mut lines: Vec<u64> = found.iter().map(|f| own_lines(&f["at"])[0]).collect();
            lines.dedup();
            assert_eq!(lines, expected, "{start:?} {rest:?}");
        }
    }
}

/// A pointer that is kept is stale even if the block was not moved, unless the program has asked whether it was.
#[test]
fn blocks_that_were_not_moved() {
    check("kept_pointer.c", "dangling_deref", None);
}

#[test]
fn a_fault_of_one_call_is_told_once() {
    check("printed.c", "heap_overflow", None);
    let p = Place::new();
    let program = p.guest("rules/printed.c", &["-O0"]);
    let program = program.to_str().expect("a path");
    let found = faults(&p, &["check", "--json", "--all", "--", program]);
    assert_eq!(found.len(), 1, "{found:#?}");
}

/// What is in a block, and the local variables that there are.
#[test]
fn rules_about_contents_and_the_stack() {
    let p = Place::new();
    let rules = p.path("my.rules");
    let text = "[left] detect <Trace; free r>: Allocated(r) && Block(r) == \"secret\"\n\
                [wiped] detect <Trace; free r>: Block(r) == \"\"\n\
                [local] detect <S; call look at>: exists v in S suchthat (Begin(v) == at && Size(v) == 24)\n\
                [all] detect <S; call look at>: forall v in S suchthat (Begin(v) != at)\n";
    std::fs::write(&rules, text).expect("a file");
    let rules = rules.to_str().expect("a path");
    let program = p.build(
        "contents",
        "#include <stdlib.h>\n#include <string.h>\n\
         __attribute__((noipa)) void look(const char *at) { (void)at; }\n\
         int main(int c, char **v) { char here[24]; static char there[24]; (void)v;\n\
         char *s = malloc(20); memset(s, 0, 20); strcpy(s, \"secret\");\n\
         look(c > 1 ? there : here); if (c > 1) memset(s, 0, 20); free(s); return 0; }",
        &["-O0"],
    );
    let program = program.to_str().expect("a path");
    let said = |words: &[&str]| -> Vec<String> {
        let names = "left,wiped,local,all";
        let args = [
            "check", "--json", "--all", "--rules", rules, "--only", names, "--", program,
        ];
        let found = faults(&p, &[&args, words].concat());
        let names = found.iter().map(|f| f["rule"].as_str());
        names.map(|n| n.expect("a name").to_owned()).collect()
    };
    assert_eq!(said(&[]), ["local", "left"]);
    assert_eq!(said(&["right"]), ["all", "wiped"]);
}

#[test]
fn rules_of_the_users_own() {
    let p = Place::new();
    let rules = p.path("my.rules");
    let text = "[big] detect <Trace; malloc n bid>: n > 1000\n\
                [seven] detect <Trace; call atoi text>: Value(text) & 0xff == 0x37\n";
    std::fs::write(&rules, text).expect("a file");
    let rules = rules.to_str().expect("a path");
    let program = p.build(
        "own",
        "#include <stdlib.h>\nint main(int c, char **v) { return c > 1 ? atoi(v[1]) - atoi(v[1]) : 0; }",
        &["-O0", "-fno-builtin"],
    );
    let program = program.to_str().expect("a path");
    let check = |names: &str, word: &str| {
        faults(
            &p,
            &[
                "check", "--json", "--rules", rules, "--only", names, "--", program, word,
            ],
        )
    };
    let found = check("seven,big", "75");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["rule"], "seven");
    assert!(check("seven", "57").is_empty());
}

#[test]
fn a_broken_file_gets_all_its_errors_at_once() {
    let p = Place::new();
    let rules = p.path("bad.rules");
    let text = "define Livng(r) = exists event(_, malloc, _, bid) in Trace suchthat (bid == Bid(r))\n\
                [one] detect <Trace; fre r>: Livng(r)\n\
                [two] detect <Trace; free r>: Living(r)\n\
                [three] detect <Trace; free r>: r == Bid(r) : VPC(q)\n";
    std::fs::write(&rules, text).expect("a file");
    let path = rules.to_str().expect("a path");
    let r = p.say(&["rules", "--check", path]);
    r.exits(2);
    r.says("`fre` is no detection point")
        .says("did you mean `free`?");
    r.says("there is no predicate `Living`")
        .says("did you mean `Livng`?");
    r.says("a number or pointer cannot be compared with a block");
    let r = p.say(&["check", "--rules", path, "--", "/bin/true"]);
    r.exits(2).says("cannot use the rules in");
    p.say(&["check", "--only", "nothing", "--", "/bin/true"])
        .exits(2)
        .says("there is no rule `nothing`");
    p.say(&["check", "--rules", "/nowhere", "--", "/bin/true"])
        .exits(2)
        .says("cannot read the rules");
}

#[test]
fn wrong_frees_are_told_by_their_callers() {
    // All of them enter the same function. It survives, so that there can be more than one.
    let source = "static char g[4][8];\n\
        void free(void *p) {}\n\
        static void drop(int i) { free(g[i]); }\n\
        int main(void) {\n\
        for (int i = 0; i < 3; i++) drop(i);\n\
        free(g[3]);\n\
        return 0;\n\
        }\n";
    let p = Place::new();
    let program = p.build("frees", source, &["-O0", "-fno-builtin"]);
    let program = program.to_str().expect("a path");
    let found = faults(&p, &["check", "--json", "--all", "--", program]);
    let callers: Vec<u64> = found.iter().map(|f| own_lines(&f["at"])[1]).collect();
    assert_eq!(callers, [3, 6]);
    assert!(found.iter().all(|f| f["rule"] == "unmatched_free"));
}

#[test]
fn events_are_listed() {
    let source = "#include <stdlib.h>\n\
        #include <string.h>\n\
        int main(void) {\n\
        long *p = malloc(24);\n\
        p[1] = 7;\n\
        memset(p + 2, 0, 8);\n\
        long n = p[1];\n\
        free(p);\n\
        return n - 7;\n\
        }\n";
    let p = Place::new();
    let program = p.build("events", source, &["-O0", "-fno-builtin"]);
    let r = p.say(&["check", "--events", "--", program.to_str().expect("a path")]);
    r.exits(0);
    // Without the steps.
    let told: Vec<String> = r
        .err
        .lines()
        .filter(|l| l.contains(" block "))
        .map(|l| {
            let words: Vec<&str> = l.split_whitespace().skip(1).collect();
            words.join(" ")
        })
        .collect();
    // Others may have made blocks before.
    let at = told
        .iter()
        .position(|l| l.contains("24 bytes at"))
        .expect("the block");
    let number = told[at]
        .split([' ', ','])
        .nth(2)
        .expect("a number")
        .to_owned();
    let rest: Vec<String> = told[at + 1..].iter().take(4).cloned().collect();
    let file = p.path("events.c").display().to_string();
    assert_eq!(
        rest[0],
        format!("write block {number} at 8, 8 bytes {file}:5")
    );
    assert!(
        rest[1].starts_with(&format!("write block {number} at 16, 8 bytes")),
        "{rest:?}"
    );
    assert_eq!(
        rest[2],
        format!("read block {number} at 8, 8 bytes {file}:7")
    );
    assert_eq!(rest[3], format!("free block {number}, by free"));
}

/// Threads that are stopped, started and cancelled, that take signals and other programs' places, the leak search at
/// the end, for which the guest is taken back, and what looks like a fault: all of it without a false alarm.
#[test]
fn nothing_is_wrong_with_correct_programs() {
    let p = Place::new();
    for (guest, flags) in [
        ("rules/shared_slot.c", &["-O2"][..]),
        ("rules/shared_slot.c", &["-O0"]),
        ("threads/mutex.c", &["-O1"]),
        ("threads/cancellation.c", &["-O1"]),
        ("threads/exec.c", &["-O1"]),
        ("threads/tls.c", &["-O2"]),
        ("rules/shared_slot.c", &["-O2", "-static"]),
        ("threads/many.c", &["-O1"]),
        ("rules/equal_memory.c", &["-O2"]),
        ("rules/global_beside.c", &["-O0"]),
        ("rules/global_beside.c", &["-O2"]),
        ("rules/set_aside.c", &["-O0"]),
        ("rules/set_aside.c", &["-O2"]),
        ("rules/set_aside.c", &["-O2", "-fstack-clash-protection"]),
        ("rules/global_beside.c", &["-O0", "-no-pie"]),
        ("rules/global_beside.c", &["-O2", "-no-pie"]),
        ("rules/replaced.c", &["-O2"]),
    ] {
        let program = p.guest(guest, flags);
        let program = program.to_str().expect("a path");
        let frees = ["--only", "unmatched_free,double_free"];
        let mut args = vec!["check", "--json"];
        args.extend(frees.iter().filter(|_| flags.contains(&"-static")));
        args.extend(["--", program]);
        let found = faults(&p, &args);
        assert!(found.is_empty(), "{guest} {flags:?}: {found:?}");
    }
}

/// Where memory cannot be told apart nothing is made up, and it is said that the run was not followed further.
#[test]
fn memory_that_cannot_be_told_apart() {
    let p = Place::new();
    let program = p.guest("rules/same_cells.c", &["-O2"]);
    let program = program.to_str().expect("a path");
    let r = p.say(&["check", "--all", "--json", "--", program]);
    r.exits(0);
    let at = r.err.find("{\n").expect("a report");
    let report: Value = serde_json::from_str(&r.err[at..]).expect("a report");
    assert_eq!(report["faults"].as_array().map(Vec::len), Some(0));
    let notes = report["notes"].as_array().expect("notes");
    let lost = notes.iter().filter_map(Value::as_str);
    assert_eq!(
        lost.filter(|n| n.contains("nothing was looked at")).count(),
        1,
        "{notes:?}"
    );
}

/// A limit on addresses is said to be one.
#[test]
fn too_few_addresses() {
    let p = Place::new();
    let program = p.guest("rules/leak.c", &["-O2"]);
    p.say(&["run", "--", program.to_str().expect("a path")]);
    let limited = format!("ulimit -v {}; exec \"$@\"", 1u64 << 31);
    let out = Command::new("sh")
        .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_wherefore")])
        .args(["check", "--recordings"])
        .arg(p.recordings())
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(
        said.contains("cannot set 4 TiB of addresses aside"),
        "{said}"
    );
}

/// A program that is looked at while it runs gets the report that its recording gets.
#[test]
fn a_recording_is_judged_as_the_run_was() {
    for guest in [
        "leak.c",
        "dangling.c",
        "double_free.c",
        "null.c",
        "uninitialised_element.c",
    ] {
        let p = Place::new();
        let program = p.guest(&format!("rules/{guest}"), &["-O0"]);
        let program = program.to_str().expect("a path");
        let lived = faults(&p, &["check", "--json", "--all", "--", program]);
        let replayed = faults(&p, &["check", "--json", "--all"]);
        assert!(!lived.is_empty(), "{guest}");
        assert_eq!(lived, replayed, "{guest}");
    }
}
