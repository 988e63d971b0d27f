//! Looking at a stopped guest, and touching it, in guest terms.
//!
//! The engine lives in the guest's process: it owns the GS base and some of the address space.
//! Nothing of that is shown here. Registers are those that the program would have natively, and
//! memory of the engine's reads as unmapped.
//!
//! A function of the guest is called by running it from the present boundary on a piece of stack
//! below the red zone, with a return address where there is no code. A system call of the called
//! function would be an event that the recording does not have, so it fails, and the guest is put
//! back as it was.

use std::collections::HashMap;
use std::path::PathBuf;

use ::tape::{Listener, Measures};

use crate::engine::{Engine, Stop};
use crate::layout::{REGION_SIZE, slot};
use crate::ptrace::UserRegs;
use crate::record::Recorder;
use crate::replay::{Halt, Replay, Until};
use crate::threads::{ThreadId, ThreadView};
use crate::{Error, Mapping, special};

/// What the program itself may set: CF, PF, AF, ZF, SF, DF, OF, AC and ID.
const USER_FLAGS: u64 = 0x24_0cd5;

/// Steps between two looks at whether a called function should be given up.
const STRETCH: u64 = 10_000_000;

impl Replay {
    /// The general registers.
    pub fn regs(&self) -> UserRegs {
        self.engine.shown_regs()
    }

    /// Changes the general registers. Segment registers, the GS base and the flags that belong to
    /// the kernel stay as they are.
    pub fn set_regs(&mut self, regs: &UserRegs) -> Result<(), Error> {
        self.must_run()?;
        let old = self.engine.regs;
        self.engine.regs = UserRegs {
            gs_base: old.gs_base,
            orig_rax: old.orig_rax,
            cs: old.cs,
            ss: old.ss,
            ds: old.ds,
            es: old.es,
            fs: old.fs,
            gs: old.gs,
            eflags: old.eflags & !USER_FLAGS | regs.eflags & USER_FLAGS,
            ..*regs
        };
        self.edited = true;
        Ok(())
    }

    /// Reads memory; says how many bytes from `addr` on are the guest's.
    pub fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        self.engine.read(addr, buf)
    }

    /// Writes memory, over any protection.
    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.must_run()?;
        let n = self.engine.visible(addr, bytes.len() as u64);
        if n < bytes.len() as u64 {
            return Err(Error::Unmapped(addr.wrapping_add(n)));
        }
        self.engine.put(addr, bytes)?;
        self.engine.code_changed(addr, bytes.len() as u64)?;
        self.edited = true;
        Ok(())
    }

    /// The x87 and vector registers, in the layout of XSAVE.
    pub fn vector_state(&self) -> Result<Vec<u8>, Error> {
        self.engine.tracee.xstate()
    }

    /// The same of any thread.
    pub fn vector_state_of(&self, id: ThreadId) -> Result<Vec<u8>, Error> {
        let parked = self.engine.threads.parked.iter().find(|p| p.0 == id);
        match parked.and_then(|p| p.1.green.as_ref()) {
            Some(green) => Ok(green.xstate.clone()),
            None => self.vector_state(),
        }
    }

    pub fn set_vector_state(&mut self, state: &[u8]) -> Result<(), Error> {
        self.must_run()?;
        self.engine.tracee.set_xstate(state)?;
        self.edited = true;
        Ok(())
    }

    /// The guest's address space, in ascending order.
    pub fn mappings(&mut self) -> Result<Vec<Mapping>, Error> {
        self.engine.mappings()
    }

    /// What the guest called the files in [`Replay::mappings`], which are named by where the
    /// recording keeps their contents.
    pub fn names(&self) -> &HashMap<PathBuf, PathBuf> {
        &self.names
    }

    /// Calls the guest's function at `function` and returns what it leaves in rax. Its effects on
    /// memory stay; registers and step count are as before. If it makes a system call, raises a
    /// signal or is interrupted, that is an error and nothing has happened.
    pub fn call(&mut self, function: u64, args: &[u64]) -> Result<u64, Error> {
        self.must_run()?;
        if args.len() > 6 {
            return Err(Error::Request("a call takes at most six arguments".into()));
        }
        let before = self.take_checkpoint()?;
        let (regs, step) = (self.engine.regs, self.engine.step()?);
        let vectors = self.engine.tracee.xstate()?;
        let result = match self.run_function(function, args) {
            Ok(value) => {
                self.engine.regs = regs;
                self.engine.tracee.set_xstate(&vectors)?;
                self.engine.reset_step(step)?;
                self.stops.rearm(&mut self.engine);
                Ok(value)
            }
            Err(e) => match self.return_to(&before) {
                Ok(()) => Err(e),
                Err(worse) => Err(worse),
            },
        };
        before.give_up();
        result
    }

    fn run_function(&mut self, function: u64, args: &[u64]) -> Result<u64, Error> {
        // Stops and edits are about the program's own run.
        self.engine.set_armed(&[]);
        let home = self.engine.page + u64::from(slot::SCRATCH);
        let regs = &mut self.engine.regs;
        regs.rsp = (regs.rsp.wrapping_sub(128) & !15).wrapping_sub(8);
        let stack = regs.rsp;
        regs.rip = function;
        regs.rax = 0;
        regs.eflags &= !USER_FLAGS;
        let places = [
            &mut regs.rdi,
            &mut regs.rsi,
            &mut regs.rdx,
            &mut regs.rcx,
            &mut regs.r8,
            &mut regs.r9,
        ];
        for (place, &value) in places.into_iter().zip(args) {
            *place = value;
        }
        self.engine.put(stack, &home.to_le_bytes())?;
        let failed = |what: String| Err(Error::Request(format!("the function called {what}")));
        loop {
            if self.interrupted_from_outside() {
                return failed("was interrupted".into());
            }
            self.engine.pending.clear();
            let goal = self.engine.step()? + STRETCH;
            match self.engine.go(Some(goal))? {
                Stop::Boundary => {}
                Stop::NoCode if self.engine.regs.rip == home => return Ok(self.engine.regs.rax),
                Stop::Special => {
                    let insn = special::decode(&self.engine)?;
                    let Some(source) = special::outside(&insn) else {
                        return failed(format!("executes {:?}", insn.mnemonic()));
                    };
                    let words = special::ask(source, &self.engine.regs);
                    special::apply(&mut self.engine, &insn, source, words)?;
                }
                Stop::Syscall => {
                    let call = abi::describe(&self.engine.call(), None);
                    return failed(format!("makes a system call: {call}"));
                }
                Stop::Fault { signal, .. } => {
                    let pc = self.engine.regs.rip;
                    return failed(format!("raises signal {signal} at {pc:#x}"));
                }
                Stop::NoCode => {
                    let pc = self.engine.regs.rip;
                    return failed(format!("goes to {pc:#x}, where there is no code"));
                }
                Stop::Ended(_) => return Err(Error::Lost),
                stop => return Err(Error::Internal(format!("{stop:?} in a called function"))),
            }
        }
    }

    fn must_run(&self) -> Result<(), Error> {
        match self.ended {
            Some(_) => Err(Error::Ended),
            None => Ok(()),
        }
    }
}

impl Engine {
    fn shown_regs(&self) -> UserRegs {
        UserRegs {
            gs_base: 0,
            orig_rax: u64::MAX,
            ..self.regs
        }
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        let n = self.visible(addr, buf.len() as u64) as usize;
        self.memory.read(addr, &mut buf[..n])
    }

    fn mappings(&mut self) -> Result<Vec<Mapping>, Error> {
        self.refresh_maps()?;
        let own = |m: &&Mapping| !self.owns(m.start, m.end);
        Ok(self.maps.list.iter().filter(own).cloned().collect())
    }

    /// How many of `len` bytes from `addr` on are not the engine's.
    fn visible(&self, addr: u64, len: u64) -> u64 {
        let layout = self.cache.layout;
        let regions = self.cache.regions.iter();
        let hidden = regions
            .map(|r| (r.base, r.base + REGION_SIZE))
            .chain([(layout.base, layout.first_region())]);
        let end = addr.saturating_add(len);
        let cut = hidden
            .filter(|&(a, b)| addr < b && a < end)
            .map(|(a, _)| a.max(addr))
            .min();
        cut.unwrap_or(end) - addr
    }
}

/// A guest that stands still, to be looked at and to be let run: one that is being recorded, or a replay. The methods are
/// those of [`Replay`].
pub trait Guest {
    /// A recorded guest cannot be stopped in every way: [`Recorder::run_until`].
    fn run(&mut self, until: &Until) -> Result<Halt, Error>;
    fn step(&self) -> Result<u64, Error>;
    fn regs(&self) -> UserRegs;
    fn read(&self, addr: u64, buf: &mut [u8]) -> usize;
    fn mappings(&mut self) -> Result<Vec<Mapping>, Error>;
    fn names(&self) -> &HashMap<PathBuf, PathBuf>;
    fn threads(&self) -> Vec<ThreadView>;
    fn tape(&mut self, listener: Box<dyn Listener>) -> Result<(), Error>;
    fn probe(&mut self, entries: Vec<(u64, Measures)>);
    fn let_tape_be_heard(&mut self) -> Result<(), Error>;
    fn end_tape(&mut self) -> Result<Box<dyn Listener>, Error>;
    /// Lends the listener, which has heard all of the tape up to here, and goes on with it.
    fn with_listener(&mut self, f: &mut Lent<'_>) -> Result<(), Error>;
}

/// Has the listener for a while, and the guest.
pub type Lent<'a> = dyn FnMut(&mut dyn Guest, Box<dyn Listener>) -> Box<dyn Listener> + 'a;

impl Guest for Replay {
    fn run(&mut self, until: &Until) -> Result<Halt, Error> {
        self.run(until)
    }
    fn step(&self) -> Result<u64, Error> {
        self.step()
    }
    fn regs(&self) -> UserRegs {
        self.regs()
    }
    fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        self.read(addr, buf)
    }
    fn mappings(&mut self) -> Result<Vec<Mapping>, Error> {
        self.mappings()
    }
    fn names(&self) -> &HashMap<PathBuf, PathBuf> {
        self.names()
    }
    fn threads(&self) -> Vec<ThreadView> {
        self.threads()
    }
    fn tape(&mut self, listener: Box<dyn Listener>) -> Result<(), Error> {
        self.tape(listener)
    }
    fn probe(&mut self, entries: Vec<(u64, Measures)>) {
        self.probe(entries);
    }
    fn let_tape_be_heard(&mut self) -> Result<(), Error> {
        self.let_tape_be_heard()
    }
    fn end_tape(&mut self) -> Result<Box<dyn Listener>, Error> {
        self.end_tape()
    }
    fn with_listener(&mut self, f: &mut Lent<'_>) -> Result<(), Error> {
        let listener = self.end_tape()?;
        let listener = f(self, listener);
        self.tape(listener)
    }
}

impl Guest for Recorder {
    fn run(&mut self, until: &Until) -> Result<Halt, Error> {
        self.run_until(until)
    }
    fn step(&self) -> Result<u64, Error> {
        self.step()
    }
    fn regs(&self) -> UserRegs {
        self.engine.shown_regs()
    }
    fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        self.engine.read(addr, buf)
    }
    fn mappings(&mut self) -> Result<Vec<Mapping>, Error> {
        self.engine.mappings()
    }
    fn names(&self) -> &HashMap<PathBuf, PathBuf> {
        &self.names
    }
    fn threads(&self) -> Vec<ThreadView> {
        let in_call: Vec<ThreadId> = self.waiting.iter().map(|w| w.thread).collect();
        self.engine.thread_views(&in_call, &[])
    }
    fn tape(&mut self, listener: Box<dyn Listener>) -> Result<(), Error> {
        self.tape(listener)
    }
    fn probe(&mut self, entries: Vec<(u64, Measures)>) {
        self.probe(entries);
    }
    fn let_tape_be_heard(&mut self) -> Result<(), Error> {
        self.let_tape_be_heard()
    }
    fn end_tape(&mut self) -> Result<Box<dyn Listener>, Error> {
        self.end_tape()
    }
    fn with_listener(&mut self, f: &mut Lent<'_>) -> Result<(), Error> {
        self.with_listener(f)
    }
}
