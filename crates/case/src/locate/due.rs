//! When a search must end: at Ctrl-C, or when its time is over.
//!
//! Whatever takes long (a test, a recording, a replay) knows nothing of that. So a second thread looks at the clock
//! meanwhile, and ends what is under way.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal as Kill, killpg};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::Error;

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Half of the time is for the search, but what comes before has at least one of these, and as many as it takes to see
/// one failing test, if it takes no more than two.
const LEAST: Duration = Duration::from_secs(1);

/// The end of the work.
#[derive(Clone, Copy)]
pub(crate) struct Due<'a> {
    stop: &'a AtomicBool,
    at: Option<Instant>,
}

impl<'a> Due<'a> {
    pub(crate) fn new(stop: &'a AtomicBool, at: Option<Instant>) -> Self {
        Due { stop, at }
    }

    /// The same, but not later than that.
    pub(crate) fn before(&self, at: Instant) -> Self {
        Due {
            at: Some(self.at.map_or(at, |own| own.min(at))),
            ..*self
        }
    }

    /// Somebody wants an end to it.
    pub(crate) fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn over(&self) -> bool {
        self.interrupted() || self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// Why there is no result if it was over before there was one.
    pub(crate) fn error(&self, before: &'static str) -> Error {
        if self.interrupted() {
            Error::Interrupted
        } else {
            Error::OutOfTime { before }
        }
    }

    /// Does `work`. Once it is over, `ring` is called, and again and again until the work is done.
    pub(crate) fn watch<T>(&self, ring: &(dyn Fn() + Sync), work: impl FnOnce() -> T) -> T {
        watch(&|| self.over(), ring, work)
    }
}

/// Does `work`; while it goes on and `over` says so, `ring` is called.
pub(crate) fn watch<T>(
    over: &(dyn Fn() -> bool + Sync),
    ring: &(dyn Fn() + Sync),
    work: impl FnOnce() -> T,
) -> T {
    let (done, waiting) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while waiting.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                if over() {
                    ring();
                }
            }
        });
        // Dropped also if the work panics, which ends the thread.
        let _done = done;
        work()
    })
}

/// A command in a process group of its own, which ends with everything that it has started as soon as `enough` says
/// why.
pub(crate) fn attend<W>(
    command: &mut Command,
    enough: &mut dyn FnMut() -> Option<W>,
) -> std::io::Result<Result<ExitStatus, W>> {
    let mut child = command.process_group(0).spawn()?;
    let mut pause = Duration::from_micros(50);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ok(status));
        }
        if let Some(why) = enough() {
            end(&mut child);
            return Ok(Err(why));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

fn end(child: &mut Child) {
    // The group is the child's own and its leader has not been reaped.
    let group = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap_or(0));
    let _ = killpg(group, Kill::SIGKILL);
    let _ = child.wait();
}

/// Something that ends a child that has not been waited for, with all that it has started.
pub(crate) fn killer(pid: i32) -> impl Fn() + Sync {
    // The number may be somebody else's when the time is up.
    let child = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    move || {
        let Some(child) = &child else { return };
        // Looked for while their parent is there; nobody knows whose they were afterwards.
        let others = descendants(pid);
        let _ = pidfd_send_signal(child, Signal::KILL);
        for other in &others {
            let _ = pidfd_send_signal(other, Signal::KILL);
        }
    }
}

/// The children of a process, and theirs.
fn descendants(pid: i32) -> Vec<OwnedFd> {
    let mut parents = BTreeSet::from([pid]);
    let mut out = Vec::new();
    let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = listed.filter_map(|e| e.file_name().to_str()?.parse().ok());
    let all: Vec<(i32, i32)> = numbers.filter_map(|n| Some((n, parent(n)?))).collect();
    loop {
        let known = parents.len();
        for &(child, of) in &all {
            if parents.contains(&of) && parents.insert(child) {
                let fd = Pid::from_raw(child).map(|p| pidfd_open(p, PidfdFlags::empty()));
                // It may have ended, and another have its number.
                out.extend(
                    fd.and_then(Result::ok)
                        .filter(|_| parent(child) == Some(of)),
                );
            }
        }
        if parents.len() == known {
            return out;
        }
    }
}

fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may have anything in it.
    let rest = &stat[stat.rfind(')')? + 1..];
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// When the tests must have been seen, and when one of those that fail, without which there is nothing to say.
pub(crate) fn seen_by(begun: Instant, budget: Option<Duration>) -> [Option<Instant>; 2] {
    [(2, LEAST), (1, LEAST * 2)]
        .map(|(parts, least)| budget.map(|b| begun + (b / parts).max(least)))
}
