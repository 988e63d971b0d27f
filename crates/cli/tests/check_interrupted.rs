//! `wherefore check` that comes to an end before it has told all: what it knows by then is told.

mod harness;

use std::io::{Read, Write};
use std::process::{Child, Stdio};

use harness::{Place, Ran, alive, children, finish_child, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Faults at the beginning and at the end of a long run.
const FAULTY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static void use(char *p) { *(volatile char *)p; }
int main(int argc, char **argv)
{
    char *early = malloc(16);
    free(early);
    use(early);
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < 200000000; i++)
        sum += i;
    char *late = malloc(32);
    use(late + 32);
    char *lost = malloc(33);
    lost = argv[argc];
    puts("through");
    fflush(stdout);
    getchar();
    return lost != 0;
}
"#;

fn faulty(p: &Place) -> String {
    let program = p.build("faulty", FAULTY, &["-g", "-O0", "-w"]);
    program.to_str().expect("a path").to_owned()
}

/// The report is under way: a guest of the tool's has used some time.
fn replaying(tool: u32, but: Option<i32>) -> i32 {
    let guest = until("a replaying guest", || {
        children(tool).into_iter().find(|c| Some(*c) != but)
    });
    until("progress", || {
        let stat = std::fs::read_to_string(format!("/proc/{guest}/stat")).ok()?;
        let fields = stat.rsplit(')').next()?.split_whitespace();
        let ticks: u64 = fields.clone().nth(11)?.parse().ok()?;
        (ticks >= 5).then_some(())
    });
    guest
}

/// Runs until the program is about to end, has it end, and ends the report by a signal.
fn interrupted(p: &Place, options: &[&str], signal: Signal) -> Ran {
    let program = faulty(p);
    let args = [&["check", "--all"], options, &["--", &program]].concat();
    let mut child: Child = p
        .wherefore(&args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = [0; 8];
    let out = child.stdout.as_mut().expect("a pipe");
    out.read_exact(&mut said).expect("what the program says");
    let first = children(child.id())[0];
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"\n").expect("it reads");
    let second = replaying(child.id(), Some(first));
    kill(Pid::from_raw(child.id() as i32), signal).expect("it lives");
    let ran = finish_child(child);
    until("the guests to be gone", || {
        (!alive(first) && !alive(second)).then_some(())
    });
    ran
}

fn left_over(p: &Place) -> Vec<String> {
    let inside = |folder: &std::path::Path| {
        let list = std::fs::read_dir(folder).expect("a folder");
        let names = list.map(|e| {
            e.expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        });
        names.collect::<Vec<_>>()
    };
    let mut out = inside(&p.recordings());
    // Copies of mapped files are shared by recordings.
    out.retain(|name| !["faulty-0", "latest", ".files"].contains(&name.as_str()));
    let parts = inside(&p.recordings().join("faulty-0"));
    out.extend(
        parts
            .into_iter()
            .filter(|n| !["events", "files", "meta.json"].contains(&n.as_str())),
    );
    out
}

#[test]
fn what_was_found_is_told() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let p = Place::new();
        let ran = interrupted(&p, &[], signal);
        ran.exits(1)
            .says("use after free: ")
            .says("heap buffer overflow: ")
            .says("definite leak: 65 bytes in 2 blocks")
            .says("this report is not complete: interrupted")
            .says("wherefore check --all faulty-0");
        assert_eq!(left_over(&p), [""; 0]);
        // The recording has all of it.
        let whole = p.say(&["check", "--all", "--no-chains", "faulty-0"]);
        whole.exits(1).says("use after free");
        assert!(!whole.err.contains("not complete"), "{}", whole.err);
    }
}

#[test]
fn what_was_found_is_told_to_programs() {
    let p = Place::new();
    let ran = interrupted(&p, &["--json"], Signal::SIGINT);
    ran.exits(1);
    let at = ran.err.find("{\n").expect("a report");
    let report: Value = serde_json::from_str(&ran.err[at..]).expect("JSON");
    assert_eq!(report["unfinished"]["why"], "interrupted");
    let faults = report["faults"].as_array().expect("faults");
    let rules: Vec<&str> = faults.iter().filter_map(|f| f["rule"].as_str()).collect();
    assert_eq!(rules, ["dangling_deref", "heap_overflow", "definite_leak"]);
    let brief: Vec<&Value> = faults.iter().filter(|f| f["brief"] == true).collect();
    assert!(!brief.is_empty());
    for f in brief.iter().filter(|f| f["rule"] != "definite_leak") {
        assert_eq!(f["at"]["stack"]["frames"][0]["function"], "use");
        assert!(f["at"]["stack"]["frames"][0]["line"].is_u64());
        assert!(f["block"]["size"].is_u64());
    }
}

/// A recording that is looked at again tells what was found up to where it was interrupted.
#[test]
fn a_recording_is_interrupted() {
    let p = Place::new();
    let program = faulty(&p);
    p.run(program.as_ref(), &[]).exits(0);
    let child = p
        .wherefore(&["check", "--all", "faulty-0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let guest = replaying(child.id(), None);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it lives");
    finish_child(child)
        .exits(1)
        .says("use after free: ")
        .says("this report is not complete: interrupted");
    until("the guest to be gone", || (!alive(guest)).then_some(()));
}

/// One that was cut off tells what was found before.
#[test]
fn a_recording_is_cut_off() {
    let p = Place::new();
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    char *early = malloc(16);
    free(early);
    volatile char c = *early;
    FILE *noise = fopen("/dev/urandom", "r");
    static char buffer[1 << 20];
    for (int i = 0; i < 8; i++)
        fread(buffer, 1, sizeof buffer, noise);
    return 0;
}
"#;
    let program = p.build("faulty", source, &["-g", "-O0", "-w"]);
    p.run(&program, &[]).exits(0);
    let events = p.recordings().join("faulty-0/events");
    let file = std::fs::OpenOptions::new().write(true).open(events);
    let file = file.expect("the events");
    let len = file.metadata().expect("a size").len();
    file.set_len(len / 2).expect("it is cut off");
    p.say(&["check", "--all", "faulty-0"])
        .exits(1)
        .says("use after free: ")
        .says("value propagation chain")
        .says("this report is not complete: faulty-0: the recording is damaged");
    std::fs::remove_file(p.recordings().join("faulty-0/events")).expect("it is there");
    p.say(&["check", "--all", "faulty-0"])
        .exits(3)
        .says("cannot use the recording");
}
