//! gdb over recordings of programs that nobody here wrote, as they are installed: without debug information,
//! except what there is of the C library.

mod harness;

use std::path::PathBuf;
use std::process::Command;

use harness::Place;
use harness::gdb::{answer, compare_with_native, contains, debug, told};

/// Where a program really is: some are found through a script that looks for them.
fn program(name: &str, tell: &str) -> PathBuf {
    let found = Command::new("sh").args(["-c", tell]).output();
    let found = found.expect("a shell").stdout;
    let path = PathBuf::from(String::from_utf8_lossy(&found).trim());
    assert!(path.is_file(), "these tests need {name}");
    path
}

/// At the same stops gdb shows the same as natively; and to and fro in time, positions are what they were.
fn check(name: &str, tell: &str, args: &[&str], prints: &str) {
    let p = Place::new();
    let program = program(name, tell);
    let ran = p.run(&program, args);
    ran.exits(0);
    contains(&ran.out, &[prints]);
    let begin = "set breakpoint pending on\ntbreak __libc_start_main\ncontinue\nbreak write\n";
    // Where things lie on the heap depends on the environment, which gdb adds to: stops are not shown.
    let silent = "python for b in gdb.breakpoints(): b.silent = True\ncontinue\n";
    let back =
        "python gdb.Breakpoint(\"*%d\" % gdb.selected_frame().older().pc(), temporary=True)\n";
    let commands = format!(
        "{begin}{silent}print $rdi\nprint (int) $rdx\nprintf \"%s\", (char *) $rsi\ninfo symbol $pc\n\
         info sharedlibrary\n{back}{silent}print $rax\nx/2i $pc\nstepi\nnexti\ndelete\n\
         tbreak _exit\ncontinue\nbt -1\n"
    );
    compare_with_native(&p, &program, args, &commands);
    let commands = format!(
        "{begin}continue\nwhen\ncheckpoint\nx/s $rsi\nwatch -l *(char *) $rsi\nreverse-continue\nwhen\ndelete\n\
         tbreak malloc\nreverse-continue\nwhen\ninfo symbol $pc\nreverse-stepi\nstepi\nwhen\n\
         tbreak write\ncontinue\nwhen\nset var $rdx = 0\nstepi\ninfo timelines\n\
         rollback 1\nwhen\nx/s $rsi\ninfo timelines\ngoto 0\nwhen\ncontinue\ncontinue\n"
    );
    let ran = debug(&p, &commands);
    let all = told(&ran, &commands);
    let steps: Vec<u64> = (all.iter().filter(|(c, _)| c == "when"))
        .map(|(_, t)| t.split_whitespace().nth(1).unwrap().parse().unwrap())
        .collect();
    let [write, written, malloc, again, forth, rolled, begun] = steps[..] else {
        panic!("{name}: {}{}", ran.out, ran.err)
    };
    assert!(written < write && malloc < written, "{name}: {}", ran.out);
    assert_eq!((again, forth, rolled, begun), (malloc, write, write, 0));
    contains(answer(&all, "x/s", 0), &[prints]);
    assert_eq!(answer(&all, "x/s", 0), answer(&all, "x/s", 1));
    contains(answer(&all, "info symbol", 0), &["malloc"]);
    contains(answer(&all, "info timelines", 0), &["* 1"]);
    contains(answer(&all, "info timelines", 1), &["* 0"]);
    // From the beginning to the end, where it is kept once more, and over it.
    contains(answer(&all, "continue", 4), &["exited normally"]);
}

#[test]
fn sqlite() {
    let make = "create table a(x); insert into a values (1), (2), (40000); select sum(x) from a;";
    check(
        "sqlite3",
        "command -v sqlite3",
        &[":memory:", make],
        "40003",
    );
}

#[test]
fn lua() {
    let text = "local t = {} for i = 1, 50 do t[i] = tostring(i) end print(table.concat(t, ' '))";
    check("lua5.4", "command -v lua5.4", &["-e", text], "48 49 50");
}

#[test]
fn python() {
    let text = "print(sum(range(1000)))";
    let tell = "python3 -c 'import sys, os; print(os.path.realpath(sys.executable))'";
    check("python3", tell, &["-I", "-c", text], "499500");
}

#[test]
fn git() {
    let tell = "command -v git";
    check(
        "git",
        tell,
        &["check-ref-format", "--branch", "topic"],
        "topic",
    );
}
