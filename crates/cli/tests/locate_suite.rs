//! What a suite of `wherefore locate` can say, and what its experiments may not do.

mod harness;

use harness::{Place, finish_child};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}:\n{text}"))
}

/// Runs `locate` on a suite and gives its report.
#[track_caller]
fn locate(place: &Place, suite: &str, options: &[&str]) -> Value {
    fs::write(place.path("suite.toml"), suite).expect("a suite");
    let mut args = vec!["locate", "suite.toml", "--json", "-q"];
    args.extend(options);
    json(&place.say(&args).exits(1).out)
}

fn failing(report: &Value) -> Vec<(String, String)> {
    let tests = report["tests"].as_array().expect("tests");
    let failed = tests.iter().filter(|t| t["passed"] == false);
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    failed
        .map(|t| (text(&t["name"]), text(&t["why"])))
        .collect()
}

/// Prints a number from the environment times one from a file plus one from standard input; with an argument it
/// exits with that status. Compiled with WRONG, the product is a sum.
const SURROUNDED: &str = r#"#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int scale = getenv("SCALE") ? atoi(getenv("SCALE")) : 1, cell = 0, more = 0;
    FILE *f = fopen("sub/table.txt", "r");
    if (f && fscanf(f, "%d", &cell) == 1)
        fclose(f);
    scanf("%d", &more);
#ifdef WRONG
    int product = scale + cell;
#else
    int product = scale * cell;
#endif
    printf("%d.50 is it\n", product + more);
    return argc > 1 ? atoi(argv[1]) : 0;
}
"#;

#[test]
fn files_environment_input_and_a_reference() {
    let place = Place::new();
    place.build("right", SURROUNDED, &["-g", "-O0"]);
    place.build("wrong", SURROUNDED, &["-g", "-O0", "-DWRONG"]);
    fs::write(place.path("three"), "3").expect("a file");
    fs::write(place.path("ten"), "10").expect("a file");
    let suite = r#"
build = "touch built"
program = "wrong"
expected = "run: right"
[env]
SCALE = "2"
[files]
"sub/table.txt" = "2"
[[test]]
name = "same"
[[test]]
name = "file"
files = { "sub/table.txt" = { file = "three" } }
stdin = { file = "ten" }
[[test]]
name = "environment"
env = { SCALE = "3" }
args = ["7"]
[[test]]
name = "other"
env = { SCALE = "1" }
files = { "sub/table.txt" = "5" }
[[test]]
name = "twice"
env = { SCALE = "0" }
files = { "sub/table.txt" = "0" }
stdin = "4"
"#;
    let report = locate(&place, suite, &["--truth", "wrong.c:11"]);
    assert!(place.path("built").exists());
    let names: Vec<String> = failing(&report).into_iter().map(|f| f.0).collect();
    assert_eq!(names, ["file", "environment", "other"]);
    // 2 * 3 + 10, and not 2 + 3 + 10.
    let why: Vec<String> = failing(&report).into_iter().map(|f| f.1).collect();
    assert!(
        why[0].contains("15.50") && why[0].contains("16.50"),
        "{why:?}"
    );
    assert_eq!(
        fs::read_to_string(place.path("three")).expect("it is there"),
        "3"
    );
    // What is right in one test is what another wrongly has.
    let line = |l: &&Value| l["line"] == 11;
    let lines = report["ranking"].as_array().expect("lines");
    let mended = &lines.iter().find(line).expect("it is executed")["suspiciousness"];
    assert!(mended.as_u64() >= Some(2), "{mended}");
    // The command for a run of its own has all of that, too.
    let mut seen = 0;
    for line in report["ranking"].as_array().expect("lines") {
        for e in line["evidence"].as_array().expect("evidence") {
            let run = &e["run"];
            assert!(
                run["folder"].is_string() && run["env"]["SCALE"].is_string(),
                "{run}"
            );
            assert_eq!(run["stdin"].is_string(), e["test"] == "file");
            seen += 1;
        }
    }
    assert!(seen > 0);
}

#[test]
fn comparisons_and_statuses() {
    let place = Place::new();
    place.build("right", SURROUNDED, &["-g", "-O0"]);
    let check = |test: &str, fails: Option<&str>| {
        let suite = format!("program = \"right\"\n[[test]]\n{test}\n");
        fs::write(place.path("suite.toml"), &suite).expect("a suite");
        let ran = place.say(&["locate", "suite.toml", "--json", "-q", "--method", "ochiai"]);
        match fails {
            None => assert_eq!(ran.status, Some(0), "{test}: {}", ran.err),
            Some(why) => {
                let list = failing(&json(&ran.exits(1).out));
                assert!(list[0].1.contains(why), "{test}: {list:?}");
            }
        }
    };
    check("expected = \"0.50 is it\\n\"", None);
    check("expected = \"0.50  is it\"", Some("line 1 is"));
    check("expected = \"0.50  is it\"\ncompare = \"space\"", None);
    check(
        "expected = \"0.5 is it\"\ncompare = { tolerance = 0.01 }",
        None,
    );
    check(
        "expected = \"0.6 is it\"\ncompare = { tolerance = 0.01 }",
        Some("line 1 is"),
    );
    check(
        "expected = \"0\"\ncompare = { command = \"head -c1 \\\"$2\\\" | cmp -s - \\\"$1\\\"; true\" }",
        None,
    );
    check(
        "expected = \"0\"\ncompare = { command = \"cmp -s\" }",
        Some("line 1 is"),
    );
    check("args = \"3\"\nexpected = \"0.50 is it\\n\"", None);
    check(
        "args = \"3\"\nstatus = 3\nexpected = \"0.50 is it\\n\"",
        None,
    );
    check(
        "args = \"3\"\nstatus = 0\nexpected = \"0.50 is it\\n\"",
        Some("exits with 3, not 0"),
    );
}

/// Loops, floods or dies if told so.
const UNRULY: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "loop"))
        for (;;)
            ;
    while (!strcmp(how, "flood"))
        puts("a line that is printed again and again without any end at all");
    if (!strcmp(how, "die"))
        abort();
    int n = atoi(how);
    printf("%d\n", n + 1);
    return 0;
}
"#;

#[test]
fn tests_that_do_not_end() {
    let place = Place::new();
    place.build("unruly", UNRULY, &["-g", "-O0"]);
    let mut suite = "program = \"unruly\"\ntimeout = 2\nexpected = \"2\\n\"\n".to_owned();
    for how in ["loop", "flood", "die", "1", "2"] {
        suite += &format!("[[test]]\nname = \"{how}\"\nargs = \"{how}\"\n");
    }
    suite = suite.replace("name = \"loop\"", "name = \"loop\"\ntimeout = 0.2");
    let report = locate(&place, &suite, &[]);
    let list = failing(&report);
    let why: Vec<&str> = list.iter().map(|f| f.1.as_str()).collect();
    assert!(why[0].contains("longer than 0.2 s"), "{why:?}");
    assert!(
        why[1].contains("without end") || why[1].contains("longer than 2 s"),
        "{why:?}"
    );
    assert!(why[2].contains("SIGABRT"), "{why:?}");
    assert_eq!(list.len(), 4);
    // Those that end are searched, also the one that dies.
    let mut searched: Vec<&str> = report["search"]["searched"]
        .as_array()
        .expect("names")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    searched.sort_unstable();
    assert_eq!(searched, ["2", "die"]);
    let notes = report["notes"].to_string();
    assert!(notes.contains("test loop does not end"), "{notes}");
    // A reference must end.
    let text = "program = \"unruly\"\nexpected = \"run: unruly\"\ntimeout = 0.2\n[[test]]\nargs = \"loop\"\n";
    fs::write(place.path("suite.toml"), text).expect("a suite");
    place
        .say(&["locate", "suite.toml"])
        .exits(2)
        .says("does not end by itself");
}

/// What a passing test does once can be had in a failing one by replacing a number: a flood, many children, much
/// memory, a long loop, an overwritten file.
const GREEDY: &str = r#"#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static char page[200000];
int main(int argc, char **argv)
{
    int bytes = atoi(argv[1]), children = atoi(argv[2]), megabytes = atoi(argv[3]), times = atoi(argv[4]);
    write(1, page, bytes);
    for (int i = 0; i < children; i++)
        if (fork() == 0)
            _exit(0);
    while (wait(0) > 0)
        ;
    char *memory = malloc((size_t)megabytes << 20);
    if (!memory)
        return 3;
    for (volatile int i = 0; i < times; i++)
        ;
    int fd = open(argv[5], O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dprintf(fd, "%d", bytes);
    printf("%d\n", argc + 1);
    return 0;
}
"#;

#[test]
fn experiments_are_kept_in_bounds() {
    let place = Place::new();
    place.build("greedy", GREEDY, &["-g", "-O0"]);
    let outside = place.path("outside");
    let mut file = outside.display().to_string();
    let mut suite = "program = \"greedy\"\n".to_owned();
    let zeros = "\\u0000".repeat(180_000);
    for (args, expected) in [
        ("0 0 0 0", "6\\n".to_owned()),
        ("180000 0 0 0", format!("{zeros}7\\n")),
        ("0 3 0 0", "7\\n".to_owned()),
        ("0 0 300 0", "7\\n".to_owned()),
        ("0 0 0 900000", "7\\n".to_owned()),
    ] {
        suite += &format!("[[test]]\nargs = \"{args} {file}\"\nexpected = \"{expected}\"\n");
        file = place.path("others").display().to_string();
    }
    let report = locate(&place, &suite, &[]);
    assert_eq!(failing(&report).len(), 1);
    let tally = &report["search"]["tally"];
    assert!(tally["output"].as_u64() >= Some(1), "{tally}");
    assert!(tally["steps"].as_u64() >= Some(1), "{tally}");
    // The failing test has written it; an experiment with 180000 bytes has not.
    assert_eq!(fs::read_to_string(&outside).expect("it is there"), "0");
}

/// Numbers are shown as what they are.
#[test]
fn floating_point_in_the_evidence() {
    let place = Place::new();
    let text = r#"#include <stdio.h>
#include <stdlib.h>
static double half(double of, int odd)
{
    double by = 2;
    if (odd)
        by = 4;
    return of / by;
}
int main(int argc, char **argv)
{
    printf("%.9f\n", half(atof(argv[1]), argc > 3));
    return 0;
}
"#;
    place.build("half", text, &["-g", "-O0"]);
    let mut suite = "program = \"half\"\ncompare = { tolerance = 1e-6 }\n".to_owned();
    for (args, expected) in [("3 x x", "1.5"), ("3", "1.5000001"), ("8 x", "4")] {
        suite += &format!("[[test]]\nargs = \"{args}\"\nexpected = \"{expected}\"\n");
    }
    let report = locate(&place, &suite, &["--top", "20"]);
    assert_eq!(failing(&report).len(), 1);
    let lines = report["ranking"].as_array().expect("lines").iter();
    let evidence = lines.flat_map(|l| l["evidence"].as_array().expect("evidence"));
    let mut values = evidence.flat_map(|e| e["values"].as_array().expect("values"));
    let halves = |v: &serde_json::Value| v["name"] == "by" && v["was"] == "4" && v["with"] == "2";
    assert!(values.any(halves), "{report}");
}

#[test]
fn several_threads() {
    let place = Place::new();
    place.build(
        "threads",
        r#"#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static int part[2], n;
static void *work(void *arg)
{
    int k = *(int *)arg;
    for (int i = k; i < n; i += 2)
        part[k] += i * 2;
    return 0;
}
int main(int argc, char **argv)
{
    n = atoi(argv[1]);
    pthread_t t[2];
    int id[2] = {0, 1};
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], 0, work, &id[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], 0);
    int sum = part[0] + part[1];
    if (argc > 2)
        sum = sum + 1;
    printf("%d\n", sum);
    return 0;
}
"#,
        &["-g", "-O0", "-pthread"],
    );
    let mut suite = "program = \"threads\"\n".to_owned();
    for (args, out) in [("3", 6), ("5", 20), ("3 x", 6), ("4 x", 12)] {
        suite += &format!("[[test]]\nargs = \"{args}\"\nexpected = \"{out}\\n\"\n");
    }
    let report = locate(&place, &suite, &["--truth", "threads.c:22"]);
    let notes = report["notes"].to_string();
    assert!(notes.contains("has 3 threads"), "{notes}");
    // After the threads have ended, everything can be tried.
    let rank = &report["truth"][0]["rank"];
    assert!(rank.as_u64() <= Some(4), "{}", report["truth"]);
}

/// The compare command says when the search is under way, and holds it there.
#[test]
fn an_interrupted_search_goes_on() {
    let place = Place::new();
    place.build(
        "sum",
        "#include <stdio.h>\n#include <stdlib.h>\nint main(int argc, char **argv)\n{\n    int a = atoi(argv[1]), b = atoi(argv[2]);\n    int sum = a + b + 1;\n    printf(\"%d\\n\", sum);\n    return 0;\n}\n",
        &["-g", "-O0"],
    );
    let suite = |compare: &str| {
        let mut text = format!("program = \"sum\"\ncompare = {{ command = \"{compare}\" }}\n");
        for (a, b, right) in [(1, 2, 3), (3, 1, 5), (4, 4, 9), (2, 5, 7)] {
            text += &format!("[[test]]\nargs = \"{a} {b}\"\nexpected = \"{right}\\n\"\n");
        }
        text
    };
    let options = ["--full", "--workers", "1"];
    let whole = locate(&place, &suite("cmp -s"), &options);
    // Four comparisons are those of the tests themselves.
    let gated =
        "echo x >> log; [ $(wc -l < log) -le 6 ] || until [ -e gate ]; do sleep 0.02; done; cmp -s";
    fs::write(place.path("suite.toml"), suite(gated)).expect("a suite");
    let mut args = vec!["locate", "suite.toml", "--json", "-q"];
    args.extend(options);
    let mut command = place.wherefore(&args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    let log = place.path("log");
    harness::until("the search is under way", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        (text.lines().count() > 6).then_some(())
    });
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it is there");
    // It does not wait for the command.
    let ran = finish_child(child);
    assert_eq!(ran.signal, Some(2), "{}", ran.err);
    fs::write(place.path("gate"), "").expect("a file");
    let cut = json(&ran.out);
    assert_eq!(cut["search"]["complete"], false);
    let (some, all) = (
        &cut["search"]["tally"]["tried"],
        &whole["search"]["tally"]["tried"],
    );
    assert!(some.as_u64() < all.as_u64(), "{some} {all}");
    args.push("--resume");
    let rest = json(&place.say(&args).exits(1).out);
    assert_eq!(rest["search"]["complete"], true);
    assert_eq!(rest["search"]["tally"], whole["search"]["tally"]);
    assert_eq!(rest["ranking"], whole["ranking"]);
}

/// Given a file, it adds to it, and the second time it never ends.
const MOODY: &str = r#"#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int n = atoi(argv[1]);
    if (argc > 2) {
        int fd = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0666);
        int second = lseek(fd, 0, SEEK_END) == 1;
        int child = second && fork() == 0;
        if (child)
            fork();
        else
            write(fd, "x", 1);
        while (second)
            usleep(1000);
    }
    printf("%d\n", n + 1);
    return 0;
}
"#;

/// Processes that run this program.
fn running(program: &std::path::Path) -> usize {
    let all = fs::read_dir("/proc").expect("processes");
    all.flatten()
        .filter(|p| fs::read_link(p.path().join("exe")).is_ok_and(|exe| exe == program))
        .count()
}

/// What was seen before the interrupt is shown, and gone on with.
#[test]
fn an_interrupt_while_the_tests_are_recorded() {
    let place = Place::new();
    let program = place.build("moody", MOODY, &["-g", "-O0"]);
    let program = fs::canonicalize(program).expect("it was built");
    let times = place.path("times");
    let suite = format!(
        "program = \"moody\"\n\
         [[test]]\nname = \"wrong\"\nargs = \"4\"\nexpected = \"4\\n\"\n\
         [[test]]\nname = \"right\"\nargs = \"3 {}\"\nexpected = \"4\\n\"\n",
        times.display()
    );
    fs::write(place.path("suite.toml"), suite).expect("a suite");
    let args = ["locate", "suite.toml", "--json", "-q"];
    let mut command = place.wherefore(&args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    harness::until("the second test is being recorded", || {
        fs::metadata(&times)
            .is_ok_and(|m| m.len() == 2)
            .then_some(())
    });
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it is there");
    let ran = finish_child(child);
    assert_eq!(ran.signal, Some(2), "{}", ran.err);
    let cut = json(&ran.out);
    let notes = cut["notes"].to_string();
    assert!(notes.contains("1 of 2 tests count for nothing"), "{notes}");
    assert_eq!(cut["search"]["complete"], false);
    assert!(cut["statements"].as_u64() > Some(0), "{cut}");
    assert_eq!(running(&program), 0);
    let rest = place.say(&["locate", "suite.toml", "--json", "-q", "--resume"]);
    let rest = json(&rest.exits(1).out);
    assert_eq!(rest["search"]["complete"], true);
    assert_eq!(rest["notes"].as_array().map(Vec::len), Some(0));
}

/// Nothing can be said if the time is over before the tests have been run, and nothing stays behind.
#[test]
fn a_budget_that_is_too_short() {
    let place = Place::new();
    let program = place.build(
        "slow",
        "#include <unistd.h>\nint main(void)\n{\n    sleep(1000);\n    return 0;\n}\n",
        &["-g", "-O0"],
    );
    let program = fs::canonicalize(program).expect("it was built");
    let suite = "program = \"slow\"\ntimeout = 2000\n[[test]]\nexpected = \"1\"\n";
    fs::write(place.path("suite.toml"), suite).expect("a suite");
    place
        .say(&["locate", "suite.toml", "--budget", "1"])
        .exits(3)
        .says("the time was over before the tests had been run");
    assert_eq!(running(&program), 0);
    // So does one whose command to build never ends.
    let suite = format!("build = \"sleep 1000\"\n{suite}");
    fs::write(place.path("suite.toml"), suite).expect("a suite");
    place
        .say(&["locate", "suite.toml", "--budget", "0"])
        .exits(3)
        .says("the time was over before the program was built");
}
