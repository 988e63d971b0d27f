//! `wherefore locate`, as people use it.

mod harness;

use harness::{Place, finish, finish_child};
use std::fs;
use std::process::Stdio;

/// The example of the thesis (Figure 2.6): an addition that should be a subtraction.
const FAULTY: &str = r#"#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int x = atoi(argv[1]), y = atoi(argv[2]);
    int a = x + y;
    if (x < y)
        printf("%d\n", a);
    else
        printf("%d\n", a + 1);
    return 0;
}
"#;

const SUITE: &str = r#"
program = "faulty"
[[test]]
name = "A"
args = "0 0"
expected = "1\n"
[[test]]
name = "B"
args = "-1 0"
expected = "-1\n"
[[test]]
name = "C"
args = ["1", "1"]
expected = "1\n"
[[test]]
name = "D"
args = "0 1"
expected = "-1\n"
"#;

fn place() -> Place {
    let place = Place::new();
    place.build("faulty", FAULTY, &["-g", "-O0"]);
    fs::write(place.path("suite.toml"), SUITE).expect("a suite");
    place
}

fn suite(place: &Place) -> String {
    place.path("suite.toml").display().to_string()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}:\n{text}"))
}

#[test]
fn the_faulty_line_is_first() {
    let place = place();
    let ran = place.say(&["locate", &suite(&place), "--json", "--truth", "faulty.c:6"]);
    ran.exits(1).says("2 of 4 tests fail");
    let report = json(&ran.out);
    let first = &report["ranking"][0];
    assert_eq!(
        (first["line"].as_u64(), first["rank"].as_u64()),
        (Some(6), Some(1))
    );
    assert_eq!(first["suspiciousness"], 2);
    assert_eq!(report["truth"][0]["rank"], 1);
    assert_eq!(report["search"]["complete"], true);
    // Each piece of evidence can be seen.
    let evidence = &first["evidence"][0];
    let words: Vec<&str> = evidence["command"]
        .as_array()
        .expect("a command")
        .iter()
        .map(|w| w.as_str().expect("a word"))
        .collect();
    let shown = place.say(&words[1..]);
    shown.says("its output is as expected");
    assert_eq!(shown.status, Some(0));
    assert_eq!(evidence["values"][0]["is_variable"], true);
}

/// What the report says to type gives what the test expects, on the recording and in a run of its own.
#[test]
fn every_piece_of_evidence_can_be_seen() {
    let place = place();
    let ran = place.say(&["locate", &suite(&place), "--json", "-q", "--top", "20"]);
    let report = json(&ran.exits(1).out);
    let expected = |test: &str| if test == "C" { "1\n" } else { "-1\n" };
    let words = |v: &serde_json::Value| -> Vec<String> {
        serde_json::from_value(v.clone()).expect("a command")
    };
    let mut kinds = std::collections::BTreeSet::new();
    for line in report["ranking"].as_array().expect("lines") {
        for e in line["evidence"].as_array().expect("evidence") {
            let command = words(&e["command"]);
            kinds.insert(command[3].clone());
            let args: Vec<&str> = command[1..].iter().map(String::as_str).collect();
            let shown = place.say(&args);
            shown.exits(0).says("its output is as expected");
            assert_eq!(shown.out, expected(e["test"].as_str().expect("a name")));
            let command = words(&e["run"]["command"]);
            let mut args: Vec<&str> = command[1..].iter().map(String::as_str).collect();
            // Another environment moves the stack; the change goes with it.
            args.splice(1..1, ["--json", "--name", "again"]);
            let mut again = place.wherefore(&args);
            again.env("ANOTHER", "x".repeat(1000));
            let ran = finish(again);
            let report = json(&ran.exits(0).err);
            assert_eq!(report["output_changed"], true, "{args:?}");
            place.say(&["rm", "again"]).exits(0);
        }
    }
    assert!(kinds.contains("--set"), "{kinds:?}");
}

#[test]
fn a_run_with_something_set() {
    let place = place();
    let faulty = place.path("faulty").display().to_string();
    let run = |set: &[&str], args: &[&str]| {
        let mut all = vec!["run"];
        for s in set {
            all.extend(["--set", s]);
        }
        all.extend(["--", &faulty]);
        all.extend(args);
        place.say(&all)
    };
    let ran = run(&["faulty.c:7#1:a=-1"], &["0", "1"]);
    ran.exits(0).says(
        "with set faulty.c:7#1:a=-1, its output is another; it exits with status 0 as before",
    );
    // The program's own output is that of the run as it was.
    assert_eq!(ran.out, "1\n");
    run(&["faulty.c:7#1:a=1"], &["0", "1"]).says("its output is the same");
    // Named in any order, changes are made in that of the run; the second undoes the first.
    run(&["faulty.c:8#1:a=1", "faulty.c:7#1:a=-1"], &["0", "1"]).says("its output is the same");
    let ran = place.say(&[
        "replay",
        "--set",
        "faulty.c:7#1:x=5",
        "--set",
        "faulty.c:10#1:a=8",
    ]);
    assert_eq!(ran.exits(0).out, "9\n");
    run(&["faulty.c:99#1:a=1"], &["0", "1"])
        .exits(2)
        .says("there is no code at");
    run(&["faulty.c:7#1:[0x10]:4=1"], &["0", "1"])
        .exits(2)
        .says("there is no memory at 0x10");
    run(&["nonsense"], &["0", "1"])
        .exits(2)
        .says("no `#` in it");
    place
        .say(&["replay", "--to", "5", "--set", "faulty.c:7#1:a=1"])
        .exits(2)
        .says("leave --to out");
    // A change that ends the failure, and one that makes one.
    place.build(
        "status",
        "int main(void)\n{\n    int n = 3;\n    volatile int *p = &n;\n    return *p;\n}\n",
        &["-g", "-O0"],
    );
    let status = place.path("status").display().to_string();
    place
        .say(&["run", "--set", "status.c:5#1:n=0", "--", &status])
        .exits(0)
        .says("the failure is gone");
    place
        .say(&["run", "--set", "status.c:5#1:p=0", "--", &status])
        .says("dies of SIGSEGV, not as before");
}

#[test]
fn variables_can_be_set_by_name() {
    let place = place();
    place.say(&["locate", &suite(&place), "-q"]).exits(1);
    let ran = place.say(&["replay", "suite.D", "--set", "faulty.c:7#1:a=-1"]);
    ran.exits(0).says("its output is as expected");
    assert_eq!(ran.out, "-1\n");
    let ran = place.say(&["replay", "suite.D", "--set", "faulty.c:7#1:a=5"]);
    ran.says("another, but not the expected one");
    place
        .say(&["replay", "suite.D", "--set", "faulty.c:7#1:nothing=5"])
        .exits(2)
        .says("there is no variable `nothing`");
    place
        .say(&["replay", "suite.D", "--set", "faulty.c:7#9:a=5"])
        .exits(2)
        .says("the run ends before");
    place
        .say(&["replay", "suite.D", "--set", "faulty.c:999#1:a=5"])
        .exits(2)
        .says("there is no code at");
}

/// Of a call that should not be there no value tells, but leaving it out does.
#[test]
fn an_extra_call_is_found() {
    let place = Place::new();
    place.build(
        "extra",
        r#"#include <stdio.h>
#include <stdlib.h>
static int n;
static void bump(void)
{
    n += 7;
}
int main(int argc, char **argv)
{
    n = atoi(argv[1]);
    if (argc > 2)
        bump();
    printf("%d\n", n);
    return 0;
}
"#,
        &["-g", "-O0"],
    );
    let mut suite = "program = \"extra\"\n".to_owned();
    for (args, out) in [("3", 3), ("4 x", 4), ("5 x", 5)] {
        suite += &format!("[[test]]\nargs = \"{args}\"\nexpected = \"{out}\\n\"\n");
    }
    fs::write(place.path("extra.toml"), &suite).expect("a suite");
    let path = place.path("extra.toml").display().to_string();
    let report = json(&place.say(&["locate", &path, "--json", "-q"]).exits(1).out);
    let lines = report["ranking"].as_array().expect("lines");
    let line = lines.iter().find(|l| l["line"] == 12).expect("the call");
    assert_eq!(line["suspiciousness"], 2);
    let evidence = &line["evidence"][0];
    assert_eq!(evidence["is_call"], true);
    let command: Vec<String> =
        serde_json::from_value(evidence["command"].clone()).expect("a command");
    assert!(command[4].ends_with("#1:skip"), "{command:?}");
    let args: Vec<&str> = command[1..].iter().map(String::as_str).collect();
    let shown = place.say(&args);
    shown.exits(0).says("its output is as expected");
    // The predicate above it is shown as a branch.
    let line = lines.iter().find(|l| l["line"] == 11).expect("the branch");
    assert_eq!(line["evidence"][0]["command"][3], "--switch");
}

/// Prints its number, doubled by one way or another.
const DOUBLE: &str = r#"#include <stdio.h>
#include <stdlib.h>
static int times(int k, int n)
{
    return k * n;
}
int main(int argc, char **argv)
{
    int n = atoi(argv[1]);
    if (n > 100)
        n = n - 7;
    if (argc > 2)
        n = times(3, n);
    else
        n = times(2, n);
    printf("%d\n", n);
    return 0;
}
"#;

/// The rank of a line, how many failing tests it mends, and its first evidence.
#[track_caller]
fn line_of(place: &Place, tests: &[(&str, i32)], line: u64) -> (u64, u64, serde_json::Value) {
    place.build("double", DOUBLE, &["-g", "-O0"]);
    let mut suite = "program = \"double\"\n".to_owned();
    for (args, out) in tests {
        suite += &format!("[[test]]\nargs = \"{args}\"\nexpected = \"{out}\\n\"\n");
    }
    fs::write(place.path("double.toml"), &suite).expect("a suite");
    let path = place.path("double.toml").display().to_string();
    let report = json(&place.say(&["locate", &path, "--json", "-q"]).exits(1).out);
    let lines = report["ranking"].as_array().expect("lines");
    let this = lines.iter().find(|l| l["line"] == line);
    let this = this.expect("it is executed");
    let number = |key: &str| this[key].as_u64().expect("a number");
    (
        number("rank"),
        number("suspiciousness"),
        this["evidence"][0].clone(),
    )
}

/// A constant has been no other number in any test, but where it is used others have been.
#[test]
fn a_wrong_constant_is_found_where_it_stands() {
    let tests = [("5", 10), ("8", 16), ("6 x", 12), ("9 x", 18)];
    let (rank, mends, evidence) = line_of(&Place::new(), &tests, 13);
    assert_eq!((rank, mends), (1, 2));
    assert_eq!(
        (
            &evidence["values"][0]["was"],
            &evidence["values"][0]["with"]
        ),
        (&"3".into(), &"2".into())
    );
}

/// The condition is wrong in a way that no test makes it true.
#[test]
fn a_branch_goes_where_no_test_went() {
    let tests = [("5", 10), ("8", 16), ("60", 106), ("50", 86)];
    let (_, mends, evidence) = line_of(&Place::new(), &tests, 10);
    assert_eq!(mends, 2);
    assert_eq!(evidence["command"][3], "--switch");
}

/// A number may look like an address, and a pointer may be null in all tests.
#[test]
fn addresses_are_told_by_type_and_origin() {
    let place = Place::new();
    place.build(
        "look",
        r#"#include <stdio.h>
#include <stdlib.h>
static char *none;
int main(int argc, char **argv)
{
    unsigned long n = atoi(argv[1]);
    unsigned long h = n * 0x7ff100000001;
    char *p = none;
    if (p)
        h++;
    printf("%lu\n", h);
    return 0;
}
"#,
        &["-g", "-O0"],
    );
    let right = 0x7ff1_0000_0001u64;
    let mut suite = "program = \"look\"\n".to_owned();
    for n in [1, 0] {
        suite += &format!("[[test]]\nargs = \"{n}\"\nexpected = \"{right}\\n\"\n");
    }
    fs::write(place.path("look.toml"), &suite).expect("a suite");
    let path = place.path("look.toml").display().to_string();
    let report = json(&place.say(&["locate", &path, "--json", "-q"]).exits(1).out);
    let line = |n: u64| {
        let lines = report["ranking"].as_array().expect("lines");
        let line = lines.iter().find(|l| l["line"] == n);
        line.expect("it is executed")["suspiciousness"].as_u64()
    };
    // The product looks like an address and is none; replacing it where it is printed mends the output.
    assert_eq!(line(11), Some(1));
    assert_eq!(line(7), Some(1));
    // The pointers are null throughout, and still not replaced.
    assert_eq!(line(8), Some(0));
    let pointers = &report["search"]["pointers"];
    assert!(pointers["by_type"].as_u64() >= Some(3), "{pointers}");
    assert!(pointers["by_origin"].as_u64() >= Some(1), "{pointers}");
}

#[test]
fn every_reduction_can_be_switched_off() {
    let place = place();
    let tried = |options: &[&str]| {
        // One worker: of several, one may try what another has just made needless.
        let mut args = vec!["locate", "--json", "-q", "--workers", "1"];
        let suite = suite(&place);
        args.push(&suite);
        args.extend(options);
        let report = json(&place.say(&args).exits(1).out);
        let rank = report["ranking"][0]["line"].as_u64();
        assert_eq!(rank, Some(6), "{options:?}");
        report["search"]["tally"]["tried"]
            .as_u64()
            .expect("a number")
    };
    let least = tried(&[]);
    let full = tried(&["--full"]);
    assert!(least < full, "{least} {full}");
    for off in ["--no-spanning", "--no-working-set", "--no-one-each"] {
        let some = tried(&[off]);
        assert!(
            least <= some && some <= full,
            "{off}: {least} {some} {full}"
        );
    }
    assert_eq!(tried(&["--no-fork"]), least);
    assert_eq!(tried(&["--full", "--no-fork"]), full);
}

#[test]
fn coverage_alone() {
    let place = place();
    for method in ["tarantula", "ochiai", "dstar", "op2"] {
        let ran = place.say(&["locate", &suite(&place), "--method", method, "--json"]);
        let report = json(&ran.exits(1).out);
        assert_eq!(report["method"], method);
        assert!(report["search"].is_null());
        assert_eq!(report["statements"].as_u64(), Some(8));
    }
    // Nothing is kept of it.
    assert!(place.names().is_empty(), "{:?}", place.names());
}

#[test]
fn tests_without_a_file() {
    let place = place();
    let faulty = place.path("faulty").display().to_string();
    fs::write(place.path("right"), "1\n").expect("a file");
    let right = place.path("right").display().to_string();
    let ran = place.say(&[
        "locate", "--fail", "1 1", "--expect", &right, "--pass", "0 0", "--pass", "-1 0", "--",
        &faulty,
    ]);
    ran.exits(1).says("1 of 3 tests fail");
    assert!(ran.out.contains("faulty.c:6"), "{}", ran.out);
    let pairs = place.path("pairs");
    fs::create_dir(&pairs).expect("a folder");
    for (name, args, out) in [
        ("a", "0 0", "1\n"),
        ("b", "1 1", "1\n"),
        ("c", "0 1", "-1\n"),
    ] {
        fs::write(pairs.join(format!("{name}.in")), "").expect("a file");
        fs::write(pairs.join(format!("{name}.args")), args).expect("a file");
        fs::write(pairs.join(format!("{name}.out")), out).expect("a file");
    }
    let pairs = pairs.display().to_string();
    let page = place.path("page.html").display().to_string();
    let ran = place.say(&["locate", "--pairs", &pairs, "--html", &page, "--", &faulty]);
    ran.exits(1).says("2 of 3 tests fail");
    let page = fs::read_to_string(&page).expect("a page");
    assert!(
        page.contains("faulty.c:6") && !page.contains("http"),
        "{page}"
    );
}

#[test]
fn a_search_can_be_interrupted_and_resumed() {
    let place = place();
    let whole = json(
        &place
            .say(&["locate", &suite(&place), "--full", "--json", "-q"])
            .exits(1)
            .out,
    );
    let args = [
        "locate",
        &suite(&place),
        "--full",
        "--json",
        "-q",
        "--budget",
        "0",
    ];
    let cut = place.say(&args);
    match cut.status {
        // There was no time to record a failing test.
        Some(3) => drop(cut.says("the time was over")),
        _ => assert_eq!(json(&cut.exits(1).out)["search"]["complete"], false),
    }
    let args = [
        "locate",
        &suite(&place),
        "--full",
        "--json",
        "-q",
        "--resume",
    ];
    let rest = json(&place.say(&args).exits(1).out);
    assert_eq!(rest["search"]["complete"], true);
    assert_eq!(rest["search"]["tally"], whole["search"]["tally"]);
    assert_eq!(rest["ranking"], whole["ranking"]);
    // Another program cannot be resumed.
    place.build("faulty", &FAULTY.replace("a + 1", "a + 2"), &["-g", "-O0"]);
    place
        .say(&["locate", &suite(&place), "--resume"])
        .exits(2)
        .says("have changed since");
}

const TWO: &str = r#"#include <stdio.h>
#include <stdlib.h>
static int twice(int n)
{
    return n * 3;
}
static int next(int n)
{
    return n + 2;
}
int main(int argc, char **argv)
{
    int n = atoi(argv[2]);
    if (argv[1][0] == 't')
        n = twice(n);
    else
        n = next(n);
    printf("%d\n", n);
    return 0;
}
"#;

#[test]
fn one_fault_after_another() {
    for way in ["partial", "full", "minimal"] {
        let place = Place::new();
        let mut suite = "program = \"two\"\n".to_owned();
        for (args, out) in [
            ("t 0", 0),
            ("t 2", 4),
            ("t 4", 8),
            ("t 6", 12),
            ("n 0", 1),
            ("n 5", 6),
            ("n 2", 3),
            ("n 3", 4),
        ] {
            suite += &format!("[[test]]\nargs = \"{args}\"\nexpected = \"{out}\\n\"\n");
        }
        fs::write(place.path("two.toml"), &suite).expect("a suite");
        let path = place.path("two.toml").display().to_string();
        place.build("two", TWO, &["-g", "-O0"]);
        let args = [
            "locate",
            &path,
            "--faults",
            "many",
            "--recompute",
            way,
            "--json",
            "-q",
        ];
        let first = json(&place.say(&args).exits(1).out);
        let leads = first["ranking"][0]["suspiciousness"].as_u64();
        assert!(leads >= Some(1), "{way}: {}", first["ranking"][0]);
        place.build("two", &TWO.replace("n * 3", "n * 2"), &["-g", "-O0"]);
        let mut args = args.to_vec();
        args.push("--continue");
        let second = json(&place.say(&args).exits(1).out);
        assert_eq!(second["search"]["iteration"], 1);
        let reused = second["search"]["reused"].as_array().map_or(0, Vec::len);
        // None of what still fails executes what was mended.
        let expected = if way == "full" {
            0
        } else {
            second["search"]["searched"].as_array().map_or(0, Vec::len)
        };
        assert_eq!(reused, expected, "{way}");
        place.build(
            "two",
            &TWO.replace("n * 3", "n * 2").replace("n + 2", "n + 1"),
            &["-g", "-O0"],
        );
        place.say(&args).exits(0);
    }
}

#[test]
fn runaway_experiments_are_stopped() {
    let place = Place::new();
    place.build(
        "loop",
        r#"#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int n = atoi(argv[1]), sum = 0;
    for (int i = 0; i != n; i++)
        sum += i;
    FILE *f = fopen("result", "w");
    fprintf(f, "%d", sum);
    fclose(f);
    printf("%d\n", sum + 1);
    return 0;
}
"#,
        &["-g", "-O0"],
    );
    let mut suite = "program = \"loop\"\n".to_owned();
    for (n, sum) in [(3, 3), (5, 10), (9, 36)] {
        suite += &format!(
            "[[test]]\nargs = \"{n}\"\nexpected = \"{sum}\\n\"\nfiles = {{ result = \"old\" }}\n"
        );
    }
    fs::write(place.path("loop.toml"), &suite).expect("a suite");
    let path = place.path("loop.toml").display().to_string();
    let report = json(&place.say(&["locate", &path, "--json", "-q"]).exits(1).out);
    let tally = &report["search"]["tally"];
    assert!(tally["steps"].as_u64() > Some(0), "{tally}");
    // What experiments write stays with them.
    assert!(!place.path("result").exists());
}

#[test]
fn bad_requests() {
    let place = place();
    place.say(&["locate"]).exits(2).says("nothing to test");
    place
        .say(&["locate", "/nowhere.toml"])
        .exits(2)
        .says("No such file");
    let check = |text: &str, says: &str| {
        let path = place.path("bad.toml");
        fs::write(&path, text).expect("a file");
        place
            .say(&["locate", &path.display().to_string()])
            .exits(2)
            .says(says);
    };
    check("program = 3", "bad.toml is no suite of tests");
    check("program = \"faulty\"", "it has no tests");
    check("program = \"faulty\"\nprogramm = 1", "unknown field");
    check(
        "program = \"faulty\"\n[[test]]\nargs = \"1\"\n",
        "does not say what is `expected`",
    );
    check(
        "program = \"faulty\"\n[[test]]\nargs = \"'1\"\nexpected = \"\"\n",
        "is not closed",
    );
    check(
        "program = \"missing\"\n[[test]]\nexpected = \"\"\n",
        "cannot run",
    );
    check(
        "program = \"faulty\"\n[[test]]\nexpected = { file = \"none\" }\n",
        "no file",
    );
    check(
        "program = \"faulty\"\n[[test]]\nexpected = \"\"\nfiles = { \"../x\" = \"\" }\n",
        "does not stay in the working directory",
    );
    check(
        "program = \"faulty\"\nbuild = \"exit 3\"\n[[test]]\nexpected = \"\"\n",
        "could not be built",
    );
    place
        .say(&["locate", &suite(&place), "--resume"])
        .exits(2)
        .says("no earlier search");
    // Without line numbers there are no lines to rank.
    place.build("faulty", FAULTY, &["-O0", "-g0"]);
    place
        .say(&["locate", &suite(&place)])
        .exits(2)
        .says("compile it with -g");
    // A recording of the user's own is not replaced.
    let faulty = place.build("faulty", FAULTY, &["-g", "-O0"]);
    let faulty = faulty.display().to_string();
    place
        .say(&["run", "--name", "suite.A", "--", &faulty, "0", "0"])
        .exits(0);
    place
        .say(&["locate", &suite(&place)])
        .exits(2)
        .says("`suite.A` already");
}

#[test]
fn all_tests_pass() {
    let place = place();
    place.build("faulty", &FAULTY.replace("x + y", "x - y"), &["-g", "-O0"]);
    let ran = place.say(&["locate", &suite(&place)]);
    ran.exits(0).says("0 of 4 tests fail");
    assert!(ran.out.contains("all tests pass"), "{}", ran.out);
}

#[test]
fn an_interrupt_keeps_what_was_found() {
    let place = place();
    let mut command = place.wherefore(&["locate", &suite(&place), "--full", "--json"]);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .stdin(Stdio::null());
    let child = command.spawn().expect("it starts");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    let state = place.recordings().join("suite.C");
    harness::until("the first failing test is recorded", || {
        state.exists().then_some(())
    });
    let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT);
    // It ends by the signal, whenever it came; after that a new search is possible.
    let ran = finish_child(child);
    assert!(
        ran.signal == Some(2) || ran.status == Some(1) || ran.status == Some(3),
        "{}",
        ran.err
    );
    let again = place.wherefore(&["locate", &suite(&place), "-q"]);
    finish(again).exits(1);
}
