//! Recording: the guest runs against the real world, and what it learns is written down.

use std::path::{Path, PathBuf};

use abi::{Call, Class, Plan};

use crate::engine::{Engine, Pending, Stop};
use crate::files::Files;
use crate::launch::{self, Launch};
use crate::layout::slot;
use crate::outside::Outside;
use crate::process::Outcome;
use crate::ptrace::{Resume, Tracee, Wait, wait_for};
use crate::recording::{CallEffects, Event, FileRef, Kind, Writer};
use crate::schedule::{QUANTUM, Waiting};
use crate::shared::segment;
use crate::signals::Disposition;
use crate::start::{self, recording_class};
use crate::threads::ThreadId;
use crate::{Crash, End, Error, Stats, special};

/// What a finished recording run tells its caller.
pub struct Recorded {
    pub end: End,
    pub stats: Stats,
    pub notes: Vec<String>,
    /// What the guest knew stored files as, by the path of the copy.
    pub files: std::collections::HashMap<PathBuf, PathBuf>,
}

/// A guest under recording.
pub struct Recorder {
    pub(crate) engine: Engine,
    pub(crate) writer: Writer,
    pub(crate) files: Files,
    /// Stored files by their path in the recording, with the names the guest knew.
    pub(crate) names: std::collections::HashMap<PathBuf, PathBuf>,
    pub(crate) notes: Vec<String>,
    /// Memory that others can write.
    pub(crate) outside: Outside,
    /// What the class table was last made for: guarded code pages, several threads, memory that
    /// others can write.
    pub(crate) classes_for: (bool, bool, bool),
    pub(crate) waiting: Vec<Waiting>,
    /// Where the kernel writes zero when each thread ends.
    pub(crate) clear_tids: Vec<(ThreadId, u64)>,
    /// Process id of the guest: its first thread's.
    pub(crate) leader: i32,
    /// The step at which the turn is passed on.
    pub(crate) turn_step: u64,
    /// The step at which the present turn is over.
    pub(crate) turn_until: u64,
    /// The step at which the guest is looked at next, so that one that is killed has a step to end at.
    beat: u64,
    /// What the guest believes of its CPUs.
    affinity: Vec<u8>,
    on_crash: Option<Box<dyn FnMut(&Crash<'_>)>>,
}

/// What is to be known before a call about what it will do.
pub(crate) struct Prepared {
    plan: Plan,
    /// The new action of a sigaction.
    action: Option<[u8; 32]>,
    /// The guest believed SIGTRAP to be blocked.
    believed: bool,
}

/// Steps that a guest runs by itself at most: about a second.
const HEARTBEAT: u64 = 1 << 31;

/// Restart codes that the kernel keeps to itself.
pub(crate) const ERESTARTSYS: i64 = -512;
pub(crate) const ERESTARTNOINTR: i64 = -513;

impl Recorder {
    /// Starts `launch` and stops it before its first instruction. The folder must exist.
    pub fn start(launch: &Launch, folder: &Path) -> Result<Self, Error> {
        let restore = crate::interrupts::install();
        let affinity = crate::process::affinity();
        crate::process::pin_self();
        let tracee = launch::start(launch, &restore)?;
        crate::interrupts::guest(tracee.0);
        let mut files = Files::of(folder);
        let mut writer = Writer::create(&folder.join("events"))?;
        let (engine, names) = Self::image(tracee, &mut files, &mut writer, 0)?;
        let on_crash = None;
        Ok(Recorder {
            engine,
            writer,
            files,
            names,
            notes: Vec::new(),
            outside: Outside::default(),
            classes_for: (false, false, false),
            waiting: Vec::new(),
            clear_tids: Vec::new(),
            leader: tracee.0,
            turn_step: 0,
            turn_until: 0,
            beat: HEARTBEAT,
            affinity,
            on_crash,
        })
    }

    /// `f` is called when the guest is about to die of a signal, while it can still be looked at.
    pub fn on_crash(&mut self, f: impl FnMut(&Crash<'_>) + 'static) {
        self.on_crash = Some(Box::new(f));
    }

    fn image(
        tracee: Tracee,
        files: &mut Files,
        writer: &mut Writer,
        step: u64,
    ) -> Result<(Engine, std::collections::HashMap<PathBuf, PathBuf>), Error> {
        let setup = |files: &mut Files, writer: &mut Writer| {
            let mut engine = start::move_in(tracee, &|nr| recording_class(nr, false))?;
            engine.hide_vdso()?;
            engine.reset_step(step)?;
            let snapshot = engine.snapshot(files)?;
            let mut names = std::collections::HashMap::new();
            for f in snapshot.pieces.iter().filter_map(|p| p.file.as_ref()) {
                names.insert(files.path(f), known_as(f));
            }
            writer.event(&Event::new(Kind::Image, 0, step, 0, snapshot.encode()))?;
            Ok((engine, names))
        };
        setup(files, writer).inspect_err(|_: &Error| tracee.kill())
    }

    /// Runs the guest to its end.
    pub fn run(mut self) -> Result<Recorded, Error> {
        let end = self.drive();
        match end {
            Ok(end) => {
                let step = self.engine.stats.steps;
                self.writer.event(&Event::new(
                    Kind::End,
                    0,
                    step,
                    end.to_wait_status(),
                    Vec::new(),
                ))?;
                self.writer.finish()?;
                self.engine.stats.translated += self.engine.cache.translated;
                self.engine.stats.recording_bytes = self.writer.bytes;
                Ok(Recorded {
                    end,
                    stats: self.engine.stats.clone(),
                    notes: std::mem::take(&mut self.notes),
                    files: std::mem::take(&mut self.names),
                })
            }
            Err(e) => {
                self.engine.tracee.kill();
                // What was recorded so far stays readable.
                let _ = self.writer.finish();
                Err(e)
            }
        }
    }

    fn drive(&mut self) -> Result<End, Error> {
        loop {
            if let Some(end) = self.deliver_pending()? {
                return Ok(end);
            }
            let several = self.engine.threads.several();
            let goal = Some(if several { self.turn_until } else { self.beat });
            let stop = self.engine.go(goal)?;
            self.drain()?;
            self.choose_classes();
            let end = match stop {
                Stop::Boundary => self.boundary(several)?,
                // A signal that came before the call is handled before it.
                Stop::Syscall if !self.engine.pending.is_empty() => {
                    self.engine.before_call()?;
                    None
                }
                Stop::Syscall => self.syscall()?,
                Stop::Interrupted(code) => {
                    let call = self.engine.call();
                    self.interrupted(&call, None, code)?
                }
                Stop::Special => self.special()?,
                Stop::Fault { signal, info } => self.fault(Pending { signal, info })?,
                Stop::NoCode => {
                    let info = special::no_code_info(&self.engine);
                    self.fault(Pending {
                        signal: libc::SIGSEGV,
                        info,
                    })?
                }
                Stop::Armed | Stop::Watched { .. } => None,
                Stop::Ended(wait) => Some(self.ended(wait)?),
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    pub(crate) fn ended(&mut self, wait: Wait) -> Result<End, Error> {
        match wait {
            Wait::Exited(code) => Ok(End::Exited(code)),
            Wait::Killed(sig) => Ok(End::Killed(sig)),
            _ => Err(Error::Lost),
        }
    }

    /// The guest has come to a boundary, perhaps because its turn is over.
    fn boundary(&mut self, several: bool) -> Result<Option<End>, Error> {
        let step = self.engine.step()?;
        self.engine.stats.steps = step;
        self.beat = self.beat.max(step + HEARTBEAT);
        if several && self.engine.pending.is_empty() && step >= self.turn_until {
            return self.yield_turn();
        }
        Ok(None)
    }

    /// The current thread has had its turn.
    fn yield_turn(&mut self) -> Result<Option<End>, Error> {
        self.turn_step = self.engine.step()?;
        self.turn_until = self.turn_step + QUANTUM;
        self.pass_turn(false)
    }

    /// Moves what the system-call routine has logged to the file.
    fn drain(&mut self) -> Result<(), Error> {
        let ring = self.engine.cache.layout.ring();
        let used = match self.engine.slot(slot::RING_AT) {
            Ok(at) => at - ring,
            // The guest is gone, and with it the mark. What is logged ends where a step is zero.
            Err(_) => self.engine.cache.layout.ring_size(),
        };
        if used == 0 {
            return Ok(());
        }
        let mut bytes = vec![0; used as usize];
        self.engine.cache.read_shared(ring, &mut bytes);
        let word = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().expect("four bytes"));
        let mut i = 0;
        while i + 24 <= bytes.len() && (word(i + 8) | word(i + 12)) != 0 {
            i = (i + 24 + word(i + 4) as usize).next_multiple_of(8);
            self.engine.stats.syscalls += 1;
            self.writer.events += 1;
        }
        bytes.truncate(i);
        self.writer.raw(&bytes)?;
        bytes.fill(0);
        self.engine.cache.write_shared(ring, &bytes);
        match self.engine.set_slot(slot::RING_AT, ring) {
            Err(Error::Lost) | Ok(()) => Ok(()),
            Err(e) => Err(e),
        }
    }

    pub(crate) fn log(
        &mut self,
        kind: Kind,
        nr: u32,
        result: i64,
        payload: Vec<u8>,
    ) -> Result<(), Error> {
        let step = self.engine.step()?;
        self.engine.stats.steps = step;
        self.writer
            .event(&Event::new(kind, nr, step, result, payload))
    }

    // ---- signals -----------------------------------------------------------------------------

    fn deliver_pending(&mut self) -> Result<Option<End>, Error> {
        while let Some(p) = self.engine.pending.pop_front() {
            match self.engine.dispositions.of(p.signal) {
                Disposition::Ignore => {}
                Disposition::Stop => self.job_stop(p.signal)?,
                Disposition::Fatal => return self.die(&p).map(Some),
                Disposition::Handler { .. } => {
                    if let Some(end) = self.handle(&p, None)? {
                        return Ok(Some(end));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Lets the guest's handler for `p` begin. `masks` are (blocked, saved) where they differ.
    fn handle(&mut self, p: &Pending, masks: Option<(u64, u64)>) -> Result<Option<End>, Error> {
        if masks.is_none() {
            self.outside_before_handler()?;
        }
        let payload = special::encode_signal(p, &self.engine.regs, masks);
        self.log(Kind::Signal, p.signal as u32, 0, payload)?;
        match self.engine.deliver(p)? {
            None => Ok(None),
            Some(second) => self.fault(second),
        }
    }

    fn fault(&mut self, mut p: Pending) -> Result<Option<End>, Error> {
        special::fix_fault_address(&mut p, &self.engine.regs);
        let blocked = self.engine.tracee.sigmask()?;
        match self.engine.dispositions.force(p.signal, blocked) {
            Disposition::Handler { .. } => match self.engine.deliver(&p)? {
                None => Ok(None),
                Some(second) => self.fault(second),
            },
            _ => self.die(&p).map(Some),
        }
    }

    /// The signal's default action is death.
    fn die(&mut self, p: &Pending) -> Result<End, Error> {
        self.drain()?;
        self.engine.stats.steps = self.engine.step()?;
        let payload = special::encode_signal(p, &self.engine.regs, None);
        self.log(Kind::Signal, p.signal as u32, 1, payload)?;
        if let Some(mut f) = self.on_crash.take() {
            self.engine.refresh_maps()?;
            f(&Crash::of(&self.engine, p, &self.names));
        }
        self.engine.unprotect_all()?;
        self.engine.make_deliverable()?;
        let tracee = self.engine.tracee;
        let mut regs = self.engine.regs;
        regs.orig_rax = u64::MAX;
        tracee.set_regs(&regs)?;
        tracee.set_siginfo(&p.info)?;
        tracee.resume(Resume::Deliver(p.signal))?;
        self.wait_for_leader()
    }

    /// The whole guest is ending: waits for that, whatever else its threads report.
    fn wait_for_leader(&mut self) -> Result<End, Error> {
        loop {
            let Some((tracee, wait)) = wait_for(-1, libc::__WNOTHREAD)? else {
                continue;
            };
            match wait {
                Wait::Exited(_) | Wait::Killed(_) if tracee.0 == self.leader => {
                    return self.ended(wait);
                }
                Wait::Exited(_) | Wait::Killed(_) => {}
                // A second deadly signal on its way; the first one is enough.
                Wait::Signal(_) if tracee == self.engine.tracee => {
                    tracee.resume(Resume::Deliver(libc::SIGKILL))?
                }
                _ => {
                    let _ = tracee.resume(Resume::Run);
                }
            }
        }
    }

    /// Job control: the guest stops, and the tracer with it, until both are continued.
    fn job_stop(&mut self, signal: i32) -> Result<(), Error> {
        self.engine.make_deliverable()?;
        let tracee = self.engine.tracee;
        let mut regs = self.engine.regs;
        regs.rip = self.engine.cache.regions[0].labels.gadget + 2;
        regs.orig_rax = u64::MAX;
        tracee.set_regs(&regs)?;
        tracee.resume(Resume::Deliver(signal))?;
        loop {
            match tracee.wait()? {
                Wait::Group(_) => {
                    tracee.resume(Resume::Listen)?;
                    crate::interrupts::stop_self();
                }
                Wait::Signal(libc::SIGTRAP) if tracee.regs()?.rip == regs.rip + 1 => break,
                Wait::Signal(libc::SIGCONT) => {
                    self.engine.note_signal(libc::SIGCONT)?;
                    tracee.resume(Resume::Run)?;
                }
                Wait::Signal(sig) => {
                    self.engine.note_signal(sig)?;
                    tracee.resume(Resume::Run)?;
                }
                Wait::Event(_) => tracee.resume(Resume::Run)?,
                wait => {
                    self.ended(wait)?;
                    return Err(Error::Lost);
                }
            }
        }
        self.engine.can_deliver = true;
        Ok(())
    }

    /// A system call was cut short by the signal at the end of the queue, which the process is
    /// about to receive.
    fn interrupted(
        &mut self,
        call: &Call,
        plan: Option<&Plan>,
        code: i64,
    ) -> Result<Option<End>, Error> {
        let p = self.engine.pending.pop_back().ok_or(Error::Lost)?;
        let masks = special::masks(self.engine.tracee)?;
        let mut writes = match plan {
            Some(plan) => self.written(plan, -i64::from(libc::EINTR))?,
            None => Vec::new(),
        };
        writes.extend(self.outside_writes(call, code, None)?);
        let effects = CallEffects {
            args: call.args,
            writes,
            file: None,
        };
        self.log(Kind::Call, call.nr as u32, code, effects.encode())?;
        match self.engine.dispositions.of(p.signal) {
            Disposition::Handler { restart } => {
                self.engine.finish_interrupted(call, code, restart);
                self.handle(&p, Some(masks))
            }
            _ => self.die(&p).map(Some),
        }
    }

    // ---- system calls ------------------------------------------------------------------------

    pub(crate) fn written(&self, plan: &Plan, ret: i64) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let mut out = Vec::new();
        for r in plan.writes(ret, &self.engine.memory) {
            let mut bytes = vec![0; r.len as usize];
            let n = self.engine.memory.read(r.addr, &mut bytes);
            bytes.truncate(n);
            out.push((r.addr, bytes));
        }
        Ok(out)
    }

    fn syscall(&mut self) -> Result<Option<End>, Error> {
        self.engine.stats.syscalls += 1;
        self.engine.stats.syscall_stops += 1;
        let call = self.engine.call();
        match abi::class(&call) {
            Class::Process => self.process_call(&call),
            Class::AddressSpace => self.address_space_call(&call),
            Class::Refused { .. } => {
                let refusal = Plan::before(&call, &self.engine.memory).err();
                let errno = refusal.as_ref().map_or(libc::ENOSYS, |r| r.errno);
                if let Some(r) = refusal {
                    // libc asks for these on every start and does without.
                    if call.nr != libc::SYS_rseq as u64 {
                        self.note(r.to_string());
                    }
                }
                self.finish(
                    &call,
                    -i64::from(errno),
                    CallEffects {
                        args: call.args,
                        ..Default::default()
                    },
                )
            }
            _ => self.plain_call(&call),
        }
    }

    pub(crate) fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Logs a finished call and steps over it.
    pub(crate) fn finish(
        &mut self,
        call: &Call,
        ret: i64,
        mut effects: CallEffects,
    ) -> Result<Option<End>, Error> {
        let writes = self.outside_writes(call, ret, effects.file.as_ref())?;
        effects.writes.extend(writes);
        self.log(Kind::Call, call.nr as u32, ret, effects.encode())?;
        self.engine.return_from_call(ret);
        Ok(None)
    }

    fn plain_call(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let nr = call.nr as i64;
        if nr == libc::SYS_rt_sigreturn {
            let effects = CallEffects {
                args: call.args,
                ..Default::default()
            };
            self.log(Kind::Call, call.nr as u32, 0, effects.encode())?;
            self.engine.sigreturn()?;
            return Ok(None);
        }
        if nr == libc::SYS_sched_getaffinity && self.concerns_guest(call.args[0]) {
            return self.get_affinity(call);
        }
        if nr == libc::SYS_sched_setaffinity && self.concerns_guest(call.args[0]) {
            let mut mask = vec![0; call.args[1].min(1024) as usize];
            self.engine.memory.read(call.args[2], &mut mask);
            if mask.iter().any(|&b| b != 0) {
                self.affinity = mask;
            }
            return self.finish(
                call,
                0,
                CallEffects {
                    args: call.args,
                    ..Default::default()
                },
            );
        }
        if self.hides_output(call) {
            let effects = CallEffects {
                args: call.args,
                ..Default::default()
            };
            return self.finish(call, -i64::from(libc::EINVAL), effects);
        }
        let plan = match Plan::before(call, &self.engine.memory) {
            Ok(plan) => plan,
            Err(r) => {
                self.note(r.to_string());
                return self.finish(
                    call,
                    -i64::from(r.errno),
                    CallEffects {
                        args: call.args,
                        ..Default::default()
                    },
                );
            }
        };
        for a in call.args {
            self.engine.release_page(a >> 12)?;
        }
        let action = self.engine.sigaction_argument(call);
        if !self.engine.pending.is_empty() {
            self.engine.before_call()?;
            return Ok(None);
        }
        let prepared = Prepared {
            plan,
            action,
            believed: self.engine.trap_blocked,
        };
        if !self.engine.threads.several() {
            let outcome = self.engine.guest_call(call)?;
            return self.complete(call, prepared, outcome);
        }
        if nr == libc::SYS_sched_yield {
            let outcome = self.engine.guest_call(call)?;
            let end = self.complete(call, prepared, outcome)?;
            return if end.is_none() {
                self.yield_turn()
            } else {
                Ok(end)
            };
        }
        if abi::may_block(call.nr) == abi::Blocking::Never {
            let outcome = self.engine.guest_call(call)?;
            return self.complete(call, prepared, outcome);
        }
        self.turn_step = self.engine.step()?;
        match self.call_or_wait(call, prepared)? {
            Some((prepared, outcome)) => self.complete(call, prepared, outcome),
            None => {
                self.turn_until = self.turn_step + QUANTUM;
                self.pass_turn(false)
            }
        }
    }

    /// A call has come out: what it did is written down.
    pub(crate) fn complete(
        &mut self,
        call: &Call,
        prepared: Prepared,
        outcome: Outcome,
    ) -> Result<Option<End>, Error> {
        let Prepared {
            plan,
            action,
            believed,
        } = &prepared;
        let nr = call.nr as i64;
        match outcome {
            Outcome::Returned(ret) => {
                if ret == -i64::from(libc::EFAULT) && !self.engine.protected.is_empty() {
                    let pages: Vec<u64> = self.engine.protected.keys().copied().collect();
                    for p in pages {
                        self.engine.release_page(p)?;
                    }
                    let outcome = self.engine.guest_call(call)?;
                    return self.complete(call, prepared, outcome);
                }
                if let (Some(act), true) = (action, ret == 0) {
                    self.engine.dispositions.set(call.args[0], act);
                }
                if nr == libc::SYS_arch_prctl {
                    self.engine.regs.fs_base = self.engine.tracee.regs()?.fs_base;
                }
                if nr == libc::SYS_set_tid_address {
                    let id = self.engine.threads.current;
                    self.clear_tids.retain(|c| c.0 != id);
                    self.clear_tids.push((id, call.args[0]));
                }
                if nr == libc::SYS_rt_sigprocmask {
                    self.show_trap_mask(call, ret, *believed)?;
                }
                let writes = self.written(plan, ret)?;
                self.finish(
                    call,
                    ret,
                    CallEffects {
                        args: call.args,
                        writes,
                        file: None,
                    },
                )
            }
            Outcome::Interrupted(code) => self.interrupted(call, Some(plan), code),
            Outcome::NotMade => self.engine.before_call().map(|()| None),
            Outcome::Ended(wait) => Ok(Some(self.ended(wait)?)),
            Outcome::Event(_) => Err(Error::Internal("an unexpected process event".into())),
        }
    }

    /// The old mask that the guest is given includes SIGTRAP if the guest blocked it.
    fn show_trap_mask(&mut self, call: &Call, ret: i64, believed: bool) -> Result<(), Error> {
        const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
        let [how, set, old, ..] = call.args;
        let asked = if set != 0 {
            self.engine.memory.read_u64(set).unwrap_or(0) & TRAP != 0
        } else {
            false
        };
        if ret == 0 && old != 0 && believed {
            let mask = self.engine.memory.read_u64(old)?;
            self.engine.memory.write_u64(old, mask | TRAP)?;
        }
        self.engine.keep_trap_open()?;
        // SIG_BLOCK adds to what is blocked, SIG_UNBLOCK takes away, SIG_SETMASK replaces.
        self.engine.trap_blocked = match (set != 0 && ret == 0, how) {
            (true, 0) => believed || asked,
            (true, 1) => believed && !asked,
            (true, _) => asked,
            (false, _) => believed,
        };
        Ok(())
    }

    /// The call would move data to standard output or error without its passing through the
    /// guest's memory, where a replay finds it. Programs fall back to reading and writing.
    fn hides_output(&self, call: &Call) -> bool {
        use std::os::unix::fs::MetadataExt;
        let fd = match call.nr as i64 {
            libc::SYS_sendfile => call.args[0],
            libc::SYS_copy_file_range | libc::SYS_splice => call.args[2],
            _ => return false,
        };
        let identity = |path: String| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
        let Some(target) = identity(format!("/proc/{}/fd/{}", self.leader, fd as i32)) else {
            return false;
        };
        [1, 2]
            .iter()
            .any(|n| identity(format!("/proc/self/fd/{n}")) == Some(target))
    }

    fn concerns_guest(&self, pid: u64) -> bool {
        pid == 0 || pid as i32 == self.engine.tracee.0
    }

    fn get_affinity(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let n = self.affinity.len().min(call.args[1] as usize);
        let mask = self.affinity[..n].to_vec();
        let ret = match self.engine.memory.write(call.args[2], &mask) {
            Ok(()) => n as i64,
            Err(_) => -i64::from(libc::EFAULT),
        };
        let writes = if ret > 0 {
            vec![(call.args[2], mask)]
        } else {
            Vec::new()
        };
        self.finish(
            call,
            ret,
            CallEffects {
                args: call.args,
                writes,
                file: None,
            },
        )
    }

    fn address_space_call(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let nr = call.nr as i64;
        let [addr, len, _, flags, fd, _] = call.args;
        let effects = CallEffects {
            args: call.args,
            ..Default::default()
        };
        let fixed = (nr == libc::SYS_mmap && flags & libc::MAP_FIXED as u64 != 0)
            || matches!(
                nr,
                libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_madvise | libc::SYS_pkey_mprotect
            );
        if fixed && self.engine.owns(addr, addr.saturating_add(len.max(1))) {
            self.note(format!(
                "{} of memory that the engine uses fails",
                abi::describe(call, None)
            ));
            return self.finish(call, -i64::from(libc::ENOMEM), effects);
        }
        // The file is kept before the guest can change it through the mapping.
        let file = if nr == libc::SYS_mmap && flags & libc::MAP_ANONYMOUS as u64 == 0 {
            self.keep_mapped(fd as i32)?
        } else {
            None
        };
        let detached = match nr {
            libc::SYS_shmdt => self.engine.attached(addr)?,
            _ => Vec::new(),
        };
        let plan = Plan::before(call, &self.engine.memory);
        match self.engine.guest_call(call)? {
            Outcome::Returned(ret) => {
                for (a, b) in detached {
                    self.engine.changed(a, b);
                }
                self.engine.note_address_space(call, ret);
                let file = match nr {
                    libc::SYS_shmat => self.attached(call, ret)?,
                    _ => file,
                };
                let writes = match &plan {
                    Ok(plan) => self.written(plan, ret)?,
                    Err(_) => Vec::new(),
                };
                self.finish(
                    call,
                    ret,
                    CallEffects {
                        args: call.args,
                        writes,
                        file,
                    },
                )
            }
            Outcome::Interrupted(code) => self.interrupted(call, None, code),
            Outcome::NotMade => self.engine.before_call().map(|()| None),
            Outcome::Ended(wait) => Ok(Some(self.ended(wait)?)),
            Outcome::Event(_) => Err(Error::Internal("an unexpected process event".into())),
        }
    }

    /// How the segment just attached is written down.
    fn attached(&mut self, call: &Call, ret: i64) -> Result<Option<FileRef>, Error> {
        if (-4095..0).contains(&ret) {
            return Ok(None);
        }
        let places = self.engine.attached(ret as u64)?;
        let size = places.iter().map(|(a, b)| b - a).sum();
        Ok(Some(segment(call.args[0], size)))
    }

    fn keep_mapped(&mut self, fd: i32) -> Result<Option<FileRef>, Error> {
        let link = PathBuf::from(format!("/proc/{}/fd/{fd}", self.engine.tracee.0));
        let Ok(name) = std::fs::read_link(&link) else {
            return Ok(None);
        };
        match self.files.keep(&name, &[link]) {
            Ok(f) => {
                self.names.insert(self.files.path(&f), known_as(&f));
                Ok(Some(f))
            }
            Err(Error::Unreadable(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    // ---- processes ---------------------------------------------------------------------------

    fn process_call(&mut self, call: &Call) -> Result<Option<End>, Error> {
        match call.nr as i64 {
            libc::SYS_exit if self.engine.threads.several() => self.thread_exit(call),
            libc::SYS_exit | libc::SYS_exit_group => {
                self.engine.stats.steps = self.engine.step()?;
                let effects = CallEffects {
                    args: call.args,
                    ..Default::default()
                };
                self.log(Kind::Call, call.nr as u32, 0, effects.encode())?;
                self.engine.begin_call(call)?;
                self.wait_for_leader().map(Some)
            }
            libc::SYS_execve | libc::SYS_execveat => self.exec(call),
            _ => self.fork(call),
        }
    }

    fn exec(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let step = self.engine.step()?;
        match self.exec_call(call)? {
            Outcome::Returned(ret) => self.finish(
                call,
                ret,
                CallEffects {
                    args: call.args,
                    ..Default::default()
                },
            ),
            Outcome::Event(libc::PTRACE_EVENT_EXEC) => {
                let effects = CallEffects {
                    args: call.args,
                    ..Default::default()
                };
                self.writer.event(&Event::new(
                    Kind::Call,
                    call.nr as u32,
                    step,
                    0,
                    effects.encode(),
                ))?;
                let (mut engine, names) =
                    Self::image(self.engine.tracee, &mut self.files, &mut self.writer, step)?;
                engine.stats = std::mem::take(&mut self.engine.stats);
                engine.stats.translated += self.engine.cache.translated;
                engine.pending = std::mem::take(&mut self.engine.pending);
                self.engine = engine;
                self.names = names;
                self.outside = Outside::default();
                self.classes_for = (false, false, false);
                self.waiting.clear();
                self.clear_tids.clear();
                Ok(None)
            }
            Outcome::Ended(wait) => Ok(Some(self.ended(wait)?)),
            Outcome::NotMade => self.engine.before_call().map(|()| None),
            _ => Err(Error::Internal("an unexpected event in exec".into())),
        }
    }

    /// fork, vfork and clone of a process: the child runs natively, outside the recording.
    fn fork(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let Some(flags) = self.engine.clone_flags(call) else {
            return self.finish(
                call,
                -i64::from(libc::EFAULT),
                CallEffects {
                    args: call.args,
                    ..Default::default()
                },
            );
        };
        if flags & libc::CLONE_THREAD as u64 != 0 {
            return self.new_thread(call);
        }
        if flags & libc::CLONE_VM as u64 != 0 && flags & libc::CLONE_VFORK as u64 == 0 {
            self.note("a process that shares its memory with the guest is not supported: clone fails with EAGAIN".into());
            let effects = CallEffects {
                args: call.args,
                ..Default::default()
            };
            return self.finish(call, -i64::from(libc::EAGAIN), effects);
        }
        let shared = flags & libc::CLONE_VM as u64 != 0;
        let plan = Plan::before(call, &self.engine.memory).ok();
        self.engine.unprotect_all()?;
        self.engine.changed_code_guards();
        self.outside.inherited(&self.engine.maps);
        let before = if shared {
            Some(self.engine.copy()?)
        } else {
            None
        };
        let (ret, ended) = self.engine.fork_call(call, &self.affinity)?;
        let mut writes = Vec::new();
        if let Some(plan) = &plan {
            writes = self.written(plan, ret)?;
        }
        if let Some(copy) = before {
            writes.extend(self.engine.differences(&copy)?);
            copy.kill();
        }
        if let Some(wait) = ended {
            return Ok(Some(self.ended(wait)?));
        }
        self.finish(
            call,
            ret,
            CallEffects {
                args: call.args,
                writes,
                file: None,
            },
        )
    }

    // ---- instructions ------------------------------------------------------------------------

    fn special(&mut self) -> Result<Option<End>, Error> {
        let insn = special::decode(&self.engine)?;
        match special::outside(&insn) {
            Some(source) => {
                let words = special::ask(source, &self.engine.regs);
                let payload = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                self.log(Kind::Insn, 0, 0, payload)?;
                special::apply(&mut self.engine, &insn, source, words)?;
                Ok(None)
            }
            None => match special::carry_out(&mut self.engine, &insn)? {
                Some(p) => self.fault(p),
                None => Ok(None),
            },
        }
    }
}

fn known_as(f: &FileRef) -> PathBuf {
    PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&f.name))
}
