//! Whose turn it is while recording.
//!
//! A thread keeps its turn for a quantum of steps, or until it blocks in the kernel or yields.
//! Every change of turn is in the recording with its step, so a replay needs no scheduler.

use abi::{Blocking, Call, Plan};

use crate::layout::slot;
use crate::process::Outcome;
use crate::ptrace::{Tracee, Wait, wait_for};
use crate::record::{Prepared, Recorder};
use crate::recording::Kind;
use crate::start::recording_class;
use crate::threads::ThreadId;
use crate::{End, Error};

/// Steps in a row that a thread gets while others are waiting.
pub(crate) const QUANTUM: u64 = 1_000_000;

/// A system call that a thread is in while others have their turn.
pub(crate) struct Waiting {
    pub(crate) thread: ThreadId,
    pub(crate) call: Call,
    pub(crate) prepared: Prepared,
    pub(crate) outcome: Option<Outcome>,
}

impl Recorder {
    /// Tells the routine what it may run by itself: with several threads, nothing that can block;
    /// with memory that others can write, nothing, because each call is an occasion to compare.
    pub(crate) fn choose_classes(&mut self) {
        let guarded = !self.engine.protected.is_empty();
        let several = self.engine.threads.several();
        let watching = self.outside.watching();
        if (guarded, several, watching) == self.classes_for {
            return;
        }
        self.classes_for = (guarded, several, watching);
        self.engine.set_classes(&|nr| {
            let yields = nr == libc::SYS_sched_yield as u64;
            let blocks = abi::may_block(nr) != Blocking::Never;
            if watching || several && (blocks || yields) {
                0
            } else {
                recording_class(nr, guarded)
            }
        });
    }

    /// Starts a call that may block. `None` if it did: the thread waits and has lost its turn.
    pub(crate) fn call_or_wait(
        &mut self,
        call: &Call,
        prepared: Prepared,
    ) -> Result<Option<(Prepared, Outcome)>, Error> {
        self.engine.begin_call(call)?;
        // Most calls that can block do not; asking whether it sleeps costs as much as waiting.
        for _ in 0..40 {
            if let Some(outcome) = self.engine.poll_call()? {
                return Ok(Some((prepared, outcome)));
            }
            std::hint::spin_loop();
        }
        while !asleep(self.engine.tracee.0) {
            if let Some(outcome) = self.engine.poll_call()? {
                return Ok(Some((prepared, outcome)));
            }
            std::thread::yield_now();
        }
        let thread = self.engine.threads.current;
        self.waiting.push(Waiting {
            thread,
            call: *call,
            prepared,
            outcome: None,
        });
        Ok(None)
    }

    /// Looks whether calls that threads wait in have returned.
    fn poll_waiting(&mut self) -> Result<(), Error> {
        let here = self.engine.threads.current;
        for i in 0..self.waiting.len() {
            if self.waiting[i].outcome.is_none() {
                let id = self.waiting[i].thread;
                if id != self.engine.threads.current {
                    self.engine.exchange(id)?;
                }
                self.waiting[i].outcome = self.engine.poll_call()?;
            }
        }
        if here != self.engine.threads.current && self.engine.threads.find(here).is_some() {
            self.engine.exchange(here)?;
        }
        Ok(())
    }

    /// Passes the turn on. `gone`: the current thread has ended.
    pub(crate) fn pass_turn(&mut self, gone: bool) -> Result<Option<End>, Error> {
        let step = self.turn_step;
        let here = self.engine.threads.current;
        let next = loop {
            self.poll_waiting()?;
            let mut ids: Vec<ThreadId> = self
                .engine
                .threads
                .parked
                .iter()
                .map(|(id, _)| *id)
                .collect();
            if !gone {
                ids.push(here);
            }
            ids.sort_unstable();
            let ready = |id: &ThreadId| {
                self.waiting
                    .iter()
                    .find(|w| w.thread == *id)
                    .is_none_or(|w| w.outcome.is_some())
            };
            let after = ids
                .iter()
                .copied()
                .filter(|id| *id > here)
                .find(|id| ready(id));
            if let Some(id) = after.or_else(|| ids.iter().copied().find(|id| ready(id))) {
                break id;
            }
            if ids.is_empty() {
                return Err(Error::Internal("no thread is left".into()));
            }
            // All of them wait; so does the tracer, for any of them.
            if let Some(end) = self.wait_for_any()? {
                return Ok(Some(end));
            }
        };
        if next != here || gone {
            self.engine.switch_to(next, step)?;
            if gone {
                self.engine.drop_thread(here);
            }
            let ring = self.engine.cache.layout.ring();
            self.engine.set_slot(slot::RING_AT, ring)?;
            self.log(Kind::Switch, next.0, 0, Vec::new())?;
        }
        match self.waiting.iter().position(|w| w.thread == next) {
            None => Ok(None),
            Some(i) => {
                let w = self.waiting.remove(i);
                let outcome = w
                    .outcome
                    .expect("a thread is ready when its call has come out");
                self.complete(&w.call, w.prepared, outcome)
            }
        }
    }

    fn wait_for_any(&mut self) -> Result<Option<End>, Error> {
        match wait_for(-1, libc::__WNOTHREAD)? {
            Some((tracee, wait)) => self.heard(tracee, wait),
            None => Ok(None),
        }
    }

    /// A thread has stopped or ended in the call that it waits in.
    fn heard(&mut self, tracee: Tracee, wait: Wait) -> Result<Option<End>, Error> {
        let waiting = &self.waiting;
        let id = self
            .engine
            .threads
            .parked
            .iter()
            .find(|(_, t)| t.tracee == tracee)
            .map(|(id, _)| *id)
            .or((tracee == self.engine.tracee).then_some(self.engine.threads.current));
        let Some(id) = id else { return Ok(None) };
        let Some(i) = waiting.iter().position(|w| w.thread == id) else {
            if let (Wait::Exited(_) | Wait::Killed(_), true) = (wait, tracee.0 == self.leader) {
                return self.ended(wait).map(Some);
            }
            return Ok(None);
        };
        let here = self.engine.threads.current;
        if id != here {
            self.engine.exchange(id)?;
        }
        self.waiting[i].outcome = self.engine.judge_call(wait)?;
        if id != here {
            self.engine.exchange(here)?;
        }
        if let Some(Outcome::Ended(wait)) = self.waiting[i].outcome {
            return self.ended(wait).map(Some);
        }
        Ok(None)
    }

    /// Makes a call of exec. The other threads die of it, and the kernel waits until the tracer has
    /// taken note of each; the caller goes on under the number of the first thread.
    pub(crate) fn exec_call(&mut self, call: &Call) -> Result<Outcome, Error> {
        if !self.engine.threads.several() {
            return self.engine.guest_call(call);
        }
        self.engine.begin_call(call)?;
        loop {
            let Some((tracee, wait)) = wait_for(-1, libc::__WNOTHREAD)? else {
                continue;
            };
            match wait {
                Wait::Event(libc::PTRACE_EVENT_EXEC) => {
                    self.engine.tracee = tracee;
                    return Ok(Outcome::Event(libc::PTRACE_EVENT_EXEC));
                }
                Wait::Exited(_) | Wait::Killed(_) if tracee.0 == self.leader => {
                    return Ok(Outcome::Ended(wait));
                }
                Wait::Exited(_) | Wait::Killed(_) => {}
                _ if tracee == self.engine.tracee => {
                    if let Some(outcome) = self.engine.judge_call(wait)? {
                        return Ok(outcome);
                    }
                }
                _ => drop(self.heard(tracee, wait)?),
            }
        }
    }

    /// A new thread of the guest.
    pub(crate) fn new_thread(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let refuse = |this: &mut Self, errno: i32| {
            let effects = crate::recording::CallEffects {
                args: call.args,
                ..Default::default()
            };
            this.finish(call, -i64::from(errno), effects)
        };
        let Some(arguments) = self.engine.clone_arguments(call) else {
            return refuse(self, libc::EFAULT);
        };
        if !self.engine.has_room_for_thread() {
            self.note("more threads at a time than are supported: clone fails with EAGAIN".into());
            return refuse(self, libc::EAGAIN);
        }
        let plan = Plan::before(call, &self.engine.memory).ok();
        let regs = self.engine.new_thread_regs(&arguments);
        let (ret, child) = self.engine.clone_call(call)?;
        let mut writes = Vec::new();
        if let Some(child) = child {
            let id = self.engine.add_thread(child, regs, None)?;
            self.clear_tids.push((id, arguments.clear_tid));
            if let Some(plan) = &plan {
                writes = self.written(plan, ret)?;
                writes.extend(self.written(plan, 0)?);
            }
        }
        self.finish(
            call,
            ret,
            crate::recording::CallEffects {
                args: call.args,
                writes,
                file: None,
            },
        )
    }

    /// The current thread ends; others remain.
    pub(crate) fn thread_exit(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let id = self.engine.threads.current;
        let step = self.engine.step()?;
        let leader = self.engine.tracee.0 == self.leader;
        self.engine.begin_call(call)?;
        let tid = self.engine.tracee.0;
        if leader {
            // The first thread stays behind as a zombie and is not reported before the others.
            while !zombie(tid) {
                std::thread::yield_now();
            }
        } else {
            loop {
                match self.engine.tracee.wait() {
                    Ok(Wait::Exited(_) | Wait::Killed(_)) | Err(_) => break,
                    Ok(_) => self.engine.tracee.resume(crate::ptrace::Resume::Run)?,
                }
            }
        }
        // The page of the dead thread is read through one that lives.
        let other = self
            .engine
            .threads
            .parked
            .first()
            .map(|(id, _)| *id)
            .ok_or(Error::Lost)?;
        self.engine.exchange(other)?;
        let mut effects = crate::recording::CallEffects {
            args: call.args,
            ..Default::default()
        };
        if let Some(i) = self.clear_tids.iter().position(|c| c.0 == id) {
            let addr = self.clear_tids.remove(i).1;
            if addr != 0 {
                let mut word = [0; 4];
                if self.engine.memory.read(addr, &mut word) == 4 {
                    effects.writes.push((addr, word.to_vec()));
                }
            }
        }
        self.engine.exchange(id)?;
        let event =
            crate::recording::Event::new(Kind::Call, call.nr as u32, step, 0, effects.encode());
        self.writer.event(&event)?;
        self.turn_step = step;
        self.pass_turn(true)
    }
}

/// The thread sleeps in the kernel.
fn asleep(tid: i32) -> bool {
    matches!(state(tid), Some(b'S' | b'D') | None)
}

fn zombie(tid: i32) -> bool {
    matches!(state(tid), Some(b'Z' | b'X') | None)
}

fn state(tid: i32) -> Option<u8> {
    let stat = std::fs::read(format!("/proc/{tid}/stat")).ok()?;
    let end = stat.iter().rposition(|&b| b == b')')?;
    stat.get(end + 2).copied()
}
