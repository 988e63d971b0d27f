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
use crate::shared::Objects;
use crate::signals::{Disposition, LastFault};
use crate::start::{self, Snapshot};
use crate::stops::{Purpose, Stops};
use crate::threads::{ThreadId, Threads};
use crate::watch::Watching;
use crate::{Crash, End, Error, Stats, special};

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

/// How far a run goes: to the first of these, or to the end.
#[derive(Clone, Debug, Default)]
pub struct Until {
    pub step: Option<u64>,
    pub stops: Vec<StopAt>,
    pub syscalls: Syscalls,
    pub watches: Vec<Watch>,
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
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            steps: u64::MAX,
            time: Duration::MAX,
            output: u64::MAX,
        }
    }
}

/// Steps between two looks at the clock.
const STRETCH: u64 = 50_000_000;

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
    put_out: u64,
    pub(crate) ended: Option<End>,
    on_crash: Option<Box<dyn FnMut(&Crash<'_>)>>,
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
    at_call: bool,
    interrupt: Arc<AtomicBool>,
    pub(crate) limits: Limits,
    checkpointing: bool,
    /// The guest's shared memory.
    pub(crate) objects: Objects,
    /// Threads that are inside a system call, and those that have ended but not been left yet.
    pub(crate) in_call: Vec<ThreadId>,
    pub(crate) gone: Vec<ThreadId>,
    /// The thread just switched to goes on with the result of its call.
    resume_call: bool,
    /// The world of a run that has left the recording.
    pub(crate) private: Option<Private>,
    /// Process id that the guest believes to have.
    pub(crate) pid: u64,
    pub(crate) to_deliver: VecDeque<Pending>,
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
        self.drop_checkpoints();
        self.engine.tracee.kill();
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
            put_out: 0,
            ended: None,
            on_crash: None,
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
            interrupt: Arc::default(),
            limits: Limits::default(),
            checkpointing: false,
            objects: Objects::default(),
            in_call: Vec::new(),
            gone: Vec::new(),
            resume_call: false,
            private: None,
            pid: snapshot.pid,
            to_deliver: VecDeque::new(),
        };
        replay.next = replay.reader.next()?;
        Ok(replay)
    }

    /// `f` is called when the guest is about to die of a signal.
    pub fn on_crash(&mut self, f: impl FnMut(&Crash<'_>) + 'static) {
        self.on_crash = Some(Box::new(f));
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

    /// What an experiment may use from here on.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
        self.put_out = 0;
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
        for (i, s) in until.stops.iter().enumerate() {
            self.stops
                .add(&mut self.engine, s.pc, s.nth, Purpose::Halt(i))?;
        }
        let before = if until.watches.is_empty() {
            None
        } else {
            Some(self.take_checkpoint()?)
        };
        let mut watching = Watching::start(&mut self.engine, &until.watches)?;
        let halt = self.run_watching(until, &mut watching, before.as_ref());
        if self.ended.is_none() {
            watching.stop(&mut self.engine)?;
            self.stops
                .remove(&mut self.engine, |p| matches!(p, Purpose::Halt(_)))?;
        }
        if let Some(c) = before {
            c.give_up();
        }
        halt
    }

    fn run_watching(
        &mut self,
        until: &Until,
        watching: &mut Watching,
        before: Option<&Checkpoint>,
    ) -> Result<Halt, Error> {
        let begun = Instant::now();
        let first_step = self.engine.step()?;
        let mut past = Some(self.engine.regs.rip);
        loop {
            if let Some(end) = self.due_signals()? {
                return self.finish(end);
            }
            let step = self.engine.step()?;
            if until.step.is_some_and(|goal| step >= goal) {
                return Ok(Halt::Step);
            }
            // A guest that was killed has no last event but its end.
            let killed = |e: &&Event| e.kind == Kind::End && e.step <= step && !self.edited;
            if let Some(e) = self.next.as_ref().filter(killed) {
                let end = End::from_wait_status(e.result);
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
                    if matches!(e.kind, Kind::Signal | Kind::Switch | Kind::Memory | Kind::End)
                        && !self.edited =>
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
            let stop = if std::mem::take(&mut self.resume_call) {
                Stop::Syscall
            } else if here && self.at_call {
                self.at_call = false;
                self.engine.past_armed(1)?
            } else if here && (self.stops.has(self.engine.regs.rip) || watching.waits()) {
                self.engine.past_armed(1)?
            } else {
                watching.begin(&mut self.engine)?;
                self.engine.go(Some(goal))?
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
                    let announce = match &until.syscalls {
                        Syscalls::None => false,
                        Syscalls::Any => true,
                        Syscalls::Numbers(list) => list.contains(&nr),
                    };
                    if announce && !here {
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
                    let end = self.syscall()?;
                    if end.is_none() {
                        watching.take_pages(&mut self.engine)?;
                    }
                    end
                }
                Stop::Special => self.special()?,
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
                    let before =
                        before.ok_or(Error::Internal("a watch fired that nobody set".into()))?;
                    self.return_to(before)?;
                    // A repeated string instruction reports while it is at work, as if it had not
                    // begun; so the report may be about the neighbour.
                    for candidate in [step.saturating_sub(1).max(first_step + 1), step, step + 1] {
                        self.run_plainly(candidate)?;
                        if watching.touched(&self.engine, None) {
                            return Ok(Halt::Access);
                        }
                    }
                    return Err(Error::Internal(format!(
                        "a watch fired for nothing near {step}"
                    )));
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

    fn finish(&mut self, end: End) -> Result<Halt, Error> {
        self.ended = Some(end);
        Ok(Halt::Ended(end))
    }

    /// Takes the next event off the recording.
    fn take(&mut self) -> Result<Option<Event>, Error> {
        let event = self.next.take();
        self.next = self.reader.next()?;
        Ok(event)
    }

    fn diverged(&self, what: &str) -> Error {
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

    // ---- signals -----------------------------------------------------------------------------

    /// Delivers the signals that the recording has at the present step.
    fn due_signals(&mut self) -> Result<Option<End>, Error> {
        if self.edited {
            return self.own_signals();
        }
        loop {
            let step = self.engine.step()?;
            match &self.next {
                Some(e) if e.kind == Kind::Signal && e.step == step => {}
                Some(e) if e.kind == Kind::Memory && e.step == step => {
                    let event = self.take()?.expect("just seen");
                    self.put_effects(&CallEffects::decode(&event.payload)?)?;
                    continue;
                }
                Some(e) if e.kind == Kind::Signal && e.step < step => {
                    return Err(self.diverged("a signal was missed"));
                }
                _ => return Ok(None),
            }
            let event = self.take()?.expect("just seen");
            let fatal = event.result == 1;
            let s = special::decode_signal(event.nr as i32, &event.payload)?;
            if s.regs.rip != self.engine.regs.rip || s.regs.rsp != self.engine.regs.rsp {
                return Err(
                    self.diverged(&format!("signal {} came at {:#x}", event.nr, s.regs.rip))
                );
            }
            if fatal {
                return self.die(&s.pending).map(Some);
            }
            // A handler that begins at a system call sees what the call has done to rcx and r11.
            (self.engine.regs.rcx, self.engine.regs.r11) = (s.regs.rcx, s.regs.r11);
            if let Some((blocked, _)) = s.masks {
                self.engine.tracee.set_sigmask(blocked)?;
            }
            if let Some(second) = self.engine.deliver(&s.pending)? {
                return self.fault(second);
            }
            if let Some((_, saved)) = s.masks {
                self.engine.set_frame_mask(saved)?;
            }
        }
    }

    pub(crate) fn fault(&mut self, mut p: Pending) -> Result<Option<End>, Error> {
        special::fix_fault_address(&mut p, &self.engine.regs);
        let blocked = self.engine.tracee.sigmask()?;
        match self.engine.dispositions.force(p.signal, blocked) {
            Disposition::Handler { .. } => match self.engine.deliver(&p)? {
                None => Ok(None),
                Some(second) => self.fault(second),
            },
            _ => {
                let step = self.engine.step()?;
                match &self.next {
                    Some(e) if e.kind == Kind::Signal && e.step == step && e.result == 1 => {
                        self.take()?;
                        self.die(&p).map(Some)
                    }
                    _ => Err(self.diverged(&format!("the guest dies of signal {}", p.signal))),
                }
            }
        }
    }

    pub(crate) fn die(&mut self, p: &Pending) -> Result<End, Error> {
        self.engine.stats.steps = self.engine.step()?;
        if let Some(mut f) = self.on_crash.take() {
            self.engine.refresh_maps()?;
            f(&Crash::of(&self.engine, p, &self.names));
        }
        Ok(End::Killed(p.signal))
    }

    // ---- threads -----------------------------------------------------------------------------

    /// Passes the turn to another thread if the recording has that here.
    fn due_switch(&mut self, step: u64) -> Result<bool, Error> {
        match &self.next {
            Some(e) if e.kind == Kind::Switch && e.step == step => {}
            Some(e) if e.kind == Kind::Switch && e.step < step => {
                return Err(self.diverged("a change of threads was missed"));
            }
            _ => return Ok(false),
        }
        let event = self.take()?.expect("just seen");
        let id = ThreadId(event.nr);
        if self.engine.threads.find(id).is_none() && id != self.engine.threads.current {
            return Err(Error::damaged(
                "it switches to a thread that does not exist",
            ));
        }
        let old = self.engine.threads.current;
        self.engine.switch_green(id, step)?;
        if let Some(i) = self.gone.iter().position(|&g| g == old) {
            self.gone.remove(i);
            self.engine.drop_thread(old);
        }
        // A thread that was left inside a system call goes on with its result.
        if let Some(i) = self.in_call.iter().position(|&t| t == id) {
            self.in_call.remove(i);
            self.resume_call = true;
        }
        Ok(true)
    }

    /// A thread begins, in this process thread like all others.
    fn new_thread(&mut self, call: &Call, ret: i64) -> Result<(), Error> {
        let Some(a) = self.engine.clone_arguments(call) else {
            return Ok(());
        };
        if a.flags & libc::CLONE_THREAD as u64 == 0 || ret < 0 {
            return Ok(());
        }
        let regs = self.engine.new_thread_regs(&a);
        let mut green = self.engine.green_state()?;
        green.altstack = crate::engine::DISABLED_STACK;
        self.engine
            .add_thread(self.engine.tracee, regs, Some(green))
            .map(drop)
    }

    // ---- system calls ------------------------------------------------------------------------

    fn syscall(&mut self) -> Result<Option<End>, Error> {
        self.engine.stats.syscalls += 1;
        let call = self.engine.call();
        let step = self.engine.step()?;
        if matches!(&self.next, Some(e) if e.kind == Kind::Switch && e.step == step) {
            // The thread waits in this call while others have their turn.
            self.in_call.push(self.engine.threads.current);
            return Ok(None);
        }
        // An edited run keeps to the recording's calls, not to their steps.
        let at = if self.edited { None } else { Some(step) };
        if !self.expected(&call, at)? {
            if self.edited {
                if self.private.is_none() {
                    self.depart(&call)?;
                }
                return self.private_call(&call);
            }
            if let Some(e) = self.next.as_ref().filter(|e| e.kind == Kind::End) {
                let end = End::from_wait_status(e.result);
                self.engine.stats.steps = step;
                return Ok(Some(end));
            }
            return Err(self.diverged(&format!("the guest calls {}", abi::describe(&call, None))));
        }
        let event = self.take()?.expect("just seen");
        let ret = event.result;
        if event.kind == Kind::Spot {
            self.spot_effects(&call, &event)?;
            self.forward(&call, ret);
            self.engine.return_from_call(ret);
            return Ok(None);
        }
        let effects = CallEffects::decode(&event.payload)?;
        // What a call that makes a mapping writes is what there is to see in it.
        let space = abi::class(&call) == Class::AddressSpace;
        if !space {
            self.put_effects(&effects)?;
        }
        if (-516..=-512).contains(&ret) {
            return self.interrupted(&call, ret);
        }
        self.forward(&call, ret);
        match abi::class(&call) {
            Class::AddressSpace => {
                self.address_space(&call, ret, &effects)?;
                self.put_effects(&effects)?;
            }
            Class::GuestState => {
                if call.nr as i64 == libc::SYS_rt_sigreturn {
                    self.engine.sigreturn()?;
                    return Ok(None);
                }
                self.guest_state(&call, ret)?;
            }
            Class::Process => match call.nr as i64 {
                libc::SYS_exit if self.engine.threads.several() => {
                    self.gone.push(self.engine.threads.current);
                    return Ok(None);
                }
                libc::SYS_exit | libc::SYS_exit_group => {
                    self.engine.stats.steps = step;
                    return Ok(Some(End::Exited(call.args[0] as i32 & 0xff)));
                }
                libc::SYS_execve | libc::SYS_execveat if ret == 0 => {
                    return self.exec(step).map(|()| None);
                }
                libc::SYS_clone | libc::SYS_clone3 => self.new_thread(&call, ret)?,
                _ => {}
            },
            _ => {}
        }
        self.engine.return_from_call(ret);
        Ok(None)
    }

    /// The call is the one that the recording has next, at `step` if that is given.
    fn expected(&mut self, call: &Call, step: Option<u64>) -> Result<bool, Error> {
        // An edited run is not interrupted where the recorded one was.
        while self.edited && matches!(&self.next, Some(e) if e.kind == Kind::Signal) {
            self.take()?;
        }
        let Some(e) = &self.next else {
            return Ok(false);
        };
        if u64::from(e.nr) != call.nr & 0xff_ffff || step.is_some_and(|s| s != e.step) {
            return Ok(false);
        }
        let n = abi::arguments(call.nr).min(6);
        Ok(match e.kind {
            Kind::Spot => spot(&e.payload)?
                .0
                .iter()
                .zip(call.args)
                .take(n)
                .all(|(a, b)| *a == b),
            Kind::Call => {
                let effects = CallEffects::decode(&e.payload)?;
                effects.args[..n] == call.args[..n]
                    && !(self.edited && (-516..=-512).contains(&e.result))
            }
            _ => false,
        })
    }

    fn spot_effects(&mut self, call: &Call, event: &Event) -> Result<(), Error> {
        let (_, bytes) = spot(&event.payload)?;
        if bytes.is_empty() {
            return Ok(());
        }
        match abi::simple(call.nr) {
            Simple::FixedAt { arg, .. } | Simple::ReturnedAt { arg, .. } => {
                self.engine.put(call.args[arg as usize], bytes)
            }
            _ => Err(Error::damaged("a call wrote memory that it cannot write")),
        }
    }

    /// Passes on what the call wrote to standard output or error.
    pub(crate) fn forward(&mut self, call: &Call, ret: i64) {
        let memory = &self.engine.memory;
        if let Some((kind, bytes)) = self.descriptors.follow(call, ret, memory) {
            self.put_out += bytes.len() as u64;
            if self.edited || self.engine.step().is_ok_and(|s| s > self.shown_to) {
                (self.sink)(kind, &bytes);
            }
        }
    }

    fn interrupted(&mut self, call: &Call, code: i64) -> Result<Option<End>, Error> {
        let restart = match &self.next {
            Some(e) if e.kind == Kind::Signal => {
                matches!(
                    self.engine.dispositions.of(e.nr as i32),
                    Disposition::Handler { restart: true }
                )
            }
            _ => return Err(self.diverged("a call was interrupted by nothing")),
        };
        if !matches!(&self.next, Some(e) if e.result == 1) {
            self.engine.finish_interrupted(call, code, restart);
        }
        self.due_signals()
    }

    fn guest_state(&mut self, call: &Call, ret: i64) -> Result<(), Error> {
        let nr = call.nr as i64;
        if ret < 0 {
            return Ok(());
        }
        match nr {
            libc::SYS_rt_sigaction => {
                let act = self.engine.sigaction_argument(call);
                // The old action is in place already.
                self.redo(&Call {
                    args: [call.args[0], call.args[1], 0, call.args[3], 0, 0],
                    ..*call
                })?;
                if let Some(act) = act {
                    self.engine.dispositions.set(call.args[0], &act);
                }
            }
            libc::SYS_rt_sigprocmask => {
                self.redo(&Call {
                    args: [call.args[0], call.args[1], 0, call.args[3], 0, 0],
                    ..*call
                })?;
                self.engine.keep_trap_open()?;
            }
            libc::SYS_sigaltstack => {
                let mut stack = [0; 24];
                if call.args[0] != 0 && self.engine.memory.read(call.args[0], &mut stack) == 24 {
                    self.engine.altstack = stack;
                }
                self.redo(&Call {
                    args: [call.args[0], 0, 0, 0, 0, 0],
                    ..*call
                })?;
            }
            libc::SYS_arch_prctl => {
                self.redo(call)?;
                self.engine.regs.fs_base = self.engine.tracee.regs()?.fs_base;
            }
            // How far the stack may grow is decided by the kernel here too.
            libc::SYS_setrlimit if call.args[0] == u64::from(libc::RLIMIT_STACK) => {
                self.redo(call)?;
            }
            libc::SYS_prlimit64
                if call.args[1] == u64::from(libc::RLIMIT_STACK) && call.args[2] != 0 =>
            {
                self.redo(&Call {
                    args: [0, call.args[1], call.args[2], 0, 0, 0],
                    ..*call
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Carries out a call that must have its effect in this process too.
    fn redo(&mut self, call: &Call) -> Result<i64, Error> {
        let saved = self.engine.regs;
        self.engine.regs.rdi = call.args[0];
        self.engine.regs.rsi = call.args[1];
        self.engine.regs.rdx = call.args[2];
        self.engine.regs.r10 = call.args[3];
        self.engine.regs.r8 = call.args[4];
        self.engine.regs.r9 = call.args[5];
        let outcome = self.engine.guest_call(call);
        self.engine.regs = saved;
        match outcome? {
            Outcome::Returned(ret) => Ok(ret),
            _ => Err(Error::Lost),
        }
    }

    fn address_space(&mut self, call: &Call, ret: i64, effects: &CallEffects) -> Result<(), Error> {
        if (-4095..0).contains(&ret) {
            return Ok(());
        }
        let at = ret as u64;
        let [a, len, c, flags, _, offset] = call.args;
        let got = match call.nr as i64 {
            libc::SYS_mmap => {
                if flags & libc::MAP_SHARED as u64 != 0 {
                    self.map_shared(call, at, effects.file.as_ref())?;
                } else if let Some(f) = &effects.file {
                    let whole = (len + 0xfff) & !0xfff;
                    self.engine
                        .map_stored(f, &self.files, at, whole, c & 7, offset)?;
                    let known = PathBuf::from(
                        <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&f.name),
                    );
                    self.names.insert(self.files.path(f), known);
                } else {
                    let keep = (libc::MAP_GROWSDOWN | libc::MAP_STACK | libc::MAP_NORESERVE) as u64;
                    let flags = flags & keep
                        | (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
                    let call = Call {
                        args: [at, len, c & 7, flags, u64::MAX, 0],
                        ..*call
                    };
                    if self.redo(&call)? != ret {
                        return Err(self.diverged("a mapping could not be made again"));
                    }
                }
                ret
            }
            libc::SYS_shmat => {
                let segment = effects.file.as_ref();
                let segment = segment.ok_or(Error::damaged("an attached segment has no size"))?;
                self.attach(call, at, segment)?;
                ret
            }
            libc::SYS_shmdt => {
                self.detach(a)?;
                ret
            }
            libc::SYS_brk => {
                let (old, new) = ((self.brk + 0xfff) & !0xfff, (at + 0xfff) & !0xfff);
                self.brk = at;
                if new > old {
                    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
                    self.engine
                        .inject(libc::SYS_mmap, [old, new - old, 3, flags, u64::MAX, 0])?;
                } else if new < old {
                    self.engine
                        .inject(libc::SYS_munmap, [new, old - new, 0, 0, 0, 0])?;
                    self.engine.changed(new, old);
                }
                self.engine.changed(new.min(old), new.max(old));
                return Ok(());
            }
            libc::SYS_mremap => {
                let flags = if at == a {
                    0
                } else {
                    (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64
                };
                let flags = flags | flags_kept(call.args[3]);
                self.redo(&Call {
                    args: [a, len, c, flags, at, 0],
                    ..*call
                })?
            }
            libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
                let call = if call.nr as i64 == libc::SYS_pkey_mprotect {
                    Call {
                        nr: libc::SYS_mprotect as u64,
                        ..*call
                    }
                } else {
                    *call
                };
                self.redo(&call)?
            }
            libc::SYS_madvise => {
                // Advice that changes contents matters; the rest need not succeed here.
                self.redo(call)?;
                ret
            }
            _ => ret,
        };
        if got != ret {
            return Err(self.diverged(&format!(
                "{} gave {got:#x}, not {ret:#x}",
                abi::describe(call, None)
            )));
        }
        self.engine.note_address_space(call, ret);
        Ok(())
    }

    fn exec(&mut self, step: u64) -> Result<(), Error> {
        let event = self.take()?.filter(|e| e.kind == Kind::Image);
        let event = event.ok_or(Error::damaged("an exec has no image"))?;
        let snapshot = Snapshot::decode(&event.payload)?;
        // Whichever thread has made the call is the only one left, and the first.
        self.engine.threads = Threads::new();
        self.engine.last_fault = LastFault::default();
        self.gone.clear();
        self.in_call.clear();
        self.names = self.engine.rebuild(&snapshot, &self.files)?;
        self.brk = snapshot.brk;
        self.objects = Objects::default();
        self.engine.dispositions.reset_handlers();
        self.engine.reset_kernel_signals()?;
        self.engine.reset_vector_state()?;
        self.descriptors.exec();
        self.engine.reset_step(step)
    }

    // ---- instructions ------------------------------------------------------------------------

    fn special(&mut self) -> Result<Option<End>, Error> {
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

/// The arguments and the data of a call that ran on the spot.
fn spot(payload: &[u8]) -> Result<([u64; 3], &[u8]), Error> {
    let mut d = Decoder(payload);
    let args = [d.u64()?, d.u64()?, d.u64()?];
    Ok((args, d.0))
}

fn flags_kept(flags: u64) -> u64 {
    const MREMAP_DONTUNMAP: u64 = 4;
    flags & MREMAP_DONTUNMAP
}
