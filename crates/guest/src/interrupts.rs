//! Signals to the tracer itself.
//!
//! Ctrl-C and Ctrl-\ reach the guest as they would natively, since it is in the same process
//! group; the tracer must survive them to record what the guest makes of it. Three in a row within
//! two seconds are a user who has had enough: they end the guest. SIGTERM and SIGHUP to the tracer
//! are passed on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering};

static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
static GUEST: AtomicI32 = AtomicI32::new(0);
/// When the present row of interrupts began, in seconds.
static FIRST: AtomicI64 = AtomicI64::new(i64::MIN / 2);

extern "C" fn note(signal: libc::c_int) {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime(2) is async-signal-safe, and `now` is live.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let n = if now.tv_sec - FIRST.load(Ordering::SeqCst) > 2 {
        FIRST.store(now.tv_sec, Ordering::SeqCst);
        INTERRUPTS.store(1, Ordering::SeqCst);
        1
    } else {
        INTERRUPTS.fetch_add(1, Ordering::SeqCst) + 1
    };
    let guest = GUEST.load(Ordering::SeqCst);
    if guest > 0 {
        let pass_on = matches!(signal, libc::SIGTERM | libc::SIGHUP);
        // SAFETY: kill(2) is async-signal-safe; the process is ours and not reaped while named.
        unsafe {
            if n >= 3 {
                libc::kill(guest, libc::SIGKILL);
            } else if pass_on {
                libc::kill(guest, signal);
            }
        }
    }
}

/// Installs the tracer's handlers; returns what the guest should have instead. Done once: what the
/// caller has chained to them since must stay.
pub(crate) fn install() -> Vec<(i32, libc::sighandler_t)> {
    static INSTALLED: OnceLock<Vec<(i32, libc::sighandler_t)>> = OnceLock::new();
    INSTALLED.get_or_init(install_handlers).clone()
}

/// Installs the tracer's handlers, which the first recorder or replay would do, so that the caller
/// can chain to them.
pub fn survive_interrupts() {
    install();
}

fn install_handlers() -> Vec<(i32, libc::sighandler_t)> {
    let mut old = Vec::new();
    for signal in [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGTSTP,
    ] {
        // SAFETY: `note` only uses atomics and kill(2); the structures are live.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut before);
            let was = before.sa_sigaction;
            old.push((
                signal,
                if was == libc::SIG_IGN {
                    libc::SIG_IGN
                } else {
                    libc::SIG_DFL
                },
            ));
            if was == libc::SIG_IGN {
                continue;
            }
            let mut act: libc::sigaction = std::mem::zeroed();
            act.sa_sigaction = if signal == libc::SIGTSTP {
                libc::SIG_IGN
            } else {
                note as *const () as usize
            };
            libc::sigaction(signal, &raw const act, std::ptr::null_mut());
        }
    }
    // Rust ignores SIGPIPE; a program started by a shell does not.
    old.push((libc::SIGPIPE, libc::SIG_DFL));
    old
}

/// Names the process that the handlers act on; 0 for none.
pub(crate) fn guest(pid: i32) {
    GUEST.store(pid, Ordering::SeqCst);
}

/// Stops the tracer as job control stopped the guest.
pub(crate) fn stop_self() {
    // SAFETY: plain system call.
    unsafe {
        libc::raise(libc::SIGSTOP);
    }
}

/// Ends this process as the guest ended, so that whoever waits for it learns the same. It leaves no
/// core file: a core of the tracer would tell nothing about the guest.
pub fn die_of(signal: i32) -> ! {
    // SAFETY: plain system calls on live values; the process is about to end.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
    // Its default action is not to end a process, or init ignores it.
    std::process::exit(128 + signal)
}
