//! The guest's own system calls, carried out in its process, and processes it starts.

use std::cell::RefCell;
use std::collections::BTreeMap;

use abi::Call;

use crate::Error;
use crate::engine::Engine;
use crate::memory::Memory;
use crate::ptrace::{Resume, Tracee, Wait, wait_for};
use crate::signals::Disposition;
use crate::start::page_of;

/// How a guest system call came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Returned(i64),
    /// Cut short by a signal, which is last in the queue of pending ones and about to be received.
    Interrupted(i64),
    /// A signal came before the call was made, and it has not been.
    NotMade,
    /// A `PTRACE_EVENT_*` stop inside the call.
    Event(i32),
    Ended(Wait),
}

impl Engine {
    /// The system call at the present stop.
    pub(crate) fn call(&self) -> Call {
        let r = &self.regs;
        Call {
            nr: r.rax,
            args: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9],
        }
    }

    /// The call has returned: the guest goes on behind it.
    pub(crate) fn return_from_call(&mut self, ret: i64) {
        self.regs.rax = ret as u64;
        self.regs.rip = self.regs.rcx;
    }

    /// What the kernel does on the way to a handler with a call that was cut short.
    pub(crate) fn finish_interrupted(&mut self, call: &Call, code: i64, restart: bool) {
        let again = code == crate::record::ERESTARTNOINTR
            || (code == crate::record::ERESTARTSYS && restart);
        if again {
            self.regs.rax = call.nr;
            self.regs.rip = self.regs.rcx.wrapping_sub(2);
        } else {
            self.return_from_call(-i64::from(libc::EINTR));
        }
    }

    /// Starts a guest call that may block.
    pub(crate) fn begin_call(&mut self, call: &Call) -> Result<(), Error> {
        self.start_call(call).map(drop)
    }

    /// Whether the call begun has come out.
    pub(crate) fn poll_call(&mut self) -> Result<Option<Outcome>, Error> {
        match wait_for(self.tracee.0, libc::WNOHANG)? {
            None => Ok(None),
            Some((_, wait)) => self.judge_call(wait),
        }
    }

    fn start_call(&mut self, call: &Call) -> Result<u64, Error> {
        let gadget = self.cache.regions[0].labels.gadget;
        let mut regs = self.regs;
        regs.rip = gadget;
        regs.orig_rax = u64::MAX;
        regs.rax = call.nr;
        self.tracee.set_regs(&regs)?;
        self.tracee.resume(Resume::Run)?;
        Ok(gadget)
    }

    /// Carries out the guest's call for real.
    pub(crate) fn guest_call(&mut self, call: &Call) -> Result<Outcome, Error> {
        let gadget = self.start_call(call)?;
        self.finish_call(gadget)
    }

    fn finish_call(&mut self, _gadget: u64) -> Result<Outcome, Error> {
        loop {
            let wait = self.tracee.wait()?;
            if let Some(outcome) = self.judge_call(wait)? {
                return Ok(outcome);
            }
        }
    }

    /// What a stop inside a guest call means; `None` if the call goes on.
    pub(crate) fn judge_call(&mut self, wait: Wait) -> Result<Option<Outcome>, Error> {
        let gadget = self.cache.regions[0].labels.gadget;
        self.stats.stops += 1;
        match wait {
            Wait::Signal(signal) => {
                let after = self.tracee.regs()?;
                if signal == libc::SIGTRAP && after.rip == gadget + 3 {
                    self.can_deliver = true;
                    return Ok(Some(Outcome::Returned(after.rax as i64)));
                }
                let cut_short =
                    after.rip == gadget + 2 && (-516..=-512).contains(&(after.rax as i64));
                // The kernel itself restarts a call that nobody hears of.
                if matches!(
                    self.dispositions.of(signal),
                    Disposition::Ignore | Disposition::Stop
                ) {
                    self.tracee.resume(Resume::Deliver(signal))?;
                    return Ok(None);
                }
                self.note_signal(signal)?;
                if after.rip == gadget {
                    self.can_deliver = true;
                    return Ok(Some(Outcome::NotMade));
                }
                if cut_short {
                    self.can_deliver = true;
                    return Ok(Some(Outcome::Interrupted(after.rax as i64)));
                }
                self.tracee.resume(Resume::Run)?;
            }
            Wait::Group(_) => {
                self.tracee.resume(Resume::Listen)?;
                crate::interrupts::stop_self();
            }
            Wait::Event(libc::PTRACE_EVENT_STOP) => self.tracee.resume(Resume::Run)?,
            Wait::Event(event) => return Ok(Some(Outcome::Event(event))),
            Wait::Exited(_) | Wait::Killed(_) => return Ok(Some(Outcome::Ended(wait))),
        }
        Ok(None)
    }

    /// A call of clone that makes a thread. Returns its result and the new thread, stopped.
    pub(crate) fn clone_call(&mut self, call: &Call) -> Result<(i64, Option<Tracee>), Error> {
        let gadget = self.start_call(call)?;
        let mut child = None;
        loop {
            match self.finish_call(gadget)? {
                Outcome::Event(_) => {
                    let c = Tracee(self.tracee.event_message()? as i32);
                    loop {
                        match wait_for(c.0, 0)? {
                            Some((_, Wait::Event(_))) => break,
                            Some((_, Wait::Exited(_) | Wait::Killed(_))) | None => {
                                return Err(Error::Lost);
                            }
                            Some(_) => c.resume(Resume::Run)?,
                        }
                    }
                    child = Some(c);
                    self.tracee.resume(Resume::Run)?;
                }
                Outcome::Returned(ret) => return Ok((ret, child)),
                Outcome::Interrupted(_) | Outcome::NotMade => {
                    self.start_call(call)?;
                }
                Outcome::Ended(_) => return Err(Error::Lost),
            }
        }
    }

    /// Forgets a thread that has ended.
    pub(crate) fn drop_thread(&mut self, id: crate::threads::ThreadId) {
        self.threads.parked.retain(|(i, _)| *i != id);
    }

    /// The new action in a call of rt_sigaction.
    pub(crate) fn sigaction_argument(&self, call: &Call) -> Option<[u8; 32]> {
        if call.nr as i64 != libc::SYS_rt_sigaction || call.args[1] == 0 {
            return None;
        }
        let mut act = [0; 32];
        (self.memory.read(call.args[1], &mut act) == 32).then_some(act)
    }

    /// Keeps the picture of the address space after a call that changed it.
    pub(crate) fn note_address_space(&mut self, call: &Call, ret: i64) {
        if ret < 0 && ret > -4096 {
            return;
        }
        let [a, b, c, ..] = call.args;
        match call.nr as i64 {
            libc::SYS_mmap => self.changed(ret as u64, (ret as u64).saturating_add(b)),
            libc::SYS_mremap => {
                self.changed(a, a.saturating_add(b));
                self.changed(ret as u64, (ret as u64).saturating_add(c));
            }
            // Neither says how far its segment reaches. A new one replaces nothing, or asks for a
            // place that is looked at again anyway.
            libc::SYS_shmat => self.changed(ret as u64, ret as u64 + 0x1000),
            libc::SYS_shmdt => self.changed(a, a + 1),
            libc::SYS_brk => self.changed(ret as u64 & !0xfff, (ret as u64 & !0xfff) + 0x1000),
            _ => self.changed(a, a.saturating_add(b)),
        }
        self.note_aliases(call, ret);
    }

    /// The flags of fork, vfork, clone or clone3; `None` if they cannot be read.
    pub(crate) fn clone_flags(&self, call: &Call) -> Option<u64> {
        match call.nr as i64 {
            libc::SYS_fork => Some(0),
            libc::SYS_vfork => Some((libc::CLONE_VFORK | libc::CLONE_VM) as u64),
            libc::SYS_clone => Some(call.args[0]),
            _ => self.memory.read_u64(call.args[0]).ok(),
        }
    }

    /// The page protections of translated code were lifted; everything must be translated anew.
    pub(crate) fn changed_code_guards(&mut self) {
        self.refresh_maps().ok();
        let writable: Vec<(u64, u64)> = self
            .maps
            .list
            .iter()
            .filter(|m| m.protection.write && m.protection.execute)
            .map(|m| (m.start, m.end))
            .collect();
        for (a, b) in writable {
            self.changed(a, b);
        }
        self.retire_aliased(0, u64::MAX);
    }

    /// A fork-like call: the child is set free to run the guest's code natively. Returns the
    /// result for the parent, or how the guest ended meanwhile.
    pub(crate) fn fork_call(
        &mut self,
        call: &Call,
        affinity: &[u8],
    ) -> Result<(i64, Option<Wait>), Error> {
        let gadget = self.start_call(call)?;
        loop {
            match self.finish_call(gadget)? {
                Outcome::Event(
                    libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE,
                ) => {
                    let child = Tracee(self.tracee.event_message()? as i32);
                    self.release_child(child, call, affinity)?;
                    self.tracee.resume(Resume::Run)?;
                }
                Outcome::Event(_) => self.tracee.resume(Resume::Run)?,
                Outcome::Returned(ret) => return Ok((ret, None)),
                // Forking is not interruptible once it has begun; before that it starts over.
                Outcome::Interrupted(_) | Outcome::NotMade => {
                    self.start_call(call)?;
                }
                Outcome::Ended(wait) => return Ok((0, Some(wait))),
            }
        }
    }

    fn release_child(&mut self, child: Tracee, call: &Call, affinity: &[u8]) -> Result<(), Error> {
        // Its first stop; a signal sent to it at once is given to it later by the kernel.
        let mut signal = 0;
        loop {
            match wait_for(child.0, 0)? {
                Some((_, Wait::Event(_))) => break,
                Some((_, Wait::Signal(s))) if s != libc::SIGSTOP => {
                    signal = s;
                    child.resume(Resume::Run)?;
                }
                Some((_, Wait::Exited(_) | Wait::Killed(_))) => return Ok(()),
                _ => break,
            }
        }
        let stack = child.regs()?.rsp;
        let mut regs = self.regs;
        regs.rip = self.regs.rcx;
        regs.rax = 0;
        regs.rsp = stack;
        regs.orig_rax = u64::MAX;
        regs.gs_base = 0;
        regs.fs_base = child.regs()?.fs_base;
        let _ = call;
        child.set_regs(&regs)?;
        set_affinity(child.0, affinity);
        child.detach()?;
        if signal != 0 {
            // SAFETY: plain system call on a process that was just created by the guest.
            unsafe { libc::kill(child.0, signal) };
        }
        Ok(())
    }

    /// A stopped copy of the guest, to compare with or to return to.
    pub(crate) fn copy(&mut self) -> Result<Tracee, Error> {
        let saved = self.regs;
        // A child of the tracer's, not of the guest's: the end of a copy must not be a SIGCHLD to the
        // guest, nor may what is left of it wait for the guest to ask.
        let flags = libc::CLONE_PARENT as u64;
        let call = Call {
            nr: libc::SYS_clone as u64,
            args: [flags, 0, 0, 0, 0, 0],
        };
        (
            self.regs.rdi,
            self.regs.rsi,
            self.regs.rdx,
            self.regs.r10,
            self.regs.r8,
        ) = (flags, 0, 0, 0, 0);
        let made = self.clone_call(&call);
        self.regs = saved;
        let (ret, child) = made?;
        child.ok_or_else(|| {
            Error::Os(
                "fork of the guest",
                std::io::Error::from_raw_os_error(-ret as i32),
            )
        })
    }

    /// Memory that has changed since `copy` was made.
    pub(crate) fn differences(&mut self, copy: &Tracee) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let there = Memory::of(copy.0);
        self.refresh_maps()?;
        let pagemap = std::fs::File::open(format!("/proc/{}/pagemap", self.tracee.0))
            .map_err(|_| Error::Lost)?;
        let mut out = BTreeMap::new();
        for m in self.maps.list.clone() {
            if self.owns(m.start, m.end) || m.start >> 47 != 0 || !m.protection.write || m.shared {
                continue;
            }
            for page in exclusive_pages(&pagemap, m.start, m.end) {
                let (Some(a), Some(b)) = (page_of(&self.memory, page), page_of(&there, page))
                else {
                    continue;
                };
                if a != b {
                    out.insert(page, a.to_vec());
                }
            }
        }
        Ok(out.into_iter().collect())
    }
}

/// Pages that only this process maps: since a fork shares all of them, those written since.
fn exclusive_pages(pagemap: &std::fs::File, start: u64, end: u64) -> Vec<u64> {
    use std::os::unix::fs::FileExt;
    const EXCLUSIVE: u64 = 1 << 56;
    const PRESENT: u64 = 1 << 63;
    let mut out = Vec::new();
    let mut words = vec![0u8; 8 * 4096];
    let mut at = start;
    while at < end {
        let n = ((end - at) >> 12).min(4096) as usize;
        let Ok(got) = pagemap.read_at(&mut words[..n * 8], (at >> 12) * 8) else {
            break;
        };
        for (i, w) in words[..got].chunks_exact(8).enumerate() {
            let w = u64::from_le_bytes(w.try_into().expect("eight bytes"));
            if w & PRESENT != 0 && w & EXCLUSIVE != 0 {
                out.push(at + (i as u64) * 4096);
            }
        }
        at += (n as u64) << 12;
    }
    out
}

/// A call of process `pid` would not wait for the descriptor `fd`: that is a plain file, or what is read is there, or
/// there is room for what is written.
pub(crate) fn is_ready(pid: i32, call: &Call, fd: i32) -> bool {
    if std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|m| m.is_file()) {
        return true;
    }
    let events = match call.nr as i64 {
        libc::SYS_read => libc::POLLIN,
        libc::SYS_write if call.args[2] <= libc::PIPE_BUF as u64 => libc::POLLOUT,
        _ => return false,
    };
    // SAFETY: plain system calls; both descriptors are ours and closed here, and the structure is live.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        let copy = libc::syscall(libc::SYS_pidfd_getfd, process, fd, 0) as i32;
        let mut asked = libc::pollfd {
            fd: copy,
            events,
            revents: 0,
        };
        // A descriptor below zero is never ready.
        let ready = libc::poll(&raw mut asked, 1, 0) == 1 && asked.revents & events != 0;
        libc::close(copy);
        libc::close(process);
        ready
    }
}

/// The CPUs that the guest may believe in, as sched_getaffinity gives them.
pub(crate) fn affinity() -> Vec<u8> {
    let mut mask = vec![0u8; 128];
    // SAFETY: `mask` is live and of the size given.
    let n = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            0,
            mask.len(),
            mask.as_mut_ptr(),
        )
    };
    mask.truncate(n.max(0) as usize);
    mask
}

pub(crate) fn set_affinity(pid: i32, mask: &[u8]) {
    // SAFETY: `mask` is live and of the size given. A failure costs speed, not correctness.
    unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, pid, mask.len(), mask.as_ptr());
    }
}

/// Lets the calling thread run on any CPU that the process may use but the one it is on.
pub(crate) fn unpin_self() {
    // SAFETY: plain system calls on a live mask.
    unsafe {
        let cpu = libc::sched_getcpu();
        let n = libc::sysconf(libc::_SC_NPROCESSORS_ONLN);
        if cpu < 0 || n < 2 {
            return;
        }
        let mut mask = [0xffu8; 128];
        mask[cpu as usize / 8] &= !(1 << (cpu % 8));
        set_affinity(0, &mask);
    }
}

thread_local! {
    /// Of a thread that was pinned: the CPUs that it could run on before.
    static AT_LARGE: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Keeps the calling thread, and what it starts, on the CPU it is on: a ptrace stop costs twenty
/// times less when tracer and guest share one.
pub(crate) fn pin_self() {
    AT_LARGE.with_borrow_mut(|before| _ = before.get_or_insert_with(affinity));
    // SAFETY: plain system calls on a live mask.
    unsafe {
        let cpu = libc::sched_getcpu();
        if cpu >= 0 {
            let mut mask = [0u8; 128];
            mask[cpu as usize / 8] = 1 << (cpu % 8);
            set_affinity(0, &mask);
        }
    }
}

/// Does something for which no guest runs: a thread that has one is kept on its CPU, and with it the threads
/// that it starts; meanwhile these may run on all CPUs that there were before.
pub fn aside<T>(f: impl FnOnce() -> T) -> T {
    let Some(before) = AT_LARGE.with_borrow(Clone::clone) else {
        return f();
    };
    let pinned = affinity();
    set_affinity(0, &before);
    let done = f();
    set_affinity(0, &pinned);
    done
}
