//! What the guest has arranged for its signals, and giving it one.

use abi::signal::Action;

use crate::Error;
use crate::engine::{Engine, Pending};
use crate::layout::slot;
use crate::ptrace::{Resume, Wait};

const SA_RESETHAND: u64 = 0x8000_0000;
const SA_RESTART: u64 = 0x1000_0000;

/// What happens on a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    Ignore,
    Stop,
    /// The guest dies.
    Fatal,
    Handler {
        restart: bool,
    },
}

/// The guest's table of signal actions, kept beside the kernel's.
#[derive(Clone, Debug)]
pub(crate) struct Dispositions {
    /// (handler, flags) by signal number.
    table: [(u64, u64); 65],
}

impl Dispositions {
    /// As a new image begins: everything default, but for what was ignored before.
    pub(crate) fn inherited(pid: i32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
        let ignored = field
            .and_then(|v| u64::from_str_radix(v.trim(), 16).ok())
            .unwrap_or(0);
        Dispositions {
            table: std::array::from_fn(|sig| {
                (u64::from(sig > 0 && ignored >> (sig - 1) & 1 != 0), 0)
            }),
        }
    }

    /// The guest called sigaction with this structure.
    pub(crate) fn set(&mut self, signal: u64, act: &[u8; 32]) {
        let word = |i: usize| u64::from_le_bytes(act[i..i + 8].try_into().expect("eight bytes"));
        if let Some(entry) = self.table.get_mut(signal as usize) {
            *entry = (word(0), word(8));
        }
    }

    pub(crate) fn of(&self, signal: i32) -> Disposition {
        match self.table.get(signal as usize) {
            Some((1, _)) => Disposition::Ignore,
            Some(&(h, flags)) if h > 1 => Disposition::Handler {
                restart: flags & SA_RESTART != 0,
            },
            _ => match abi::signal::default_action(signal) {
                Some(Action::Ignore | Action::Continue) => Disposition::Ignore,
                Some(Action::Stop) => Disposition::Stop,
                _ => Disposition::Fatal,
            },
        }
    }

    /// Signals with a handler that somebody outside could raise: neither faults nor those that the
    /// C library keeps for its own threads.
    pub(crate) fn outside_handlers(&self) -> Vec<i32> {
        const OWN: [i32; 8] = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGABRT,
            32,
            33,
        ];
        (1..65)
            .filter(|s| self.table[*s as usize].0 > 1 && !OWN.contains(s))
            .collect()
    }

    /// A new image: what had a handler has the default again.
    pub(crate) fn reset_handlers(&mut self) {
        for entry in &mut self.table {
            if entry.0 != 1 {
                *entry = (0, 0);
            }
        }
    }

    fn delivered(&mut self, signal: i32) {
        if let Some(entry) = self.table.get_mut(signal as usize)
            && entry.1 & SA_RESETHAND != 0
        {
            entry.0 = 0;
        }
    }

    /// A fault that is blocked or ignored kills all the same: the kernel resets its action.
    pub(crate) fn force(&mut self, signal: i32, blocked: u64) -> Disposition {
        if self.of(signal) == Disposition::Ignore || blocked >> (signal - 1) & 1 != 0 {
            self.table[signal as usize] = (0, 0);
        }
        self.of(signal)
    }
}

/// What the kernel remembers of a thread's last fault and shows in every later signal frame. The
/// engine's own faults are among what it remembers, and a replay has one thread to remember them in,
/// so frames get what the guest's own faults would have left there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastFault {
    error: u64,
    trap: u64,
    address: u64,
}

impl LastFault {
    /// The signal is about an instruction of the guest, and whether that tried to reach an address.
    fn is_told_by(pending: &Pending) -> Option<bool> {
        let code = i32::from_le_bytes(pending.info[8..12].try_into().expect("four bytes"));
        let reached = code != SI_KERNEL;
        match pending.signal {
            _ if code <= 0 => None,
            libc::SIGSEGV | libc::SIGBUS => Some(reached),
            libc::SIGFPE | libc::SIGILL | libc::SIGTRAP => Some(false),
            _ => None,
        }
    }
}

impl Engine {
    /// Puts the guest's last fault into the frame of the handler that is about to begin.
    fn show_last_fault(&mut self, pending: &Pending) -> Result<(), Error> {
        let context = self.regs.rdx;
        if let Some(reached) = LastFault::is_told_by(pending) {
            self.last_fault.error = self.memory.read_u64(context + UC_ERROR)?;
            self.last_fault.trap = self.memory.read_u64(context + UC_TRAP)?;
            if reached {
                let address = pending.info[16..24].try_into().expect("eight bytes");
                self.last_fault.address = u64::from_le_bytes(address);
            }
        }
        let LastFault {
            error,
            trap,
            address,
        } = self.last_fault;
        self.memory.write_u64(context + UC_ERROR, error)?;
        self.memory.write_u64(context + UC_TRAP, trap)?;
        self.memory.write_u64(context + UC_FAULT_ADDRESS, address)
    }

    /// Gives the guest a signal at the present boundary: the kernel pushes the frame, and `regs`
    /// are at the first instruction of the handler. The error case is a second signal that arose
    /// because the frame could not be pushed.
    pub(crate) fn deliver(&mut self, pending: &Pending) -> Result<Option<Pending>, Error> {
        self.make_deliverable()?;
        let mut regs = self.regs;
        regs.orig_rax = u64::MAX;
        self.tracee.set_regs(&regs)?;
        self.tracee.set_siginfo(&pending.info)?;
        self.dispositions.delivered(pending.signal);
        self.tracee.resume(Resume::DeliverAndStop(pending.signal))?;
        let wait = self.tracee.wait()?;
        self.stats.stops += 1;
        match wait {
            Wait::Signal(libc::SIGTRAP) | Wait::Event(_) => {
                self.regs = self.tracee.regs()?;
                self.can_deliver = false;
                self.tape_signal(pending.signal, regs.rsp)?;
                self.show_last_fault(pending)?;
                let was_blocked = self.trap_blocked;
                if was_blocked {
                    let at = self.regs.rdx + UC_SIGMASK;
                    let mask = self.memory.read_u64(at)?;
                    self.memory.write_u64(at, mask | TRAP)?;
                }
                self.keep_trap_open()?;
                self.trap_blocked |= was_blocked;
                Ok(None)
            }
            Wait::Signal(signal) => {
                self.can_deliver = true;
                Ok(Some(Pending {
                    signal,
                    info: self.tracee.siginfo()?,
                }))
            }
            _ => Err(Error::Lost),
        }
    }

    /// Brings the process to a stop in which a signal can be handed to it.
    pub(crate) fn make_deliverable(&mut self) -> Result<(), Error> {
        if self.can_deliver {
            return Ok(());
        }
        let mut regs = self.regs;
        regs.rip = self.cache.regions[0].labels.gadget + 2;
        regs.orig_rax = u64::MAX;
        self.tracee.set_regs(&regs)?;
        self.tracee.resume(Resume::Run)?;
        self.until_trap()
    }

    /// The process has been resumed before the gadget's `int3`: waits for that.
    fn until_trap(&mut self) -> Result<(), Error> {
        loop {
            match self.tracee.wait()? {
                Wait::Signal(libc::SIGTRAP) => break,
                Wait::Signal(sig) => self.note_signal(sig)?,
                Wait::Event(_) | Wait::Group(_) => {}
                _ => return Err(Error::Lost),
            }
            self.tracee.resume(Resume::Run)?;
        }
        self.can_deliver = true;
        Ok(())
    }

    /// Whether the guest would not be given the signal here: it is blocked.
    pub(crate) fn is_blocked(&self, signal: i32) -> Result<bool, Error> {
        Ok(self.tracee.sigmask()? >> (signal - 1) & 1 != 0)
    }

    /// Leaves a signal that was taken from the kernel, but is blocked by the time it is to be delivered, to the
    /// kernel again. That happens to the second of two that came close to each other, while the handler of the
    /// first runs.
    pub(crate) fn hand_back(&mut self, pending: &Pending) -> Result<(), Error> {
        self.make_deliverable()?;
        let mut regs = self.regs;
        regs.rip = self.cache.regions[0].labels.gadget + 2;
        regs.orig_rax = u64::MAX;
        self.tracee.set_regs(&regs)?;
        self.tracee.set_siginfo(&pending.info)?;
        self.can_deliver = false;
        self.tracee.resume(Resume::Deliver(pending.signal))?;
        self.until_trap()
    }

    /// Carries out the guest's sigreturn: the kernel takes the frame back.
    pub(crate) fn sigreturn(&mut self) -> Result<(), Error> {
        let mut regs = self.regs;
        regs.rip = self.cache.regions[0].labels.gadget;
        regs.orig_rax = u64::MAX;
        self.tracee.set_regs(&regs)?;
        self.tracee.single_step()?;
        loop {
            let wait = self.tracee.wait()?;
            self.stats.stops += 1;
            match wait {
                Wait::Signal(libc::SIGTRAP) => break,
                Wait::Signal(sig) => {
                    self.note_signal(sig)?;
                    self.tracee.single_step()?;
                }
                Wait::Event(_) | Wait::Group(_) => self.tracee.single_step()?,
                _ => return Err(Error::Lost),
            }
        }
        self.regs = self.tracee.regs()?;
        self.can_deliver = true;
        self.keep_trap_open()
    }

    /// The guest may believe that it blocks SIGTRAP, but the engine's stops must not find it
    /// blocked: the kernel would unblock it for good and reset its action.
    pub(crate) fn keep_trap_open(&mut self) -> Result<(), Error> {
        let mask = self.tracee.sigmask()?;
        self.trap_blocked = mask & TRAP != 0;
        if self.trap_blocked {
            self.tracee.set_sigmask(mask & !TRAP)?;
        }
        Ok(())
    }

    /// The signal mask that returning from the handler just begun will restore.
    pub(crate) fn set_frame_mask(&mut self, mask: u64) -> Result<(), Error> {
        self.memory.write_u64(self.regs.rdx + UC_SIGMASK, mask)
    }

    /// As after an exec: no handlers, no alternate stack.
    pub(crate) fn reset_kernel_signals(&mut self) -> Result<(), Error> {
        let scratch = self.page + u64::from(slot::SCRATCH);
        self.memory.write(scratch, &[0; 32])?;
        for sig in 1..=64 {
            if self.dispositions.of(sig) != Disposition::Ignore
                && sig != libc::SIGKILL
                && sig != libc::SIGSTOP
            {
                self.inject(libc::SYS_rt_sigaction, [sig as u64, scratch, 0, 8, 0, 0])?;
            }
        }
        // SS_DISABLE
        self.memory.write(scratch + 8, &[2])?;
        self.inject(libc::SYS_sigaltstack, [scratch, 0, 0, 0, 0, 0])?;
        self.altstack = crate::engine::DISABLED_STACK;
        Ok(())
    }

    /// The vector and floating-point registers as an exec leaves them.
    pub(crate) fn reset_vector_state(&mut self) -> Result<(), Error> {
        let mut state = self.tracee.xstate()?;
        state.fill(0);
        state[..2].copy_from_slice(&0x37fu16.to_le_bytes());
        state[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
        self.tracee.set_xstate(&state)
    }

    /// The signal mask as the guest believes it to be.
    pub(crate) fn believed_mask(&self) -> Result<u64, Error> {
        let mask = self.tracee.sigmask()?;
        Ok(if self.trap_blocked { mask | TRAP } else { mask })
    }
}

const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
/// Offset of the signal mask in the kernel's `struct ucontext`.
const UC_SIGMASK: u64 = 296;
const UC_ERROR: u64 = 192;
const UC_TRAP: u64 = 200;
const UC_FAULT_ADDRESS: u64 = 216;

/// The code of a signal whose cause has no address.
const SI_KERNEL: i32 = 0x80;
