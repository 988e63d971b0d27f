//! Signals while recording: each is written down with the step at which the guest meets it.

use super::*;

/// Recording makes the way to a handler and back long: on a busy machine, longer than a fast timer takes to go off
/// again, and the guest would never get anywhere. So signals of timers wait a little behind the return from a
/// handler.
#[derive(Default)]
pub(super) struct Rest {
    until: u64,
    waiting: Vec<Pending>,
}

impl Rest {
    /// Steps between the return from a handler and the next signal of a timer: less time than the way there.
    const STEPS: u64 = 100_000;
}

fn by_timer(p: &Pending) -> bool {
    let code = i32::from_le_bytes(p.info[8..12].try_into().expect("four bytes"));
    let old = matches!(p.signal, libc::SIGALRM | libc::SIGVTALRM | libc::SIGPROF);
    code == libc::SI_TIMER || old && code == libc::SI_KERNEL
}

impl Recorder {
    /// The guest has returned from a handler.
    pub(super) fn rest_from_here(&mut self) -> Result<(), Error> {
        if !self.engine.threads.several() {
            self.rest.until = self.engine.step()? + Rest::STEPS;
            self.let_timers_wait();
        }
        Ok(())
    }

    fn let_timers_wait(&mut self) {
        let pending = std::mem::take(&mut self.engine.pending);
        for p in pending {
            if by_timer(&p) {
                self.rest.waiting.push(p);
            } else {
                self.engine.pending.push_back(p);
            }
        }
    }

    /// No later than where the rest ends; and no call is run on the spot, for it might sleep over a signal.
    pub(super) fn rest_before(&mut self, goal: Option<u64>) -> Result<Option<u64>, Error> {
        if self.rest.waiting.is_empty() {
            return Ok(goal);
        }
        self.engine.no_calls_on_the_spot()?;
        Ok(Some(
            goal.map_or(self.rest.until, |g| g.min(self.rest.until)),
        ))
    }

    /// The guest has stopped: may signals that have come, or wait, be delivered here?
    pub(super) fn rest_after(&mut self, stop: &Stop) -> Result<(), Error> {
        if self.rest.until == 0 || matches!(stop, Stop::Ended(_)) {
            return Ok(());
        }
        let step = self.engine.step()?;
        let has_some = !self.rest.waiting.is_empty() || self.engine.pending.iter().any(by_timer);
        let resting = has_some
            && step < self.rest.until
            && !self.engine.threads.several()
            && match stop {
                Stop::Syscall => self.rests_in_call(),
                Stop::Interrupted(_) => false,
                _ => true,
            };
        if resting {
            self.let_timers_wait();
        } else {
            // In front: the last one is that which interrupted a call.
            for p in self.rest.waiting.drain(..).rev() {
                self.engine.pending.push_front(p);
            }
        }
        if step >= self.rest.until {
            self.rest.until = 0;
        }
        Ok(())
    }

    /// The call at hand does not wait for anything, of which a signal could be the end, and is not about signals.
    fn rests_in_call(&self) -> bool {
        let call = self.engine.call();
        match call.nr as i64 {
            libc::SYS_rt_sigaction | libc::SYS_rt_sigprocmask | libc::SYS_rt_sigpending => false,
            _ => match abi::may_block(call.nr) {
                abi::Blocking::Never => true,
                abi::Blocking::ByFd(arg) => {
                    crate::process::is_ready(self.leader, &call, call.args[arg as usize] as i32)
                }
                abi::Blocking::May => false,
            },
        }
    }

    pub(super) fn deliver_pending(&mut self) -> Result<Option<End>, Error> {
        while let Some(p) = self.engine.pending.pop_front() {
            if self.engine.is_blocked(p.signal)? {
                self.engine.hand_back(&p)?;
                continue;
            }
            match self.engine.dispositions.of(p.signal) {
                Disposition::Ignore => {}
                Disposition::Stop => self.job_stop(p.signal)?,
                Disposition::Fatal => return self.die(&p).map(Some),
                Disposition::Handler { .. } => {
                    if let Some(end) = self.handle(&p, None)? {
                        return Ok(Some(end));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Lets the guest's handler for `p` begin. `masks` are (blocked, saved) where they differ.
    pub(super) fn handle(
        &mut self,
        p: &Pending,
        masks: Option<(u64, u64)>,
    ) -> Result<Option<End>, Error> {
        if masks.is_none() {
            self.outside_before_handler()?;
        }
        let payload = special::encode_signal(p, &self.engine.regs, masks);
        self.log(Kind::Signal, p.signal as u32, 0, payload)?;
        match self.engine.deliver(p)? {
            None => Ok(None),
            Some(second) => self.fault(second),
        }
    }

    pub(super) fn fault(&mut self, mut p: Pending) -> Result<Option<End>, Error> {
        special::fix_fault_address(&mut p, &self.engine.regs);
        let blocked = self.engine.tracee.sigmask()?;
        match self.engine.dispositions.force(p.signal, blocked) {
            Disposition::Handler { .. } => match self.engine.deliver(&p)? {
                None => Ok(None),
                Some(second) => self.fault(second),
            },
            _ => self.die(&p).map(Some),
        }
    }

    /// The signal's default action is death.
    pub(super) fn die(&mut self, p: &Pending) -> Result<End, Error> {
        self.drain()?;
        self.engine.stats.steps = self.engine.step()?;
        let payload = special::encode_signal(p, &self.engine.regs, None);
        self.log(Kind::Signal, p.signal as u32, 1, payload)?;
        if let Some(mut f) = self.on_crash.take() {
            self.engine.refresh_maps()?;
            let in_call: Vec<ThreadId> = self.waiting.iter().map(|w| w.thread).collect();
            let threads = self.engine.thread_views(&in_call, &[]);
            f(&Crash::of(&self.engine, p, threads, &self.names));
        }
        self.engine.unprotect_all()?;
        self.engine.make_deliverable()?;
        let tracee = self.engine.tracee;
        let mut regs = self.engine.regs;
        regs.orig_rax = u64::MAX;
        tracee.set_regs(&regs)?;
        tracee.set_siginfo(&p.info)?;
        tracee.resume(Resume::Deliver(p.signal))?;
        self.wait_for_leader()
    }

    /// Ends the guest, all of its threads.
    pub(crate) fn kill_all(&mut self) -> Result<(), Error> {
        crate::ptrace::send_kill(Tracee(self.leader));
        self.wait_for_leader().map(drop)
    }

    /// The whole guest is ending: waits for that, whatever else its threads report.
    pub(super) fn wait_for_leader(&mut self) -> Result<End, Error> {
        loop {
            let Some((tracee, wait)) = wait_for(-1, libc::__WNOTHREAD)? else {
                continue;
            };
            match wait {
                Wait::Exited(_) | Wait::Killed(_) if tracee.0 == self.leader => {
                    return self.ended(wait);
                }
                Wait::Exited(_) | Wait::Killed(_) => {}
                // A second deadly signal on its way; the first one is enough.
                Wait::Signal(_) if tracee == self.engine.tracee => {
                    tracee.resume(Resume::Deliver(libc::SIGKILL))?
                }
                _ => {
                    let _ = tracee.resume(Resume::Run);
                }
            }
        }
    }

    /// Job control: the guest stops, and the tracer with it, until both are continued.
    pub(super) fn job_stop(&mut self, signal: i32) -> Result<(), Error> {
        self.engine.make_deliverable()?;
        let tracee = self.engine.tracee;
        let mut regs = self.engine.regs;
        regs.rip = self.engine.cache.regions[0].labels.gadget + 2;
        regs.orig_rax = u64::MAX;
        tracee.set_regs(&regs)?;
        tracee.resume(Resume::Deliver(signal))?;
        loop {
            match tracee.wait()? {
                Wait::Group(_) => {
                    tracee.resume(Resume::Listen)?;
                    crate::interrupts::stop_self();
                }
                Wait::Signal(libc::SIGTRAP) if tracee.regs()?.rip == regs.rip + 1 => break,
                Wait::Signal(libc::SIGCONT) => {
                    self.engine.note_signal(libc::SIGCONT)?;
                    tracee.resume(Resume::Run)?;
                }
                Wait::Signal(sig) => {
                    self.engine.note_signal(sig)?;
                    tracee.resume(Resume::Run)?;
                }
                Wait::Event(_) => tracee.resume(Resume::Run)?,
                wait => {
                    self.ended(wait)?;
                    return Err(Error::Lost);
                }
            }
        }
        self.engine.can_deliver = true;
        Ok(())
    }

    /// A system call was cut short by the signal at the end of the queue, which the process is
    /// about to receive.
    pub(super) fn interrupted(
        &mut self,
        call: &Call,
        plan: Option<&Plan>,
        code: i64,
    ) -> Result<Option<End>, Error> {
        let p = self.engine.pending.pop_back().ok_or(Error::Lost)?;
        let masks = special::masks(self.engine.tracee)?;
        let mut writes = match plan {
            Some(plan) => self.written(plan, -i64::from(libc::EINTR))?,
            None => Vec::new(),
        };
        writes.extend(self.outside_writes(call, code, None)?);
        let effects = CallEffects {
            args: call.args,
            writes,
            file: None,
        };
        self.tape_writes(&effects);
        self.log(Kind::Call, call.nr as u32, code, effects.encode())?;
        self.tape_enter(call)?;
        match self.engine.dispositions.of(p.signal) {
            Disposition::Handler { restart } => {
                self.engine.finish_interrupted(call, code, restart);
                self.tape_leave(call)?;
                self.handle(&p, Some(masks))
            }
            _ => self.die(&p).map(Some),
        }
    }
}
