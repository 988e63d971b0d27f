//! Stopping when memory is read or written.
//!
//! Up to four aligned words are watched by the CPU's debug registers, at no cost; they report an
//! access after it has happened, so the guest is taken back to the step before from a checkpoint
//! made at the start of the run. They cannot watch reads alone: writes are then passed over. Anything larger is watched by taking the pages' protection away:
//! exact and before the access, at the price of a stop for every access to those pages.

use iced_x86::{Instruction, Mnemonic, OpAccess, Register};

use crate::engine::{Engine, register_mut};
use crate::maps::Protection;
use crate::{Error, replay::Watch};

/// How the watches of a run are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watching {
    pub(crate) watches: Vec<Watch>,
    hardware: bool,
    /// What the debug registers hold.
    words: Vec<(u64, u64, bool)>,
    /// What the debug registers will hold once the first instruction is done.
    waiting: Vec<(u64, u64, bool)>,
    pages: Vec<(u64, Protection)>,
}

/// Cuts a range into aligned pieces that one debug register can hold.
fn pieces(w: &Watch) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    let (mut at, end) = (w.addr, w.addr.saturating_add(w.len));
    while at < end {
        let len = [8, 4, 2, 1]
            .into_iter()
            .find(|&n| at % n == 0 && at + n <= end)
            .expect("one byte always fits");
        out.push((at, len));
        at += len;
    }
    out
}

impl Watching {
    pub(crate) fn overlaps(&self, addr: u64, len: u64, write: bool) -> bool {
        self.watches.iter().any(|w| {
            addr < w.addr.saturating_add(w.len)
                && w.addr < addr.saturating_add(len)
                && if write { w.write } else { w.read }
        })
    }

    /// The instruction at the present boundary touches what is watched, by its operands. Where
    /// those do not say (a gather), by where it faulted.
    pub(crate) fn touched(&self, engine: &Engine, fault: Option<u64>) -> bool {
        let Ok(insn) = crate::special::decode(engine) else {
            return false;
        };
        let regs = engine.regs;
        let value = |reg: Register, _: usize, _: usize| match reg {
            Register::FS => Some(regs.fs_base),
            _ if reg.is_segment_register() => Some(0),
            _ if reg.is_gpr32() => {
                Some(*register_mut(&mut regs.clone(), reg.number() as u8) as u32 as u64)
            }
            _ if reg.is_gpr64() => Some(*register_mut(&mut regs.clone(), reg.number() as u8)),
            _ => None,
        };
        let repeated =
            insn.is_string_instruction() && (insn.has_rep_prefix() || insn.has_repne_prefix());
        let mut factory = iced_x86::InstructionInfoFactory::new();
        factory.info(&insn).used_memory().iter().any(|m| {
            let Some(mut at) = m.virtual_address(0, value).or(fault) else {
                return false;
            };
            let mut len = m.memory_size().size().max(insn.memory_size().size()).max(1) as u64;
            if moves_state(&insn) {
                len = len.max(state_size());
            }
            if repeated {
                if regs.eflags & 0x400 != 0 {
                    at = at.wrapping_sub(len.wrapping_mul(regs.rcx.wrapping_sub(1)));
                }
                len = len.saturating_mul(regs.rcx);
            }
            let write = !matches!(m.access(), OpAccess::Read | OpAccess::CondRead);
            let read = !matches!(m.access(), OpAccess::Write | OpAccess::CondWrite);
            (write && self.overlaps(at, len, true)) || (read && self.overlaps(at, len, false))
        })
    }

    pub(crate) fn start(engine: &mut Engine, watches: &[Watch]) -> Result<Self, Error> {
        let mut this = Watching {
            watches: watches.to_vec(),
            hardware: false,
            words: Vec::new(),
            waiting: Vec::new(),
            pages: Vec::new(),
        };
        if watches.is_empty() {
            return Ok(this);
        }
        let reads = watches.iter().filter(|w| w.read);
        engine.watch_reads(
            reads
                .map(|w| (w.addr, w.addr.saturating_add(w.len)))
                .collect(),
        );
        let few = watches.iter().all(|w| w.len <= 32);
        let all: Vec<(u64, u64, bool)> = if few {
            watches
                .iter()
                .flat_map(|w| pieces(w).into_iter().map(|(a, n)| (a, n, w.read)))
                .collect()
        } else {
            Vec::new()
        };
        if few && all.len() <= 4 && engine.set_hardware_watches(&all).is_ok() {
            // They are set when the instruction at which the run begins is done.
            engine.set_hardware_watches(&[])?;
            this.hardware = true;
            this.words = all.clone();
            this.waiting = all;
        } else {
            this.take_pages(engine)?;
        }
        Ok(this)
    }

    /// The run has begun but its first instruction, which does not count, is not done.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn begin(&mut self, engine: &mut Engine) -> Result<(), Error> {
        match std::mem::take(&mut self.waiting) {
            list if list.is_empty() => Ok(()),
            list => engine.set_hardware_watches(&list),
        }
    }

    /// The instruction at hand writes where only reads are watched.
    pub(crate) fn passed_over(&self, engine: &Engine) -> bool {
        let reads = self.watches.iter().filter(|w| !w.write);
        let any = Watching {
            watches: reads.map(|w| Watch { write: true, ..*w }).collect(),
            ..Watching::default()
        };
        any.touched(engine, None)
    }

    /// Watches in the process that the guest has become.
    pub(crate) fn again(&mut self, engine: &mut Engine) -> Result<(), Error> {
        self.waiting.clear();
        engine.set_hardware_watches(&self.words)
    }

    pub(crate) fn stop(&mut self, engine: &mut Engine) -> Result<(), Error> {
        engine.watch_reads(Vec::new());
        if self.hardware {
            engine.set_hardware_watches(&[])?;
            self.hardware = false;
        }
        self.give_pages(engine)
    }

    pub(crate) fn has_page(&self, addr: u64) -> bool {
        self.pages.iter().any(|p| p.0 == addr >> 12)
    }

    pub(crate) fn take_pages(&mut self, engine: &mut Engine) -> Result<(), Error> {
        if self.hardware || self.watches.is_empty() {
            return Ok(());
        }
        engine.refresh_maps()?;
        let mut pages = Vec::new();
        for w in &self.watches {
            for page in w.addr >> 12..=(w.addr + w.len.max(1) - 1) >> 12 {
                let Some(m) = engine.maps.find(page << 12) else {
                    continue;
                };
                let reads = self
                    .watches
                    .iter()
                    .any(|w| w.read && w.addr >> 12 <= page && (w.addr + w.len) >> 12 >= page);
                pages.push((page, m.protection, reads));
            }
        }
        pages.dedup_by_key(|p| p.0);
        for (page, protection, reads) in pages {
            let less = Protection {
                read: !reads && protection.read,
                write: false,
                execute: protection.execute && !reads,
            };
            engine.protect(page, less)?;
            self.pages.push((page, protection));
        }
        Ok(())
    }

    pub(crate) fn give_pages(&mut self, engine: &mut Engine) -> Result<(), Error> {
        for (page, p) in std::mem::take(&mut self.pages) {
            // The guest may have unmapped it meanwhile.
            let _ = engine.protect(page, p);
        }
        Ok(())
    }
}

/// Its memory is as large as the processor's state, which the operand does not say.
fn moves_state(insn: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(
        insn.mnemonic(),
        Xsave
            | Xsave64
            | Xsaveopt
            | Xsaveopt64
            | Xsavec
            | Xsavec64
            | Xsaves
            | Xsaves64
            | Xrstor
            | Xrstor64
            | Xrstors
            | Xrstors64
    )
}

/// Bytes of the area for all state that is switched on. What of it is left out is not told apart.
fn state_size() -> u64 {
    u64::from(std::arch::x86_64::__cpuid_count(13, 0).ebx)
}

impl Engine {
    fn set_hardware_watches(&mut self, list: &[(u64, u64, bool)]) -> Result<(), Error> {
        self.tracee.set_debug_register(7, 0)?;
        let mut control = 0u64;
        for (i, &(addr, len, read)) in list.iter().enumerate() {
            self.tracee.set_debug_register(i, addr)?;
            let kind = if read { 3 } else { 1 };
            let size = match len {
                1 => 0,
                2 => 1,
                8 => 2,
                _ => 3,
            };
            control |= 1 << (2 * i) | (kind | size << 2) << (16 + 4 * i);
        }
        self.tracee.set_debug_register(7, control)
    }
}
