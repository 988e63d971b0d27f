//! Recording: the guest runs against the real world, and what it learns is written down.

use std::path::{Path, PathBuf};

use abi::{Call, Class, Plan};

use crate::engine::{Engine, Pending, Stop};
use crate::files::Files;
use crate::launch::{self, Launch};
use crate::layout::slot;
use crate::outside::Outside;
use crate::policy::{Policy, Schedule, Why};
use crate::process::Outcome;
use crate::ptrace::{Resume, Tracee, Wait, wait_for};
use crate::recording::{CallEffects, Event, FileRef, Kind, Writer};
use crate::report::{Deadlock, OnCrash, OnDeadlock};
use crate::schedule::Waiting;
use crate::shared::segment;
use crate::signals::Disposition;
use crate::sites::{Hunt, Sites};
use crate::start::{self, recording_class};
use crate::threads::{About, ThreadId};
use crate::{Crash, End, Error, Stats, special};

mod calls;
mod processes;
mod signals;

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
}

impl Drop for Recorder {
    fn drop(&mut self) {
        crate::interrupts::guest(0);
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
            classes_for: (false, false, false),
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
        let end = self.drive();
        self.over = true;
        match end {
            Ok(end) => {
                let step = self.engine.stats.steps;
                self.account(self.engine.threads.current, step);
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
                    threads: self.engine.threads.about.values().cloned().collect(),
                    files: std::mem::take(&mut self.names),
                })
            }
            Err(e) => {
                let _ = self.kill_all();
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
            let goal = Some(if several {
                self.arm_sites()?;
                self.turn_until.min(self.beat)
            } else {
                self.beat
            });
            let goal = self.rest_before(goal)?;
            let stop = self.engine.go(goal)?;
            self.drain()?;
            self.rest_after(&stop)?;
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
                Stop::Armed => self.at_site()?,
                Stop::Watched { .. } => None,
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
            self.noticed(u64::from(word(i) & 0xff_ffff));
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
