//! Signals and threads of a replay: they come where the recording has them.

use super::*;

impl Replay {
    /// Delivers the signals that the recording has at `step`, the present one.
    pub(super) fn due_signals(&mut self, step: u64) -> Result<Option<End>, Error> {
        if self.edited {
            return self.own_signals();
        }
        loop {
            match &self.next {
                Some(e) if e.kind == Kind::Signal && e.step == step => {}
                Some(e) if e.kind == Kind::Memory && e.step == step => {
                    let event = self.take()?.expect("just seen");
                    self.put_effects(&CallEffects::decode(&event.payload)?)?;
                    self.engine.tape_outside()?;
                    continue;
                }
                Some(e) if e.kind == Kind::Signal && e.step < step => {
                    return Err(self.diverged("a signal was missed"));
                }
                _ => return Ok(None),
            }
            let event = self.take()?.expect("just seen");
            let fatal = event.result == 1;
            let s = special::decode_signal(event.nr as i32, &event.payload)?;
            if s.regs.rip != self.engine.regs.rip || s.regs.rsp != self.engine.regs.rsp {
                return Err(
                    self.diverged(&format!("signal {} came at {:#x}", event.nr, s.regs.rip))
                );
            }
            if fatal {
                return self.die(&s.pending).map(Some);
            }
            // A handler that begins at a system call sees what the call has done to rcx and r11.
            (self.engine.regs.rcx, self.engine.regs.r11) = (s.regs.rcx, s.regs.r11);
            if let Some((blocked, _)) = s.masks {
                self.engine.tracee.set_sigmask(blocked)?;
            }
            if let Some(second) = self.engine.deliver(&s.pending)? {
                return self.fault(second);
            }
            if let Some((_, saved)) = s.masks {
                self.engine.set_frame_mask(saved)?;
            }
        }
    }

    pub(crate) fn fault(&mut self, mut p: Pending) -> Result<Option<End>, Error> {
        special::fix_fault_address(&mut p, &self.engine.regs);
        let blocked = self.engine.tracee.sigmask()?;
        match self.engine.dispositions.force(p.signal, blocked) {
            Disposition::Handler { .. } => match self.engine.deliver(&p)? {
                None => Ok(None),
                Some(second) => self.fault(second),
            },
            _ => {
                let step = self.engine.step()?;
                match &self.next {
                    Some(e) if e.kind == Kind::Signal && e.step == step && e.result == 1 => {
                        self.take()?;
                        self.die(&p).map(Some)
                    }
                    // Another run than the recorded one may die where that did not.
                    _ if self.edited => self.die(&p).map(Some),
                    _ => Err(self.diverged(&format!("the guest dies of signal {}", p.signal))),
                }
            }
        }
    }

    /// The signal that the guest gets at `step`, the present one.
    pub(super) fn signal_due(&self, step: u64) -> Result<Option<Pending>, Error> {
        if self.edited {
            return match self.to_deliver.front() {
                Some(p) if self.heeds(p.signal)? => Ok(Some(p.clone())),
                _ => Ok(None),
            };
        }
        let due = |e: &&Event| e.kind == Kind::Signal && e.step == step;
        let Some(e) = self.next.as_ref().filter(due) else {
            return Ok(None);
        };
        let decoded = special::decode_signal(e.nr as i32, &e.payload)?;
        Ok(Some(decoded.pending))
    }

    /// Whether a signal at `step` is still to be announced; it is then.
    pub(super) fn announce(&mut self, step: u64, pending: &Pending) -> bool {
        let news = self.announced.as_ref().is_none_or(|(at, _)| *at != step);
        if news {
            let mut shown = pending.clone();
            special::fix_fault_address(&mut shown, &self.engine.regs);
            self.announced = Some((step, Box::new(shown.info)));
        }
        self.stops.counted |= news;
        news
    }

    /// The `siginfo_t` of the signal that was announced where the guest stands.
    pub fn signal_info(&self) -> Option<&[u8; 128]> {
        let here = self.engine.step().ok()?;
        let (_, info) = self.announced.as_ref().filter(|(step, _)| *step == here)?;
        Some(info)
    }

    pub(crate) fn die(&mut self, p: &Pending) -> Result<End, Error> {
        self.engine.stats.steps = self.engine.step()?;
        if let Some(mut f) = self.on_crash.take() {
            self.engine.refresh_maps()?;
            f(&Crash::of(&self.engine, p, self.threads(), &self.names));
        }
        Ok(End::Killed(p.signal))
    }

    /// Passes the turn to another thread if the recording has that here.
    pub(super) fn due_switch(&mut self, step: u64) -> Result<bool, Error> {
        match &self.next {
            Some(e) if e.kind == Kind::Switch && e.step == step => {}
            Some(e) if e.kind == Kind::Switch && e.step < step => {
                return Err(self.diverged("a change of threads was missed"));
            }
            _ => return Ok(false),
        }
        let event = self.take()?.expect("just seen");
        let id = ThreadId(event.nr);
        if self.engine.threads.find(id).is_none() && id != self.engine.threads.current {
            return Err(Error::damaged(
                "it switches to a thread that does not exist",
            ));
        }
        let old = self.engine.threads.current;
        self.engine.switch_green(id, step)?;
        self.engine.tape_state()?;
        if let Some(i) = self.gone.iter().position(|&g| g == old) {
            self.gone.remove(i);
            self.engine.drop_thread(old);
        }
        // A thread that was left inside a system call goes on with its result.
        if let Some(i) = self.in_call.iter().position(|&t| t == id) {
            self.in_call.remove(i);
            self.resume_call = true;
        }
        Ok(true)
    }

    /// A thread begins, in this process thread like all others.
    pub(super) fn new_thread(&mut self, call: &Call, ret: i64) -> Result<(), Error> {
        let Some(a) = self.engine.clone_arguments(call) else {
            return Ok(());
        };
        if a.flags & libc::CLONE_THREAD as u64 == 0 || ret < 0 {
            return Ok(());
        }
        let regs = self.engine.new_thread_regs(&a);
        let mut green = self.engine.green_state()?;
        green.altstack = crate::engine::DISABLED_STACK;
        self.engine
            .add_thread(self.engine.tracee, ret as i32, regs, Some(green))
            .map(drop)
    }
}
