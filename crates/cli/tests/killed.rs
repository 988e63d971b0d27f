//! Processes that are killed from outside: the guest, and wherefore itself.

mod harness;

use std::process::{Child, Stdio};

use harness::{Place, alive, children, finish_child, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Starts a guest that waits for input; returns the tool and the guest's pid.
fn waiting(p: &Place) -> (Child, i32) {
    let mut c = p.wherefore(&["run", "--", "cat"]);
    let child = c
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let guest = until("the guest to run", || {
        p.say(&["ls"]).out.contains("running").then_some(())?;
        children(pid).first().copied()
    });
    (child, guest)
}

#[test]
fn the_guest_is_killed() {
    let p = Place::new();
    let (child, guest) = waiting(&p);
    kill(Pid::from_raw(guest), Signal::SIGKILL).unwrap();
    let r = finish_child(child);
    r.dies(9).says("SIGKILL").says("cat-0");
    assert!(p.say(&["ls"]).out.contains("SIGKILL"));
    p.say(&["replay"]).dies(9);
}

#[test]
fn the_guest_is_terminated() {
    let p = Place::new();
    let (child, guest) = waiting(&p);
    kill(Pid::from_raw(guest), Signal::SIGTERM).unwrap();
    finish_child(child)
        .dies(15)
        .says("SIGTERM: asked to terminate");
    p.say(&["replay"]).dies(15).says("SIGTERM");
}

#[test]
fn wherefore_is_killed() {
    let p = Place::new();
    let (child, guest) = waiting(&p);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).unwrap();
    finish_child(child).dies(9);
    until("the guest to be gone", || (!alive(guest)).then_some(()));
    let listing = p.say(&["ls"]).out;
    assert!(listing.contains("aborted"), "{listing}");
    let r = p.say(&["replay"]);
    r.exits(3).says("wherefore: ");
    p.say(&["rm", "--all"]).exits(0);
}

#[test]
fn wherefore_is_terminated() {
    let p = Place::new();
    let (child, guest) = waiting(&p);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    finish_child(child).dies(15);
    until("the guest to be gone", || (!alive(guest)).then_some(()));
}

#[test]
fn an_interrupt_reaches_the_guest_once() {
    let p = Place::new();
    let source = r#"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile int n;
static void count(int s) { n++; }
int main(void) { signal(SIGINT, count); puts("ready"); fflush(stdout); pause(); printf("%d\n", n); return n; }
"#;
    let guest = p.build("counts", source, &[]);
    let mut c = p.wherefore(&["run", "--"]);
    use std::os::unix::process::CommandExt;
    let mut child = c
        .arg(&guest)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(&mut out, &mut ready).unwrap();
    // As a terminal does it: to the whole process group.
    kill(Pid::from_raw(-(child.id() as i32)), Signal::SIGINT).unwrap();
    finish_child(child).exits(1);
    p.say(&["replay"]).exits(1);
}
