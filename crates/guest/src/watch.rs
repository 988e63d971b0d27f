//! Stopping when memory is read or written.
//!
//! Up to four aligned words are watched by the CPU's debug registers, at no cost; they report an
//! access after it has happened, so the guest is taken back to the step before from a checkpoint
//! made at the start of the run. Anything larger is watched by taking the pages' protection away:
//! exact and before the access, at the price of a stop for every access to those pages.

use crate::engine::Engine;
use crate::maps::Protection;
use crate::{Error, replay::Watch};

/// How the watches of a run are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watching {
    pub(crate) watches: Vec<Watch>,
    hardware: bool,
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

    /// The instruction at the present boundary, which faulted at `addr`, touches what is watched.
    pub(crate) fn touched(&self, engine: &Engine, addr: u64) -> bool {
        let Ok(insn) = crate::special::decode(engine) else {
            return false;
        };
        let mut factory = iced_x86::InstructionInfoFactory::new();
        let info = factory.info(&insn);
        info.used_memory().iter().any(|m| {
            let write = !matches!(
                m.access(),
                iced_x86::OpAccess::Read | iced_x86::OpAccess::CondRead
            );
            let read = !matches!(
                m.access(),
                iced_x86::OpAccess::Write | iced_x86::OpAccess::CondWrite
            );
            let len = m.memory_size().size().max(1) as u64;
            // An access that begins on the page before has faulted at the page's first byte.
            let start = if addr & 0xfff == 0 {
                addr.saturating_sub(len - 1)
            } else {
                addr
            };
            let len = if start == addr { len } else { 2 * len - 1 };
            (write && self.overlaps(start, len, true)) || (read && self.overlaps(start, len, false))
        })
    }

    pub(crate) fn start(engine: &mut Engine, watches: &[Watch]) -> Result<Self, Error> {
        let mut this = Watching {
            watches: watches.to_vec(),
            hardware: false,
            pages: Vec::new(),
        };
        if watches.is_empty() {
            return Ok(this);
        }
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
            this.hardware = true;
        } else {
            this.take_pages(engine)?;
        }
        Ok(this)
    }

    /// The debug registers again, in a process that does not have them yet.
    pub(crate) fn stop(&mut self, engine: &mut Engine) -> Result<(), Error> {
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
