//! A limit on the time that a guest may take.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// What a guest that is asked to end may take for it, if it has a handler for that.
const GRACE: Duration = Duration::from_secs(5);

/// Ends a guest that takes too long: with `SIGXCPU`, which is recorded like any other signal, so
/// that the run can be repeated up to there; with `SIGKILL` if it goes on nevertheless.
pub(crate) struct Limit {
    over: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Limit {
    /// For the process `pid`, a child that has not been waited for.
    pub(crate) fn start(pid: i32, after: Duration) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        // The number may be somebody else's when the time is up.
        let guest = pidfd_open(pid, PidfdFlags::empty())?;
        let (over, waiting) = channel();
        let thread = std::thread::spawn(move || {
            for (time, signal) in [(after, Signal::XCPU), (GRACE, Signal::KILL)] {
                if waiting.recv_timeout(time) != Err(RecvTimeoutError::Timeout) {
                    return signal == Signal::KILL;
                }
                let _ = pidfd_send_signal(&guest, signal);
            }
            true
        });
        Ok(Limit { over, thread })
    }

    /// The guest has ended; was it because of the limit?
    pub(crate) fn stop(self) -> bool {
        // The thread may be at its end.
        let _ = self.over.send(());
        self.thread.join().unwrap_or(false)
    }
}
