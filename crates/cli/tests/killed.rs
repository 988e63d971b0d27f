//! Processes that are killed from outside: the guest, and wherefore itself.

mod harness;

use std::io::{Read, Write};
use std::process::{Child, Stdio};

use harness::{Place, alive, children, finish_child, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A guest that waits for input, and the tool that records it.
struct Waiting {
    child: Child,
    guest: i32,
    // Held open, so that the guest goes on waiting.
    _input: std::process::ChildStdin,
}

fn waiting(p: &Place) -> Waiting {
    let mut c = p.wherefore(&["run", "--", "cat"]);
    let mut child = c
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"x").unwrap();
    let mut byte = [0];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut byte)
        .unwrap();
    let guest = children(child.id())[0];
    until("the guest to wait for input", || {
        let call = std::fs::read_to_string(format!("/proc/{guest}/syscall")).ok()?;
        call.starts_with("0 0x0 ").then_some(())
    });
    Waiting {
        child,
        guest,
        _input: input,
    }
}

impl Waiting {
    fn tool(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }
}

#[test]
fn the_guest_is_killed() {
    let p = Place::new();
    let w = waiting(&p);
    kill(Pid::from_raw(w.guest), Signal::SIGKILL).unwrap();
    let r = finish_child(w.child);
    r.dies(9).says("SIGKILL").says("cat-0");
    assert!(p.say(&["ls"]).out.contains("SIGKILL"));
    p.say(&["replay"]).dies(9);
}

#[test]
fn the_guest_is_terminated() {
    let p = Place::new();
    let w = waiting(&p);
    kill(Pid::from_raw(w.guest), Signal::SIGTERM).unwrap();
    finish_child(w.child)
        .dies(15)
        .says("SIGTERM: asked to terminate");
    p.say(&["replay"]).dies(15).says("SIGTERM");
}

#[test]
fn wherefore_is_killed() {
    let p = Place::new();
    let w = waiting(&p);
    kill(w.tool(), Signal::SIGKILL).unwrap();
    finish_child(w.child).dies(9);
    until("the guest to be gone", || (!alive(w.guest)).then_some(()));
    let listing = p.say(&["ls"]).out;
    assert!(listing.contains("aborted"), "{listing}");
    let r = p.say(&["replay"]);
    r.exits(3).says("wherefore: ");
    p.say(&["rm", "--all"]).exits(0);
}

#[test]
fn wherefore_is_terminated() {
    let p = Place::new();
    let w = waiting(&p);
    kill(w.tool(), Signal::SIGTERM).unwrap();
    finish_child(w.child).dies(15);
    until("the guest to be gone", || (!alive(w.guest)).then_some(()));
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
int main(void) {
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, &old);
    signal(SIGINT, count);
    puts("ready");
    fflush(stdout);
    sigsuspend(&old);
    return n;
}
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
    out.read_exact(&mut ready).unwrap();
    // As a terminal does it: to the whole process group.
    kill(Pid::from_raw(-(child.id() as i32)), Signal::SIGINT).unwrap();
    finish_child(child).exits(1);
    p.say(&["replay"]).exits(1);
}
