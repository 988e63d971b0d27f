//! ptrace(2) and wait(2), typed.
//!
//! Everything the engine does to the guest's process goes through the few functions here. A
//! [`Tracee`] names a thread that is traced by the calling thread; whether it is stopped is the
//! caller's knowledge, and a request made while it runs fails with `ESRCH`, which is reported as
//! [`Lost`](crate::Error::Lost): the guest went away under us (killed from outside).

use std::io;
use std::os::raw::{c_int, c_void};

use crate::Error;

/// The general registers as the kernel hands them over.
pub type UserRegs = libc::user_regs_struct;

/// One traced thread of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Tracee(pub(crate) i32);

/// Why a traced thread stopped, as wait(2) tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// About to receive this signal.
    Signal(i32),
    /// One of the `PTRACE_EVENT_*` stops.
    Event(i32),
    /// Job control stopped the guest with this signal.
    Group(i32),
    Exited(i32),
    Killed(i32),
}

/// What becomes of a stopped thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    Run,
    /// Deliver this signal first and stop before the first instruction after that.
    DeliverAndStop(i32),
    /// Deliver this signal and run: for deadly and stopping signals.
    Deliver(i32),
    /// Stay in the group stop, but see what ends it.
    Listen,
}

const NT_X86_XSTATE: usize = 0x202;

const OPTIONS: c_int = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEVFORKDONE
    | libc::PTRACE_O_TRACECLONE;

fn lost(e: io::Error) -> Error {
    match e.raw_os_error() {
        Some(libc::ESRCH) => Error::Lost,
        _ => Error::Os("ptrace", e),
    }
}

impl Tracee {
    fn request(self, request: libc::c_uint, addr: usize, data: usize) -> Result<i64, Error> {
        // SAFETY: the callers below pass `addr` and `data` as their request defines them; those
        // that are pointers point to live values of the right size.
        let r = unsafe { libc::ptrace(request, self.0, addr, data) };
        if r == -1 {
            Err(lost(io::Error::last_os_error()))
        } else {
            Ok(r)
        }
    }

    /// Starts tracing. The thread goes on running.
    pub(crate) fn seize(self) -> Result<(), Error> {
        self.request(libc::PTRACE_SEIZE, 0, OPTIONS as usize)
            .map(drop)
    }

    pub(crate) fn regs(self) -> Result<UserRegs, Error> {
        // SAFETY: `user_regs_struct` is plain integers, for which zero is a value.
        let mut regs: UserRegs = unsafe { std::mem::zeroed() };
        self.request(libc::PTRACE_GETREGS, 0, &raw mut regs as usize)?;
        Ok(regs)
    }

    pub(crate) fn set_regs(self, regs: &UserRegs) -> Result<(), Error> {
        self.request(libc::PTRACE_SETREGS, 0, regs as *const UserRegs as usize)
            .map(drop)
    }

    /// The extended state (x87, SSE, AVX, ...) in the layout of XSAVE.
    pub(crate) fn xstate(self) -> Result<Vec<u8>, Error> {
        let mut buf = vec![0u8; 16384];
        let mut iov = libc::iovec {
            iov_base: buf.as_mut_ptr().cast::<c_void>(),
            iov_len: buf.len(),
        };
        self.request(libc::PTRACE_GETREGSET, NT_X86_XSTATE, &raw mut iov as usize)?;
        buf.truncate(iov.iov_len);
        Ok(buf)
    }

    pub(crate) fn set_xstate(self, bytes: &[u8]) -> Result<(), Error> {
        let iov = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(),
            iov_len: bytes.len(),
        };
        self.request(
            libc::PTRACE_SETREGSET,
            NT_X86_XSTATE,
            &raw const iov as usize,
        )
        .map(drop)
    }

    /// The `siginfo_t` of the signal about to be delivered.
    pub(crate) fn siginfo(self) -> Result<[u8; 128], Error> {
        let mut info = [0u8; 128];
        self.request(libc::PTRACE_GETSIGINFO, 0, info.as_mut_ptr() as usize)?;
        Ok(info)
    }

    pub(crate) fn set_siginfo(self, info: &[u8; 128]) -> Result<(), Error> {
        self.request(libc::PTRACE_SETSIGINFO, 0, info.as_ptr() as usize)
            .map(drop)
    }

    pub(crate) fn event_message(self) -> Result<u64, Error> {
        let mut msg: libc::c_ulong = 0;
        self.request(libc::PTRACE_GETEVENTMSG, 0, &raw mut msg as usize)?;
        Ok(msg)
    }

    pub(crate) fn sigmask(self) -> Result<u64, Error> {
        let mut mask = 0u64;
        self.request(libc::PTRACE_GETSIGMASK, 8, &raw mut mask as usize)?;
        Ok(mask)
    }

    pub(crate) fn set_sigmask(self, mask: u64) -> Result<(), Error> {
        self.request(libc::PTRACE_SETSIGMASK, 8, &raw const mask as usize)
            .map(drop)
    }

    /// Writes one of the CPU's debug registers.
    pub(crate) fn set_debug_register(self, n: usize, value: u64) -> Result<(), Error> {
        let offset = std::mem::offset_of!(libc::user, u_debugreg) + n * 8;
        self.request(libc::PTRACE_POKEUSER, offset, value as usize)
            .map(drop)
    }

    pub(crate) fn resume(self, how: Resume) -> Result<(), Error> {
        let (request, sig) = match how {
            Resume::Run => (libc::PTRACE_CONT, 0),
            Resume::DeliverAndStop(sig) => (libc::PTRACE_SINGLESTEP, sig),
            Resume::Deliver(sig) => (libc::PTRACE_CONT, sig),
            Resume::Listen => (libc::PTRACE_LISTEN, 0),
        };
        self.request(request, 0, sig as usize).map(drop)
    }

    /// Executes one machine instruction and stops.
    pub(crate) fn single_step(self) -> Result<(), Error> {
        self.request(libc::PTRACE_SINGLESTEP, 0, 0).map(drop)
    }

    /// Stops the thread wherever it is; a system call that it sleeps in is cut short.
    pub(crate) fn interrupt(self) -> Result<(), Error> {
        self.request(libc::PTRACE_INTERRUPT, 0, 0).map(drop)
    }

    pub(crate) fn detach(self) -> Result<(), Error> {
        self.request(libc::PTRACE_DETACH, 0, 0).map(drop)
    }

    /// Waits for the next stop of this thread.
    pub(crate) fn wait(self) -> Result<Wait, Error> {
        Ok(wait_for(self.0, 0)?
            .expect("a blocking wait returns a status")
            .1)
    }

    /// Kills and waits for the end. A process that was reaped before is left alone: its number may
    /// be somebody else's by now.
    pub(crate) fn kill(self) {
        if self.is_gone() {
            return;
        }
        // SAFETY: plain system calls; the process id is one we created and have not reaped.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
        }
        loop {
            match wait_for(self.0, 0) {
                Ok(Some((_, Wait::Exited(_) | Wait::Killed(_)))) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }
}

thread_local! {
    /// Processes that were killed and are not reaped yet.
    static DYING: std::cell::RefCell<Vec<Tracee>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl Tracee {
    /// The process is not there any more, or is no longer ours to wait for.
    fn is_gone(self) -> bool {
        matches!(
            wait_for(self.0, libc::WNOHANG),
            Ok(Some((_, Wait::Exited(_) | Wait::Killed(_)))) | Err(_)
        )
    }

    /// Kills without waiting: giving back the memory of a large process takes milliseconds, which
    /// the kernel can spend on its own.
    pub(crate) fn kill_later(self) {
        if self.is_gone() {
            return;
        }
        // Not on the CPU that tracer and guest share.
        crate::process::set_affinity(self.0, &[0xff; 128]);
        // SAFETY: as for `kill`.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
        }
        DYING.with_borrow_mut(|dying| {
            dying.push(self);
            dying.retain(|t| !t.is_gone());
        });
    }
}

/// Kills a process that we started, without waiting for its end.
pub(crate) fn send_kill(tracee: Tracee) {
    if !tracee.is_gone() {
        // SAFETY: as for `kill`.
        unsafe { libc::kill(tracee.0, libc::SIGKILL) };
    }
}

/// Where the thread keeps the list of the robust locks that it holds.
pub(crate) fn robust_list(tracee: Tracee) -> Option<u64> {
    let (mut head, mut len) = (0u64, 0usize);
    // SAFETY: both results are live values of the size that the kernel writes.
    let r = unsafe {
        libc::syscall(
            libc::SYS_get_robust_list,
            tracee.0,
            &raw mut head,
            &raw mut len,
        )
    };
    (r == 0 && head != 0).then_some(head)
}

/// Waits for all that were killed on this thread.
pub(crate) fn reap() {
    for t in DYING.take() {
        t.kill();
    }
}

/// Waits for thread `pid` (or any, with -1). `None` only with `WNOHANG`.
pub(crate) fn wait_for(pid: i32, flags: c_int) -> Result<Option<(Tracee, Wait)>, Error> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a live integer.
        let r = unsafe { libc::waitpid(pid, &raw mut status, flags | libc::__WALL) };
        if r == 0 {
            return Ok(None);
        }
        if r > 0 {
            return Ok(Some((Tracee(r), decode(status))));
        }
        let e = io::Error::last_os_error();
        match e.raw_os_error() {
            // A signal to the tracer itself. What it means is up to the caller, which looks at
            // `crate::interrupts` whenever the guest has stopped.
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Err(Error::Lost),
            _ => return Err(Error::Os("waitpid", e)),
        }
    }
}

fn decode(status: c_int) -> Wait {
    if libc::WIFEXITED(status) {
        Wait::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Wait::Killed(libc::WTERMSIG(status))
    } else {
        let sig = libc::WSTOPSIG(status);
        match status >> 16 {
            0 => Wait::Signal(sig),
            libc::PTRACE_EVENT_STOP if sig != libc::SIGTRAP => Wait::Group(sig),
            event => Wait::Event(event),
        }
    }
}
