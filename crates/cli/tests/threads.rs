//! Threads as a user sees them: schedules, seeds, chaos, deadlocks, and which thread it was.

mod harness;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use harness::{Place, Ran, finish_child};

fn guest(p: &Place, name: &str) -> PathBuf {
    p.guest(&format!("threads/{name}.c"), &["-O1", "-pthread"])
}

/// The lines of a schedule without the comments.
#[track_caller]
fn schedule(p: &Place, recording: &str) -> Vec<String> {
    let listed = p.say(&["schedule", recording]);
    listed.exits(0);
    let lines = listed.out.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|l| l.split('#').next().unwrap_or("").trim().to_owned())
        .collect()
}

#[track_caller]
fn run(p: &Place, options: &[&str], program: &Path) -> Ran {
    let mut words = vec!["run"];
    words.extend(options);
    words.extend(["--", program.to_str().expect("a path that is text")]);
    p.say(&words)
}

#[test]
fn a_deadlock_is_reported_with_every_stack() {
    let p = Place::new();
    let ran = run(&p, &["--name", "d"], &guest(&p, "deadlock"));
    ran.exits(1);
    for text in [
        "deadlock: no thread can run",
        "thread 1 waits for thread 2 waits for thread 1",
        "thread 0 waits for thread 1 to end",
        "thread 1 \"forth\" waits for the mutex `second` at",
        "held by thread 2",
        "held by thread 1",
        "forth (argument=",
        "back (argument=",
    ] {
        ran.says(text);
    }
    let again = p.say(&["replay", "d"]);
    again.exits(1);
    assert_eq!(again.err, ran.err);
    assert!(p.say(&["ls"]).out.contains("deadlock"));
}

#[test]
fn one_thread_that_nobody_can_wake_is_a_deadlock() {
    let p = Place::new();
    let ran = run(&p, &[], &guest(&p, "lost_wakeup"));
    ran.exits(1).says("waits for the semaphore");
    assert_eq!(ran.out, "waiting\n");
}

#[test]
fn reports_and_info_name_the_thread() {
    let p = Place::new();
    let program = guest(&p, "crash");
    let ran = run(&p, &["--name", "c"], &program);
    ran.dies(11).says("backtrace, thread 2 \"unlucky\"");
    ran.says("2 other threads; --all-threads shows them");
    let all = p.say(&["replay", "c", "--all-threads"]);
    all.dies(11).says("thread 0 waits for thread 2 to end");
    all.says("thread 1 waits for the mutex `lock`");
    let info = p.say(&["info", "c"]);
    assert!(info.out.contains("2 \"unlucky\": "), "{}", info.out);
    assert!(info.out.contains("created by 0 at step"), "{}", info.out);
    let hint = ran.err.rsplit("--to ").next().expect("a hint");
    let step = hint.split_whitespace().next().expect("a step");
    let before: u64 = step.parse().expect("a step");
    let before = p.say(&["replay", "c", "--to", &(before - 1).to_string()]);
    before.exits(0).says("of c, thread 2 \"unlucky\"");
}

#[test]
fn a_seed_decides_the_schedule() {
    let p = Place::new();
    let program = guest(&p, "racy_counter");
    for (name, seed) in [("a", "7"), ("b", "7"), ("c", "8")] {
        run(&p, &["--name", name, "--seed", seed], &program).exits(0);
    }
    let (a, b, c) = (schedule(&p, "a"), schedule(&p, "b"), schedule(&p, "c"));
    assert!(a.len() > 3, "{a:?}");
    assert_eq!(a, b);
    assert_ne!(a, c);
}

#[test]
fn a_schedule_can_be_given_back_and_changed() {
    let p = Place::new();
    let program = guest(&p, "racy_counter");
    let first = run(&p, &["--name", "a", "--seed", "5"], &program);
    let file = p.path("schedule");
    let file = file.to_str().expect("a path that is text");
    p.say(&["schedule", "a", "-o", file]).exits(0);
    let second = run(&p, &["--name", "b", "--schedule", file], &program);
    second.exits(0);
    assert_eq!((&first.out, &first.err), (&second.out, &second.err));
    assert_eq!(schedule(&p, "a"), schedule(&p, "b"));
    // The first turn goes to another thread, and a line names one that there never is.
    let mut lines = schedule(&p, "a");
    let (step, _) = lines[0].split_once(" thread ").expect("a line");
    let changed = format!("{step} thread 4");
    lines[0].clone_from(&changed);
    lines.truncate(1);
    std::fs::write(file, format!("{changed}\nat step 999999 thread 77\n")).expect("a file");
    let third = run(&p, &["--name", "c", "--schedule", file], &program);
    third
        .exits(0)
        .says("line 2 of the schedule was passed over");
    assert_eq!(schedule(&p, "c")[0], changed);
}

#[test]
fn a_schedule_that_cannot_be_read_is_refused_with_all_its_mistakes() {
    let p = Place::new();
    let program = guest(&p, "mutex");
    let file = p.path("schedule");
    std::fs::write(
        &file,
        "at step one thread 1\nat step 9 thread 1\nat step 8 thread 0\n",
    )
    .expect("a file");
    let file = file.to_str().expect("a path that is text");
    let ran = run(&p, &["--schedule", file], &program);
    ran.exits(2)
        .says("line 1: ")
        .says("line 3: step 8 is before");
    run(&p, &["--schedule", "/no/such/file"], &program)
        .exits(2)
        .says("cannot use the schedule /no/such/file");
    run(&p, &["--chaos", "many"], &program).exits(2);
}

#[test]
fn chaos_finds_a_race_and_keeps_that_run_only() {
    let p = Place::new();
    let program = guest(&p, "racy_counter");
    let ran = run(&p, &["--chaos", "30", "--same-output"], &program);
    ran.exits(1)
        .says("with other output than the first run")
        .says(" failed (");
    assert_eq!(ran.out, "");
    let list = p.say(&["ls"]).out;
    assert_eq!(list.lines().count(), 2, "{list}");
    let replays: Vec<String> = (0..3).map(|_| p.say(&["replay"]).out).collect();
    assert_ne!(replays[0], "800000\n");
    assert!(replays.iter().all(|r| *r == replays[0]), "{replays:?}");
}

#[test]
fn chaos_leaves_a_sound_program_alone() {
    let p = Place::new();
    let ran = run(&p, &["--chaos", "8", "--same-output"], &guest(&p, "mutex"));
    ran.exits(0).says("8 runs, 0 failed (8 x exit 0)");
    assert_eq!(p.say(&["ls"]).out.lines().count(), 1);
}

#[test]
fn chaos_counts_how_runs_end() {
    let p = Place::new();
    let options = ["--chaos", "4", "--keep-going"];
    let ran = run(&p, &options, &guest(&p, "deadlock"));
    ran.exits(1).says("4 runs, 4 failed (4 x deadlock, failed)");
    ran.says("run 1 failed: deadlock (seed 0); kept as");
    let options = ["--chaos", "3", "--expect", "0,3"];
    run(&p, &options, &guest(&p, "family")).exits(0);
    run(&p, &["--chaos", "3", "--expect", "0"], &guest(&p, "family")).exits(1);
}

#[test]
fn chaos_gives_every_run_the_same_input() {
    let p = Place::new();
    let source = "#include <stdio.h>\nint main(void) { int n = 0; while (getchar() >= 0) n++; return n != 5; }\n";
    let program = p.build("reads", source, &[]);
    let program = program.to_str().expect("a path that is text");
    let mut command = p.wherefore(&["run", "--chaos", "4", "--expect", "0", "--", program]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"12345").expect("it reads");
    drop(input);
    let ran = finish_child(child);
    ran.exits(0).says("4 runs, 0 failed");
}

#[test]
fn chaos_finds_a_race_that_each_thread_runs_once() {
    let source = "\
#include <pthread.h>
int x;
static void *once(void *p) { int t = x; x = t + 1; return 0; }
int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, once, 0);
    pthread_create(&b, 0, once, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return x != 2;
}
";
    let p = Place::new();
    let program = p.build("once", source, &["-O0", "-pthread"]);
    run(&p, &["--chaos", "400", "--name", "lost"], &program).exits(1);
    p.say(&["replay", "lost"]).exits(1);
}

#[test]
fn a_run_that_takes_too_long_is_ended_where_it_is() {
    let source = "\
#include <pthread.h>
volatile int flag, n;
static void *turns(void *p) { while (!flag) n++; return 0; }
int main(void)
{
    pthread_t t;
    pthread_create(&t, 0, turns, 0);
    return pthread_join(t, 0);
}
";
    const SIGXCPU: i32 = 24;
    let p = Place::new();
    let program = p.build("endless", source, &["-O1", "-pthread"]);
    let ran = run(&p, &["--timeout", "0.5"], &program);
    ran.dies(SIGXCPU);
    ran.says("the program took longer than 0.5 s and was ended");
    ran.says("turns (p=");
    let again = p.say(&["replay", "--all-threads"]);
    again.dies(SIGXCPU);
    again.says("turns (p=");
    let ran = run(&p, &["--chaos", "3", "--timeout", "0.5"], &program);
    ran.exits(1);
    ran.says("run 1 failed: took too long and was ended");
    for wrong in ["0", "-1", "soon"] {
        run(&p, &[&format!("--timeout={wrong}")], &program).exits(2);
    }
}
