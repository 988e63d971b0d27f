//! The tape of a guest that is being recorded: at each place what a replay of the recording will have there.
//!
//! A replay knows what a system call came to when it begins; a recorder does not even know whether it is made, since a
//! signal may come before. So the tape is told that a call began when it has come out, or when its thread begins to
//! wait in it and others have their turn.

use ::tape::{Event as TapeEvent, Listener, Measures};

use super::*;
use crate::engine::Tape;
use crate::inspect::Lent;

/// What the tape has been told of calls that have not come out.
#[derive(Default)]
pub(super) struct Taped {
    /// Threads of which it knows that they are in a call.
    inside: Vec<ThreadId>,
    /// What the call at hand may read, if somebody wants to know.
    plan: Option<Plan>,
}

impl Recorder {
    /// Writes a tape from here on, for `listener`, which hears it on another thread while the guest runs. It is the one
    /// that a replay of the recording would write.
    pub fn tape(&mut self, listener: Box<dyn Listener>) -> Result<(), Error> {
        if self.engine.taping() {
            return Err(Error::Request("a tape is being written already".into()));
        }
        if self.held {
            return Err(Error::Request("a tape begins between calls".into()));
        }
        self.engine.start_tape(listener)?;
        self.engine.spots = Some(Default::default());
        self.engine.empty_ring()
    }

    /// Has the tape tell the arguments of calls that arrive at one of these addresses: see [`Replay::probe`](crate::Replay::probe).
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

    /// Lends the listener, which has heard all of the tape up to here, and goes on with it.
    pub fn with_listener(&mut self, f: &mut Lent<'_>) -> Result<(), Error> {
        let Some(listener) = self.engine.end_tape()? else {
            return Err(Error::Request("no tape is being written".into()));
        };
        let listener = f(self, listener);
        self.engine.start_tape(listener)
    }

    /// Ends the tape; the listener, which has heard all of it, is returned. The guest goes on without.
    pub fn end_tape(&mut self) -> Result<Box<dyn Listener>, Error> {
        let listener = self.engine.end_tape()?;
        self.engine.spots = None;
        self.taped = Taped::default();
        if !self.over {
            self.engine.empty_ring()?;
        }
        listener.ok_or(Error::Request("no tape is being written".into()))
    }

    /// The guest has stopped. If it is killed before the next stop, this is how far the tape goes, and so shall the
    /// recording.
    pub(super) fn tape_came_here(&mut self, stop: &Stop) -> Result<(), Error> {
        if !self.engine.taping() || matches!(stop, Stop::Ended(_)) {
            return Ok(());
        }
        let in_call = matches!(stop, Stop::Syscall | Stop::Interrupted(_));
        let step = self.engine.step()? - u64::from(in_call);
        self.engine.tape_stands(step);
        Ok(())
    }

    /// Handles a system call.
    pub(super) fn taped_syscall(&mut self) -> Result<Option<End>, Error> {
        let call = self.engine.call();
        self.tape_call_begins(&call);
        self.syscall()
    }

    /// A call is about to be made.
    pub(crate) fn tape_call_begins(&mut self, call: &Call) {
        self.engine.tape_writes();
        self.taped.plan = self.engine.tape_plan(call);
    }

    /// A call that a thread waited in has come out. It touches what was in memory when it was made.
    pub(crate) fn tape_call_resumes(&mut self, prepared: &Prepared) {
        self.engine.tape_writes();
        self.taped.plan = self.engine.taping().then(|| prepared.plan.clone());
    }

    /// The call at hand has these effects.
    pub(crate) fn tape_writes(&mut self, effects: &CallEffects) {
        for (addr, bytes) in &effects.writes {
            self.engine.tape_write(*addr, bytes.len() as u64);
        }
    }

    /// The call was made, if the tape does not know that yet.
    pub(crate) fn tape_enter(&mut self, call: &Call) -> Result<(), Error> {
        let here = self.engine.threads.current;
        if !self.engine.taping() || self.taped.inside.contains(&here) {
            return Ok(());
        }
        self.taped.inside.push(here);
        self.engine.tape_enter(call)
    }

    /// The call has come out.
    pub(super) fn tape_leave(&mut self, call: &Call) -> Result<(), Error> {
        let here = self.engine.threads.current;
        self.taped.inside.retain(|t| *t != here);
        let (plan, result) = (self.taped.plan.take(), self.engine.regs.rax as i64);
        self.engine.tape_leave(call, result, plan.as_ref())
    }

    /// The current thread waits in the call.
    pub(crate) fn tape_waits(&mut self, call: &Call) -> Result<(), Error> {
        self.taped.plan = None;
        self.tape_enter(call)
    }

    /// Before the call at hand begins to wait, it has these effects.
    pub(crate) fn tape_before_waiting(
        &mut self,
        call: &Call,
        effects: &CallEffects,
    ) -> Result<(), Error> {
        self.tape_enter(call)?;
        self.tape_writes(effects);
        self.engine.tape_outside()
    }

    /// Thread `id` has ended in this call; it is not the current one any more.
    pub(crate) fn tape_ended(&mut self, call: &Call, id: ThreadId) -> Result<(), Error> {
        self.taped.inside.retain(|t| *t != id);
        let plan = self.taped.plan.take();
        // Nothing is returned: rax is what it was.
        self.engine.tape_leave(call, call.nr as i64, plan.as_ref())
    }

    /// The guest is another program, in the engine at hand.
    pub(super) fn tape_exec(&mut self, tape: Tape) -> Result<(), Error> {
        self.engine.take_tape(tape);
        self.taped = Taped::default();
        if !self.engine.taping() {
            return Ok(());
        }
        self.engine.spots = Some(Default::default());
        self.engine.empty_ring()?;
        self.engine.tape_event(TapeEvent::Exec)
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
