//! Guest threads: one runs at a time.
//!
//! While recording, every guest thread is a real one, because its system calls may block; the
//! tracer lets one of them execute code at a time and lets others wait in the kernel. A replay has
//! no need of the kernel's threads: a thread is its registers, its vector state and its signal
//! mask, exchanged in the single process thread there is. That is also why a fork of it is a
//! checkpoint of all of them.
//!
//! The engine's fields are those of the current thread; the others are parked here.

use std::collections::VecDeque;

use crate::Error;
use crate::engine::{Engine, Pending};
use crate::layout::{MAX_THREADS, slot};
use crate::memory::Memory;
use crate::ptrace::{Tracee, UserRegs};
use crate::signals::LastFault;

/// Names a guest thread in one run: numbered in the order of creation, the first is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// A thread that is not the current one.
#[derive(Clone)]
pub(crate) struct Parked {
    pub(crate) tracee: Tracee,
    pub(crate) page: u64,
    pub(crate) regs: UserRegs,
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) can_deliver: bool,
    pub(crate) trap_blocked: bool,
    pub(crate) last_fault: LastFault,
    /// What a replay exchanges: vector state, signal mask, alternate stack.
    pub(crate) green: Option<Green>,
}

#[derive(Clone)]
pub(crate) struct Green {
    pub(crate) xstate: Vec<u8>,
    pub(crate) mask: u64,
    pub(crate) altstack: [u8; 24],
}

/// All threads of a guest but for what the engine holds of the current one.
#[derive(Clone)]
pub(crate) struct Threads {
    pub(crate) current: ThreadId,
    pub(crate) parked: Vec<(ThreadId, Parked)>,
    next: u32,
}

impl Threads {
    pub(crate) fn new() -> Self {
        Threads {
            current: ThreadId(0),
            parked: Vec::new(),
            next: 1,
        }
    }

    pub(crate) fn several(&self) -> bool {
        !self.parked.is_empty()
    }

    pub(crate) fn find(&self, id: ThreadId) -> Option<usize> {
        self.parked.iter().position(|(i, _)| *i == id)
    }
}

impl Engine {
    /// A page for one more thread; none when there are too many.
    fn free_page(&self) -> Option<u64> {
        let layout = self.cache.layout;
        (0..MAX_THREADS)
            .map(|n| layout.thread(n))
            .find(|&p| p != self.page && self.threads.parked.iter().all(|(_, t)| t.page != p))
    }

    pub(crate) fn has_room_for_thread(&self) -> bool {
        self.free_page().is_some()
    }

    /// Adds a thread that begins at `regs`.
    pub(crate) fn add_thread(
        &mut self,
        tracee: Tracee,
        mut regs: UserRegs,
        green: Option<Green>,
    ) -> Result<ThreadId, Error> {
        let page = self.free_page().ok_or(Error::Unsupported(
            "a program with so many threads at a time",
        ))?;
        let id = ThreadId(self.threads.next);
        self.threads.next += 1;
        let at = |offset: u32| page + u64::from(offset);
        self.memory
            .write_u64(at(slot::STACK), page + u64::from(slot::STACK_TOP))?;
        self.memory
            .write_u64(at(slot::RING_AT), self.cache.layout.ring())?;
        self.memory.write_u64(
            at(slot::RING_END),
            self.cache.layout.ring() + self.cache.layout.ring_size(),
        )?;
        self.memory.write_u64(at(slot::PREEMPT), 0)?;
        regs.gs_base = page;
        let trap_blocked = self.trap_blocked;
        let parked = Parked {
            tracee,
            page,
            regs,
            pending: VecDeque::new(),
            can_deliver: false,
            trap_blocked,
            last_fault: self.last_fault,
            green,
        };
        self.threads.parked.push((id, parked));
        Ok(id)
    }

    /// Makes another thread the engine's current one; the old one takes its place among the
    /// parked. Nothing in the guest changes.
    pub(crate) fn exchange(&mut self, id: ThreadId) -> Result<(), Error> {
        let i = self
            .threads
            .find(id)
            .ok_or_else(|| Error::Internal(format!("there is no thread {}", id.0)))?;
        let old = self.threads.current;
        self.sync_tape()?;
        let (_, t) = &mut self.threads.parked[i];
        std::mem::swap(&mut self.tracee, &mut t.tracee);
        std::mem::swap(&mut self.page, &mut t.page);
        std::mem::swap(&mut self.regs, &mut t.regs);
        std::mem::swap(&mut self.pending, &mut t.pending);
        std::mem::swap(&mut self.can_deliver, &mut t.can_deliver);
        std::mem::swap(&mut self.trap_blocked, &mut t.trap_blocked);
        std::mem::swap(&mut self.last_fault, &mut t.last_fault);
        self.threads.parked[i].0 = old;
        self.threads.current = id;
        if self.memory.pid() != self.tracee.0 {
            self.memory = Memory::of(self.tracee.0);
        }
        Ok(())
    }

    /// Lets `id` go on from here: the step count moves with the turn.
    pub(crate) fn switch_to(&mut self, id: ThreadId, step: u64) -> Result<(), Error> {
        if id != self.threads.current {
            self.exchange(id)?;
        }
        self.reset_step(step)
    }

    /// The same in a replay, where all threads share one process thread.
    pub(crate) fn switch_green(&mut self, id: ThreadId, step: u64) -> Result<(), Error> {
        if id == self.threads.current {
            return self.reset_step(step);
        }
        let state = self.green_state()?;
        // The countdowns of armed stops are one for all threads.
        let stops = if self.armed.is_empty() {
            Vec::new()
        } else {
            let len = slot::MAX_STOPS as usize * 8;
            self.memory
                .read_vec(self.page + u64::from(slot::STOPS), len)?
        };
        let log = self.slot(slot::OBSERVE_AT)?;
        let process = self.tracee;
        let deliverable = self.can_deliver;
        let old = self.threads.current;
        self.exchange(id)?;
        self.can_deliver = deliverable;
        self.tracee = process;
        let countdowns = self.page + u64::from(slot::STOPS);
        self.memory.write(countdowns, &stops)?;
        self.set_slot(slot::OBSERVE_AT, log)?;
        let i = self.threads.find(old).expect("just parked");
        let (_, parked) = &mut self.threads.parked[i];
        let new = parked.green.replace(state);
        if let Some(new) = new {
            self.tracee.set_xstate(&new.xstate)?;
            self.tracee.set_sigmask(new.mask)?;
            if new.altstack != self.altstack {
                self.altstack = new.altstack;
                let scratch = self.page + u64::from(slot::SCRATCH);
                self.memory.write(scratch, &new.altstack)?;
                self.inject(libc::SYS_sigaltstack, [scratch, 0, 0, 0, 0, 0])?;
            }
        }
        self.reset_step(step)
    }

    pub(crate) fn green_state(&self) -> Result<Green, Error> {
        Ok(Green {
            xstate: self.tracee.xstate()?,
            mask: self.tracee.sigmask()?,
            altstack: self.altstack,
        })
    }
}

/// What clone or clone3 asks for of a new thread.
pub(crate) struct CloneArguments {
    pub(crate) flags: u64,
    /// The new stack pointer; 0 for the parent's.
    pub(crate) stack: u64,
    pub(crate) tls: u64,
    /// Where the kernel writes zero when the thread ends.
    pub(crate) clear_tid: u64,
}

impl Engine {
    pub(crate) fn clone_arguments(&self, call: &abi::Call) -> Option<CloneArguments> {
        let flags = self.clone_flags(call)?;
        let (stack, tls, child_tid) = match call.nr as i64 {
            libc::SYS_clone => (call.args[1], call.args[4], call.args[3]),
            libc::SYS_fork | libc::SYS_vfork => (0, 0, 0),
            _ => {
                let word = |n: u64| self.memory.read_u64(call.args[0] + 8 * n).ok();
                let base = word(5)?;
                (
                    if base == 0 { 0 } else { base + word(6)? },
                    word(7)?,
                    word(2)?,
                )
            }
        };
        let clear_tid = if flags & libc::CLONE_CHILD_CLEARTID as u64 != 0 {
            child_tid
        } else {
            0
        };
        Some(CloneArguments {
            flags,
            stack,
            tls,
            clear_tid,
        })
    }

    /// The registers with which the thread that `call` creates begins.
    pub(crate) fn new_thread_regs(&self, a: &CloneArguments) -> UserRegs {
        let mut regs = self.regs;
        regs.rip = self.regs.rcx;
        regs.rax = 0;
        if a.stack != 0 {
            regs.rsp = a.stack;
        }
        if a.flags & libc::CLONE_SETTLS as u64 != 0 {
            regs.fs_base = a.tls;
        }
        regs.orig_rax = u64::MAX;
        regs
    }
}
