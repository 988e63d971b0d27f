//! Guest threads: one runs at a time.
//!
//! While recording, every guest thread is a real one, because its system calls may block; the
//! tracer lets one of them execute code at a time and lets others wait in the kernel. A replay has
//! no need of the kernel's threads: a thread is its registers, its vector state and its signal
//! mask, exchanged in the single process thread there is. That is also why a fork of it is a
//! checkpoint of all of them.
//!
//! The engine's fields are those of the current thread; the others are parked here.

use std::collections::{BTreeMap, VecDeque};

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

/// What is known of a thread besides its state, also after its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    pub id: ThreadId,
    /// The number that the guest knows it by.
    pub tid: i32,
    /// What the program has called it.
    pub name: Option<String>,
    /// Who created it.
    pub creator: Option<ThreadId>,
    /// The step at which it was created, and the one at which it ended.
    pub began: u64,
    pub ended: Option<u64>,
    /// How often it had its turn, and the steps it took.
    pub turns: u64,
    pub steps: u64,
}

/// A thread of a guest that stands still.
#[derive(Clone, Debug)]
pub struct ThreadView {
    pub about: About,
    pub regs: UserRegs,
    /// It is inside the system call at rip, and waits.
    pub waits: bool,
}

/// All threads of a guest but for what the engine holds of the current one.
#[derive(Clone)]
pub(crate) struct Threads {
    pub(crate) current: ThreadId,
    pub(crate) parked: Vec<(ThreadId, Parked)>,
    next: u32,
    pub(crate) about: BTreeMap<ThreadId, About>,
    /// Descriptors through which threads can be given names.
    pub(crate) naming: Vec<(u64, i32)>,
}

impl Threads {
    /// A guest that has one thread, which it knows by `tid`.
    pub(crate) fn new(tid: i32, step: u64) -> Self {
        let mut threads = Threads {
            current: ThreadId(0),
            parked: Vec::new(),
            next: 1,
            about: BTreeMap::new(),
            naming: Vec::new(),
        };
        threads.know(ThreadId(0), tid, None, step);
        threads
    }

    pub(crate) fn know(&mut self, id: ThreadId, tid: i32, creator: Option<ThreadId>, step: u64) {
        let name = creator
            .and_then(|c| self.about.get(&c))
            .and_then(|a| a.name.clone());
        let about = About {
            id,
            tid,
            name,
            creator,
            began: step,
            ended: None,
            turns: u64::from(creator.is_none()),
            steps: 0,
        };
        self.about.insert(id, about);
    }

    pub(crate) fn tid(&self, id: ThreadId) -> i32 {
        self.about.get(&id).map_or(0, |a| a.tid)
    }

    /// A living thread has this number.
    pub(crate) fn is_tid(&self, tid: i32) -> bool {
        self.about
            .values()
            .any(|a| a.tid == tid && a.ended.is_none())
    }

    pub(crate) fn ended(&mut self, id: ThreadId, step: u64) {
        if let Some(a) = self.about.get_mut(&id) {
            a.ended = Some(step);
        }
    }

    fn call_it(&mut self, tid: i32, name: &[u8]) {
        let end = name.iter().position(|&b| b == 0 || b == b'\n');
        let name = String::from_utf8_lossy(&name[..end.unwrap_or(name.len()).min(15)]).into_owned();
        let of = |a: &&mut About| a.tid == tid && a.ended.is_none();
        if let Some(a) = self.about.values_mut().find(of) {
            a.name = Some(name);
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
        tid: i32,
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
        self.memory
            .write_u64(at(slot::RING_END), self.cache.layout.spots_end())?;
        self.memory.write_u64(at(slot::BESIDE_AT), 0)?;
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
        let step = self.step()?;
        let creator = self.threads.current;
        self.threads.know(id, tid, Some(creator), step);
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
            self.countdowns()?
        };
        let log = self.slot(slot::OBSERVE_AT)?;
        let deliverable = self.can_deliver;
        let old = self.threads.current;
        // The process may be another one since the thread was parked: a copy.
        if let Some(i) = self.threads.find(id) {
            self.threads.parked[i].1.tracee = self.tracee;
        }
        self.exchange(id)?;
        self.can_deliver = deliverable;
        self.set_countdowns(0, &stops)?;
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

    /// The living threads, the current one among them. `gone` have ended and are not left yet.
    pub(crate) fn thread_views(&self, in_call: &[ThreadId], gone: &[ThreadId]) -> Vec<ThreadView> {
        let parked = self.threads.parked.iter().map(|(id, t)| (*id, t.regs));
        let current = std::iter::once((self.threads.current, self.regs));
        let mut views: Vec<ThreadView> = current
            .chain(parked)
            .filter(|(id, _)| !gone.contains(id))
            .filter_map(|(id, mut regs)| {
                (regs.gs_base, regs.orig_rax) = (0, u64::MAX);
                Some(ThreadView {
                    about: self.threads.about.get(&id)?.clone(),
                    regs,
                    waits: in_call.contains(&id),
                })
            })
            .collect();
        views.sort_by_key(|v| v.about.id);
        views
    }

    /// Learns what the program calls its threads: from prctl, and from what is written to
    /// `/proc/self/task/TID/comm`, as pthread_setname_np does for other threads.
    pub(crate) fn follow_names(&mut self, call: &abi::Call, ret: i64) {
        const PR_SET_NAME: u64 = 15;
        if ret < 0 {
            return;
        }
        let [a, b, c, ..] = call.args;
        let text = |addr: u64, most: usize| {
            let mut bytes = vec![0; most];
            let n = self.memory.read(addr, &mut bytes);
            bytes.truncate(n);
            bytes
        };
        match call.nr as i64 {
            libc::SYS_prctl if a == PR_SET_NAME => {
                let (name, tid) = (text(b, 16), self.threads.tid(self.threads.current));
                self.threads.call_it(tid, &name);
            }
            libc::SYS_openat | libc::SYS_open => {
                let path = text(
                    if call.nr as i64 == libc::SYS_openat {
                        b
                    } else {
                        a
                    },
                    40,
                );
                let path = path.split(|&b| b == 0).next().unwrap_or(&[]);
                let tid = std::str::from_utf8(path)
                    .ok()
                    .and_then(|p| p.strip_prefix("/proc/self/task/")?.strip_suffix("/comm"));
                if let Some(tid) = tid.and_then(|t| t.parse().ok()) {
                    self.threads.naming.push((ret as u64, tid));
                }
            }
            libc::SYS_write if !self.threads.naming.is_empty() => {
                let to = self.threads.naming.iter().find(|(fd, _)| *fd == a);
                if let Some(&(_, tid)) = to {
                    let name = text(b, c.min(16) as usize);
                    self.threads.call_it(tid, &name);
                }
            }
            libc::SYS_close => self.threads.naming.retain(|(fd, _)| *fd != a),
            _ => {}
        }
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
