//! Statements switched and suppressed, checkpoints and timelines.
//!
//! The oracle of an edit is the program with the same change in its source, run natively; that of a rollback
//! is native gdb where the same is done without one.

mod harness;

use std::process::Command;

use harness::Place;
use harness::gdb::{answer, contains, debug, native, told};

/// Ten rounds; `P` and `S` say what becomes of the predicate and of the statement in round `i`.
const ROUNDS: &str = r#"#include <stdio.h>
#ifndef P
#define P(i, condition) (condition)
#endif
#ifndef S
#define S(i) 1
#endif
static int a[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3 }, b[] = { 2, 7, 1, 8, 2, 8, 1, 8, 2, 8 };
static int calls, sum;
static int add(int i)
{
    calls++;
    sum += i * i;
    return calls;
}
int main(void)
{
    for (int i = 0; i < 10; i++) {
        int last = 0;
#ifdef PLAIN
        if (CONDITION) // the predicate
#else
        if (P(i, (CONDITION)))
#endif
            printf("%d ", i);
#ifdef PLAIN
        last = add(i); // the statement
#else
        if (S(i))
            last = add(i);
#endif
        printf("%d,", last);
    }
    printf("%d %d\n", calls, sum);
    return 0;
}
"#;

/// The line of a mark in [`ROUNDS`].
fn line(mark: &str) -> usize {
    let found = ROUNDS.lines().position(|l| l.ends_with(mark));
    found.expect("a mark") + 1
}

/// What the program prints if it is changed in its source.
fn changed(p: &Place, condition: &str, what: &str) -> String {
    let condition = format!("-DCONDITION={condition}");
    let program = p.build("changed", ROUNDS, &["-O0", &condition, what]);
    let output = Command::new(program).output().expect("it runs");
    String::from_utf8(output.stdout).expect("text")
}

/// A verb, a line, which times, the round in which that is asked for, and the macro that does the same.
type Edit<'a> = (&'a str, usize, &'a str, u32, &'a str);

/// Each edit prints what the changed source prints.
fn in_gdb(p: &Place, condition: &str, edits: &[Edit<'_>]) {
    let mut commands = String::new();
    for (verb, line, times, at, _) in edits {
        let round = match at {
            0 => "goto 0\n".to_owned(),
            n => format!("goto rounds.c:18 {}\n", n + 1),
        };
        commands.push_str(&format!(
            "timeline 0\n{round}{verb} rounds.c:{line} {times}\ninfo edits\ncontinue\n"
        ));
    }
    let all = told(&debug(p, &commands), &commands);
    for (n, (verb, line, times, at, what)) in edits.iter().enumerate() {
        let expected = changed(p, condition, what);
        let shown = answer(&all, "continue", n);
        // What was printed before the edit is not printed again.
        let rest = shown.lines().find(|l| l.contains(',')).unwrap_or("");
        let told =
            format!("{verb} {line} {times} in round {at} of {condition}: {shown}\n{expected}");
        assert!(
            !rest.is_empty() && expected.trim_end().ends_with(rest),
            "{told}"
        );
        contains(
            answer(&all, "info edits", n),
            &[verb, &format!("rounds.c:{line}")],
        );
    }
}

fn check(condition: &str) {
    let p = Place::new();
    let compiled = format!("-DCONDITION={condition}");
    let program = p.build("rounds", ROUNDS, &["-O0", "-DPLAIN", &compiled]);
    let plain = p.run(&program, &[]).out;
    let (predicate, statement) = (line("the predicate"), line("the statement"));
    let edits = [
        ("switch", predicate, "all", 0, "-DP(i,c)=!(c)"),
        ("switch", predicate, "all", 4, "-DP(i,c)=((i>=4)!=(c))"),
        ("switch", predicate, "once", 0, "-DP(i,c)=((i==0)!=(c))"),
        ("switch", predicate, "", 4, "-DP(i,c)=((i==4)!=(c))"),
        ("switch", predicate, "8", 0, "-DP(i,c)=((i==7)!=(c))"),
        ("switch", predicate, "8", 6, "-DP(i,c)=((i==7)!=(c))"),
        ("suppress", statement, "all", 0, "-DS(i)=0"),
        ("suppress", statement, "all", 4, "-DS(i)=(i<4)"),
        ("suppress", statement, "once", 0, "-DS(i)=(i!=0)"),
        ("suppress", statement, "", 4, "-DS(i)=(i!=4)"),
        ("suppress", statement, "8", 0, "-DS(i)=(i!=7)"),
        ("suppress", statement, "8", 6, "-DS(i)=(i!=7)"),
    ];
    for some in edits.chunks(3) {
        in_gdb(&p, condition, some);
    }
    // The same without gdb.
    for (option, what) in [
        (
            format!("--switch=rounds.c:{predicate}#8"),
            "-DP(i,c)=((i==7)!=(c))",
        ),
        (format!("--switch=rounds.c:{predicate}"), "-DP(i,c)=!(c)"),
        (
            format!("--suppress=rounds.c:{statement}#8"),
            "-DS(i)=(i!=7)",
        ),
        (format!("--suppress=rounds.c:{statement}"), "-DS(i)=0"),
    ] {
        let expected = changed(&p, condition, what);
        let again = p.say(&["replay", &option]);
        again.exits(0).says("its output is another");
        assert_eq!(again.out, expected, "{option}");
        let mut run = p.wherefore(&["run", &option, "--"]);
        run.arg(&program);
        // The run is shown as it is, and compared with the changed one.
        let ran = harness::finish(run);
        ran.exits(0).says("its output is another");
        assert_eq!(ran.out, plain, "{option}");
    }
}

#[test]
fn one_condition() {
    check("a[i]>2");
}

#[test]
fn both_conditions() {
    check("a[i]>2&&b[i]<5");
}

#[test]
fn one_of_two_conditions() {
    check("a[i]>4||b[i]>7");
}

/// Edits are taken back one by one, and the recording is there all the time.
#[test]
fn edits_are_taken_back() {
    let p = Place::new();
    let program = p.build("rounds", ROUNDS, &["-O0", "-DPLAIN", "-DCONDITION=a[i]>2"]);
    let plain = p.run(&program, &[]);
    plain.exits(0);
    let statement = line("the statement");
    let commands = format!(
        "goto 0\nsuppress rounds.c:{statement} 2\nsuppress rounds.c:{statement} 5\ninfo edits\ninfo timelines\n\
         tbreak 36\ncontinue\nprint calls\nedit delete 1\ninfo edits\ntbreak 36\ncontinue\nprint calls\nprint sum\n\
         timeline 0\ninfo edits\ntbreak 36\ncontinue\nprint calls\nprint sum\ntimeline 2\nrun\ninfo edits\n"
    );
    let all = told(&debug(&p, &commands), &commands);
    let values: Vec<&str> = (all.iter().filter(|(c, _)| c.starts_with("print")))
        .map(|(_, t)| t.trim().rsplit(' ').next().unwrap())
        .collect();
    // 285 is the sum of the squares; the fifth is 16.
    assert_eq!(values, ["8", "9", "269", "10", "285"], "{all:?}");
    let edits = |n| answer(&all, "info edits", n).trim().lines().count();
    assert_eq!([0, 1, 3].map(edits), [2, 1, 2], "{all:?}");
    contains(answer(&all, "info edits", 2), &["no edits"]);
    contains(
        answer(&all, "info timelines", 0),
        &["  0  the recording", "* 2"],
    );
}

/// Registers, memory, the position in a file and instance counts are those of the checkpoint; what is read
/// after it, in a run that does not read as the recorded one did, comes from there.
#[test]
fn a_rollback_takes_everything_back() {
    let p = Place::new();
    let source = "#include <fcntl.h>\n#include <unistd.h>\nstatic char text[9];\nint main(void)\n{\n    int n = 2;\n\
                  int in = open(\"letters\", O_RDONLY);\n    for (int i = 0; i < 6; i++) {\n\
                  text[read(in, text, n)] = 0;\n    }\n    return text[0] != 'k';\n}\n";
    std::fs::write(p.path("letters"), "abcdefghijklmnopqrstuvwxyz").unwrap();
    let program = p.build("reads", source, &["-O0"]);
    p.run(&program, &[]).exits(0);
    let there = "break 9\ncontinue\ncontinue 2\n";
    let look = "when\ninstance reads.c:9\ninfo registers\nprint text\nprint i\n";
    let commands = format!(
        "{there}{look}checkpoint\ninfo checkpoints\nslice text\ncontinue\ncontinue\nprint text\nslice text\n\
         info slices\nrollback 1\n{look}info slices\nset var n = 3\ncontinue\nprint text\ncontinue\nprint text\n\
         info timelines\nrollback 1\ninfo timelines\ncontinue\nprint text\ncdelete 1\ninfo checkpoints\nrollback 1\n"
    );
    let all = told(&debug(&p, &commands), &commands);
    let value = |text: &str| text.rsplit("= ").next().unwrap_or("").trim().to_owned();
    for command in look.lines() {
        let [before, after] = match command {
            "print text" => [0, 2],
            _ => [0, 1],
        }
        .map(|n| answer(&all, command, n));
        match command.starts_with("print") {
            true => assert_eq!(value(before), value(after), "{command}"),
            false => assert_eq!(before, after, "{command}"),
        }
    }
    contains(answer(&all, "instance", 0), &["executed 2 times"]);
    contains(
        answer(&all, "info checkpoints", 0),
        &["1  step ", "reads.c:9"],
    );
    contains(answer(&all, "info checkpoints", 1), &["no checkpoints"]);
    contains(answer(&all, "rollback", 2), &["no checkpoint 1"]);
    // The slice that was made later is of what has not happened yet.
    let past = "reaches past where the guest stands";
    contains(answer(&all, "info slices", 1), &[past]);
    let own = |n: usize| answer(&all, "info slices", n).matches(past).count();
    assert_eq!([own(0), own(1)], [0, 1], "{all:?}");
    // gdb alone, where the same is set at the same place.
    let alone = format!("{there}set var n = 3\ncontinue\nprint text\ncontinue\nprint text\n");
    let theirs = told(&native(&p, &program, &[], &alone), &alone);
    for n in [0, 1] {
        let ours = value(answer(&all, "print text", 3 + n));
        assert_eq!(ours, value(answer(&theirs, "print text", n)));
    }
    // And back on the recording the third pair comes again.
    contains(answer(&all, "print text", 5), &["\"ef"]);
    contains(answer(&all, "info timelines", 0), &["* 1"]);
    contains(answer(&all, "info timelines", 1), &["* 0"]);
}

/// A program can be given instead of a recording; the recording is there afterwards.
#[test]
fn a_program_is_recorded_first() {
    let p = Place::new();
    let program = p.build("rounds", ROUNDS, &["-O0", "-DPLAIN", "-DCONDITION=a[i]>2"]);
    let mut c = p.wherefore(&["debug", "--batch", "--gdb-option=-nx"]);
    c.args(["--gdb-option=-ex", "--gdb-option=set style enabled off"]);
    let script = p.path("script.gdb");
    std::fs::write(
        &script,
        "set debuginfod enabled off\nbreak add\ncontinue\nwhen\n",
    )
    .unwrap();
    c.arg("-x").arg(&script).arg("--").arg(&program);
    let ran = harness::finish(c);
    ran.exits(0);
    contains(&ran.out, &["Breakpoint 1, add (i=0)", "step "]);
    assert_eq!(p.names().len(), 1);
    let none = p.say(&["debug", "--batch", "--", "./no-such-program"]);
    none.exits(2).says("no-such-program");
}
