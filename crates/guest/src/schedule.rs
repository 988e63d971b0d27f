//! Passing the turn on while recording.
//!
//! A thread keeps its turn until the [policy](crate::policy) says otherwise, or it waits in the
//! kernel, yields or ends. Every change of turn is in the recording with its step, so a replay
//! needs no scheduler.

use abi::{Blocking, Call, Plan};

use crate::engine::Wanted;
use crate::futex::Sleeper;
pub(crate) use crate::policy::Why;
use crate::process::Outcome;
use crate::ptrace::{Tracee, Wait, wait_for};
use crate::record::{Prepared, Recorder};
use crate::recording::Kind;
use crate::replay::Syscalls;
use crate::report::Deadlock;
use crate::start::recording_class;
use crate::threads::ThreadId;
use crate::{End, Error};

/// A system call that a thread is in while others have their turn.
pub(crate) struct Waiting {
    pub(crate) thread: ThreadId,
    pub(crate) call: Call,
    pub(crate) prepared: Prepared,
    pub(crate) outcome: Option<Outcome>,
    /// There if the scheduler itself decides when it is over.
    pub(crate) sleeper: Option<Sleeper>,
}

/// What decides which calls run on the spot.
#[derive(Default)]
pub(crate) struct Circumstances {
    /// There are guarded code pages.
    guarded: bool,
    several: bool,
    /// There is memory that others can write.
    watching: bool,
    /// What a tape is to tell of calls.
    told: Wanted,
    /// Somebody wants to see these before they are made.
    asked: Syscalls,
}

/// With more waiting threads than this, whether one of them has just been woken by the call before
/// is left to chance.
const MOST_LOOKED_AT: usize = 32;

impl Recorder {
    /// Tells the routine what it may run by itself: with several threads, nothing that can block;
    /// with memory that others can write, nothing, because each call is an occasion to compare.
    pub(crate) fn choose_classes(&mut self) {
        let guarded = !self.engine.protected.is_empty();
        let several = self.engine.threads.several();
        let watching = self.outside.watching();
        let told = self.engine.tape_wants();
        let known = &self.classes_for;
        if (guarded, several, watching, told)
            == (known.guarded, known.several, known.watching, known.told)
            && known.asked == self.asked
        {
            return;
        }
        self.classes_for = Circumstances {
            guarded,
            several,
            watching,
            told,
            asked: self.asked.clone(),
        };
        let asked = &self.asked;
        self.engine.set_classes(&|nr| {
            let yields = nr == libc::SYS_sched_yield as u64;
            let blocks = abi::may_block(nr) != Blocking::Never;
            // Later it is not known any more what it touched.
            let unknown = told.has_to_be_seen(nr);
            if watching || several && (blocks || yields) || unknown || asked.has(nr) {
                0
            } else {
                recording_class(nr, guarded)
            }
        });
    }

    /// Starts a call that may block. `Err` if it did: the thread waits.
    pub(crate) fn call_or_wait(
        &mut self,
        call: &Call,
        prepared: Prepared,
    ) -> Result<Option<(Prepared, Outcome)>, Error> {
        self.engine.begin_call(call)?;
        if let Some(outcome) = self.wait_asleep()? {
            return Ok(Some((prepared, outcome)));
        }
        self.tape_waits(call)?;
        self.waiting.push(Waiting {
            thread: self.engine.threads.current,
            call: *call,
            prepared,
            outcome: None,
            sleeper: None,
        });
        Ok(None)
    }

    /// Waits until the call just begun has come out or its thread is asleep.
    pub(crate) fn wait_asleep(&mut self) -> Result<Option<Outcome>, Error> {
        // Most calls that can block do not; asking whether it sleeps costs as much as waiting.
        for _ in 0..40 {
            if let Some(outcome) = self.engine.poll_call()? {
                return Ok(Some(outcome));
            }
            std::hint::spin_loop();
        }
        while !asleep(self.engine.tracee.0) {
            if let Some(outcome) = self.engine.poll_call()? {
                return Ok(Some(outcome));
            }
            std::thread::yield_now();
        }
        Ok(None)
    }

    /// Looks whether calls that threads wait in have returned.
    fn poll_waiting(&mut self) -> Result<Option<End>, Error> {
        loop {
            while let Some((tracee, wait)) = self.anything_new()? {
                if let Some(end) = self.heard(tracee, wait)? {
                    return Ok(Some(end));
                }
            }
            // One that the last call has woken is on its way; chance must not decide whether it
            // is seen here or later.
            let on_its_way = self.stirred
                && self.waiting.len() <= MOST_LOOKED_AT
                && self.waiting.iter().any(|w| {
                    w.outcome.is_none() && state(self.engine.threads.tid(w.thread)) == Some(b'R')
                });
            if !on_its_way {
                self.stirred = false;
                return Ok(None);
            }
            std::thread::yield_now();
        }
    }

    fn anything_new(&self) -> Result<Option<(Tracee, Wait)>, Error> {
        if self.waiting.is_empty() {
            return Ok(None);
        }
        wait_for(-1, libc::WNOHANG | libc::__WNOTHREAD)
    }

    /// The current thread gives its turn up at the present boundary.
    pub(crate) fn yield_turn(&mut self, why: Why) -> Result<Option<End>, Error> {
        self.turn_step = self.engine.step()?;
        self.pass_turn(why)
    }

    /// Passes the turn on at `turn_step`, perhaps to the thread that had it.
    pub(crate) fn pass_turn(&mut self, why: Why) -> Result<Option<End>, Error> {
        let step = self.turn_step;
        let gone = why == Why::Ended;
        let here = self.engine.threads.current;
        let next = loop {
            if let Some(end) = self.poll_waiting()? {
                return Ok(Some(end));
            }
            let parked = self.engine.threads.parked.iter().map(|(id, _)| *id);
            let mut ids: Vec<ThreadId> = parked.chain((!gone).then_some(here)).collect();
            ids.sort_unstable();
            let waits = |id: &ThreadId| {
                self.waiting
                    .iter()
                    .any(|w| w.thread == *id && w.outcome.is_none())
            };
            let ready: Vec<ThreadId> = ids.iter().copied().filter(|id| !waits(id)).collect();
            if !ready.is_empty() {
                break self.policy.choose(step, &ready, here, why, &mut self.notes);
            }
            if ids.is_empty() {
                return Err(Error::Internal("no thread is left".into()));
            }
            if self.nobody_can_wake(&ids)
                && let Some(end) = self.deadlock(gone.then_some(here))?
            {
                return Ok(Some(end));
            }
            // All of them wait; so does the tracer, for any of them.
            if let Some(end) = self.wait_for_any()? {
                return Ok(Some(end));
            }
        };
        if next != here || gone {
            let page = self.engine.page;
            self.engine.switch_to(next, step)?;
            self.carry_countdowns(page)?;
            if gone {
                self.engine.drop_thread(here);
            }
            self.engine.empty_ring()?;
            self.engine.tape_state()?;
            self.log(Kind::Switch, next.0, 0, Vec::new())?;
            self.account(here, step);
            if let Some(about) = self.engine.threads.about.get_mut(&next) {
                about.turns += 1;
            }
        }
        self.turn_until = self.policy.until(step);
        match self.waiting.iter().position(|w| w.thread == next) {
            None => Ok(None),
            Some(i) => {
                let w = self.waiting.remove(i);
                self.tape_call_resumes(&w.prepared);
                let outcome = w
                    .result()
                    .expect("a thread is ready when its call has come out");
                self.complete(&w.call, w.prepared, outcome)
            }
        }
    }

    /// The steps up to here were those of `thread`.
    pub(crate) fn account(&mut self, thread: ThreadId, step: u64) {
        let taken = step.saturating_sub(self.turn_began);
        self.turn_began = step;
        if let Some(about) = self.engine.threads.about.get_mut(&thread) {
            about.steps += taken;
        }
    }

    /// No thread can run, and none waits for anything outside.
    fn deadlock(&mut self, gone: Option<ThreadId>) -> Result<Option<End>, Error> {
        // A timer that was set will raise its signal.
        if self.alarms || self.told_deadlock {
            return Ok(None);
        }
        self.told_deadlock = true;
        let here = self.engine.threads.current;
        if gone.is_some() {
            // The dead thread's memory is read through one that lives.
            let other = self.engine.threads.parked.first().map(|(id, _)| *id);
            self.engine.exchange(other.ok_or(Error::Lost)?)?;
        }
        self.engine.refresh_maps()?;
        self.engine.stats.steps = self.turn_step;
        let in_call: Vec<ThreadId> = self.waiting.iter().map(|w| w.thread).collect();
        let threads = self.engine.thread_views(&in_call, gone.as_slice());
        let handlers = self.engine.dispositions.outside_handlers();
        let certain = handlers.is_empty();
        let deadlock = Deadlock::of(&self.engine, threads, handlers, &self.names);
        let end = match &mut self.on_deadlock {
            Some(f) => f(&deadlock),
            None => certain,
        };
        if gone.is_some() {
            self.engine.exchange(here)?;
        }
        if !end {
            return Ok(None);
        }
        self.kill_all()?;
        Ok(Some(End::Deadlocked))
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
        if self.waiting[i].outcome.is_some() {
            return Ok(None);
        }
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
        let alone = !self.engine.threads.several();
        let regs = self.engine.new_thread_regs(&arguments);
        let (ret, child) = self.engine.clone_call(call)?;
        let mut writes = Vec::new();
        if let Some(child) = child {
            let id = self.engine.add_thread(child, child.0, regs, None)?;
            if alone {
                let step = self.engine.step()?;
                self.turn_until = self.policy.until(step);
            }
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
        let robust = self.robust_list();
        self.tape_enter(call)?;
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
        let clear_tid = match self.clear_tids.iter().position(|c| c.0 == id) {
            Some(i) => self.clear_tids.remove(i).1,
            None => 0,
        };
        let effects = crate::recording::CallEffects {
            args: call.args,
            writes: self.after_end(tid, clear_tid, robust)?,
            file: None,
        };
        self.tape_writes(&effects);
        self.tape_ended(call, id)?;
        self.engine.threads.ended(id, step);
        self.engine.exchange(id)?;
        let event =
            crate::recording::Event::new(Kind::Call, call.nr as u32, step, 0, effects.encode());
        self.writer.event(&event)?;
        self.turn_step = step;
        self.pass_turn(Why::Ended)
    }
}

/// The thread sleeps in the kernel.
fn asleep(tid: i32) -> bool {
    // Waiting for a disk (`D`) is over soon, and not up to another thread.
    matches!(state(tid), Some(b'S') | None)
}

fn zombie(tid: i32) -> bool {
    matches!(state(tid), Some(b'Z' | b'X') | None)
}

fn state(tid: i32) -> Option<u8> {
    let stat = std::fs::read(format!("/proc/{tid}/stat")).ok()?;
    let end = stat.iter().rposition(|&b| b == b')')?;
    stat.get(end + 2).copied()
}
