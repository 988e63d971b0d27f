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
use crate::maps::{Maps, Protection};
use crate::memory::Memory;
use crate::ptrace::{Resume, Tracee, UserRegs, Wait};
use crate::signals::{Disposition, Dispositions, LastFault};
use crate::threads::Threads;
use crate::translate::{Fetch, MAX_INSNS, Point, Request, decode, translate};
use crate::{Error, Stats};

/// Steps between two looks at the guest when nobody asked for fewer. Any number will do whose
/// negation has a top byte that is not zero.
const NO_LIMIT: u64 = 1 << 60;

/// `stack_t` with SS_DISABLE.
pub(crate) const DISABLED_STACK: [u8; 24] = {
    let mut b = [0; 24];
    b[8] = 2;
    b
};

/// Blocks translated ahead of being reached, per stop.
const AHEAD: usize = 24;

/// Why the guest stopped, in guest terms.
#[derive(Debug)]
pub(crate) enum Stop {
    /// At the step asked for, or at a boundary because something is pending.
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
    window: Vec<u8>,
}

pub(crate) struct Engine {
    pub(crate) tracee: Tracee,
    /// The current thread's page.
    pub(crate) page: u64,
    pub(crate) memory: Memory,
    pub(crate) cache: Cache,
    pub(crate) maps: Maps,
    maps_stale: bool,
    pub(crate) code: CodeBytes,
    pub(crate) aliases: Aliases,
    /// Pages write-protected because their code is translated, with what the guest believes.
    pub(crate) protected: FxHashMap<u64, Protection>,
    pub(crate) regs: UserRegs,
    pub(crate) pending: VecDeque<Pending>,
    /// The last stop was one in which a signal can be given to the guest.
    pub(crate) can_deliver: bool,
    /// Countdown slot of each armed stop, by address.
    pub(crate) armed: FxHashMap<u64, u32>,
    /// Conditional branches that go the other way.
    flipped: FxHashSet<u64>,
    pub(crate) stats: Stats,
    pub(crate) dispositions: Dispositions,
    pub(crate) threads: Threads,
    /// The alternate signal stack of the current thread, as a replay last set it.
    pub(crate) altstack: [u8; 24],
    /// The last fault of the current thread that its handler was told of.
    pub(crate) last_fault: LastFault,
    /// Changes whenever guest code that was translated has changed.
    pub(crate) epoch: u64,
    /// The guest believes that it blocks SIGTRAP.
    pub(crate) trap_blocked: bool,
    /// Source of the last indirect branch that missed.
    pub(crate) last_branch: u64,
}

/// What a checkpoint keeps of the engine.
#[derive(Clone)]
pub(crate) struct Kept {
    regs: UserRegs,
    dispositions: Dispositions,
    trap_blocked: bool,
    last_branch: u64,
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
            code: CodeBytes {
                pages: FxHashMap::default(),
                unguarded: Vec::new(),
                window: Vec::new(),
            },
            aliases: Aliases::default(),
            protected: FxHashMap::default(),
            regs,
            pending: VecDeque::new(),
            can_deliver: false,
            armed: FxHashMap::default(),
            flipped: FxHashSet::default(),
            stats: Stats::default(),
            dispositions: Dispositions::inherited(tracee.0),
            threads: Threads::new(),
            altstack: DISABLED_STACK,
            last_fault: LastFault::default(),
            epoch: 0,
            trap_blocked: false,
            last_branch: 0,
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
    pub(crate) fn restore(&mut self, kept: &Kept) -> Result<(), Error> {
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
            self.epoch += 1;
        }
        self.protected = kept.protected.clone();
        self.aliases.forget();
        self.maps_stale = true;
        Ok(())
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

    /// Instructions executed since the guest began.
    pub(crate) fn step(&self) -> Result<u64, Error> {
        let mut b = [0; 16];
        self.memory
            .read_exact(self.page + u64::from(slot::COUNT), &mut b)
            .map_err(|_| Error::Lost)?;
        let (count, base) = b.split_at(8);
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
        Ok(word(count).wrapping_add(word(base)))
    }

    /// Sets the step count, and how many steps may pass before the guest stops.
    fn set_step(&mut self, step: u64, budget: u64) -> Result<(), Error> {
        let mut b = [0; 16];
        b[..8].copy_from_slice(&budget.wrapping_neg().to_le_bytes());
        b[8..].copy_from_slice(&step.wrapping_add(budget).to_le_bytes());
        self.memory
            .write(self.page + u64::from(slot::COUNT), &b)
            .map_err(|_| Error::Lost)
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
        self.maps_stale = true;
        if self.cache.retire(start, end) {
            self.epoch += 1;
        }
        self.code
            .pages
            .retain(|&p, _| p < start >> 12 || p > (end.max(1) - 1) >> 12);
        self.protected
            .retain(|&p, _| p < start >> 12 || p > (end.max(1) - 1) >> 12);
    }

    pub(crate) fn changed_everything(&mut self) {
        self.maps_stale = true;
        self.epoch += 1;
        self.cache.clear();
        self.code.pages.clear();
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
        self.maps_stale = true;
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

    // ---- translation -------------------------------------------------------------------------

    fn region_for(&mut self, pc: u64) -> Result<usize, Error> {
        if let Some(r) = self.cache.region_near(pc) {
            return Ok(r);
        }
        if self.cache.can_grow() {
            self.refresh_maps()?;
            if let Some(base) = self.maps.gap_near(pc, REGION_SIZE, 0x6000_0000) {
                self.add_region(base)?;
                return Ok(self.cache.regions.len() - 1);
            }
        }
        // No room near: rip-relative operands go through a register instead.
        if let Some(r) = self
            .cache
            .regions
            .iter()
            .position(|r| self.cache.region_near(r.base).is_some())
        {
            return Ok(r);
        }
        self.cache.clear();
        Ok(0)
    }

    fn translate_block(
        &mut self,
        pc: u64,
        prologue: bool,
        ahead: &mut VecDeque<Ahead>,
    ) -> Result<Option<BlockId>, Error> {
        if self.cache.tables_full() {
            self.cache.clear();
        }
        self.refresh_maps()?;
        let mut block = {
            let armed = &self.armed;
            let mut fetcher = Fetcher::new(
                &mut self.code,
                &self.maps,
                &self.memory,
                &self.protected,
                &self.aliases,
            );
            decode(pc, MAX_INSNS, &mut fetcher, &|at| armed.contains_key(&at))
        };
        if block.insns.is_empty() && block.special.is_none() {
            return Ok(None);
        }
        block.flip(&self.flipped);
        self.guard_pages(&block.ranges)?;
        let region = self.region_for(pc)?;
        let request = Request {
            host: self.cache.cursor(region),
            layout: self.cache.layout,
            routines: self.cache.routines(region),
            first_point: self.cache.next_point(),
            prologue,
            armed: self.armed.get(&pc).copied(),
            bounded: false,
        };
        let t = translate(&block, request);
        let sites: Vec<u64> = block.return_sites().collect();
        let id = self.cache.place(region, pc, block.ranges, t, prologue);
        let exits = self.cache.open_exits(id).map(|(exit, target)| Ahead {
            target,
            exit: Some(exit),
        });
        ahead.extend(exits.chain(sites.into_iter().map(|target| Ahead { target, exit: None })));
        Ok(Some(id))
    }

    /// Write-protects pages about to be translated that the guest could change unseen.
    fn guard_pages(&mut self, ranges: &[(u64, u64)]) -> Result<(), Error> {
        for &(a, b) in ranges {
            for page in a >> 12..=(b - 1) >> 12 {
                let Some(m) = self.maps.find(page << 12) else {
                    continue;
                };
                if m.protection.write && !self.protected.contains_key(&page) {
                    let p = m.protection;
                    self.protect(page, Protection { write: false, ..p })?;
                    self.protected.insert(page, p);
                }
                self.guard_views(page)?;
            }
        }
        Ok(())
    }

    /// The block at `pc`, translated if need be together with what it leads to.
    fn block_at(&mut self, pc: u64, prologue: bool) -> Result<Option<BlockId>, Error> {
        if let Some(id) = self.cache.lookup(pc) {
            return Ok(Some(id));
        }
        let mut queue = VecDeque::new();
        let Some(_) = self.translate_block(pc, prologue, &mut queue)? else {
            return Ok(None);
        };
        let generation = self.cache.generation;
        let mut left = AHEAD;
        while let Some(Ahead { target, exit }) = queue.pop_front() {
            let id = match self.cache.lookup(target) {
                Some(id) => id,
                None if left == 0 => continue,
                None => {
                    left -= 1;
                    let Some(id) = self.translate_block(target, exit.is_none(), &mut queue)? else {
                        continue;
                    };
                    id
                }
            };
            if self.cache.generation != generation {
                break;
            }
            match exit {
                Some(exit) => self.cache.link(exit, id),
                None => self.cache.make_indirect(id),
            }
        }
        match self.cache.lookup(pc) {
            Some(id) => Ok(Some(id)),
            None => self.translate_block(pc, prologue, &mut VecDeque::new()),
        }
    }

    // ---- running -----------------------------------------------------------------------------

    /// Runs from the present boundary. With a goal, stops exactly there at the latest.
    pub(crate) fn go(&mut self, goal: Option<u64>) -> Result<Stop, Error> {
        if let Some(goal) = goal {
            let step = self.step()?;
            if step >= goal {
                return Ok(Stop::Boundary);
            }
            if goal - step <= MAX_INSNS as u64 {
                return self.approach(goal);
            }
            self.set_step(step, goal - step - MAX_INSNS as u64)?;
        }
        let Some(id) = self.block_at(self.regs.rip, false)? else {
            return Ok(Stop::NoCode);
        };
        let mut host = self.cache.block(id).entry;
        loop {
            self.enter(host)?;
            let wait = self.wait_in_cache()?;
            let Wait::Signal(signal) = wait else {
                return Ok(Stop::Ended(wait));
            };
            let at = self.regs.rip.wrapping_sub(1);
            if signal == libc::SIGTRAP
                && let Some(region) = self.cache.region_of(at)
            {
                let labels = self.cache.regions[region].labels;
                if at == labels.miss_stop {
                    let target = self.regs.rcx;
                    self.restore_pair()?;
                    self.regs.rip = target;
                    self.stats.indirect_misses += 1;
                    let Some(id) = self.block_at(target, true)? else {
                        self.last_branch = self.branch_source()?;
                        return Ok(Stop::NoCode);
                    };
                    self.cache.make_indirect(id);
                    host = self.cache.block(id).entry;
                    continue;
                }
                if at == labels.syscall_stop {
                    self.regs.rip = self.regs.rcx.wrapping_sub(2);
                    if !self.pending.is_empty() {
                        self.set_slot(slot::PREEMPT, 0)?;
                    }
                    return Ok(Stop::Syscall);
                }
                if at == labels.syscall_done_stop {
                    self.regs.rip = self.regs.rcx;
                    self.set_slot(slot::PREEMPT, 0)?;
                    return Ok(Stop::Boundary);
                }
                if let Some((id, point)) = self.cache.point_at(at) {
                    match *point {
                        Point::Exit { target, .. } => {
                            self.regs.rip = target;
                            self.stats.exits += 1;
                            let generation = self.cache.generation;
                            let Some(to) = self.block_at(target, false)? else {
                                self.last_branch = 0;
                                return Ok(Stop::NoCode);
                            };
                            // Translating may have emptied the cache, and the exit with it.
                            if self.cache.generation == generation {
                                self.cache.link(id, to);
                            }
                            host = self.cache.block(to).entry;
                            continue;
                        }
                        Point::Budget {
                            pc,
                            uncounted,
                            rcx_saved,
                            ..
                        } => {
                            return self.out_of_budget(pc, uncounted, rcx_saved, goal);
                        }
                        Point::Special { pc, uncounted } => {
                            debug_assert_eq!(uncounted, 0);
                            self.regs.rip = pc;
                            return Ok(Stop::Special);
                        }
                        Point::Armed { pc } => {
                            self.regs.rip = pc;
                            return Ok(Stop::Armed);
                        }
                        Point::Branch { .. }
                        | Point::Bound { .. }
                        | Point::BoundIndirect { .. } => {
                            return Err(Error::Internal(format!("stopped at {point:?}")));
                        }
                    }
                }
            }
            match self.signal_in_cache(signal)? {
                Some(stop) => return Ok(stop),
                None => {
                    // The page was released; the instruction is retried by itself.
                    match self.past_armed(1)? {
                        Stop::Boundary => {}
                        stop => return Ok(stop),
                    }
                    if !self.pending.is_empty() {
                        return Ok(Stop::Boundary);
                    }
                    return self.go(goal);
                }
            }
        }
    }

    /// The guest address of the indirect branch that was executed last.
    pub(crate) fn branch_source(&self) -> Result<u64, Error> {
        let id = self.slot(slot::SOURCE)? as u32;
        Ok(match self.cache.points.get(id as usize) {
            Some(&Point::Branch { pc }) => pc,
            _ => 0,
        })
    }

    /// Takes the guest back to the moment before the system call that it has stopped for.
    pub(crate) fn before_call(&mut self) -> Result<(), Error> {
        self.regs.rcx = self.slot(slot::RCX)?;
        self.regs.r11 = self.slot(slot::ANY)?;
        let step = self.step()?;
        self.reset_step(step - 1)
    }

    fn out_of_budget(
        &mut self,
        pc: u64,
        uncounted: i32,
        rcx_saved: bool,
        goal: Option<u64>,
    ) -> Result<Stop, Error> {
        self.regs.rip = pc;
        let step = self.step()?.wrapping_add_signed(i64::from(uncounted));
        self.reset_step(step)?;
        if rcx_saved {
            self.regs.rcx = self.slot(slot::RCX)?;
            // A stop armed here has been counted down on the way in, though the guest has not passed
            // it. On a way out (nothing uncounted) its target has not been entered.
            if uncounted != 0
                && let Some(&n) = self.armed.get(&pc)
            {
                let left = self.slot(slot::STOPS + n * 8)?;
                self.set_slot(slot::STOPS + n * 8, left.wrapping_add(1))?;
            }
        } else {
            // The flags are about to be recomputed; one instruction on, they are the guest's.
            match self.past_armed(1)? {
                Stop::Boundary => {}
                stop => return Ok(stop),
            }
        }
        match goal {
            Some(goal) if self.pending.is_empty() => self.approach(goal),
            _ => Ok(Stop::Boundary),
        }
    }

    /// Goes the last few steps to `goal`.
    fn approach(&mut self, goal: u64) -> Result<Stop, Error> {
        loop {
            let step = self.step()?;
            if step >= goal || !self.pending.is_empty() {
                return Ok(Stop::Boundary);
            }
            match self.bounded(goal - step)? {
                Stop::Boundary => {}
                stop => return Ok(stop),
            }
        }
    }

    /// Arms a stop before the `nth` execution of `pc` from here on, in countdown slot `n`.
    pub(crate) fn arm(&mut self, pc: u64, n: u32, nth: u64) -> Result<(), Error> {
        if self.armed.insert(pc, n) != Some(n) {
            self.cache.retire(pc, pc + 1);
        }
        self.set_slot(slot::STOPS + n * 8, nth)
    }

    pub(crate) fn disarm(&mut self, pc: u64) {
        if self.armed.remove(&pc).is_some() {
            self.cache.retire(pc, pc + 1);
        }
    }

    /// Arms exactly these (address, slot) pairs; the countdowns are in the guest already.
    pub(crate) fn set_armed(&mut self, wanted: &[(u64, u32)]) {
        let wanted: FxHashMap<u64, u32> = wanted.iter().copied().collect();
        let old = std::mem::replace(&mut self.armed, wanted);
        let changed: Vec<u64> = old
            .iter()
            .filter(|(pc, n)| self.armed.get(pc) != Some(n))
            .map(|(&pc, _)| pc)
            .chain(
                self.armed
                    .keys()
                    .copied()
                    .filter(|pc| !old.contains_key(pc)),
            )
            .collect();
        for pc in changed {
            self.cache.retire(pc, pc + 1);
        }
    }

    /// Makes the conditional branch at `pc` go the other way from now on, or not any more.
    pub(crate) fn flip(&mut self, pc: u64, on: bool) {
        if on {
            self.flipped.insert(pc);
        } else {
            self.flipped.remove(&pc);
        }
        self.cache.retire(pc, pc + 1);
    }

    /// Counts the armed stop at the present boundary down; true if it is due.
    fn count_armed(&mut self) -> Result<bool, Error> {
        let Some(&n) = self.armed.get(&self.regs.rip) else {
            return Ok(false);
        };
        let left = self.slot(slot::STOPS + n * 8)?.wrapping_sub(1);
        self.set_slot(slot::STOPS + n * 8, left)?;
        Ok(left == 0)
    }

    /// Runs at most `limit` instructions in a straight line from the present boundary.
    pub(crate) fn bounded(&mut self, limit: u64) -> Result<Stop, Error> {
        if self.count_armed()? {
            return Ok(Stop::Armed);
        }
        self.past_armed(limit)
    }

    /// The same, not minding a stop armed at the present boundary.
    pub(crate) fn past_armed(&mut self, limit: u64) -> Result<Stop, Error> {
        self.refresh_maps()?;
        let pc = self.regs.rip;
        let limit = (limit as usize).clamp(1, MAX_INSNS);
        let mut block = {
            let mut fetcher = Fetcher::new(
                &mut self.code,
                &self.maps,
                &self.memory,
                &self.protected,
                &self.aliases,
            );
            let armed = &self.armed;
            decode(pc, limit, &mut fetcher, &|at| armed.contains_key(&at))
        };
        block.flip(&self.flipped);
        // A system call is the caller's, as is what the tracer must carry out.
        if matches!(
            block.insns.last().map(|i| i.flow),
            Some(crate::translate::Flow::Syscall)
        ) {
            let last = block.insns.pop().expect("just seen");
            if block.insns.is_empty() {
                let next = last.pc + u64::from(last.len);
                self.set_slot(slot::RCX, self.regs.rcx)?;
                self.set_slot(slot::ANY, self.regs.r11)?;
                self.regs.rcx = next;
                self.regs.r11 = self.regs.eflags;
                self.add_steps(1)?;
                return Ok(Stop::Syscall);
            }
            block.end = last.pc;
        }
        if block.insns.is_empty() {
            return Ok(if block.special.is_some() {
                Stop::Special
            } else {
                Stop::NoCode
            });
        }
        // An instruction may rewrite one of those after it.
        if block.insns.len() > 1 {
            self.guard_pages(&block.ranges)?;
        }
        let region = self.region_for(pc)?;
        let request = Request {
            host: self.cache.bounded_at(region),
            layout: self.cache.layout,
            routines: self.cache.routines(region),
            first_point: Cache::first_bounded(),
            prologue: false,
            armed: None,
            bounded: true,
        };
        let t = translate(&block, request);
        let host = self.cache.place_bounded(region, t);
        self.stats.bounded_runs += 1;
        self.enter(host)?;
        loop {
            let wait = self.wait_in_cache()?;
            let Wait::Signal(signal) = wait else {
                return Ok(Stop::Ended(wait));
            };
            let at = self.regs.rip.wrapping_sub(1);
            if signal == libc::SIGTRAP
                && let Some((_, point)) = self.cache.point_at(at)
            {
                match *point {
                    Point::Bound { pc, executed } => {
                        self.regs.rip = pc;
                        self.add_steps(u64::from(executed))?;
                        return Ok(Stop::Boundary);
                    }
                    Point::BoundIndirect { executed } => {
                        let target = self.regs.rcx;
                        self.last_branch = block.insns.last().map_or(0, |i| i.pc);
                        self.restore_pair()?;
                        self.regs.rip = target;
                        self.add_steps(u64::from(executed))?;
                        return Ok(Stop::Boundary);
                    }
                    ref other => {
                        return Err(Error::Internal(format!("bounded run stopped at {other:?}")));
                    }
                }
            }
            match self.signal_in_cache(signal)? {
                Some(stop) => return Ok(stop),
                None => return self.past_armed(1),
            }
        }
    }

    fn restore_pair(&mut self) -> Result<(), Error> {
        let mut b = [0; 16];
        self.memory
            .read_exact(self.page + u64::from(slot::RCX), &mut b)
            .map_err(|_| Error::Lost)?;
        self.regs.rcx = u64::from_le_bytes(b[..8].try_into().expect("eight bytes"));
        self.regs.rdx = u64::from_le_bytes(b[8..].try_into().expect("eight bytes"));
        Ok(())
    }

    /// Resumes the process at a host address with the guest's registers.
    fn enter(&mut self, host: u64) -> Result<(), Error> {
        let mut regs = self.regs;
        regs.rip = host;
        regs.orig_rax = u64::MAX;
        regs.gs_base = self.page;
        self.tracee.set_regs(&regs)?;
        self.tracee.resume(Resume::Run)
    }

    /// Waits for a stop that is not about an asynchronous signal; reads the registers.
    fn wait_in_cache(&mut self) -> Result<Wait, Error> {
        loop {
            let wait = self.tracee.wait()?;
            self.stats.stops += 1;
            match wait {
                Wait::Signal(sig) => {
                    self.regs = self.tracee.regs()?;
                    self.can_deliver = true;
                    if sig == libc::SIGTRAP && self.is_stop(self.regs.rip.wrapping_sub(1)) {
                        return Ok(wait);
                    }
                    let info = self.tracee.siginfo()?;
                    if is_fault(sig, &info) {
                        return Ok(wait);
                    }
                    if self.dispositions.of(sig) == Disposition::Ignore {
                        self.tracee.resume(Resume::Deliver(sig))?;
                        continue;
                    }
                    self.pending.push_back(Pending { signal: sig, info });
                    self.stats.signals += 1;
                    if self.interrupted_call() {
                        return Ok(wait);
                    }
                    self.ask_to_stop()?;
                }
                Wait::Event(_) | Wait::Group(_) => {
                    // Job control: stay stopped until continued.
                    let how = if matches!(wait, Wait::Group(_)) {
                        Resume::Listen
                    } else {
                        Resume::Run
                    };
                    self.tracee.resume(how)?;
                    continue;
                }
                Wait::Exited(_) | Wait::Killed(_) => return Ok(wait),
            }
            self.tracee.resume(Resume::Run)?;
        }
    }

    fn is_stop(&self, host: u64) -> bool {
        let Some(r) = self.cache.region_of(host) else {
            return false;
        };
        let l = self.cache.regions[r].labels;
        host == l.miss_stop
            || host == l.syscall_stop
            || host == l.syscall_done_stop
            || self.cache.point_at(host).is_some()
    }

    /// The process was in a system call run on the spot, and it was cut short.
    fn interrupted_call(&self) -> bool {
        let in_call = self
            .cache
            .regions
            .iter()
            .any(|r| self.regs.rip == r.labels.syscall_insn + 2);
        in_call && (-516..=-512).contains(&(self.regs.rax as i64))
    }

    /// Sees to it that the guest comes to a boundary soon.
    fn ask_to_stop(&mut self) -> Result<(), Error> {
        // Between its load and its store of the counter the guest would undo what is written.
        for _ in 0..64 {
            let rip = self.regs.rip;
            let at_edge = match self.cache.region_of(rip) {
                None => true,
                Some(r) => {
                    let l = self.cache.regions[r].labels;
                    if rip >= l.syscall_saved && rip <= l.syscall_insn {
                        // The call has not been made; it is left to the tracer, after the signal.
                        self.regs.rip = l.syscall_slow;
                        self.tracee.set_regs(&self.regs)?;
                        return Ok(());
                    }
                    let entering = rip >= l.syscall && rip < l.syscall_saved;
                    (rip >= l.miss && rip < l.end && !entering) || self.cache.is_edge(rip)
                }
            };
            if at_edge {
                break;
            }
            self.tracee.single_step()?;
            match self.tracee.wait()? {
                Wait::Signal(libc::SIGTRAP) => {
                    self.regs = self.tracee.regs()?;
                    if self.is_stop(self.regs.rip.wrapping_sub(1)) {
                        // An `int3` was stepped onto and executed; let it happen again.
                        self.regs.rip -= 1;
                        self.tracee.set_regs(&self.regs)?;
                        return Ok(());
                    }
                }
                // A fault comes again when the guest is resumed; another signal is noted.
                Wait::Signal(sig) => {
                    let info = self.tracee.siginfo()?;
                    if is_fault(sig, &info) {
                        break;
                    }
                    self.pending.push_back(Pending { signal: sig, info });
                }
                _ => return Err(Error::Lost),
            }
        }
        let step = self.step()?;
        self.set_step(step, 1)?;
        self.set_slot(slot::PREEMPT, 1)
    }

    /// A signal raised by translated code. `None`: it was the engine's own doing and is mended.
    fn signal_in_cache(&mut self, signal: i32) -> Result<Option<Stop>, Error> {
        if self.interrupted_call() {
            let result = self.regs.rax as i64;
            self.regs.rax = self.slot(slot::NR)?;
            self.regs.rcx = self.slot(slot::NEXT)?;
            self.regs.r11 = self.slot(slot::FLAGS)?;
            self.regs.eflags = self.regs.r11;
            self.regs.rsp = self.slot(slot::RSP)?;
            self.regs.rip = self.regs.rcx.wrapping_sub(2);
            return Ok(Some(Stop::Interrupted(result)));
        }
        let info = self.tracee.siginfo()?;
        // A debug register reports after the fact: the instruction before did it.
        let watched = signal == libc::SIGTRAP;
        let host = if watched {
            self.regs.rip - 1
        } else {
            self.regs.rip
        };
        let entry = match self.cache.state_at(host) {
            None if watched => self.cache.state_at(self.regs.rip),
            entry => entry,
        };
        let Some(entry) = entry else {
            return Err(Error::Internal(format!(
                "signal {signal} at {host:#x}, outside of translated code"
            )));
        };
        let bounded = self.cache.in_bounded(host);
        self.regs.rip = entry.pc;
        if entry.saved.rcx() {
            self.regs.rcx = self.slot(slot::RCX)?;
        }
        if entry.saved.rdx() {
            self.regs.rdx = self.slot(slot::RDX)?;
        }
        if let Some(gpr) = entry.saved.any() {
            let value = self.slot(slot::ANY)?;
            *register_mut(&mut self.regs, gpr.0) = value;
        }
        if entry.saved.dead_flags() && !bounded {
            self.regs.eflags &= !0x8d5;
        }
        let step = self.step()?.wrapping_add_signed(i64::from(entry.uncounted));
        if watched {
            return Ok(Some(Stop::Watched { step }));
        }
        self.reset_step(step)?;
        if signal == libc::SIGSEGV {
            let page = u64::from_le_bytes(info[16..24].try_into().expect("eight bytes")) >> 12;
            if self.release_page(page)? {
                return Ok(None);
            }
        }
        Ok(Some(Stop::Fault { signal, info }))
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
pub(crate) fn register_mut(regs: &mut UserRegs, n: u8) -> &mut u64 {
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
