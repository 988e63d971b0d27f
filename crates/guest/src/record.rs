//! Recording: the guest runs against the real world, and what it learns is written down.
//!
//! Meanwhile somebody can look at the guest: [`Recorder::run_until`] stops it at addresses and before system calls, and a
//! tape can be written. Nothing of that is in the recording, which is the same without.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abi::{Call, Class, Plan};

use crate::engine::{Engine, Pending, Stop};
use crate::files::Files;
use crate::launch::{self, Launch};
use crate::outside::Outside;
use crate::policy::{Policy, Schedule, Why};
use crate::process::Outcome;
use crate::ptrace::{Resume, Tracee, Wait, wait_for};
use crate::recording::{CallEffects, Event, FileRef, Kind, Writer};
use crate::replay::{Halt, Syscalls, Until};
use crate::report::{Deadlock, OnCrash, OnDeadlock};
use crate::schedule::Waiting;
use crate::shared::segment;
use crate::signals::Disposition;
use crate::sites::{Hunt, Sites};
use crate::start::{self, recording_class};
use crate::stops::{Purpose, Stops};
use crate::threads::{About, ThreadId};
use crate::{Crash, End, Error, Stats, special};

mod calls;
mod processes;
mod signals;
mod tape;

/// What a finished recording run tells its caller.
pub struct Recorded {
    pub end: End,
    pub stats: Stats,
    pub notes: Vec<String>,
    /// The threads of the guest's last image.
    pub threads: Vec<About>,
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
    /// What the class table was last made for.
    pub(crate) classes_for: crate::schedule::Circumstances,
    pub(crate) waiting: Vec<Waiting>,
    /// Where the kernel writes zero when each thread ends.
    pub(crate) clear_tids: Vec<(ThreadId, u64)>,
    /// Process id of the guest: its first thread's.
    pub(crate) leader: i32,
    /// The step at which the turn is passed on.
    pub(crate) turn_step: u64,
    /// The step at which the present turn is over.
    pub(crate) turn_until: u64,
    rest: signals::Rest,
    /// The step at which it began.
    pub(crate) turn_began: u64,
    pub(crate) policy: Policy,
    pub(crate) sites: Sites,
    /// Counts those that came to sleep on futexes.
    pub(crate) sleepers: u64,
    /// A call may have woken a thread that waits in the kernel.
    pub(crate) stirred: bool,
    /// The guest has set a timer that raises a signal.
    pub(crate) alarms: bool,
    pub(crate) told_deadlock: bool,
    pub(crate) on_deadlock: Option<OnDeadlock>,
    /// The step at which the guest is looked at next, so that one that is killed has a step to end at.
    beat: u64,
    /// What the guest believes of its CPUs.
    affinity: Vec<u8>,
    on_crash: Option<OnCrash>,
    /// The guest is gone.
    over: bool,
    ended: Option<End>,
    /// Where somebody wants the guest to stop, and before which calls.
    pub(crate) stops: Stops,
    pub(crate) asked: Syscalls,
    /// The guest has stopped for a system call that was announced and not yet made.
    held: bool,
    interrupt: Arc<AtomicBool>,
    taped: tape::Taped,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        crate::interrupts::guest(0);
        self.engine.drop_tape();
        if !self.over {
            self.engine.tracee.kill();
        }
    }
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
        let (mut engine, names) = Self::image(tracee, &mut files, &mut writer, 0)?;
        engine.hunt = Some(Hunt::default());
        let on_crash = None;
        Ok(Recorder {
            engine,
            writer,
            files,
            names,
            notes: Vec::new(),
            outside: Outside::default(),
            classes_for: Default::default(),
            waiting: Vec::new(),
            clear_tids: Vec::new(),
            leader: tracee.0,
            turn_step: 0,
            turn_until: 0,
            turn_began: 0,
            policy: Policy::new(&Schedule::default()),
            sites: Sites::default(),
            sleepers: 0,
            stirred: false,
            alarms: false,
            told_deadlock: false,
            on_deadlock: None,
            beat: HEARTBEAT,
            rest: signals::Rest::default(),
            affinity,
            on_crash,
            over: false,
            ended: None,
            stops: Stops::beside(crate::sites::MOST_OBSERVED),
            asked: Syscalls::None,
            held: false,
            interrupt: Arc::default(),
            taped: tape::Taped::default(),
        })
    }

    /// Chooses how threads take turns.
    pub fn schedule(&mut self, schedule: &Schedule) {
        self.policy = Policy::new(schedule);
        let (atomics, accesses) = self.policy.wants();
        self.engine.hunt = Some(Hunt::for_sites(atomics, accesses));
    }

    /// The process that the guest is.
    pub fn pid(&self) -> i32 {
        self.leader
    }

    /// `f` is called when no thread can run and none waits for anything outside, and says whether
    /// the guest is to be ended. Without it, it is if not even a signal handler could help.
    pub fn on_deadlock(&mut self, f: impl FnMut(&Deadlock<'_>) -> bool + 'static) {
        self.on_deadlock = Some(Box::new(f));
    }

    /// `f` is called when the guest is about to die of a signal, while it can still be looked at.
    pub fn on_crash(&mut self, f: impl FnMut(&Crash<'_>) + 'static) {
        self.on_crash = Some(Box::new(f));
    }

    pub(super) fn image(
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
        while !matches!(self.run_until(&Until::end())?, Halt::Ended(_)) {}
        self.finished()
    }

    /// Has `flag`, once it is set, stop the run in progress within a fraction of a second.
    pub fn interrupt_by(&mut self, flag: Arc<AtomicBool>) {
        self.interrupt = flag;
    }

    /// Runs the guest until one of the conditions holds or it ends. Watches and signals are not among those that a
    /// recorded guest can be stopped by. If it fails, the guest is dead.
    ///
    /// Where it stops before a system call, the call counts as executed and has not been made; rcx and r11 are what it
    /// leaves there.
    pub fn run_until(&mut self, until: &Until) -> Result<Halt, Error> {
        if let Some(end) = self.ended {
            return Ok(Halt::Ended(end));
        }
        if self.over || until.signals || !until.watches.is_empty() {
            let what = "a guest that is being recorded cannot be stopped so";
            return Err(Error::Request(what.into()));
        }
        let halt = self.run_stopping(until);
        if halt.is_err() {
            self.over = true;
            let _ = self.kill_all();
            // What was recorded so far stays readable.
            let _ = self.writer.finish();
        }
        halt
    }

    fn run_stopping(&mut self, until: &Until) -> Result<Halt, Error> {
        self.stops.begin_run(&mut self.engine, &until.stops)?;
        self.asked.clone_from(&until.syscalls);
        self.choose_classes();
        let halt = self.drive(until)?;
        match halt {
            Halt::Ended(end) => {
                self.over = true;
                self.ended = Some(end);
                let step = self.engine.stats.steps;
                self.account(self.engine.threads.current, step);
                let status = end.to_wait_status();
                self.writer
                    .event(&Event::new(Kind::End, 0, step, status, Vec::new()))?;
                self.writer.finish()?;
                self.engine.stats.translated += self.engine.cache.translated;
                self.engine.stats.recording_bytes = self.writer.bytes;
            }
            _ => drop(self.stops.end_run(&mut self.engine, &until.stops)?),
        }
        Ok(halt)
    }

    /// Instructions executed since the guest began.
    pub fn step(&self) -> Result<u64, Error> {
        match self.ended {
            Some(_) => Ok(self.engine.stats.steps),
            None => self.engine.step(),
        }
    }

    /// What there is to say of a guest that has ended.
    pub fn finished(mut self) -> Result<Recorded, Error> {
        let end = self.ended;
        let end = end.ok_or(Error::Request("the guest has not ended".into()))?;
        Ok(Recorded {
            end,
            stats: self.engine.stats.clone(),
            notes: std::mem::take(&mut self.notes),
            threads: self.engine.threads.about.values().cloned().collect(),
            files: std::mem::take(&mut self.names),
        })
    }

    fn drive(&mut self, until: &Until) -> Result<Halt, Error> {
        if std::mem::take(&mut self.held)
            && let Some(end) = self.taped_syscall()?
        {
            return Ok(Halt::Ended(end));
        }
        loop {
            if let Some(end) = self.deliver_pending()? {
                return Ok(Halt::Ended(end));
            }
            if self.interrupt.swap(false, Ordering::SeqCst) {
                return Ok(Halt::Interrupted);
            }
            let several = self.engine.threads.several();
            let mut goal = if several {
                self.arm_sites()?;
                self.turn_until.min(self.beat)
            } else {
                self.beat
            };
            if let Some(step) = until.step {
                if self.engine.step()? >= step {
                    return Ok(Halt::Step);
                }
                goal = goal.min(step);
            }
            let goal = self.rest_before(Some(goal))?;
            let stop = self.engine.go(goal)?;
            self.drain()?;
            self.tape_came_here(&stop)?;
            self.rest_after(&stop)?;
            self.choose_classes();
            let end = match stop {
                Stop::Boundary => self.boundary(several)?,
                // A signal that came before the call is handled before it.
                Stop::Syscall if !self.engine.pending.is_empty() => {
                    self.engine.before_call()?;
                    None
                }
                Stop::Syscall => {
                    let nr = self.engine.regs.rax;
                    if self.asked.has(nr) {
                        self.held = true;
                        return Ok(Halt::Syscall { nr });
                    }
                    self.taped_syscall()?
                }
                Stop::Interrupted(code) => {
                    let call = self.engine.call();
                    self.tape_call_begins(&call);
                    self.interrupted(&call, None, code)?
                }
                Stop::Special => self.taped_special()?,
                Stop::Fault { signal, info } => self.fault(Pending { signal, info })?,
                Stop::NoCode => {
                    let info = special::no_code_info(&self.engine);
                    self.fault(Pending {
                        signal: libc::SIGSEGV,
                        info,
                    })?
                }
                Stop::Armed => {
                    let pc = self.engine.regs.rip;
                    let due = self.stops.due(&mut self.engine, pc)?;
                    if let Some(&Purpose::Halt(i)) = due.first() {
                        return Ok(Halt::Stop(i));
                    }
                    self.at_site()?
                }
                Stop::Watched { .. } => None,
                Stop::Ended(wait) => Some(self.ended(wait)?),
            };
            if let Some(end) = end {
                return Ok(Halt::Ended(end));
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
    pub(super) fn boundary(&mut self, several: bool) -> Result<Option<End>, Error> {
        let step = self.engine.step()?;
        self.engine.stats.steps = step;
        if step >= self.beat {
            self.beat = step + HEARTBEAT;
        }
        if several && step >= self.turn_until && self.engine.pending.is_empty() {
            return self.yield_turn(Why::Quantum);
        }
        Ok(None)
    }

    /// Moves what the system-call routine has logged to the file.
    pub(super) fn drain(&mut self) -> Result<(), Error> {
        self.engine.note_spots()?;
        let ring = self.engine.cache.layout.ring();
        let (used, _) = self.engine.in_ring();
        if used == 0 {
            return Ok(());
        }
        let mut bytes = vec![0; used as usize];
        self.engine.cache.read_shared(ring, &mut bytes);
        let word = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().expect("four bytes"));
        let mut i = 0;
        while i + 24 <= bytes.len() && (word(i + 8) | word(i + 12)) != 0 {
            self.noticed(u64::from(word(i) & 0xff_ffff));
            i = (i + 24 + word(i + 4) as usize).next_multiple_of(8);
            self.engine.stats.syscalls += 1;
            self.writer.events += 1;
        }
        bytes.truncate(i);
        self.writer.raw(&bytes)?;
        bytes.fill(0);
        self.engine.cache.write_shared(ring, &bytes);
        match self.engine.empty_ring() {
            Err(Error::Lost) | Ok(()) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Keeps what the scheduler must know of a call.
    pub(super) fn noticed(&mut self, nr: u64) {
        match nr as i64 {
            libc::SYS_alarm | libc::SYS_setitimer | libc::SYS_timer_create => self.alarms = true,
            libc::SYS_futex
            | libc::SYS_sched_yield
            | libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_madvise
            | libc::SYS_brk
            | libc::SYS_clock_gettime
            | libc::SYS_gettimeofday
            | libc::SYS_gettid
            | libc::SYS_getpid
            | libc::SYS_clone
            | libc::SYS_clone3
            | libc::SYS_rt_sigprocmask => {}
            _ => self.stirred = true,
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

    pub(super) fn special(&mut self) -> Result<Option<End>, Error> {
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
