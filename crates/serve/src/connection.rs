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

    /// The next packet, or byte outside of packets; None when the debugger has gone, or it is `over`.
    pub(crate) fn next(&mut self, over: &dyn Fn() -> bool) -> Option<Vec<u8>> {
        while !self.closed && !over() {
            if let Some(n) = self.first_packet() {
                return Some(self.ready.drain(..n).collect());
            }
            match self.from.recv_timeout(PATIENCE) {
                Ok(bytes) => self.ready.extend(bytes),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.closed = true,
            }
        }
        let n = self.first_packet()?;
        Some(self.ready.drain(..n).collect())
    }

    /// The length of what comes first, if all of it is there: `$...#` and two digits, or one byte.
    fn first_packet(&self) -> Option<usize> {
        if *self.ready.front()? != b'$' {
            return Some(1);
        }
        let end = self.ready.iter().position(|b| *b == b'#')?;
        Some(end + 3).filter(|n| *n <= self.ready.len())
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
        self.closed && self.first_packet().is_none()
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
