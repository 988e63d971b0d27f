//! Bytes from and to the debugger.
//!
//! They are read by the thread that answers them: handing each packet from one thread to another would
//! cost more than most answers do. While the guest runs that thread is busy, so another one looks now
//! and then whether something has come: it can only mean that the guest is to stop.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use gdbstub::conn::Connection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const CTRL_C: u8 = 3;
/// How often it is looked whether there is still something to wait for.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often it is looked whether a guest that runs is to stop.
const TICK: Duration = Duration::from_millis(40);

/// Where a debugger's bytes come from.
pub trait Source: Read + AsFd {}

impl<T: Read + AsFd> Source for T {}

/// Whether the guest runs, and the flag that stops it. Both change under one lock, so that no stop is
/// meant for a run that is over.
struct Runs {
    running: Mutex<bool>,
    interrupt: Arc<AtomicBool>,
}

impl Runs {
    fn set(&self, running: bool) {
        let mut now = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        *now = running;
        self.interrupt.store(false, Ordering::SeqCst);
    }

    fn stop(&self) {
        let now = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if *now {
            self.interrupt.store(true, Ordering::SeqCst);
        }
    }
}

pub(crate) struct Incoming {
    from: Box<dyn Source>,
    ready: VecDeque<u8>,
    runs: Arc<Runs>,
    /// Ctrl-C came when the guest did not run, or stopped for another reason. The debugger may go on
    /// without a word to its user, so it is kept for the next run, as a signal would be.
    kept: bool,
    closed: bool,
}

/// Something can be read, or never will be again.
fn readable(fd: impl AsFd, wait: Duration) -> bool {
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: wait.as_nanos() as _,
    };
    let mut one = [PollFd::new(&fd, PollFlags::IN)];
    matches!(poll(&mut one, Some(&wait)), Ok(1..))
}

/// Stops the guest when something comes while it runs; ends with the connection.
fn watch(fd: &OwnedFd, runs: &Weak<Runs>) {
    loop {
        std::thread::sleep(TICK);
        let Some(runs) = runs.upgrade() else { return };
        if readable(fd, Duration::ZERO) {
            runs.stop();
        }
    }
}

impl Incoming {
    pub(crate) fn new(from: Box<dyn Source>, interrupt: Arc<AtomicBool>) -> io::Result<Self> {
        let runs = Arc::new(Runs {
            running: Mutex::new(false),
            interrupt,
        });
        let (fd, seen) = (from.as_fd().try_clone_to_owned()?, Arc::downgrade(&runs));
        std::thread::spawn(move || watch(&fd, &seen));
        Ok(Incoming {
            from,
            ready: VecDeque::new(),
            runs,
            kept: false,
            closed: false,
        })
    }

    /// Takes in what has come, or comes within a time.
    fn fill(&mut self, wait: Duration) -> bool {
        if self.closed || !readable(self.from.as_fd(), wait) {
            return false;
        }
        let mut buf = [0; 0x4000];
        match self.from.read(&mut buf) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Ok(n @ 1..) => self.ready.extend(&buf[..n]),
            Ok(0) | Err(_) => self.closed = true,
        }
        true
    }

    /// The next packet, or byte outside of packets; None when the debugger has gone, or it is `over`.
    pub(crate) fn next(&mut self, over: &dyn Fn() -> bool) -> Option<Vec<u8>> {
        loop {
            if let Some(n) = self.first_packet() {
                return Some(self.ready.drain(..n).collect());
            }
            if self.closed || (!self.fill(PATIENCE) && over()) {
                return None;
            }
        }
    }

    /// The length of what comes first, if all of it is there: `$...#` and two digits, or one byte.
    fn first_packet(&self) -> Option<usize> {
        if *self.ready.front()? != b'$' {
            return Some(1);
        }
        let end = self.ready.iter().position(|b| *b == b'#')?;
        Some(end + 3).filter(|n| *n <= self.ready.len())
    }

    pub(crate) fn running(&mut self) {
        self.runs.set(true);
        // What came with the request to run.
        if std::mem::take(&mut self.kept) || !self.ready.is_empty() || self.closed {
            self.runs.stop();
        }
    }

    pub(crate) fn closed(&mut self) -> bool {
        self.closed && self.first_packet().is_none()
    }

    /// The guest has stopped: what was said meanwhile is answered by that, or still to be answered.
    pub(crate) fn stopped(&mut self, answered: bool) {
        self.runs.set(false);
        self.fill(Duration::ZERO);
        while self.ready.front() == Some(&CTRL_C) {
            self.ready.pop_front();
            self.kept |= !answered;
        }
    }

    /// Ctrl-C, and nothing runs.
    pub(crate) fn keep_interrupt(&mut self) {
        self.kept = true;
    }
}

pub(crate) struct Outgoing {
    to: Box<dyn Write>,
    buffer: Vec<u8>,
    /// The next packet that begins so gets this at its end.
    more: Option<(&'static str, String)>,
}

impl Outgoing {
    pub(crate) fn new(to: Box<dyn Write>) -> Self {
        Outgoing {
            to,
            buffer: Vec::new(),
            more: None,
        }
    }

    /// Has the debugger print something; it listens for that while the guest runs.
    pub(crate) fn tell(&mut self, text: &str) -> io::Result<()> {
        let body: String = text.bytes().map(|b| format!("{b:02x}")).collect();
        self.answer(format!("O{body}").as_bytes())
    }

    pub(crate) fn acknowledge(&mut self) {
        self.buffer.push(b'+');
    }

    /// Sends a packet.
    pub(crate) fn answer(&mut self, body: &[u8]) -> io::Result<()> {
        self.put(body);
        self.flush()
    }

    /// Says more at the end of the next packet, which begins with `start`: `name:value`, after a `;`.
    pub(crate) fn add(&mut self, start: &'static str, more: String) {
        self.more = Some((start, more));
    }

    fn put(&mut self, body: &[u8]) {
        let sum = body.iter().copied().fold(0, u8::wrapping_add);
        self.buffer.push(b'$');
        self.buffer.extend_from_slice(body);
        self.buffer
            .extend_from_slice(format!("#{sum:02x}").as_bytes());
    }

    /// The packet that the stub is about to send, with what is to be added.
    fn add_more(&mut self) {
        let Some((start, more)) = self.more.take() else {
            return;
        };
        let begin = self.buffer.iter().position(|b| *b == b'$');
        let end = self.buffer.len().checked_sub(3);
        let (Some(begin), Some(end)) = (begin, end) else {
            return;
        };
        let Some(body) = self.buffer.get(begin + 1..end) else {
            return;
        };
        if !body.starts_with(start.as_bytes()) {
            return;
        }
        let mut body = body.to_vec();
        self.buffer.truncate(begin);
        if body.last() != Some(&b';') {
            body.push(b';');
        }
        body.extend_from_slice(more.as_bytes());
        self.put(&body);
    }
}

impl Connection for Outgoing {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.buffer.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.contains(&b'$') {
            self.add_more();
        }
        let sent = self.to.write_all(&self.buffer);
        self.buffer.clear();
        sent.and_then(|()| self.to.flush())
    }
}
