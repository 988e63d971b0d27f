//! Replaying: the guest runs again from the recording alone.
//!
//! Nothing is asked of the outside world. Each system call must be the one that the recording has
//! next, at the same step; its result and its memory effects are put in place. Calls that shape
//! the process itself (its address space, its signal handlers) are carried out again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use abi::{Call, Class, Simple};

use crate::checkpoint::{Checkpoint, CheckpointId, Spacing};
use crate::descriptors::Descriptors;
use crate::edit::{Edit, EditId};
use crate::engine::{Engine, Pending, Stop};
use crate::files::Files;
use crate::launch::{self, Launch};
use crate::private::Private;
use crate::process::Outcome;
use crate::recording::{CallEffects, Decoder, Event, Kind, Reader};
use crate::report::{Deadlock, OnCrash, OnDeadlock};
use crate::shared::Objects;
use crate::signals::Disposition;
use crate::start::{self, Snapshot};
use crate::stops::{Purpose, Stops};
use crate::threads::{ThreadId, ThreadView, Threads};
use crate::watch::Watching;
use crate::{Crash, End, Error, Stats, special};

mod calls;
mod signals;
mod tape;

pub(crate) use calls::spot;

/// What is done with the output that the guest produces again.
pub type Sink = Box<dyn FnMut(OutputKind, &[u8])>;

/// Where the guest's output went when it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputKind {
    Stdout,
    Stderr,
}

/// Why a replay stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// At the step asked for.
    Step,
    /// Before the instruction of this stop of [`Until::stops`].
    Stop(usize),
    /// Before a system call asked for.
    Syscall { nr: u64 },
    /// Before an instruction (or system call) that touches watched memory.
    Access,
    /// Before the guest is given a signal, or before it dies of one.
    Signal(i32),
    /// Somebody asked for it from outside.
    Interrupted,
    /// A limit of [`Limits`] was reached.
    Limit(&'static str),
    /// The guest ended.
    Ended(End),
}

/// Before the n-th execution, from here on, of the instruction at `pc`. The instruction at which
/// the guest stands does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopAt {
    pub pc: u64,
    pub nth: u64,
}

/// Memory whose accesses stop the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    pub addr: u64,
    pub len: u64,
    pub read: bool,
    pub write: bool,
}

/// Which system calls stop the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Syscalls {
    #[default]
    None,
    Any,
    Numbers(Vec<u64>),
}

impl Syscalls {
    pub(crate) fn has(&self, nr: u64) -> bool {
        match self {
            Syscalls::None => false,
            Syscalls::Any => true,
            Syscalls::Numbers(list) => list.contains(&nr),
        }
    }
}

/// How far a run goes: to the first of these, or to the end.
#[derive(Clone, Debug, Default)]
pub struct Until {
    pub step: Option<u64>,
    pub stops: Vec<StopAt>,
    pub syscalls: Syscalls,
    pub watches: Vec<Watch>,
    /// Also to each signal. A step is then where the guest stands before it gets the signals that
    /// are due there.
    pub signals: bool,
}

impl Until {
    pub fn end() -> Self {
        Until::default()
    }

    pub fn step(step: u64) -> Self {
        Until {
            step: Some(step),
            ..Until::default()
        }
    }
}

/// What a guest under experiment may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub steps: u64,
    pub time: Duration,
    /// Bytes of output.
    pub output: u64,
    /// Bytes of address space beyond what the guest has now.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            steps: u64::MAX,
            time: Duration::MAX,
            output: u64::MAX,
            memory: u64::MAX,
        }
    }
}

/// Steps between two looks at the clock.
const STRETCH: u64 = 200_000_000;

/// A replayed guest, stopped at a boundary.
pub struct Replay {
    pub(crate) engine: Engine,
    pub(crate) reader: Reader,
    pub(crate) next: Option<Event>,
    pub(crate) files: Files,
    pub(crate) names: HashMap<PathBuf, PathBuf>,
    pub(crate) brk: u64,
    pub(crate) descriptors: Descriptors,
    sink: Sink,
    /// Output up to this step has been shown before.
    pub(crate) shown_to: u64,
    /// Nobody is to see the output.
    pub(crate) muted: bool,
    pub(crate) put_out: u64,
    pub(crate) ended: Option<End>,
    on_crash: Option<OnCrash>,
    on_deadlock: Option<OnDeadlock>,
    pub(crate) stops: Stops,
    pub(crate) edits: BTreeMap<EditId, Edit>,
    pub(crate) last_edit: u32,
    /// An edit has had an effect.
    pub(crate) edited: bool,
    pub(crate) checkpoints: BTreeMap<CheckpointId, Checkpoint>,
    pub(crate) last_checkpoint: u32,
    pub(crate) automatic: Vec<Checkpoint>,
    pub(crate) last_automatic: Instant,
    pub(crate) spacing: Spacing,
    /// The guest stands before a system call that was announced already.
    pub(crate) at_call: bool,
    /// The step at which a signal was announced that the guest has yet to get, and its `siginfo_t`.
    pub(crate) announced: Option<(u64, Box<[u8; 128]>)>,
    interrupt: Arc<AtomicBool>,
    /// How often the address of each stop was come to in the last run.
    passed: Vec<u64>,
    pub(crate) limits: Limits,
    checkpointing: bool,
    /// The guest's shared memory.
    pub(crate) objects: Objects,
    /// Threads that are inside a system call, and those that have ended but not been left yet.
    pub(crate) in_call: Vec<ThreadId>,
    pub(crate) gone: Vec<ThreadId>,
    /// The thread just switched to goes on with the result of its call.
    pub(crate) resume_call: bool,
    /// The world of a run that has left the recording.
    pub(crate) private: Option<Private>,
    /// Process id that the guest believes to have.
    pub(crate) pid: u64,
    pub(crate) to_deliver: VecDeque<Pending>,
    /// The system call at hand, until the tape has been told what became of it, and what it may read.
    taped_call: Option<(Call, Option<abi::Plan>)>,
    /// That of calls that threads wait in.
    taped_waits: Vec<(ThreadId, abi::Plan)>,
    /// How many answers are offered to calls in advance.
    pub(crate) window: crate::offers::Window,
}

/// A sink that passes output on to where the guest's would go.
pub fn pass_through() -> Sink {
    Box::new(|kind, bytes| {
        // A reader that went away is no concern of the guest's.
        let _ = match kind {
            OutputKind::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            OutputKind::Stderr => std::io::stderr().write_all(bytes),
        };
    })
}

impl Drop for Replay {
    fn drop(&mut self) {
        crate::interrupts::guest(0);
        self.engine.drop_tape();
        self.drop_checkpoints();
        self.engine.tracee.kill();
        crate::ptrace::reap();
    }
}

impl Replay {
    /// Opens the recording in `folder`; the guest stands before its first instruction.
    pub fn open(folder: &Path, sink: Sink) -> Result<Self, Error> {
        let mut reader = Reader::open(&folder.join("events"))?;
        let first = reader.next()?.ok_or(Error::damaged("it has no events"))?;
        if first.kind != Kind::Image {
            return Err(Error::damaged("it does not begin with an image"));
        }
        let snapshot = Snapshot::decode(&first.payload)?;
        let restore = crate::interrupts::install();
        crate::process::pin_self();
        // Any program will do: not one of its instructions is executed.
        let launch = Launch {
            program: "/proc/self/exe".into(),
            args: vec!["guest".into()],
            env: Vec::new(),
            cwd: None,
            streams: [None, None, None],
        };
        let tracee = launch::start(&launch, &restore)?;
        let files = Files::of(&std::path::absolute(folder).map_err(Error::Disk)?);
        let build = || {
            let mut engine = start::move_in(tracee, &|_| 0)?;
            let names = engine.rebuild(&snapshot, &files)?;
            engine.threads = Threads::new(snapshot.pid as i32, 0);
            Ok((engine, names))
        };
        let (engine, names) = build().inspect_err(|_: &Error| tracee.kill())?;
        let mut replay = Replay {
            engine,
            reader,
            next: None,
            files,
            names,
            brk: snapshot.brk,
            descriptors: Descriptors::new(&snapshot.open),
            sink,
            shown_to: 0,
            muted: false,
            put_out: 0,
            ended: None,
            on_crash: None,
            on_deadlock: None,
            stops: Stops::default(),
            edits: BTreeMap::new(),
            last_edit: 1,
            edited: false,
            checkpoints: BTreeMap::new(),
            last_checkpoint: 1,
            automatic: Vec::new(),
            last_automatic: Instant::now(),
            spacing: Spacing::default(),
            at_call: false,
            announced: None,
            interrupt: Arc::default(),
            passed: Vec::new(),
            limits: Limits::default(),
            checkpointing: false,
            objects: Objects::default(),
            in_call: Vec::new(),
            gone: Vec::new(),
            resume_call: false,
            private: None,
            pid: snapshot.pid,
            to_deliver: VecDeque::new(),
            taped_call: None,
            taped_waits: Vec::new(),
            window: crate::offers::Window::default(),
        };
        replay.next = replay.reader.next()?;
        Ok(replay)
    }

    /// `f` is called when the guest is about to die of a signal.
    pub fn on_crash(&mut self, f: impl FnMut(&Crash<'_>) + 'static) {
        self.on_crash = Some(Box::new(f));
    }

    /// `f` is called when the guest has come to where no thread could run. What it returns is of
    /// no account: the recorded guest was ended there.
    pub fn on_deadlock(&mut self, f: impl FnMut(&Deadlock<'_>) -> bool + 'static) {
        self.on_deadlock = Some(Box::new(f));
    }

    /// The thread that the guest's registers are of.
    pub fn thread(&self) -> ThreadId {
        self.engine.threads.current
    }

    /// All threads that live, in the order of creation.
    pub fn threads(&self) -> Vec<ThreadView> {
        self.engine.thread_views(&self.in_call, &self.gone)
    }

    pub fn stats(&self) -> Stats {
        let mut stats = self.engine.stats.clone();
        stats.translated += self.engine.cache.translated;
        stats
    }

    /// Instructions executed since the guest began.
    pub fn step(&self) -> Result<u64, Error> {
        match self.ended {
            Some(_) => Ok(self.engine.stats.steps),
            None => self.engine.step(),
        }
    }

    /// Lets the replay take checkpoints by itself from here on, the first at once, so that
    /// [`Replay::goto`] is quick.
    pub fn keep_checkpoints(&mut self, spacing: Spacing) -> Result<(), Error> {
        self.spacing = spacing;
        self.checkpointing = true;
        if self.automatic.is_empty() {
            let first = self.take_checkpoint()?;
            self.automatic.push(first);
        }
        self.last_automatic = Instant::now();
        Ok(())
    }

    /// Lets output that was shown already be shown again from here on. By default going back and
    /// forth shows it once.
    pub fn show_again(&mut self) {
        self.shown_to = 0;
    }

    /// Lets output behind this step be shown from here on, and none before it.
    pub fn show_from(&mut self, step: u64) {
        self.shown_to = step;
    }

    /// Whether output is kept from the sink, as on the way to somewhere.
    pub fn mute(&mut self, on: bool) {
        self.muted = on;
    }

    /// What an experiment may use from here on.
    pub fn limit(&mut self, limits: Limits) -> Result<(), Error> {
        if limits.memory != self.limits.memory {
            let path = format!("/proc/{}/statm", self.engine.tracee.0);
            let pages = std::fs::read_to_string(path).map_err(|_| Error::Lost)?;
            let now = pages
                .split(' ')
                .next()
                .and_then(|n| n.parse::<u64>().ok())
                .unwrap_or(0)
                << 12;
            let most = now.saturating_add(limits.memory);
            let scratch = self.engine.page + u64::from(crate::layout::slot::SCRATCH);
            self.engine.memory.write_u64(scratch, most)?;
            self.engine.memory.write_u64(scratch + 8, u64::MAX)?;
            let args = [0, u64::from(libc::RLIMIT_AS), scratch, 0, 0, 0];
            self.engine.inject(libc::SYS_prlimit64, args)?;
        }
        self.limits = limits;
        self.put_out = 0;
        Ok(())
    }

    /// A flag that, once set, stops the run in progress within a fraction of a second.
    pub fn interrupter(&self) -> Arc<AtomicBool> {
        self.interrupt.clone()
    }

    /// Whether somebody has asked for a stop; asking is done with then.
    pub(crate) fn interrupted_from_outside(&self) -> bool {
        self.interrupt.swap(false, Ordering::SeqCst)
    }

    /// Runs until one of the conditions holds or the guest ends.
    pub fn run(&mut self, until: &Until) -> Result<Halt, Error> {
        if let Some(end) = self.ended {
            return Ok(Halt::Ended(end));
        }
        self.stops.begin_run(&mut self.engine, &until.stops)?;
        let mut before = if until.watches.is_empty() {
            None
        } else {
            Some(self.take_checkpoint()?)
        };
        let mut watching = Watching::start(&mut self.engine, &until.watches)?;
        let halt = self.run_watching(until, &mut watching, &mut before);
        if self.ended.is_none() {
            watching.stop(&mut self.engine)?;
        }
        let passed = self.stops.end_run(&mut self.engine, &until.stops);
        self.passed = match self.ended {
            None => passed?,
            // The process may be gone, and its countdowns with it.
            Some(_) => passed.unwrap_or_default(),
        };
        if let Some(c) = before {
            c.give_up();
        }
        halt
    }

    /// How often the address of each stop of the last run was come to, with the time that stopped it and
    /// without the instruction at which it began.
    pub fn passed(&self) -> &[u64] {
        &self.passed
    }

    fn run_watching(
        &mut self,
        until: &Until,
        watching: &mut Watching,
        before: &mut Option<Checkpoint>,
    ) -> Result<Halt, Error> {
        let begun = Instant::now();
        let first_step = self.engine.step()?;
        let first_pc = self.engine.regs.rip;
        let mut past = Some(first_pc);
        loop {
            let step = self.engine.step()?;
            if until.signals {
                if until.step.is_some_and(|goal| step >= goal) {
                    return Ok(Halt::Step);
                }
                if let Some(pending) = self.signal_due(step)?
                    && self.announce(step, &pending)
                {
                    return Ok(Halt::Signal(pending.signal));
                }
            }
            if let Some(end) = self.due_signals(step)? {
                return self.finish(end);
            }
            if until.step.is_some_and(|goal| step >= goal) {
                return Ok(Halt::Step);
            }
            // A guest that was killed has no last event but its end.
            let killed = |e: &&Event| e.kind == Kind::End && e.step <= step && !self.edited;
            if let Some(e) = self.next.as_ref().filter(killed) {
                let end = End::from_wait_status(e.result)?;
                self.engine.stats.steps = step;
                return self.finish(end);
            }
            if self.interrupted_from_outside() {
                return Ok(Halt::Interrupted);
            }
            if step - first_step >= self.limits.steps {
                return Ok(Halt::Limit("steps"));
            }
            if begun.elapsed() >= self.limits.time {
                return Ok(Halt::Limit("time"));
            }
            if self.put_out > self.limits.output {
                return Ok(Halt::Limit("output"));
            }
            if self.checkpointing {
                self.maybe_checkpoint()?;
            }
            if self.due_switch(step)? {
                past = None;
                continue;
            }
            let due = match &self.next {
                Some(e)
                    if matches!(
                        e.kind,
                        Kind::Signal | Kind::Switch | Kind::Memory | Kind::End
                    ) && !self.edited =>
                {
                    e.step
                }
                _ => u64::MAX,
            };
            let goal = until.step.unwrap_or(u64::MAX).min(due).min(step + STRETCH);
            let goal = goal.min(first_step.saturating_add(self.limits.steps));
            // Nothing from outside is meant for the guest.
            self.engine.pending.clear();
            let here = past.take() == Some(self.engine.regs.rip);
            if here && !self.resume_call {
                let mut replaced = false;
                for id in self.stops.edits_here(&mut self.engine)? {
                    replaced |= self.apply_edit(id)?;
                }
                if replaced {
                    self.at_call = false;
                    continue;
                }
            }
            let resumed = std::mem::take(&mut self.resume_call);
            let stop = if resumed {
                Stop::Syscall
            } else if here && self.at_call {
                self.at_call = false;
                self.engine.past_armed(1)?
            } else if here && (watching.waits() || self.begins_at_stop(until)?) {
                self.engine.past_armed(1)?
            } else {
                watching.begin(&mut self.engine)?;
                let due = self.offer_answers(until)?;
                let stop = self
                    .engine
                    .go(Some(due.map_or(goal, |due| goal.min(due))))?;
                self.answers_taken()?;
                stop
            };
            self.engine.pending.clear();
            self.stops.counted = false;
            // Only the instruction at which the run began is let through, not what came after.
            let here =
                here && self.engine.step()? <= step + u64::from(matches!(stop, Stop::Syscall));
            let end = match stop {
                Stop::Boundary => None,
                Stop::Syscall => {
                    let nr = self.engine.regs.rax;
                    if until.syscalls.has(nr) && !here {
                        self.engine.before_call()?;
                        self.at_call = true;
                        self.stops.counted = true;
                        return Ok(Halt::Syscall { nr });
                    }
                    if self.call_touches(watching)? && !here {
                        self.engine.before_call()?;
                        self.at_call = true;
                        self.stops.counted = true;
                        return Ok(Halt::Access);
                    }
                    watching.give_pages(&mut self.engine)?;
                    let end = self.taped_syscall(resumed)?;
                    if end.is_none() {
                        watching.take_pages(&mut self.engine)?;
                    }
                    end
                }
                Stop::Special => self.taped_special()?,
                Stop::Fault { signal, info }
                    if signal == libc::SIGSEGV && watching.has_page(special::address(&info)) =>
                {
                    if watching.touched(&self.engine, Some(special::address(&info))) && !here {
                        self.stops.counted = true;
                        return Ok(Halt::Access);
                    }
                    watching.give_pages(&mut self.engine)?;
                    let stop = self.engine.past_armed(1)?;
                    watching.take_pages(&mut self.engine)?;
                    match stop {
                        Stop::Boundary => None,
                        Stop::Fault { signal, info } => self.fault(Pending { signal, info })?,
                        other => {
                            return Err(Error::Internal(format!("{other:?} at a watched access")));
                        }
                    }
                }
                Stop::Fault { .. } | Stop::NoCode => {
                    let pending = match stop {
                        Stop::Fault { signal, info } => Pending { signal, info },
                        _ => Pending {
                            signal: libc::SIGSEGV,
                            info: special::no_code_info(&self.engine),
                        },
                    };
                    if until.signals && self.announce(self.engine.step()?, &pending) {
                        return Ok(Halt::Signal(pending.signal));
                    }
                    self.fault(pending)?
                }
                Stop::Armed => {
                    let pc = self.engine.regs.rip;
                    let mut halt = None;
                    let mut replaced = false;
                    self.stops.counted = true;
                    let mut edits = Vec::new();
                    for purpose in self.stops.due(&mut self.engine, pc)? {
                        match purpose {
                            Purpose::Halt(i) => halt = Some(i),
                            Purpose::Edit(id) => edits.push(id),
                        }
                    }
                    if let Some(i) = halt {
                        edits.into_iter().for_each(|id| self.stops.put_off(id));
                        return Ok(Halt::Stop(i));
                    }
                    for id in edits {
                        replaced |= self.apply_edit(id)?;
                    }
                    if !replaced && self.stops.has(pc) {
                        // Another stop at this address counts on; this execution is through.
                        past = Some(pc);
                    }
                    None
                }
                Stop::Watched { step } => {
                    let nobody = || Error::Internal("a watch fired that nobody set".into());
                    let stops = self.stops.of_run(&self.engine)?;
                    self.return_to(before.as_ref().ok_or_else(nobody)?)?;
                    // A repeated string instruction reports while it is at work, as if it had not
                    // begun; so the report may be about the neighbour.
                    let mut passed = None;
                    for candidate in [step.saturating_sub(1).max(first_step), step, step + 1] {
                        self.run_plainly(candidate)?;
                        // What the run began with does not count; a handler that began there does.
                        if candidate == first_step && self.engine.regs.rip == first_pc {
                            continue;
                        }
                        if watching.touched(&self.engine, None) {
                            return Ok(Halt::Access);
                        }
                        if watching.passed_over(&self.engine) {
                            passed = Some(candidate + 1);
                            break;
                        }
                    }
                    let Some(passed) = passed else {
                        return Err(Error::Internal(format!(
                            "a watch fired for nothing near {step}"
                        )));
                    };
                    // A write where only reads are watched, which the debug registers cannot tell
                    // apart: go on behind it.
                    self.run_plainly(passed)?;
                    if let Some(old) = before.replace(self.take_checkpoint()?) {
                        old.give_up();
                    }
                    self.stops.add_all(&mut self.engine, stops.into_iter())?;
                    watching.again(&mut self.engine)?;
                    past = None;
                    None
                }
                Stop::Interrupted(_) => {
                    return Err(Error::Internal(
                        "a replay made a system call by itself".into(),
                    ));
                }
                Stop::Ended(_) => return Err(Error::Lost),
            };
            if let Some(end) = end {
                return self.finish(end);
            }
        }
    }

    /// There is a stop where the run begins that has to be stepped over.
    fn begins_at_stop(&mut self, until: &Until) -> Result<bool, Error> {
        let there = self.stops.has(self.engine.regs.rip);
        // With watches a run may be repeated from where it began.
        Ok(there && !(until.watches.is_empty() && self.stops.let_pass(&mut self.engine)?))
    }

    /// Goes to a step that the guest was at before, showing nothing again.
    fn run_plainly(&mut self, step: u64) -> Result<(), Error> {
        self.shown_to = self.shown_to.max(step);
        match self.run(&Until::step(step))? {
            Halt::Step => Ok(()),
            other => Err(self.diverged(&format!("{other:?} on the way back"))),
        }
    }

    /// The system call at hand reads or writes watched memory.
    fn call_touches(&self, watching: &Watching) -> Result<bool, Error> {
        if watching.watches.is_empty() {
            return Ok(false);
        }
        let Some(e) = &self.next else {
            return Ok(false);
        };
        let writes = match e.kind {
            Kind::Call => CallEffects::decode(&e.payload)?
                .writes
                .iter()
                .flat_map(|(a, b)| self.changes(*a, b))
                .collect(),
            Kind::Spot => match abi::simple(u64::from(e.nr)) {
                Simple::FixedAt { arg, .. } | Simple::ReturnedAt { arg, .. } => {
                    vec![(
                        self.engine.call().args[arg as usize],
                        spot(&e.payload)?.1.len() as u64,
                    )]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        if writes.iter().any(|&(a, n)| watching.overlaps(a, n, true)) {
            return Ok(true);
        }
        let memory = &self.engine.memory;
        let reads =
            abi::Plan::before(&self.engine.call(), memory).map(|p| p.reads(e.result, memory));
        Ok(reads.is_ok_and(|r| r.iter().any(|r| watching.overlaps(r.addr, r.len, false))))
    }

    pub(crate) fn finish(&mut self, end: End) -> Result<Halt, Error> {
        self.ended = Some(end);
        if end == End::Deadlocked
            && let Some(mut f) = self.on_deadlock.take()
        {
            self.engine.refresh_maps()?;
            let handlers = self.engine.dispositions.outside_handlers();
            let threads = self.threads();
            f(&Deadlock::of(&self.engine, threads, handlers, &self.names));
        }
        Ok(Halt::Ended(end))
    }

    /// Takes the next event off the recording.
    pub(crate) fn take(&mut self) -> Result<Option<Event>, Error> {
        let event = self.next.take();
        self.next = self.reader.next()?;
        Ok(event)
    }

    pub(crate) fn diverged(&self, what: &str) -> Error {
        let step = self.engine.step().unwrap_or(0);
        let pc = self.engine.regs.rip;
        let expected = match &self.next {
            None => "the recording ends here (it was cut off)".to_owned(),
            Some(e) => match e.kind {
                Kind::Spot | Kind::Call => {
                    let name = abi::name(u64::from(e.nr)).unwrap_or("?");
                    format!("the recording has {name} at step {}", e.step)
                }
                Kind::Signal => format!("the recording has signal {} at step {}", e.nr, e.step),
                kind => format!("the recording has {kind:?} at step {}", e.step),
            },
        };
        Error::Diverged(format!(
            "event {}: at step {step}, address {pc:#x}, {what}; {expected}",
            self.reader.index
        ))
    }

    pub(crate) fn special(&mut self) -> Result<Option<End>, Error> {
        let insn = special::decode(&self.engine)?;
        let Some(source) = special::outside(&insn) else {
            return match special::carry_out(&mut self.engine, &insn)? {
                Some(p) => self.fault(p),
                None => Ok(None),
            };
        };
        let step = self.engine.step()?;
        match &self.next {
            Some(e)
                if e.kind == Kind::Insn
                    && (e.step == step || self.edited)
                    && e.payload.len() == 32 => {}
            _ if self.edited => {
                self.private_special(&insn, source)?;
                return Ok(None);
            }
            _ => return Err(self.diverged(&format!("the guest executes {:?}", insn.mnemonic()))),
        }
        let event = self.take()?.expect("just seen");
        let mut words = [0; 4];
        for (w, b) in words.iter_mut().zip(event.payload.chunks_exact(8)) {
            *w = u64::from_le_bytes(b.try_into().expect("eight bytes"));
        }
        special::apply(&mut self.engine, &insn, source, words)?;
        Ok(None)
    }
}
