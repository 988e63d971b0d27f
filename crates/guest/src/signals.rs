//! What the guest has arranged for its signals, and giving it one.

use abi::signal::Action;

use crate::Error;
use crate::engine::{Engine, Pending};
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
    Handler { restart: bool },
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
        let ignored = field.and_then(|v| u64::from_str_radix(v.trim(), 16).ok()).unwrap_or(0);
        Dispositions { table: std::array::from_fn(|sig| (u64::from(sig > 0 && ignored >> (sig - 1) & 1 != 0), 0)) }
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
            Some(&(h, flags)) if h > 1 => Disposition::Handler { restart: flags & SA_RESTART != 0 },
            _ => match abi::signal::default_action(signal) {
                Some(Action::Ignore | Action::Continue) => Disposition::Ignore,
                Some(Action::Stop) => Disposition::Stop,
                _ => Disposition::Fatal,
            },
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

impl Engine {
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
                Ok(None)
            }
            Wait::Signal(signal) => {
                self.can_deliver = true;
                Ok(Some(Pending { signal, info: self.tracee.siginfo()? }))
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
        loop {
            self.tracee.resume(Resume::Run)?;
            match self.tracee.wait()? {
                Wait::Signal(libc::SIGTRAP) => break,
                Wait::Signal(sig) => self.note_signal(sig)?,
                Wait::Event(_) | Wait::Group(_) => {}
                _ => return Err(Error::Lost),
            }
        }
        self.can_deliver = true;
        Ok(())
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
        Ok(())
    }
}
