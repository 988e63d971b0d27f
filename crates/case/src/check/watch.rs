//! A run with the tape on and the abstract machine listening: while a program is recorded, or in a replay.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use guest::{Guest, Halt, Recorder, Replay, Syscalls, Until};
use image::Program;
use image::effects::{Effects, Size};
use rules::machine::Machine;
use tape::Listener;

use super::chain::Stretch;
use super::loader::{Loader, Modules};
use super::reach::{self, Reachable, Stands};
use super::report::Site;
use super::select::Chosen;
use crate::Error;
use crate::crash::{self, CrashReport, Witness};
use crate::meta::{Ended, Meta};
use crate::moment;
use crate::replay::Audience;
use crate::run::{self, RunRequest, Stuck, Surroundings};
use crate::store::Store;

/// Steps between two looks at whether to go on.
const STRIDE: u64 = 50_000_000;

pub(crate) struct Watched {
    pub(crate) name: String,
    folder: PathBuf,
    /// There once somebody has to go back in the run.
    pub(super) replay: Option<Replay>,
    pub(crate) machine: Box<Machine>,
    pub(crate) program: Arc<Program>,
    pub(crate) steps: u64,
    /// What was not followed, and why.
    pub(crate) lacks: Vec<String>,
    /// What the program died of.
    pub(super) crash: Option<CrashReport>,
    /// What could be found where the program was about to end, if that has been looked at.
    pub(super) ending: Option<Ending>,
    /// The part of the run in which values were followed last.
    pub(super) stretch: Option<Stretch>,
    /// Executable mappings, and what they say: of the moment that was looked at last.
    there: Option<(Modules, Rc<Program>)>,
    heeds_signals: bool,
    /// Somebody wants an end to it.
    pub(super) user: Arc<AtomicBool>,
    /// Why the run was not watched to its end.
    pub(super) trouble: Option<Error>,
}

/// The blocks that could be found where the program was about to end.
pub(super) struct Ending {
    pub(super) step: u64,
    pub(super) reachable: Reachable,
    /// The stack there, if some cannot be found: it is a long way back to where the program ended.
    pub(super) site: Option<Site>,
}

/// How a run is watched.
#[derive(Clone, Copy)]
pub(crate) struct How {
    /// It ends at the first fault.
    pub(crate) first_only: bool,
    /// It ends when the tool is told to by a signal; a debugger has its own ways.
    pub(crate) heeds_signals: bool,
    /// A list of accesses is kept.
    pub(crate) events: bool,
    /// It is followed twice, with and without machine code.
    pub(crate) doubt: bool,
}

/// How a run came out.
enum Heard {
    Ended,
    /// The machine has seen enough.
    Enough,
    /// Somebody wants an end to it.
    Interrupted,
    /// The guest could not go on.
    Failed(guest::Error),
}

/// What there is when a run has been listened to.
struct Listened {
    heard: Heard,
    ending: Option<Ending>,
    steps: u64,
    machine: Box<Machine>,
}

/// An access that the guest died of.
struct Fatal {
    pc: u64,
    /// The instruction that made it was executed: a call, and what could not be read is the code that it leads to.
    before: bool,
    address: u64,
    size: u64,
    writes: bool,
    register: Option<u8>,
}

impl Watched {
    /// Watches a recording, by replaying it.
    pub(crate) fn of(
        name: &str,
        folder: &Path,
        meta: &Meta,
        chosen: &Chosen,
        how: How,
        audience: &Rc<dyn Audience>,
    ) -> Result<Watched, Error> {
        let wrong = |error| Error::Engine {
            name: name.to_owned(),
            error,
        };
        let user = heeding(how.heeds_signals);
        let mut replay = open(folder, &user, how.heeds_signals).map_err(wrong)?;
        let interrupt = replay.interrupter();
        let (witness, deadly) = (Witness::default(), Deadly::default());
        replay.on_crash(deadly.seen_with(witness.look(name)));
        let mut loader = Loader::new(chosen);
        let machine = machine(chosen, how, &loader, &interrupt)?;
        let of = meta.figures.as_ref().map(|f| f.steps);
        let progress = |step| audience.progress(step, of);
        let Listened {
            heard,
            ending,
            steps,
            mut machine,
        } = listen(
            &mut replay,
            machine,
            &mut loader,
            &user,
            Some(STRIDE),
            progress,
        )
        .map_err(wrong)?;
        let trouble = match heard {
            Heard::Interrupted => Some(Error::Interrupted),
            Heard::Failed(error) => Some(wrong(error)),
            Heard::Ended => {
                deadly.tell(&mut machine);
                None
            }
            Heard::Enough => None,
        };
        // The machine may have asked for an end; that was about the tape.
        interrupt.store(user.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(Watched {
            name: name.to_owned(),
            folder: folder.to_owned(),
            replay: Some(replay),
            machine,
            program: loader.program(),
            lacks: loader.take_lacks(),
            steps,
            crash: witness.report(folder),
            ending,
            stretch: None,
            there: None,
            heeds_signals: how.heeds_signals,
            user,
            trouble,
        })
    }

    /// Runs and records a program, and watches it meanwhile.
    pub(crate) fn recorded(
        store: &Store,
        program: &RunRequest,
        chosen: &Chosen,
        how: How,
        stuck: Stuck,
    ) -> Result<(Watched, Ended), Error> {
        let interrupt: Arc<AtomicBool> = Arc::default();
        let mut loader = Loader::new(chosen);
        let machine = machine(chosen, how, &loader, &interrupt)?;
        let deadly = Deadly::default();
        let dying = deadly.seen_with(|_| ());
        // Signals to the tool are the guest's matter as long as it runs.
        let user: Arc<AtomicBool> = Arc::default();
        let mut seen = None;
        let watch = |recorder: &mut Recorder| {
            recorder.interrupt_by(interrupt.clone());
            let listened = listen(recorder, machine, &mut loader, &user, None, |_| ())?;
            let heard = seen.insert(listened);
            if matches!(heard.heard, Heard::Failed(_))
                && let Heard::Failed(error) = std::mem::replace(&mut heard.heard, Heard::Enough)
            {
                return Err(error);
            }
            // What is left is recorded without anybody listening.
            while !matches!(recorder.run_until(&Until::end())?, Halt::Ended(_)) {}
            Ok(())
        };
        let surroundings = Surroundings::default();
        let (name, ended, crash, trouble) =
            match run::run_as(store, program, &surroundings, Some(stuck), watch, dying) {
                Ok(done) => (done.recording.0, done.ended, done.crash, None),
                // What was found before that is told.
                Err(Error::Engine { name, error }) if seen.is_some() => {
                    let why = error.to_string();
                    let trouble = Error::Engine {
                        name: name.clone(),
                        error,
                    };
                    (name, Ended::Failed { why }, None, Some(trouble))
                }
                Err(e) => return Err(e),
            };
        let Listened {
            heard,
            ending,
            steps,
            mut machine,
        } = seen.expect("the program has run");
        if matches!(heard, Heard::Ended) {
            deadly.tell(&mut machine);
        }
        let watched = Watched {
            folder: store.path(&name),
            name,
            replay: None,
            machine,
            program: loader.program(),
            lacks: loader.take_lacks(),
            steps,
            crash,
            ending,
            stretch: None,
            there: None,
            heeds_signals: how.heeds_signals,
            user: heeding(how.heeds_signals),
            trouble,
        };
        Ok((watched, ended))
    }

    /// The guest, to go anywhere in the run.
    pub(crate) fn replay(&mut self) -> Result<&mut Replay, Error> {
        if self.replay.is_none() {
            let opened = open(&self.folder, &self.user, self.heeds_signals);
            self.replay = Some(opened.map_err(|e| self.wrong(e))?);
        }
        Ok(self.opened())
    }

    /// The same, of which it is known that somebody has gone somewhere already.
    fn opened(&mut self) -> &mut Replay {
        self.replay.as_mut().expect("the guest was taken somewhere")
    }

    /// The guest where it was taken.
    pub(crate) fn guest(&self) -> &Replay {
        self.replay.as_ref().expect("the guest was taken somewhere")
    }

    /// Takes the guest to a step.
    pub(crate) fn goto(&mut self, step: u64) -> Result<(), Error> {
        self.go_on()?;
        let went = self.replay()?.goto(step);
        went.map_err(|e| self.wrong(e))?;
        self.go_on()
    }

    /// An error if somebody wants an end to it.
    pub(crate) fn go_on(&self) -> Result<(), Error> {
        match self.user.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// A function as the user knows it.
    pub(crate) fn function_name(&self, n: u16) -> &str {
        as_written(self.machine.function_name(n))
    }

    /// What is mapped where the guest stands.
    pub(crate) fn program_there(&mut self, mappings: &[guest::Mapping]) -> Rc<Program> {
        let code = mappings.iter().filter(|m| m.protection.execute);
        let key: Vec<_> = code.map(|m| (m.start, m.name.clone())).collect();
        match &self.there {
            Some((known, program)) if *known == key => program.clone(),
            _ => {
                let program = Rc::new(moment::program(mappings, self.guest().names()));
                self.there = Some((key, program.clone()));
                program
            }
        }
    }

    pub(crate) fn wrong(&self, error: guest::Error) -> Error {
        Error::Engine {
            name: self.name.clone(),
            error,
        }
    }
}

/// The name of a function as it is written in a program.
pub(super) fn as_written(name: &str) -> &str {
    const OPERATORS: [(&str, &str); 4] = [
        ("_Znw", "operator new"),
        ("_Zna", "operator new[]"),
        ("_Zdl", "operator delete"),
        ("_Zda", "operator delete[]"),
    ];
    let is = |begin: &str| name.starts_with(begin);
    let operator = OPERATORS.iter().find(|(begin, _)| is(begin));
    operator.map_or(name, |(_, written)| written)
}

/// A flag that says that somebody wants an end to it.
fn heeding(signals: bool) -> Arc<AtomicBool> {
    let user = Arc::default();
    if signals {
        heed(&user);
    }
    user
}

fn heed(flag: &Arc<AtomicBool>) {
    // Chained to the handlers of the engine, which would take the place of earlier ones.
    guest::survive_interrupts();
    for signal in [nix::libc::SIGINT, nix::libc::SIGTERM, nix::libc::SIGHUP] {
        let _ = signal_hook::flag::register(signal, flag.clone());
    }
}

fn open(folder: &Path, user: &AtomicBool, signals: bool) -> Result<Replay, guest::Error> {
    let mut replay = Replay::open(folder, Box::new(|_, _| {}))?;
    let interrupt = replay.interrupter();
    if signals {
        heed(&interrupt);
        // It may have come in between.
        interrupt.store(user.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    // Going back runs without the tape, so in a fraction of the time that passed on the way here.
    let spacing = guest::Spacing {
        time: 8 * guest::Spacing::default().time,
        ..Default::default()
    };
    replay.keep_checkpoints(spacing)?;
    Ok(replay)
}

/// The machine that listens.
fn machine(
    chosen: &Chosen,
    how: How,
    loader: &Loader,
    interrupt: &Arc<AtomicBool>,
) -> Result<Machine, Error> {
    let make = if how.events {
        Machine::noting
    } else {
        Machine::new
    };
    let mut machine = make(
        chosen.rules.clone(),
        chosen.pairs.clone(),
        loader.codebase.clone(),
        how.first_only.then(|| interrupt.clone()),
    )
    .map_err(Error::Addresses)?;
    if how.doubt {
        machine.doubt().map_err(Error::Addresses)?;
    }
    Ok(machine)
}

fn taken_back(listener: Box<dyn Listener>) -> Box<Machine> {
    let machine = listener.into_any().downcast::<Machine>();
    machine.expect("the listener that was given")
}

/// Lets a guest run with the machine listening, which is told of the modules that are loaded, to its end or to where the
/// machine has seen enough. `progress` is called about every `stride` steps.
fn listen(
    guest: &mut dyn Guest,
    mut machine: Machine,
    loader: &mut Loader,
    user: &AtomicBool,
    stride: Option<u64>,
    progress: impl Fn(u64),
) -> Result<Listened, guest::Error> {
    if let Some(m) = stack_of(guest)? {
        machine.set_stack(m);
    }
    guest.tape(Box::new(machine))?;
    let asks = loader.asks_pointers();
    let mut ending = None;
    let watched = follow(guest, loader, user, (stride, asks), &mut ending, progress);
    // What was heard up to where the guest could not go on has happened.
    let heard = watched.unwrap_or_else(Heard::Failed);
    let steps = guest.step();
    let (machine, heard) = match (guest.end_tape(), heard) {
        (Ok(listener), heard) => (taken_back(listener), heard),
        (Err(_), Heard::Failed(error)) | (Err(error), _) => return Err(error),
    };
    Ok(Listened {
        steps: steps.unwrap_or_else(|_| machine.step()),
        heard,
        ending,
        machine,
    })
}

fn follow(
    guest: &mut dyn Guest,
    loader: &mut Loader,
    user: &AtomicBool,
    (stride, asks): (Option<u64>, bool),
    ending: &mut Option<Ending>,
    progress: impl Fn(u64),
) -> Result<Heard, guest::Error> {
    loop {
        loader.refresh(guest)?;
        let until = Until {
            step: match stride {
                Some(stride) => Some(guest.step()? + stride),
                None => None,
            },
            stops: loader.stops(),
            syscalls: Syscalls::Numbers(loader.calls()),
            ..Until::default()
        };
        match guest.run(&until)? {
            Halt::Ended(_) => return Ok(Heard::Ended),
            Halt::Interrupted if user.load(Ordering::Relaxed) => return Ok(Heard::Interrupted),
            Halt::Interrupted => return Ok(Heard::Enough),
            Halt::Stop(n) => {
                if let Some(step) = loader.stopped(n, guest)?
                    && asks
                {
                    *ending = Some(look_at_end(guest, step)?);
                }
            }
            Halt::Syscall { nr } => loader.called(nr),
            _ => progress(guest.step()?),
        }
    }
}

/// The program is about to end, and a moment later its memory may be gone: what can be found in it?
fn look_at_end(guest: &mut dyn Guest, step: u64) -> Result<Ending, guest::Error> {
    let mut found = Ok(Reachable::default());
    let mut lost = false;
    guest.with_listener(&mut |guest, listener| {
        let machine = taken_back(listener);
        found = reach::reachable(
            guest,
            &machine.heap,
            step,
            Stands::Ends,
            &AtomicBool::new(false),
        );
        lost = found.as_ref().is_ok_and(|f| f.lacks_some(&machine.heap));
        machine
    })?;
    let reachable = found?;
    let site = match lost {
        true => {
            let mappings = guest.mappings()?;
            Some(Site::of(guest, &mappings, step, None))
        }
        false => None,
    };
    Ok(Ending {
        step,
        reachable,
        site,
    })
}

/// What the guest died of, as far as rules are about that.
#[derive(Clone, Default)]
struct Deadly(Rc<RefCell<Vec<Fatal>>>);

impl Deadly {
    /// Looks when the guest dies, and has somebody else look too.
    fn seen_with(
        &self,
        mut look: impl FnMut(&guest::Crash<'_>) + 'static,
    ) -> impl FnMut(&guest::Crash<'_>) + 'static {
        let seen = self.0.clone();
        move |crash| {
            *seen.borrow_mut() = fatal(crash);
            look(crash);
        }
    }

    fn tell(&self, machine: &mut Machine) {
        for f in self.0.take() {
            let step = machine.step() - u64::from(f.before);
            machine.fatal_access((f.pc, step), f.address, f.size, f.writes, f.register);
        }
    }
}

/// The accesses that a guest may have died of, which are not on the tape.
fn fatal(crash: &guest::Crash<'_>) -> Vec<Fatal> {
    let (regs, guest) = (&crash.regs, |at: u64, buf: &mut [u8]| crash.read(at, buf));
    let mut out = Vec::new();
    if ![nix::libc::SIGSEGV, nix::libc::SIGBUS].contains(&crash.signal) {
        return out;
    }
    let mut bytes = [0; 15];
    let n = guest(regs.rip, &mut bytes);
    if n == 0 {
        out.extend(crash::astray(crash).map(|call| Fatal {
            pc: call.ip(),
            before: true,
            address: regs.rip,
            size: 1,
            writes: false,
            register: register_called(&call),
        }));
        return out;
    }
    let decoded = iced_x86::Decoder::with_ip(64, &bytes[..n], regs.rip, 0).decode();
    if decoded.is_invalid() {
        return out;
    }
    let read = |r: image::effects::RegRange| crate::trace::register_of(regs, r);
    for access in Effects::of(&decoded).accesses {
        let at = access.address.resolve(read);
        let size = match access.size {
            Size::Fixed(n) => u64::from(n),
            Size::Repeat { element, .. } => u64::from(element),
            // Which elements it would have been does not matter to those who ask where it was.
            Size::Masked { element, lanes, .. } | Size::Packed { element, lanes, .. } => {
                u64::from(element) * u64::from(lanes)
            }
            Size::Lanes { .. } | Size::State(_) => continue,
        };
        let mapped = |at: u64| guest(at, &mut [0]) == 1;
        // Of two accesses (a copy from memory to memory) it is the one that cannot be made.
        if mapped(at) && mapped(at.wrapping_add(size - 1)) && !access.writes {
            continue;
        }
        out.push(Fatal {
            pc: regs.rip,
            before: false,
            address: at,
            size,
            writes: access.writes,
            register: access.address.base.or(access.address.index),
        });
    }
    out
}

/// The register that a call goes by, by number.
fn register_called(call: &iced_x86::Instruction) -> Option<u8> {
    let register = call.op0_register();
    register.is_gpr64().then(|| register.number() as u8)
}

fn stack_of(guest: &mut dyn Guest) -> Result<Option<(u64, u64)>, guest::Error> {
    const LARGEST: u64 = 8 << 20;
    let rsp = guest.regs().rsp;
    let list = guest.mappings()?;
    let stack = list.iter().find(|m| (m.start..m.end).contains(&rsp));
    // It grows down from where it is.
    Ok(stack.map(|m| (m.end.saturating_sub(LARGEST), m.end)))
}
