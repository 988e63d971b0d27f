//! Running guest code out of the code cache, from one stop that matters to the next.
//!
//! This is the mechanism without policy: it translates what is about to run, links it, keeps the
//! step counter, and turns each stop of the process into a [`Stop`] in guest terms. What a system
//! call or a signal means (record it, take it from a recording) is decided above.
//!
//! Between two calls of [`Engine::go`] the guest stands *at a boundary*: `regs` holds its
//! registers, rip being a guest address, and the process's own registers are of no account. They
//! are written when it is resumed.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::alias::Aliases;
use crate::cache::{BlockId, Cache};
use crate::layout::{Layout, REGION_SIZE, slot};
use crate::maps::{Mapping, Maps, Protection};
use crate::memory::Memory;
use crate::ptrace::{Resume, Tracee, UserRegs, Wait};
use crate::signals::{Disposition, Dispositions, LastFault};
use crate::sites::Hunt;
use crate::threads::Threads;
use crate::translate::{
    Displacement, Fetch, Insn, MAX_INSNS, MAX_OBSERVED, MOST_BLIND, Point, Request, Saved, decode,
    translate, until_flags_set,
};
use crate::{Error, Stats};

mod code;
mod run;
mod tape;

pub(crate) use self::tape::{Tape, Wanted};

/// Steps between two looks at the guest when nobody asked for fewer. Any number will do whose
/// negation has a top byte that is not zero.
const NO_LIMIT: u64 = 1 << 60;

/// Bytes of the lanes and the base behind them.
const COUNTERS: usize = 8 * slot::LANES as usize + 8;

/// The least share of the budget that a lane has: one part in so many.
const LEAST_SHARE: u64 = 64;

/// Steps before a goal from which on it is approached one run at a time.
const NEAR: u64 = 4 * MAX_INSNS as u64;

/// Carry, parity, adjust, zero, sign and overflow.
const ARITHMETIC_FLAGS: u64 = 0x8d5;

/// `stack_t` with SS_DISABLE.
pub(crate) const DISABLED_STACK: [u8; 24] = {
    let mut b = [0; 24];
    b[8] = 2;
    b
};

/// Blocks translated ahead of being reached, per stop. Half of those are never reached, and one costs about half of
/// what a stop does: with more the tracer translates in vain, with fewer the guest stops too often.
const AHEAD: usize = 8;

/// Why the guest stopped, in guest terms.
#[derive(Debug)]
pub(crate) enum Stop {
    /// At the step asked for, or at a boundary before it: because something is pending, or because
    /// the budget, of which each lane has a share, is to be dealt out anew.
    Boundary,
    /// The system call in `regs` is to be carried out. rip is at the instruction, which counts as
    /// executed; rcx and r11 have the values that it leaves.
    Syscall,
    /// A system call run on the spot was interrupted with this (kernel-internal) result.
    Interrupted(i64),
    /// The instruction at rip is to be carried out.
    Special,
    /// The instruction at rip raised this signal and has not been executed.
    Fault {
        signal: i32,
        info: [u8; 128],
    },
    /// There is no code to execute at rip.
    NoCode,
    /// A stop armed at rip has counted down; the instruction has not been executed.
    Armed,
    /// A debug register fired: the instruction that began at this step touched what it watches.
    /// The guest is beyond it; its state here is of no use.
    Watched {
        step: u64,
    },
    Ended(Wait),
}

/// A signal that has arrived and waits for the next boundary.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) signal: i32,
    pub(crate) info: [u8; 128],
}

/// Code that will be wanted: a way out to be linked, or where a call returns to.
struct Ahead {
    target: u64,
    exit: Option<u32>,
}

/// Guest code bytes, page by page.
pub(crate) struct CodeBytes {
    pub(crate) pages: FxHashMap<u64, Box<[u8; 4096]>>,
    /// Pages read that the guest could change unseen; they are read again each time.
    unguarded: Vec<u64>,
    pub(crate) constants: Constants,
    /// Where the guest's reads must be seen.
    watched: Vec<(u64, u64)>,
    window: Vec<u8>,
}

/// Pages of data that the guest cannot write, of which translated code makes use.
#[derive(Default)]
pub(crate) struct Constants {
    pages: FxHashMap<u64, Box<[u8; 4096]>>,
    /// Another one whenever there are more or fewer of them.
    pub(crate) version: u64,
}

impl Constants {
    pub(crate) fn has(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u64, &[u8; 4096]) -> bool) {
        let before = self.pages.len();
        self.pages.retain(|&page, bytes| keep(page, bytes));
        self.version += u64::from(self.pages.len() != before);
    }
}

pub(crate) struct Engine {
    pub(crate) tracee: Tracee,
    /// The current thread's page.
    pub(crate) page: u64,
    pub(crate) memory: Memory,
    pub(crate) cache: Cache,
    pub(crate) maps: Maps,
    maps_stale: bool,
    /// Changes of the address space so far.
    pub(crate) space: u64,
    pub(crate) code: CodeBytes,
    pub(crate) aliases: Aliases,
    /// Pages write-protected because their code is translated, with what the guest believes.
    pub(crate) protected: FxHashMap<u64, Protection>,
    pub(crate) regs: UserRegs,
    pub(crate) pending: VecDeque<Pending>,
    /// The last stop was one in which a signal can be given to the guest.
    pub(crate) can_deliver: bool,
    /// `PREEMPT` is set.
    asked: bool,
    /// Countdown slot of each armed stop, by address.
    pub(crate) armed: FxHashMap<u64, u32>,
    /// Conditional branches that go the other way.
    flipped: FxHashSet<u64>,
    displaced: FxHashMap<u64, Displacement>,
    /// Code whose execution is logged, sorted.
    pub(crate) observed: Vec<(u64, u64)>,
    pub(crate) stats: Stats,
    pub(crate) dispositions: Dispositions,
    pub(crate) threads: Threads,
    /// Instructions that the scheduler is interested in, while recording.
    pub(crate) hunt: Option<Hunt>,
    /// Room for the instructions of the next superblock.
    room: Vec<Insn>,
    /// What each lane of the step counter was given, and how much of it was used the last time
    /// that one ran out.
    shares: [u64; slot::LANES as usize],
    used: [u64; slot::LANES as usize],
    /// The alternate signal stack of the current thread, as a replay last set it.
    pub(crate) altstack: [u8; 24],
    /// The last fault of the current thread that its handler was told of.
    pub(crate) last_fault: LastFault,
    /// Changes whenever guest code that was translated has changed.
    pub(crate) epoch: u64,
    /// The guest believes that it blocks SIGTRAP.
    pub(crate) trap_blocked: bool,
    /// The step of the last indirect branch that the engine has seen.
    pub(crate) last_branch: Option<u64>,
    tape: self::tape::Tape,
    /// Answers that the guest's calls may take.
    pub(crate) offers: crate::offers::Offers,
    /// How far the tape knows of calls run on the spot, if it has to.
    pub(crate) spots: Option<crate::spots::Told>,
}

/// What a checkpoint keeps of the engine.
#[derive(Clone)]
pub(crate) struct Kept {
    regs: UserRegs,
    dispositions: Dispositions,
    trap_blocked: bool,
    last_branch: Option<u64>,
    protected: FxHashMap<u64, Protection>,
    regions: usize,
    epoch: u64,
    threads: Threads,
    page: u64,
    altstack: [u8; 24],
    last_fault: LastFault,
}

struct Fetcher<'a> {
    code: &'a mut CodeBytes,
    maps: &'a Maps,
    memory: &'a Memory,
    protected: &'a FxHashMap<u64, Protection>,
    aliases: &'a Aliases,
}

impl<'a> Fetcher<'a> {
    fn new(
        code: &'a mut CodeBytes,
        maps: &'a Maps,
        memory: &'a Memory,
        protected: &'a FxHashMap<u64, Protection>,
        aliases: &'a Aliases,
    ) -> Self {
        for page in std::mem::take(&mut code.unguarded) {
            if !protected.contains_key(&page) {
                code.pages.remove(&page);
            }
        }
        Fetcher {
            code,
            maps,
            memory,
            protected,
            aliases,
        }
    }

    fn page(&mut self, page: u64) -> bool {
        if self.code.pages.contains_key(&page) {
            return true;
        }
        let addr = page << 12;
        let Some(m) = self.maps.find(addr).filter(|m| m.protection.execute) else {
            return false;
        };
        let mut bytes = Box::new([0; 4096]);
        if self.memory.read(addr, &mut bytes[..]) != 4096 {
            return false;
        }
        if m.protection.write && !self.protected.contains_key(&page) || self.aliases.expose(page) {
            self.code.unguarded.push(page);
        }
        self.code.pages.insert(page, bytes);
        true
    }
}

impl Fetch for Fetcher<'_> {
    fn fetch(&mut self, pc: u64) -> &[u8] {
        let page = pc >> 12;
        if pc >> 47 != 0 || !self.page(page) {
            return &[];
        }
        let offset = (pc & 4095) as usize;
        if offset <= 4096 - 128 {
            return &self.code.pages[&page][offset..];
        }
        // Near its end a page is continued by the next, for instructions that cross.
        self.page(page + 1);
        let window = &mut self.code.window;
        window.clear();
        window.extend_from_slice(&self.code.pages[&page][offset..]);
        if let Some(next) = self.code.pages.get(&(page + 1)) {
            window.extend_from_slice(&next[..128]);
        }
        window
    }

    fn constant(&mut self, addr: u64) -> Option<u64> {
        let (page, offset) = (addr >> 12, (addr & 4095) as usize);
        let overlaps = |w: &(u64, u64)| w.0 < addr + 8 && addr < w.1;
        if self.code.watched.iter().any(overlaps) {
            return None;
        }
        if !self.code.constants.has(page) {
            let m = self.maps.find(addr)?;
            if !is_constant(m) || self.protected.contains_key(&page) {
                return None;
            }
            let mut bytes = Box::new([0; 4096]);
            if self.memory.read(page << 12, &mut bytes[..]) != 4096 {
                return None;
            }
            self.code.constants.pages.insert(page, bytes);
            self.code.constants.version += 1;
        }
        let word = self.code.constants.pages[&page].get(offset..offset + 8)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }
}

/// The guest cannot write there, nor can anybody else.
fn is_constant(m: &Mapping) -> bool {
    m.is_file() && !m.shared && m.protection.read && !m.protection.write
}

impl Engine {
    pub(crate) fn new(tracee: Tracee, layout: Layout, regs: UserRegs) -> Result<Self, Error> {
        Ok(Engine {
            tracee,
            page: layout.thread(0),
            memory: Memory::of(tracee.0),
            cache: Cache::new(layout)?,
            maps: Maps::default(),
            maps_stale: true,
            space: 0,
            code: CodeBytes {
                pages: FxHashMap::default(),
                unguarded: Vec::new(),
                constants: Constants::default(),
                watched: Vec::new(),
                window: Vec::new(),
            },
            aliases: Aliases::default(),
            protected: FxHashMap::default(),
            regs,
            pending: VecDeque::new(),
            can_deliver: false,
            asked: false,
            armed: FxHashMap::default(),
            flipped: FxHashSet::default(),
            displaced: FxHashMap::default(),
            observed: Vec::new(),
            stats: Stats::default(),
            dispositions: Dispositions::inherited(tracee.0),
            threads: Threads::new(tracee.0, 0),
            hunt: None,
            room: Vec::new(),
            shares: [1; slot::LANES as usize],
            used: [1; slot::LANES as usize],
            altstack: DISABLED_STACK,
            last_fault: LastFault::default(),
            epoch: 0,
            trap_blocked: false,
            last_branch: None,
            tape: self::tape::Tape::default(),
            offers: crate::offers::Offers::default(),
            spots: None,
        })
    }

    // ---- checkpoints ---------------------------------------------------------------------------

    pub(crate) fn keep(&self) -> Kept {
        Kept {
            regs: self.regs,
            dispositions: self.dispositions.clone(),
            trap_blocked: self.trap_blocked,
            last_branch: self.last_branch,
            protected: self.protected.clone(),
            regions: self.cache.regions.len(),
            epoch: self.epoch,
            threads: self.threads.clone(),
            page: self.page,
            altstack: self.altstack,
            last_fault: self.last_fault,
        }
    }

    /// Takes the state of a checkpoint; the process has been exchanged already. Translated code
    /// stays unless the guest's code has changed in between.
    pub(crate) fn restore(&mut self, kept: &Kept) {
        self.restore_same_space(kept);
        self.aliases.forget();
        self.space_changed();
    }

    /// The same, the address space being as it was when the state was kept.
    pub(crate) fn restore_same_space(&mut self, kept: &Kept) {
        self.regs = kept.regs;
        self.dispositions = kept.dispositions.clone();
        self.trap_blocked = kept.trap_blocked;
        self.last_branch = kept.last_branch;
        self.threads = kept.threads.clone();
        self.page = kept.page;
        self.altstack = kept.altstack;
        self.last_fault = kept.last_fault;
        self.pending.clear();
        if self.epoch != kept.epoch || self.protected != kept.protected {
            self.cache.clear();
            self.code.pages.clear();
            self.code.constants.retain(|_, _| false);
            self.epoch += 1;
        }
        if self.protected != kept.protected {
            self.protected = kept.protected.clone();
        }
    }

    /// The process has been exchanged for an earlier or later one: what translated code takes as constant may not
    /// have been settled there.
    pub(crate) fn check_constants(&mut self) -> Result<(), Error> {
        if self.code.constants.pages.is_empty() {
            return Ok(());
        }
        self.refresh_maps()?;
        let mut constants = std::mem::take(&mut self.code.constants);
        let mut now = [0; 4096];
        constants.retain(|page, bytes| {
            let at = page << 12;
            let holds = self.maps.find(at).is_some_and(is_constant)
                && self.memory.read(at, &mut now) == 4096
                && *bytes == now;
            if !holds {
                // What else was translated is right in both, so this is no other epoch.
                self.cache.retire(at, at + 4096);
            }
            holds
        });
        self.code.constants = constants;
        Ok(())
    }

    /// Has all reads of these ranges be carried out.
    pub(crate) fn watch_reads(&mut self, ranges: Vec<(u64, u64)>) {
        for &(start, end) in &ranges {
            self.cache.retire(start, end);
        }
        self.code.watched = ranges;
    }

    /// Something is mapped that was not, or is not any more.
    pub(crate) fn space_changed(&mut self) {
        self.maps_stale = true;
        self.space += 1;
    }

    /// Regions added since the checkpoint are not in its address space yet.
    pub(crate) fn map_missing_regions(&mut self, kept: &Kept) -> Result<(), Error> {
        for index in kept.regions..self.cache.regions.len() {
            let base = self.cache.regions[index].base;
            let fd = self.open_cache()?;
            self.map_region(base, index, fd)?;
            self.inject(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    // ---- the thread's page -------------------------------------------------------------------

    pub(crate) fn slot(&self, offset: u32) -> Result<u64, Error> {
        self.memory
            .read_u64(self.page + u64::from(offset))
            .map_err(|_| Error::Lost)
    }

    pub(crate) fn set_slot(&mut self, offset: u32, value: u64) -> Result<(), Error> {
        self.memory
            .write_u64(self.page + u64::from(offset), value)
            .map_err(|_| Error::Lost)
    }

    /// The countdowns of all stops, eight bytes each.
    pub(crate) fn countdowns(&self) -> Result<Vec<u8>, Error> {
        let mut words = vec![0; slot::MAX_STOPS as usize * 8];
        self.memory
            .read_exact(self.page + u64::from(slot::STOPS), &mut words)
            .map_err(|_| Error::Lost)?;
        Ok(words)
    }

    /// Sets some of them, from a byte on.
    pub(crate) fn set_countdowns(&mut self, from: usize, words: &[u8]) -> Result<(), Error> {
        self.memory
            .write(self.page + u64::from(slot::STOPS) + from as u64, words)
            .map_err(|_| Error::Lost)
    }

    /// Instructions executed since the guest began.
    pub(crate) fn step(&self) -> Result<u64, Error> {
        let mut b = [0; COUNTERS];
        self.memory
            .read_exact(self.page + u64::from(slot::COUNT), &mut b)
            .map_err(|_| Error::Lost)?;
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
        Ok(b.chunks_exact(8)
            .fold(0, |sum, b| sum.wrapping_add(word(b))))
    }

    /// Sets the step count, and how many steps may pass before the guest stops. It stops earlier
    /// when one of the lanes has used up its share. The shares are as the lanes were used last, so
    /// that this is seldom much earlier, also in a loop that uses one lane only.
    fn set_step(&mut self, step: u64, budget: u64) -> Result<(), Error> {
        let used: u64 = self.used.iter().sum();
        // Every lane has some, or its first use would be a stop.
        let floor = budget / LEAST_SHARE;
        let rest = budget - floor * u64::from(slot::LANES);
        let mut b = [0; COUNTERS];
        let (lanes, base) = b.split_at_mut(COUNTERS - 8);
        let mut sum = 0u64;
        for ((lane, share), used_here) in lanes
            .chunks_exact_mut(8)
            .zip(&mut self.shares)
            .zip(self.used)
        {
            let part = u128::from(rest) * u128::from(used_here) / u128::from(used.max(1));
            *share = (floor + part as u64).max(1);
            sum = sum.wrapping_add(*share);
            lane.copy_from_slice(&share.wrapping_neg().to_le_bytes());
        }
        base.copy_from_slice(&step.wrapping_add(sum).to_le_bytes());
        self.memory
            .write(self.page + u64::from(slot::COUNT), &b)
            .map_err(|_| Error::Lost)
    }

    /// Looks how much of each lane's share was used, for the next time. The count.
    fn note_use(&mut self) -> Result<u64, Error> {
        let mut b = [0; COUNTERS];
        self.memory
            .read_exact(self.page + u64::from(slot::COUNT), &mut b)
            .map_err(|_| Error::Lost)?;
        let word = |b: &[u8]| i64::from_le_bytes(b.try_into().expect("eight bytes"));
        for ((used, lane), share) in self.used.iter_mut().zip(b.chunks_exact(8)).zip(self.shares) {
            let lane = word(lane);
            // One that ran out is at zero, or a superblock beyond. One that got more corrections than counts is
            // below where it began.
            let left = lane.min(0).unsigned_abs();
            *used = 1 + share.saturating_sub(left);
        }
        let all = b.chunks_exact(8);
        Ok(all.fold(0, |sum, b| sum.wrapping_add(word(b) as u64)))
    }

    pub(crate) fn reset_step(&mut self, step: u64) -> Result<(), Error> {
        self.set_step(step, NO_LIMIT)
    }

    pub(crate) fn add_steps(&mut self, n: u64) -> Result<(), Error> {
        let step = self.step()?;
        self.set_step(step + n, NO_LIMIT)
    }

    // ---- address space -----------------------------------------------------------------------

    pub(crate) fn refresh_maps(&mut self) -> Result<(), Error> {
        if self.maps_stale {
            self.maps = Maps::of(self.tracee.0)?;
            // What the engine took away from the guest's protections is put back in the picture.
            for m in &mut self.maps.list {
                if self.protected.range_has(m.start, m.end) {
                    m.protection.write = true;
                }
            }
            self.maps_stale = false;
            self.aliases.see(&self.maps);
        }
        Ok(())
    }

    /// The guest changed its address space in this range.
    pub(crate) fn changed(&mut self, start: u64, end: u64) {
        self.space_changed();
        if self.cache.retire(start, end) {
            self.epoch += 1;
        }
        let outside = |p: u64| p < start >> 12 || p > (end.max(1) - 1) >> 12;
        self.code.pages.retain(|&p, _| outside(p));
        self.code.constants.retain(|p, _| outside(p));
        self.protected.retain(|&p, _| outside(p));
    }

    pub(crate) fn changed_everything(&mut self) {
        self.space_changed();
        self.epoch += 1;
        self.cache.clear();
        self.code.pages.clear();
        self.code.constants.retain(|_, _| false);
        self.protected.clear();
        self.aliases.forget();
    }

    /// Carries out a system call in the guest's name and returns its result. Signals that arrive
    /// meanwhile become pending.
    pub(crate) fn inject(&mut self, nr: i64, args: [u64; 6]) -> Result<i64, Error> {
        let gadget = self.cache.regions[0].labels.gadget;
        self.inject_at(gadget, nr, args)
    }

    pub(crate) fn inject_at(&mut self, gadget: u64, nr: i64, args: [u64; 6]) -> Result<i64, Error> {
        let mut regs = self.regs;
        regs.rip = gadget;
        regs.orig_rax = u64::MAX;
        regs.rax = nr as u64;
        (regs.rdi, regs.rsi, regs.rdx) = (args[0], args[1], args[2]);
        (regs.r10, regs.r8, regs.r9) = (args[3], args[4], args[5]);
        self.tracee.set_regs(&regs)?;
        loop {
            self.tracee.resume(Resume::Run)?;
            self.stats.stops += 1;
            match self.tracee.wait()? {
                Wait::Signal(libc::SIGTRAP) => {
                    let after = self.tracee.regs()?;
                    if after.rip == gadget + 3 {
                        self.can_deliver = true;
                        return Ok(after.rax as i64);
                    }
                    self.note_signal(libc::SIGTRAP)?;
                }
                Wait::Signal(sig) => self.note_signal(sig)?,
                Wait::Event(_) => {}
                Wait::Group(_) => {}
                Wait::Exited(_) | Wait::Killed(_) => return Err(Error::Lost),
            }
        }
    }

    pub(crate) fn note_signal(&mut self, signal: i32) -> Result<(), Error> {
        let info = self.tracee.siginfo()?;
        self.pending.push_back(Pending { signal, info });
        Ok(())
    }

    pub(crate) fn protect(&mut self, page: u64, protection: Protection) -> Result<(), Error> {
        let r = self.inject(
            libc::SYS_mprotect,
            [page << 12, 4096, protection.bits(), 0, 0, 0],
        )?;
        if r < 0 {
            Err(Error::Internal(format!(
                "mprotect of page {page:#x} failed: {r}"
            )))
        } else {
            Ok(())
        }
    }

    /// Gives every page that was write-protected back its guest protection.
    pub(crate) fn unprotect_all(&mut self) -> Result<(), Error> {
        for (page, p) in std::mem::take(&mut self.protected) {
            self.protect(page, p)?;
        }
        Ok(())
    }

    /// Writes guest memory as the kernel does for a system call.
    pub(crate) fn put(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.tape_write(addr, bytes.len() as u64);
        self.put_untold(addr, bytes)
    }

    /// The same, the tape knowing of it already.
    pub(crate) fn put_untold(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        if !self.protected.is_empty() {
            for page in addr >> 12..=(addr + bytes.len() as u64 - 1) >> 12 {
                self.release_page(page)?;
            }
        }
        self.memory.write(addr, bytes)
    }

    /// Makes `page` writable again because the guest (or the kernel in its name) writes to it.
    pub(crate) fn release_page(&mut self, page: u64) -> Result<bool, Error> {
        let Some(p) = self.protected.remove(&page) else {
            return Ok(false);
        };
        self.protect(page, p)?;
        self.cache.retire(page << 12, (page + 1) << 12);
        self.epoch += 1;
        self.code.pages.remove(&page);
        self.stats.code_changes += 1;
        self.retire_views(page)?;
        Ok(true)
    }

    pub(crate) fn add_region(&mut self, base: u64) -> Result<(), Error> {
        let index = self.cache.regions.len();
        let fd = self.open_cache()?;
        self.map_region(base, index, fd)?;
        self.inject(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        self.cache.add_region(base);
        Ok(())
    }

    fn open_cache(&mut self) -> Result<u64, Error> {
        let path = format!("/proc/{}/fd/{}\0", std::process::id(), self.cache.fd());
        let scratch = self.page + u64::from(slot::SCRATCH);
        self.memory.write(scratch, path.as_bytes())?;
        let at_fdcwd = libc::AT_FDCWD as u64;
        let fd = self.inject(
            libc::SYS_openat,
            [
                at_fdcwd,
                scratch,
                (libc::O_RDWR | libc::O_CLOEXEC) as u64,
                0,
                0,
                0,
            ],
        )?;
        if fd < 0 {
            return Err(Error::Internal(format!(
                "the guest cannot open the code cache: {fd}"
            )));
        }
        Ok(fd as u64)
    }

    fn map_region(&mut self, base: u64, index: usize, fd: u64) -> Result<(), Error> {
        let flags = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
        let prot = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let r = self.inject(
            libc::SYS_mmap,
            [
                base,
                REGION_SIZE,
                prot,
                flags,
                fd,
                Cache::region_offset(index),
            ],
        )?;
        self.space_changed();
        if r as u64 != base {
            return Err(Error::Internal(format!(
                "no place for a code region at {base:#x}: {r}"
            )));
        }
        Ok(())
    }

    /// The engine's own parts of the address space.
    pub(crate) fn owns(&self, start: u64, end: u64) -> bool {
        let layout = self.cache.layout;
        let hit = |a: u64, b: u64| start < b && end > a;
        hit(layout.base, layout.first_region())
            || self
                .cache
                .regions
                .iter()
                .any(|r| hit(r.base, r.base + REGION_SIZE))
    }
}

/// The signal was raised by the instruction itself, not sent.
fn is_fault(signal: i32, info: &[u8; 128]) -> bool {
    let code = i32::from_le_bytes(info[8..12].try_into().expect("four bytes"));
    code > 0
        && matches!(
            signal,
            libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP
        )
}

/// A general register by its hardware number.
pub fn register_mut(regs: &mut UserRegs, n: u8) -> &mut u64 {
    match n {
        0 => &mut regs.rax,
        1 => &mut regs.rcx,
        2 => &mut regs.rdx,
        3 => &mut regs.rbx,
        4 => &mut regs.rsp,
        5 => &mut regs.rbp,
        6 => &mut regs.rsi,
        7 => &mut regs.rdi,
        8 => &mut regs.r8,
        9 => &mut regs.r9,
        10 => &mut regs.r10,
        11 => &mut regs.r11,
        12 => &mut regs.r12,
        13 => &mut regs.r13,
        14 => &mut regs.r14,
        _ => &mut regs.r15,
    }
}

trait PageRange {
    fn range_has(&self, start: u64, end: u64) -> bool;
}

impl PageRange for FxHashMap<u64, Protection> {
    fn range_has(&self, start: u64, end: u64) -> bool {
        self.keys().any(|&p| p >= start >> 12 && p < end >> 12)
    }
}
