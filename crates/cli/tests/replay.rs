//! `wherefore replay` repeats the run from the recording alone.

mod harness;

use std::fs;
use std::process::Stdio;

use harness::{Place, finish_child, until};

const READS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    char line[100];
    FILE *f = fopen("input.txt", "r");
    while (fgets(line, sizeof line, f)) fputs(line, stdout);
    struct timespec t; clock_gettime(CLOCK_REALTIME, &t);
    unsigned r; FILE *u = fopen("/dev/urandom", "r"); fread(&r, sizeof r, 1, u);
    printf("%ld.%09ld %u %d %p\n", (long)t.tv_sec, t.tv_nsec, r, (int)getpid(), malloc(10));
    fflush(stdout);
    fputs("to standard error\n", stderr);
    return 42;
}
"#;

#[test]
fn the_same_again_when_everything_is_gone() {
    let p = Place::new();
    fs::write(p.path("input.txt"), "first\nsecond\n").unwrap();
    let guest = p.build("reads", READS, &[]);
    let ran = p.run(&guest, &[]);
    ran.exits(42);
    assert!(ran.out.starts_with("first\nsecond\n"));
    fs::remove_file(&guest).unwrap();
    fs::remove_file(p.path("input.txt")).unwrap();
    for _ in 0..3 {
        let again = p.say(&["replay"]);
        again.exits(42);
        assert_eq!((&again.out, &again.err), (&ran.out, &ran.err));
    }
}

#[test]
fn stops_at_a_step() {
    let p = Place::new();
    let guest = p.guest("crash/null_deref.c", &["-O0"]);
    let crash = p.run(&guest, &[]);
    let json = p.say(&["info", "--json"]).out;
    let info: serde_json::Value = serde_json::from_str(&json).unwrap();
    let last = info["meta"]["figures"]["steps"].as_u64().unwrap();
    for step in [0, 1, 2, 1000, last / 2, last - 3, last - 1] {
        let r = p.say(&["replay", "--json", "--to", &step.to_string()]);
        r.exits(0);
        let report: serde_json::Value = serde_json::from_str(&r.err).expect("JSON");
        assert_eq!(report["end"]["stopped"]["step"], step);
        assert!(
            report["end"]["stopped"]["instruction"]["text"].is_string(),
            "step {step}"
        );
    }
    let r = p.say(&["replay", "--to", &(last - 1).to_string()]);
    r.says("null_deref.c:")
        .says(" in last")
        .says("backtrace")
        .says("#1   main ()");
    // The last step is the crash itself.
    let r = p.say(&["replay", "--to", &last.to_string()]);
    r.exits(0);
    assert_eq!(r.err, crash.err);
    p.say(&["replay", "--to", &(last + 1).to_string()])
        .exits(2)
        .says("ends at step");
    p.say(&["replay", "--to", "soon"]).exits(2);
}

#[test]
fn an_interrupt_ends_a_replay() {
    let p = Place::new();
    let source = "#include <unistd.h>\nint main(void) { alarm(2); for (;;) ; }";
    let guest = p.build("busy", source, &[]);
    p.run(&guest, &[]).dies(14).says("SIGALRM");
    let mut c = p.wherefore(&["replay"]);
    let child = c
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let guest = until("a replaying guest", || {
        harness::children(pid).first().copied()
    });
    // Let it get going: the handlers are in place once the guest has used some time.
    until("progress", || {
        let stat = fs::read_to_string(format!("/proc/{guest}/stat")).ok()?;
        let ticks: u64 = stat
            .rsplit(')')
            .next()?
            .split_whitespace()
            .nth(11)?
            .parse()
            .ok()?;
        (ticks >= 5).then_some(())
    });
    let own = nix::unistd::Pid::from_raw(pid as i32);
    nix::sys::signal::kill(own, nix::sys::signal::Signal::SIGINT).unwrap();
    let r = finish_child(child);
    r.dies(2).says("interrupted at step");
    until("the guest to be gone", || {
        (!harness::alive(guest)).then_some(())
    });
}
