//! Replaying: the guest runs again from the recording alone.
//!
//! Nothing is asked of the outside world. Each system call must be the one that the recording has
//! next, at the same step; its result and its memory effects are put in place. Calls that shape
//! the process itself (its address space, its signal handlers) are carried out again.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use abi::{Call, Class, Simple};

use crate::engine::{Engine, Pending, Stop};
use crate::files::Files;
use crate::launch::{self, Launch};
use crate::output::Outputs;
use crate::process::Outcome;
use crate::recording::{CallEffects, Event, Kind, Reader};
use crate::signals::Disposition;
use crate::start::{self, Snapshot};
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
    /// Before the instruction at an armed address.
    Armed { pc: u64 },
    /// Before a system call asked for.
    Syscall { nr: u64 },
    /// The guest ended.
    Ended(End),
}

/// A replayed guest, stopped at a boundary.
pub struct Replay {
    pub(crate) engine: Engine,
    reader: Reader,
    next: Option<Event>,
    files: Files,
    pub(crate) names: HashMap<PathBuf, PathBuf>,
    brk: u64,
    outputs: Outputs,
    sink: Sink,
    ended: Option<End>,
    on_crash: Option<Box<dyn FnMut(&Crash<'_>)>>,
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
            outputs: Outputs::new(),
            sink,
            ended: None,
            on_crash: None,
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

    /// Runs to the end, or to `goal` if that comes first.
    pub fn run(&mut self, goal: Option<u64>) -> Result<Halt, Error> {
        if let Some(end) = self.ended {
            return Ok(Halt::Ended(end));
        }
        loop {
            if let Some(end) = self.due_signals()? {
                return self.finish(end);
            }
            if let Some(goal) = goal
                && self.engine.step()? >= goal
            {
                return Ok(Halt::Step);
            }
            let due = match &self.next {
                Some(e) if e.kind == Kind::Signal => Some(e.step),
                _ => None,
            };
            let limit = match (goal, due) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            // Nothing from outside is meant for the guest.
            self.engine.pending.clear();
            let stop = self.engine.go(limit)?;
            self.engine.pending.clear();
            let end = match stop {
                Stop::Boundary => None,
                Stop::Syscall => self.syscall()?,
                Stop::Special => self.special()?,
                Stop::Fault { signal, info } => self.fault(Pending { signal, info })?,
                Stop::NoCode => {
                    let info = special::no_code_info(&self.engine);
                    self.fault(Pending { signal: libc::SIGSEGV, info })?
                }
                Stop::Armed => return Ok(Halt::Armed { pc: self.engine.regs.rip }),
                Stop::Watched => None,
                Stop::Interrupted(_) => return Err(Error::Internal("a replay made a system call by itself".into())),
                Stop::Ended(_) => return Err(Error::Lost),
            };
            if let Some(end) = end {
                return self.finish(end);
            }
        }
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
        Error::Diverged(format!("event {}: at step {step}, address {pc:#x}, {what}; {expected}", self.reader.index))
    }

    // ---- signals -----------------------------------------------------------------------------

    /// Delivers the signals that the recording has at the present step.
    fn due_signals(&mut self) -> Result<Option<End>, Error> {
        loop {
            let step = self.engine.step()?;
            match &self.next {
                Some(e) if e.kind == Kind::Signal && e.step == step => {}
                Some(e) if e.kind == Kind::Signal && e.step < step => {
                    return Err(self.diverged("a signal was missed"));
                }
                _ => return Ok(None),
            }
            let event = self.take()?.expect("just seen");
            let fatal = event.result == 1;
            let s = special::decode_signal(event.nr as i32, &event.payload)?;
            if s.regs.rip != self.engine.regs.rip || s.regs.rsp != self.engine.regs.rsp {
                return Err(self.diverged(&format!("signal {} came at {:#x}", event.nr, s.regs.rip)));
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

    fn fault(&mut self, mut p: Pending) -> Result<Option<End>, Error> {
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

    fn die(&mut self, p: &Pending) -> Result<End, Error> {
        self.engine.stats.steps = self.engine.step()?;
        if let Some(mut f) = self.on_crash.take() {
            self.engine.refresh_maps()?;
            f(&Crash::of(&self.engine, p, &self.names));
        }
        Ok(End::Killed(p.signal))
    }

    // ---- system calls ------------------------------------------------------------------------

    fn syscall(&mut self) -> Result<Option<End>, Error> {
        self.engine.stats.syscalls += 1;
        let call = self.engine.call();
        let step = self.engine.step()?;
        match &self.next {
            Some(e) if matches!(e.kind, Kind::Spot | Kind::Call) && u64::from(e.nr) == call.nr & 0xff_ffff && e.step == step => {}
            Some(e) if e.kind == Kind::End => {
                let end = End::from_wait_status(e.result);
                self.engine.stats.steps = step;
                return Ok(Some(end));
            }
            _ => return Err(self.diverged(&format!("the guest calls {}", abi::describe(&call, None)))),
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
        if effects.args != call.args {
            return Err(self.diverged(&format!("the guest calls {} with other arguments", abi::describe(&call, None))));
        }
        for (addr, bytes) in &effects.writes {
            self.engine.put(*addr, bytes)?;
        }
        if (-516..=-512).contains(&ret) {
            return self.interrupted(&call, ret);
        }
        self.forward(&call, ret);
        match abi::class(&call) {
            Class::AddressSpace => self.address_space(&call, ret, &effects)?,
            Class::GuestState => {
                if call.nr as i64 == libc::SYS_rt_sigreturn {
                    self.engine.sigreturn()?;
                    return Ok(None);
                }
                self.guest_state(&call, ret)?;
            }
            Class::Process => match call.nr as i64 {
                libc::SYS_exit | libc::SYS_exit_group => {
                    self.engine.stats.steps = step;
                    return Ok(Some(End::Exited(call.args[0] as i32 & 0xff)));
                }
                libc::SYS_execve | libc::SYS_execveat if ret == 0 => return self.exec(step).map(|()| None),
                _ => {}
            },
            _ => {}
        }
        self.engine.return_from_call(ret);
        Ok(None)
    }

    fn spot_effects(&mut self, call: &Call, event: &Event) -> Result<(), Error> {
        if event.payload.is_empty() {
            return Ok(());
        }
        match abi::simple(call.nr) {
            Simple::FixedAt { arg, .. } | Simple::ReturnedAt { arg, .. } => {
                self.engine.put(call.args[arg as usize], &event.payload)
            }
            _ => Err(Error::damaged("a call wrote memory that it cannot write")),
        }
    }

    /// Passes on what the call wrote to standard output or error.
    fn forward(&mut self, call: &Call, ret: i64) {
        let memory = &self.engine.memory;
        if let Some((kind, bytes)) = self.outputs.written(call, ret, memory) {
            (self.sink)(kind, &bytes);
        }
    }

    fn interrupted(&mut self, call: &Call, code: i64) -> Result<Option<End>, Error> {
        let restart = match &self.next {
            Some(e) if e.kind == Kind::Signal => {
                matches!(self.engine.dispositions.of(e.nr as i32), Disposition::Handler { restart: true })
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
                self.redo(&Call { args: [call.args[0], call.args[1], 0, call.args[3], 0, 0], ..*call })?;
                if let Some(act) = act {
                    self.engine.dispositions.set(call.args[0], &act);
                }
            }
            libc::SYS_rt_sigprocmask => {
                self.redo(&Call { args: [call.args[0], call.args[1], 0, call.args[3], 0, 0], ..*call })?;
                self.engine.keep_trap_open()?;
            }
            libc::SYS_sigaltstack => {
                self.redo(&Call { args: [call.args[0], 0, 0, 0, 0, 0], ..*call })?;
            }
            libc::SYS_arch_prctl => {
                self.redo(call)?;
                self.engine.regs.fs_base = self.engine.tracee.regs()?.fs_base;
            }
            libc::SYS_setrlimit if call.args[0] == u64::from(libc::RLIMIT_STACK) => {
                self.redo(call)?;
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
                if let Some(f) = &effects.file {
                    let whole = (len + 0xfff) & !0xfff;
                    self.engine.map_stored(f, &self.files, at, whole, c & 7, offset)?;
                    let known = PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&f.name));
                    self.names.insert(self.files.path(f), known);
                } else {
                    let keep = (libc::MAP_GROWSDOWN | libc::MAP_STACK | libc::MAP_NORESERVE) as u64;
                    let flags = flags & keep | (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
                    let call = Call { args: [at, len, c & 7, flags, u64::MAX, 0], ..*call };
                    if self.redo(&call)? != ret {
                        return Err(self.diverged("a mapping could not be made again"));
                    }
                }
                ret
            }
            libc::SYS_brk => {
                let (old, new) = ((self.brk + 0xfff) & !0xfff, (at + 0xfff) & !0xfff);
                self.brk = at;
                if new > old {
                    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
                    self.engine.inject(libc::SYS_mmap, [old, new - old, 3, flags, u64::MAX, 0])?;
                } else if new < old {
                    self.engine.inject(libc::SYS_munmap, [new, old - new, 0, 0, 0, 0])?;
                    self.engine.changed(new, old);
                }
                self.engine.changed(new.min(old), new.max(old));
                return Ok(());
            }
            libc::SYS_mremap => {
                let flags = if at == a { 0 } else { (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64 };
                let flags = flags | flags_kept(call.args[3]);
                self.redo(&Call { args: [a, len, c, flags, at, 0], ..*call })?
            }
            libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
                let call = if call.nr as i64 == libc::SYS_pkey_mprotect {
                    Call { nr: libc::SYS_mprotect as u64, ..*call }
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
            return Err(self.diverged(&format!("{} gave {got:#x}, not {ret:#x}", abi::describe(call, None))));
        }
        self.engine.note_address_space(call, ret);
        Ok(())
    }

    fn exec(&mut self, step: u64) -> Result<(), Error> {
        let event = self.take()?.filter(|e| e.kind == Kind::Image);
        let event = event.ok_or(Error::damaged("an exec has no image"))?;
        let snapshot = Snapshot::decode(&event.payload)?;
        self.names = self.engine.rebuild(&snapshot, &self.files)?;
        self.brk = snapshot.brk;
        self.engine.dispositions.reset_handlers();
        self.engine.reset_kernel_signals()?;
        self.engine.reset_vector_state()?;
        self.outputs.exec();
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
            Some(e) if e.kind == Kind::Insn && e.step == step && e.payload.len() == 32 => {}
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

fn flags_kept(flags: u64) -> u64 {
    const MREMAP_DONTUNMAP: u64 = 4;
    flags & MREMAP_DONTUNMAP
}
