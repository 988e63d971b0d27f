//! Bytes from and to the debugger.
//!
//! A thread reads ahead, because the byte that means Ctrl-C comes while the guest runs and nobody
//! else listens.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;

use gdbstub::conn::Connection;

const CTRL_C: u8 = 3;
/// How often it is looked whether there is still something to wait for.
const PATIENCE: Duration = Duration::from_millis(200);

pub(crate) struct Incoming {
    from: Receiver<Vec<u8>>,
    ready: VecDeque<u8>,
    running: Arc<AtomicBool>,
    interrupt: Arc<AtomicBool>,
    /// Ctrl-C came when the guest did not run, or stopped for another reason. The debugger may go on
    /// without a word to its user, so it is kept for the next run, as a signal would be.
    kept: bool,
    closed: bool,
}

impl Incoming {
    pub(crate) fn new(mut reader: impl Read + Send + 'static, interrupt: Arc<AtomicBool>) -> Self {
        let (to, from) = channel();
        let running = Arc::new(AtomicBool::new(false));
        let (runs, stop) = (running.clone(), interrupt.clone());
        std::thread::spawn(move || {
            let mut buf = vec![0; 0x10000];
            loop {
                let n = match reader.read(&mut buf) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Ok(n) => n,
                    Err(_) => 0,
                };
                // While the guest runs, there is nothing to be said but that it should stop. It may
                // be this that lets it run, so that is asked first.
                let running = runs.load(Ordering::SeqCst);
                let sent = n > 0 && to.send(buf[..n].to_vec()).is_ok();
                // This is none; whoever begins to run meanwhile has not seen it.
                let late = buf[..n] == [CTRL_C] && runs.load(Ordering::SeqCst);
                if running || late || !sent {
                    stop.store(true, Ordering::SeqCst);
                }
                if !sent {
                    return;
                }
            }
        });
        Incoming {
            from,
            ready: VecDeque::new(),
            running,
            interrupt,
            kept: false,
            closed: false,
        }
    }

    /// The next byte; None when the debugger has gone, or it is `over`.
    pub(crate) fn next(&mut self, over: &dyn Fn() -> bool) -> Option<u8> {
        while self.ready.is_empty() && !self.closed && !over() {
            match self.from.recv_timeout(PATIENCE) {
                Ok(bytes) => self.ready.extend(bytes),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.closed = true,
            }
        }
        self.ready.pop_front()
    }

    fn poll(&mut self) {
        loop {
            match self.from.try_recv() {
                Ok(bytes) => self.ready.extend(bytes),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.closed = true;
                    return;
                }
            }
        }
    }

    pub(crate) fn running(&mut self) {
        self.running.store(true, Ordering::SeqCst);
        // What came with the request to run.
        self.poll();
        let kept = std::mem::take(&mut self.kept);
        if kept || !self.ready.is_empty() || self.closed {
            self.interrupt.store(true, Ordering::SeqCst);
        }
    }

    pub(crate) fn closed(&mut self) -> bool {
        self.poll();
        self.closed && self.ready.is_empty()
    }

    /// The guest has stopped: what was said meanwhile is answered by that, or still to be answered.
    pub(crate) fn stopped(&mut self, answered: bool) {
        self.running.store(false, Ordering::SeqCst);
        self.interrupt.store(false, Ordering::SeqCst);
        self.poll();
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
}

impl Outgoing {
    pub(crate) fn new(to: Box<dyn Write>) -> Self {
        Outgoing {
            to,
            buffer: Vec::new(),
        }
    }

    /// Has the debugger print something; it listens for that while the guest runs.
    pub(crate) fn tell(&mut self, text: &str) -> io::Result<()> {
        let body: String = text.bytes().map(|b| format!("{b:02x}")).collect();
        let sum = body.bytes().fold(b'O', u8::wrapping_add);
        self.write_all(format!("$O{body}#{sum:02x}").as_bytes())?;
        self.flush()
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
        let sent = self.to.write_all(&self.buffer);
        self.buffer.clear();
        sent.and_then(|()| self.to.flush())
    }
}
