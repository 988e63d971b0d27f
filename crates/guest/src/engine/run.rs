//! Running translated code, and what its stops mean.

use super::tape::Cursor;
use super::*;

/// Times that the budget is filled up in a row, while nobody looks whether the run is to be ended.
const MOST_REFILLS: u32 = 64;

impl Engine {
    /// Runs from the present boundary. With a goal, stops exactly there at the latest.
    pub(crate) fn go(&mut self, goal: Option<u64>) -> Result<Stop, Error> {
        let stop = self.go_on(goal)?;
        // Left standing, it would send every later call to the tracer.
        if std::mem::take(&mut self.asked) && !matches!(stop, Stop::Ended(_)) {
            self.set_slot(slot::PREEMPT, 0)?;
        }
        Ok(stop)
    }

    fn go_on(&mut self, goal: Option<u64>) -> Result<Stop, Error> {
        // Each time that the guest writes to a page that code was translated from, it begins anew; code on the
        // stack brings that about millions of times.
        loop {
            if let Some(stop) = self.go_on_unreleased(goal)? {
                return Ok(stop);
            }
        }
    }

    /// The same until a page had to be released: `None` then.
    fn go_on_unreleased(&mut self, goal: Option<u64>) -> Result<Option<Stop>, Error> {
        let room = self.turn_tape()?;
        if let Some(goal) = goal {
            let step = self.step()?;
            if step >= goal {
                return Ok(Some(Stop::Boundary));
            }
            if goal - step <= NEAR {
                return self.approach(goal).map(Some);
            }
            let budget = goal - step - (MAX_INSNS as u64 + u64::from(MOST_BLIND));
            self.set_step(step, budget.min(room))?;
        } else if room < NO_LIMIT {
            let step = self.step()?;
            self.set_step(step, room)?;
        }
        let Some(id) = self.block_at(self.regs.rip, false)? else {
            return Ok(Some(Stop::NoCode));
        };
        if self.has_new_sites() {
            return Ok(Some(Stop::Boundary));
        }
        let mut host = self.cache.block(id).entry;
        loop {
            self.enter(host)?;
            let mut wait = self.wait_in_cache()?;
            for _ in 0..MOST_REFILLS {
                if wait != Wait::Signal(libc::SIGTRAP) || !self.refill(goal)? {
                    break;
                }
                wait = self.wait_in_cache()?;
            }
            let Wait::Signal(signal) = wait else {
                return Ok(Some(Stop::Ended(wait)));
            };
            let at = self.regs.rip.wrapping_sub(1);
            if signal == libc::SIGTRAP
                && let Some(region) = self.cache.region_of(at)
            {
                let labels = self.cache.regions[region].labels;
                self.take_cursor_at(at)?;
                if at == labels.miss_stop {
                    let target = self.regs.rcx;
                    self.restore_pair()?;
                    self.regs.rip = target;
                    self.stats.indirect_misses += 1;
                    let Some(id) = self.block_at(target, true)? else {
                        self.last_branch = self.step()?.checked_sub(1);
                        return Ok(Some(Stop::NoCode));
                    };
                    self.cache.make_indirect(id);
                    if self.has_new_sites() {
                        return Ok(Some(Stop::Boundary));
                    }
                    host = self.cache.block(id).entry;
                    continue;
                }
                if at == labels.syscall_stop {
                    self.regs.rip = self.regs.rcx.wrapping_sub(2);
                    return Ok(Some(Stop::Syscall));
                }
                if at == labels.syscall_done_stop {
                    self.regs.rip = self.regs.rcx;
                    return Ok(Some(Stop::Boundary));
                }
                if let Some((id, point)) = self.cache.point_at(at) {
                    match *point {
                        Point::Exit { target, .. } => {
                            self.regs.rip = target;
                            self.stats.exits += 1;
                            let generation = self.cache.generation;
                            let Some(to) = self.block_at(target, false)? else {
                                self.last_branch = None;
                                return Ok(Some(Stop::NoCode));
                            };
                            // Translating may have emptied the cache, and the exit with it.
                            if self.cache.generation == generation {
                                self.cache.link(id, to);
                            }
                            if self.has_new_sites() {
                                return Ok(Some(Stop::Boundary));
                            }
                            host = self.cache.block(to).entry;
                            continue;
                        }
                        Point::Budget {
                            pc,
                            uncounted,
                            blind,
                            saved,
                            open,
                            ..
                        } => {
                            self.take_back(saved)?;
                            if let Some((index, _)) = open {
                                let block = self.cache.owner(id);
                                self.cut_record(index, block)?;
                            }
                            return self.out_of_budget(pc, uncounted, blind, goal).map(Some);
                        }
                        Point::Special { pc, uncounted } => {
                            debug_assert_eq!(uncounted, 0);
                            self.regs.rip = pc;
                            return Ok(Some(Stop::Special));
                        }
                        Point::Armed { pc } => {
                            self.regs.rip = pc;
                            return Ok(Some(Stop::Armed));
                        }
                        Point::Bound { .. } | Point::BoundIndirect { .. } => {
                            return Err(Error::Internal(format!("stopped at {point:?}")));
                        }
                    }
                }
            }
            match self.signal_in_cache(signal)? {
                Some(stop) => return Ok(Some(stop)),
                None => {
                    // The page was released; the instruction is retried by itself.
                    match self.past_armed(1)? {
                        Stop::Boundary => {}
                        stop => return Ok(Some(stop)),
                    }
                    if !self.pending.is_empty() {
                        return Ok(Some(Stop::Boundary));
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// Takes the guest back to the moment before the system call that it has stopped for.
    pub(crate) fn before_call(&mut self) -> Result<(), Error> {
        self.regs.rcx = self.slot(slot::RCX)?;
        self.regs.r11 = self.slot(slot::ANY)?;
        let step = self.step()?;
        self.reset_step(step - 1)
    }

    pub(super) fn out_of_budget(
        &mut self,
        pc: u64,
        uncounted: i32,
        blind: u8,
        goal: Option<u64>,
    ) -> Result<Stop, Error> {
        self.regs.rip = pc;
        let step = self.step()?.wrapping_add_signed(i64::from(uncounted));
        self.note_use()?;
        self.reset_step(step)?;
        if blind == 0 {
            // A stop armed here has been counted down on the way in, though the guest has not passed
            // it. On a way out (nothing uncounted) its target has not been entered.
            if uncounted != 0
                && let Some(&n) = self.armed.get(&pc)
            {
                let left = self.slot(slot::STOPS + n * 8)?;
                self.set_slot(slot::STOPS + n * 8, left.wrapping_add(1))?;
            }
        } else {
            // The flags are about to be recomputed; a little further on, they are the guest's.
            match self.past_armed(u64::from(blind))? {
                Stop::Boundary => {}
                stop => return Ok(stop),
            }
        }
        match goal {
            Some(goal) if self.pending.is_empty() && goal.saturating_sub(self.step()?) <= NEAR => {
                self.approach(goal)
            }
            _ => Ok(Stop::Boundary),
        }
    }

    /// Goes the last few steps to `goal`.
    pub(super) fn approach(&mut self, goal: u64) -> Result<Stop, Error> {
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

    /// Has executions of `pc` counted down in slot `n`, which has to be set.
    pub(crate) fn arm(&mut self, pc: u64, n: u32) {
        if self.armed.insert(pc, n) != Some(n) {
            self.cache.retire(pc, pc + 1);
        }
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

    /// Makes exactly these branches go the other way.
    pub(crate) fn set_flipped(&mut self, wanted: FxHashSet<u64>) {
        let old = std::mem::replace(&mut self.flipped, wanted);
        let changed: Vec<u64> = old.symmetric_difference(&self.flipped).copied().collect();
        for pc in changed {
            self.cache.retire(pc, pc + 1);
        }
    }

    /// Has exactly these instructions refer to other addresses.
    pub(crate) fn set_displaced(&mut self, wanted: FxHashMap<u64, Displacement>) {
        let old = std::mem::replace(&mut self.displaced, wanted);
        let now = &self.displaced;
        let all = old.keys().chain(now.keys());
        let changed: FxHashSet<u64> = all
            .filter(|pc| old.get(pc) != now.get(pc))
            .copied()
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
    pub(super) fn count_armed(&mut self) -> Result<bool, Error> {
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
        self.turn_tape()?;
        self.refresh_maps()?;
        let pc = self.regs.rip;
        let limit = (limit as usize).clamp(1, self.longest());
        let mut block = {
            let mut fetcher = Fetcher::new(
                &mut self.code,
                &self.maps,
                &self.memory,
                &self.protected,
                &self.aliases,
            );
            let armed = &self.armed;
            decode(pc, limit, Vec::new(), &mut fetcher, &|at| {
                armed.contains_key(&at)
            })
        };
        block.flip(&self.flipped);
        block.displace(&self.displaced);
        block.observe(&self.observed);
        if let Some(entries) = self.probed() {
            block.probe(entries);
        }
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
            tape: self.next_shape(),
        };
        let mut t = translate(&block, request);
        self.add_taped(t.taped.take(), None);
        let host = self.cache.place_bounded(region, t);
        self.stats.bounded_runs += 1;
        self.enter(host)?;
        let wait = self.wait_in_cache()?;
        let Wait::Signal(signal) = wait else {
            return Ok(Stop::Ended(wait));
        };
        let at = self.regs.rip.wrapping_sub(1);
        if signal == libc::SIGTRAP
            && let Some((_, point)) = self.cache.point_at(at)
        {
            let point = point.clone();
            self.take_cursor_at(at)?;
            match point {
                Point::Bound { pc, executed } => {
                    self.regs.rip = pc;
                    self.add_steps(u64::from(executed))?;
                    return Ok(Stop::Boundary);
                }
                Point::BoundIndirect { executed } => {
                    let target = self.regs.rcx;
                    self.restore_pair()?;
                    self.regs.rip = target;
                    self.add_steps(u64::from(executed))?;
                    self.last_branch = self.step()?.checked_sub(1);
                    return Ok(Stop::Boundary);
                }
                other => {
                    return Err(Error::Internal(format!("bounded run stopped at {other:?}")));
                }
            }
        }
        match self.signal_in_cache(signal)? {
            Some(stop) => Ok(stop),
            None => self.past_armed(1),
        }
    }

    /// Flags that nothing reads any more may be those of the counting. They are shown as zero, and
    /// so in every run: what counts where depends on how the guest came here.
    fn forget_dead_flags(&mut self) {
        let mut fetcher = Fetcher::new(
            &mut self.code,
            &self.maps,
            &self.memory,
            &self.protected,
            &self.aliases,
        );
        if until_flags_set(self.regs.rip, &mut fetcher, &|_| false).0 > 0 {
            self.regs.eflags &= !ARITHMETIC_FLAGS;
        }
    }

    /// Takes registers back from the slots in which they are.
    fn take_back(&mut self, saved: Saved) -> Result<(), Error> {
        // First: where it is rcx or rdx, and that waits in its own slot, this one holds nothing.
        if let Some(gpr) = saved.any() {
            let value = self.slot(slot::ANY)?;
            *register_mut(&mut self.regs, gpr.0) = value;
        }
        if saved.rcx() {
            self.regs.rcx = self.slot(slot::RCX)?;
        }
        if saved.rdx() {
            self.regs.rdx = self.slot(slot::RDX)?;
        }
        Ok(())
    }

    pub(super) fn restore_pair(&mut self) -> Result<(), Error> {
        let mut b = [0; 16];
        self.memory
            .read_exact(self.page + u64::from(slot::RCX), &mut b)
            .map_err(|_| Error::Lost)?;
        self.regs.rcx = u64::from_le_bytes(b[..8].try_into().expect("eight bytes"));
        self.regs.rdx = u64::from_le_bytes(b[8..].try_into().expect("eight bytes"));
        Ok(())
    }

    /// Resumes the process at a host address with the guest's registers.
    pub(super) fn enter(&mut self, host: u64) -> Result<(), Error> {
        let mut regs = self.regs;
        regs.rip = host;
        regs.orig_rax = u64::MAX;
        regs.gs_base = self.page;
        self.give_cursor(&mut regs)?;
        self.tracee.set_regs(&regs)?;
        self.tracee.resume(Resume::Run)
    }

    /// Waits for a stop that is not about an asynchronous signal; reads the registers.
    pub(super) fn wait_in_cache(&mut self) -> Result<Wait, Error> {
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
                        if !self.gives_up_measuring()? {
                            return Ok(wait);
                        }
                        self.tracee.resume(Resume::Run)?;
                        continue;
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

    /// A string that was to be measured cannot be read: that goes on without its length.
    fn gives_up_measuring(&mut self) -> Result<bool, Error> {
        let Some(region) = self.cache.region_of(self.regs.rip) else {
            return Ok(false);
        };
        let places = self.cache.regions[region].labels.measure;
        let measuring = places.contain(self.regs.rip);
        if measuring {
            self.regs.rip = places.failed;
            self.tracee.set_regs(&self.regs)?;
        }
        Ok(measuring)
    }

    pub(super) fn is_stop(&self, host: u64) -> bool {
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
    pub(super) fn interrupted_call(&self) -> bool {
        let in_call = self
            .cache
            .regions
            .iter()
            .any(|r| self.regs.rip == r.labels.syscall_insn + 2);
        in_call && (-516..=-512).contains(&(self.regs.rax as i64))
    }

    /// Sees to it that the guest comes to a boundary soon.
    pub(super) fn ask_to_stop(&mut self) -> Result<(), Error> {
        // Between its load and its store of the counter the guest would undo what is written.
        for _ in 0..64 {
            let rip = self.regs.rip;
            if self.is_stop(rip) {
                // It is about to stop by itself.
                return Ok(());
            }
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
            let mut code = [0; 2];
            self.memory.read(rip, &mut code);
            let pushes_flags = matches!(code, [0x9c, _] | [0x66, 0x9c]);
            self.tracee.single_step()?;
            match self.tracee.wait()? {
                Wait::Signal(libc::SIGTRAP) => {
                    self.regs = self.tracee.regs()?;
                    if pushes_flags {
                        self.hide_trap_flag()?;
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
        self.no_calls_on_the_spot()
    }

    /// Until the next stop, every call is left to the tracer.
    pub(crate) fn no_calls_on_the_spot(&mut self) -> Result<(), Error> {
        self.asked = true;
        self.set_slot(slot::PREEMPT, 1)
    }

    /// The instruction that was single-stepped has pushed the flags, and among them the one by which it was. Whoever
    /// takes them back would stop once more.
    fn hide_trap_flag(&mut self) -> Result<(), Error> {
        let upper = self.regs.rsp.wrapping_add(1);
        let mut byte = [0];
        if self.memory.read(upper, &mut byte) == 1 {
            self.memory.write(upper, &[byte[0] & !1])?;
        }
        Ok(())
    }

    /// A signal raised by translated code. `None`: it was the engine's own doing and is mended.
    pub(super) fn signal_in_cache(&mut self, signal: i32) -> Result<Option<Stop>, Error> {
        if self.interrupted_call() {
            self.take_cursor(Cursor::Parked)?;
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
        self.regs.rip = entry.pc;
        self.take_back(entry.saved)?;
        if self.taping() {
            self.take_cursor(Cursor::In(entry.cursor))?;
            let block = self.cache.block_of(host);
            self.cut_record(entry.index, block)?;
        }
        let step = self.step()?.wrapping_add_signed(i64::from(entry.uncounted));
        if watched {
            return Ok(Some(Stop::Watched { step }));
        }
        self.forget_dead_flags();
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
