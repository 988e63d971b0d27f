//! Instructions at which the turn may be passed on.
//!
//! A loop that waits for another thread says so with `pause`; it would burn its whole turn. And a
//! schedule that looks for failures wants to switch at atomic instructions and at accesses to
//! memory. Such instructions are found while code is translated, and are stopped at like any
//! address, with a countdown that costs a decrement. They are steps like all others, so a replay
//! knows nothing of them.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::End;
use crate::Error;
use crate::engine::Engine;
use crate::layout::slot;
use crate::policy::Why;
use crate::record::Recorder;
use crate::translate::Superblock;

/// Executions of a `pause` in a row that a thread may have.
const SPINS: u64 = 8;

/// Sites that may be stopped at besides `pause`.
const MOST: u32 = 384;

/// Sites of any kind while somebody else stops the guest too: the other countdowns are theirs.
pub(crate) const MOST_OBSERVED: u32 = slot::MAX_STOPS / 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    Pause,
    Atomic,
    Access,
}

/// What translation has come across.
#[derive(Default)]
pub(crate) struct Hunt {
    atomics: bool,
    accesses: bool,
    known: FxHashSet<u64>,
    found: Vec<(u64, Site)>,
}

/// Where the guest is stopped at.
#[derive(Default)]
pub(crate) struct Sites {
    at: FxHashMap<u64, (Site, u32)>,
    used: u32,
}

impl Hunt {
    pub(crate) fn for_sites(atomics: bool, accesses: bool) -> Self {
        Hunt {
            atomics,
            accesses,
            ..Hunt::default()
        }
    }

    pub(crate) fn look(&mut self, block: &Superblock) {
        let any = self.atomics || self.accesses;
        for insn in &block.insns {
            if !any && insn.decoded.code() != Code::Pause {
                continue;
            }
            let site = match kind(&insn.decoded) {
                Some(Site::Atomic) if !self.atomics => continue,
                Some(Site::Access) if !self.accesses => continue,
                Some(site) => site,
                None => continue,
            };
            if self.known.insert(insn.pc) {
                self.found.push((insn.pc, site));
            }
        }
    }
}

fn kind(insn: &Instruction) -> Option<Site> {
    if insn.code() == Code::Pause {
        return Some(Site::Pause);
    }
    let memory = (0..insn.op_count()).any(|n| insn.op_kind(n) == OpKind::Memory);
    if !memory || matches!(insn.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
        return None;
    }
    if insn.has_lock_prefix() || insn.mnemonic() == Mnemonic::Xchg {
        return Some(Site::Atomic);
    }
    // What is addressed through the stack registers is rarely anybody else's.
    let base = insn.memory_base().full_register();
    let own =
        matches!(base, Register::RSP | Register::RBP) || insn.segment_prefix() != Register::None;
    (!own).then_some(Site::Access)
}

impl Engine {
    /// Translation has come across sites at which somebody wants to stop, perhaps the first time.
    pub(crate) fn has_new_sites(&self) -> bool {
        let wanted = |h: &Hunt| (h.atomics || h.accesses) && !h.found.is_empty();
        self.hunt.as_ref().is_some_and(wanted) && self.threads.several()
    }

    /// The code is the program's rather than of the system's libraries.
    fn is_own(&self, pc: u64) -> bool {
        const SYSTEM: [&str; 2] = ["/lib", "/usr/lib"];
        self.maps
            .find(pc)
            .is_some_and(|m| SYSTEM.iter().all(|s| !m.name.starts_with(s)))
    }
}

impl Recorder {
    /// Sets stops at what translation has found since.
    pub(crate) fn arm_sites(&mut self) -> Result<(), Error> {
        let found = match &mut self.engine.hunt {
            Some(hunt) if !hunt.found.is_empty() => std::mem::take(&mut hunt.found),
            _ => return Ok(()),
        };
        for (pc, site) in found {
            let limit = if site == Site::Pause {
                slot::MAX_STOPS
            } else {
                MOST
            };
            let shared = !self.stops.is_empty();
            if self.sites.used >= limit || shared && self.sites.used >= MOST_OBSERVED {
                continue;
            }
            let countdown = match site {
                Site::Pause => Some(SPINS),
                Site::Access if !self.engine.is_own(pc) => None,
                _ => self.policy.site(site == Site::Atomic),
            };
            if let Some(countdown) = countdown {
                let n = self.sites.used;
                self.sites.used += 1;
                self.sites.at.insert(pc, (site, n));
                self.engine.arm(pc, n);
                self.engine.set_slot(slot::STOPS + n * 8, countdown)?;
            }
        }
        Ok(())
    }

    /// The countdowns are one for all threads: they go with the turn.
    pub(crate) fn carry_countdowns(&mut self, from_page: u64) -> Result<(), Error> {
        let used = match self.stops.is_empty() {
            true => self.sites.used,
            false => slot::MAX_STOPS,
        };
        if used == 0 || from_page == self.engine.page {
            return Ok(());
        }
        let len = used as usize * 8;
        let at = u64::from(slot::STOPS);
        let countdowns = self.engine.memory.read_vec(from_page + at, len)?;
        self.engine.memory.write(self.engine.page + at, &countdowns)
    }

    /// The guest stands at a site whose countdown has ended.
    pub(crate) fn at_site(&mut self) -> Result<Option<End>, Error> {
        let Some(&(site, n)) = self.sites.at.get(&self.engine.regs.rip) else {
            return Ok(None);
        };
        let countdown = match site {
            Site::Pause => SPINS,
            _ => self.policy.again(),
        };
        self.engine.set_slot(slot::STOPS + n * 8, countdown)?;
        if !self.engine.threads.several() || !self.engine.pending.is_empty() {
            return Ok(None);
        }
        match site {
            Site::Pause => self.yield_turn(Why::Yield),
            // Half of the time right after it.
            _ if self.policy.coin() => {
                self.turn_until = self.engine.step()? + 1;
                Ok(None)
            }
            _ => self.yield_turn(Why::Quantum),
        }
    }
}
