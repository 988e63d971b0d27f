//! The tape of a replay: who listens, and what the tracer does between records.

use ::tape::{Event as TapeEvent, Listener, Measures};

use super::*;

impl Replay {
    /// Writes a tape from here on, for `listener`, which hears it on another thread while the guest
    /// runs. While there is a tape, the guest does not go back.
    pub fn tape(&mut self, listener: Box<dyn Listener>) -> Result<(), Error> {
        if self.engine.taping() {
            return Err(Error::Request("a tape is being written already".into()));
        }
        self.taped_waits.clear();
        self.engine.start_tape(listener)
    }

    /// Has the tape tell the arguments (rdi, rsi, rdx, rcx, r8, r9) of calls that arrive at one of
    /// these addresses, what measuring their strings comes to, and rax at every return. The set replaces the one before.
    pub fn probe(&mut self, entries: impl IntoIterator<Item = (u64, Measures)>) {
        self.engine.probe(entries.into_iter().collect());
    }

    /// Has the tape handed over after so many steps at the latest, for tests of what is then in the middle of something.
    #[doc(hidden)]
    pub fn tape_in_pieces(&mut self, most: u64) {
        self.engine.tape_in_pieces(most);
    }

    /// Waits until the listener has heard all that was executed by now.
    pub fn let_tape_be_heard(&mut self) -> Result<(), Error> {
        self.engine.let_tape_be_heard()
    }

    /// Ends the tape; the listener, which has heard all of it, is returned.
    pub fn end_tape(&mut self) -> Result<Box<dyn Listener>, Error> {
        let listener = self.engine.end_tape()?;
        listener.ok_or(Error::Request("no tape is being written".into()))
    }

    /// Handles a system call, which goes on if it was resumed, and says on the tape what it has read and written.
    pub(super) fn taped_syscall(&mut self, resumed: bool) -> Result<Option<End>, Error> {
        if !self.engine.taping() {
            return self.syscall();
        }
        let call = self.engine.call();
        if !resumed {
            self.engine.tape_enter(&call)?;
        }
        let here = self.engine.threads.current;
        let began = self.taped_waits.iter().position(|(t, _)| *t == here);
        let plan = match began.map(|n| self.taped_waits.remove(n)) {
            Some((_, plan)) if resumed => Some(plan),
            _ if self.edited => abi::Plan::before(&call, &self.engine.memory).ok(),
            _ => self.engine.tape_plan(&call),
        };
        self.taped_call = Some((call, plan));
        let waiting = self.in_call.len();
        self.engine.tape_writes();
        let end = self.syscall()?;
        if end.is_some() {
            return Ok(end);
        }
        if self.in_call.len() > waiting {
            if let Some((_, Some(plan))) = &self.taped_call {
                self.taped_waits.push((here, plan.clone()));
            }
            return Ok(None);
        }
        let exec = matches!(call.nr as i64, libc::SYS_execve | libc::SYS_execveat);
        if exec && self.engine.regs.rax == 0 {
            self.engine.tape_writes();
            return self.engine.tape_event(TapeEvent::Exec).map(|()| end);
        }
        self.tape_left().map(|()| end)
    }

    /// The call at hand has come out, if it had not before.
    pub(super) fn tape_left(&mut self) -> Result<(), Error> {
        let Some((call, plan)) = self.taped_call.take() else {
            return Ok(());
        };
        let result = self.engine.regs.rax as i64;
        if let (Some(plan), Some(_)) = (&plan, &self.private) {
            for w in plan.writes(result, &self.engine.memory) {
                self.engine.tape_write(w.addr, w.len);
            }
        }
        self.engine.tape_leave(&call, result, plan.as_ref())
    }

    /// Carries an instruction out for the guest.
    pub(super) fn taped_special(&mut self) -> Result<Option<End>, Error> {
        let before = self.engine.tape_special()?;
        let end = self.special()?;
        if end.is_none() {
            self.engine.tape_special_done(before)?;
        }
        Ok(end)
    }
}
