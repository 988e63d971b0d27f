//! The tape of a replay: who listens, and what the tracer does between records.

use ::tape::{Event as TapeEvent, Listener, Stretch};

use super::*;

impl Replay {
    /// Writes a tape from here on, for `listener`, which hears it on another thread while the guest
    /// runs. While there is a tape, the guest does not go back.
    pub fn tape(&mut self, listener: Box<dyn Listener>) -> Result<(), Error> {
        if self.engine.taping() {
            return Err(Error::Request("a tape is being written already".into()));
        }
        self.engine.start_tape(listener)
    }

    /// Has the tape tell the arguments (rdi, rsi, rdx, rcx, r8, r9) of calls that arrive at one of
    /// these addresses, and rax at every return. The set replaces the one before.
    pub fn probe(&mut self, entries: impl IntoIterator<Item = u64>) {
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

    /// The call that the guest has stopped for begins, unless it is one that goes on.
    pub(super) fn tape_enter(&mut self) -> Result<(), Error> {
        if !self.engine.taping() {
            return Ok(());
        }
        let call = self.engine.call();
        let pc = self.engine.regs.rcx.wrapping_sub(2);
        self.engine.tape_event(TapeEvent::Enter {
            pc,
            nr: call.nr,
            args: call.args,
        })
    }

    /// Handles a system call, and says on the tape what it has read and written.
    pub(super) fn taped_syscall(&mut self) -> Result<Option<End>, Error> {
        if !self.engine.taping() {
            return self.syscall();
        }
        let call = self.engine.call();
        let reads = self.engine.tape_wants_reads() || self.edited;
        let plan = || abi::Plan::before(&call, &self.engine.memory).ok();
        let plan = reads.then(plan).flatten();
        let waiting = self.in_call.len();
        self.engine.tape_writes();
        let end = self.syscall()?;
        if end.is_some() || self.in_call.len() > waiting {
            return Ok(end);
        }
        let result = self.engine.regs.rax as i64;
        let memory = &self.engine.memory;
        let stretch = |addr, len| Stretch { addr, len };
        let reads = plan.as_ref().map(|p| {
            let reads = p.reads(result, memory);
            reads.iter().map(|r| stretch(r.addr, r.len)).collect()
        });
        let exec = matches!(call.nr as i64, libc::SYS_execve | libc::SYS_execveat) && result == 0;
        let mut writes = self.engine.tape_writes();
        if exec {
            return self.engine.tape_event(TapeEvent::Exec).map(|()| end);
        }
        if self.private.is_some() {
            let memory = &self.engine.memory;
            let more = plan.map(|p| p.writes(result, memory)).unwrap_or_default();
            writes.extend(more.iter().map(|w| stretch(w.addr, w.len)));
        }
        let mapped = (-4095..0).contains(&result) || abi::class(&call) != Class::AddressSpace;
        if !mapped {
            match call.nr as i64 {
                libc::SYS_mmap => writes.push(stretch(result as u64, call.args[1])),
                libc::SYS_mremap => writes.push(stretch(result as u64, call.args[2])),
                _ => {}
            }
        }
        self.engine.tape_event(TapeEvent::Leave {
            nr: call.nr,
            result,
            reads: reads.unwrap_or_default(),
            writes,
        })?;
        Ok(end)
    }

    /// Carries an instruction out for the guest.
    pub(super) fn taped_special(&mut self) -> Result<Option<End>, Error> {
        if !self.engine.taping() {
            return self.special();
        }
        let step = self.engine.step()?;
        let pc = self.engine.regs.rip;
        let insn = special::decode(&self.engine)?;
        let mut bytes = [0; 15];
        let len = insn.len();
        self.engine.memory.read(pc, &mut bytes[..len]);
        let end = self.special()?;
        if end.is_none() && self.engine.step()? > step {
            self.engine.tape_event(TapeEvent::Special(::tape::Insn {
                pc,
                len: len as u8,
                bytes,
            }))?;
        }
        Ok(end)
    }

    /// Memory that others have written.
    pub(super) fn tape_outside(&mut self) -> Result<(), Error> {
        let writes = self.engine.tape_writes();
        if writes.is_empty() {
            return Ok(());
        }
        self.engine.tape_event(TapeEvent::Outside { writes })
    }
}
