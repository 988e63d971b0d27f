//! One replay with the tape on and the abstract machine listening.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use guest::{Halt, Replay, StopAt, Syscalls, Until};
use image::Program;
use image::effects::{Effects, Size};
use rules::machine::functions::{Function, Role, SHARED, known};
use rules::machine::{Codebase, Machine};
use rules::syntax::Pattern;

use super::select::Chosen;
use crate::Error;
use crate::meta::Meta;
use crate::moment;
use crate::replay::Audience;

/// Steps between two looks at whether to go on.
const STRIDE: u64 = 50_000_000;
/// System calls after which other modules may be there: mmap, mprotect, munmap, execve.
const LOADING: [u64; 4] = [9, 10, 11, 59];
/// The call that comes behind the last of them, before code of a new module runs.
const CLOSE: u64 = 3;
/// A function with more returns is left from most of them seldom.
const MOST_RETURNS: usize = 16;
/// Bytes of a function in which returns are looked for.
const MOST_CODE: u64 = 1 << 16;

/// Executable mappings: where, and of which file.
type Modules = Vec<(u64, PathBuf)>;

pub(crate) struct Watched {
    pub(crate) name: String,
    pub(crate) replay: Replay,
    pub(crate) machine: Box<Machine>,
    pub(crate) program: Program,
    pub(crate) steps: u64,
    /// Executable mappings, and what they say: of the moment that was looked at last.
    there: Option<(Modules, Rc<Program>)>,
    /// Somebody wants an end to it.
    pub(super) user: Arc<AtomicBool>,
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

/// Keeps the machine's view of the code up to date while modules are loaded.
struct Loader {
    codebase: Arc<Mutex<Codebase>>,
    wanted: HashMap<String, Role>,
    patterns: Vec<Pattern>,
    /// Code that chooses a function, and the function's number.
    choosers: Vec<(u64, u16)>,
    chosen: Vec<u64>,
    /// Functions that were chosen.
    resolved: Vec<(u64, u16)>,
    /// Where the program may be about to end: functions that end it, and the returns of `main`.
    ends: Vec<u64>,
    ended: bool,
    /// The executable mappings as they were last looked at.
    modules: Modules,
    stale: bool,
    /// A call that may change them is about to be made.
    loading: bool,
}

impl Watched {
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
        let mut replay = Replay::open(folder, Box::new(|_, _| {})).map_err(wrong)?;
        let interrupt = replay.interrupter();
        let user = Arc::new(AtomicBool::new(false));
        let signals = [nix::libc::SIGINT, nix::libc::SIGTERM, nix::libc::SIGHUP];
        for signal in signals.into_iter().filter(|_| how.heeds_signals) {
            let _ = signal_hook::flag::register(signal, user.clone());
            let _ = signal_hook::flag::register(signal, interrupt.clone());
        }
        // Going back runs without the tape, so in a fraction of the time that passed on the way here.
        let spacing = guest::Spacing {
            time: 8 * guest::Spacing::default().time,
            ..Default::default()
        };
        replay.keep_checkpoints(spacing).map_err(wrong)?;
        let codebase: Arc<Mutex<Codebase>> = Arc::default();
        let make = if how.events {
            Machine::noting
        } else {
            Machine::new
        };
        let mut machine = make(
            chosen.rules.clone(),
            chosen.pairs.clone(),
            codebase.clone(),
            how.first_only.then(|| interrupt.clone()),
        )
        .map_err(Error::Addresses)?;
        if let Some(m) = stack_of(&mut replay).map_err(wrong)? {
            machine.set_stack(m);
        }
        if how.doubt {
            machine.doubt().map_err(Error::Addresses)?;
        }
        let mut loader = Loader {
            codebase,
            wanted: known(&chosen.pairs)
                .into_iter()
                .map(|f| (f.name, f.role))
                .rev()
                .collect(),
            patterns: chosen.rules.iter().flat_map(|r| r.functions()).collect(),
            choosers: Vec::new(),
            chosen: Vec::new(),
            resolved: Vec::new(),
            ends: Vec::new(),
            ended: false,
            modules: Vec::new(),
            stale: true,
            loading: true,
        };
        replay.tape(Box::new(machine)).map_err(wrong)?;
        let of = meta.figures.as_ref().map(|f| f.steps);
        let end = loop {
            loader.refresh(&mut replay).map_err(wrong)?;
            let step = replay.step().map_err(wrong)?;
            let until = Until {
                step: Some(step + STRIDE),
                stops: loader.stops(),
                syscalls: Syscalls::Numbers(loader.calls()),
                watches: Vec::new(),
                ..Until::default()
            };
            match replay.run(&until).map_err(wrong)? {
                Halt::Ended(end) => break Some(end),
                Halt::Interrupted if user.load(Ordering::Relaxed) => {
                    return Err(Error::Interrupted);
                }
                // The machine has seen enough.
                Halt::Interrupted => break None,
                Halt::Stop(n) => loader.stopped(n, &mut replay).map_err(wrong)?,
                Halt::Syscall { nr } => {
                    loader.stale = true;
                    loader.loading = nr != CLOSE;
                }
                _ => audience.progress(replay.step().map_err(wrong)?, of),
            }
        };
        let steps = replay.step().map_err(wrong)?;
        let listener = replay.end_tape().map_err(wrong)?;
        let mut machine = listener
            .into_any()
            .downcast::<Machine>()
            .expect("the listener that was given");
        let mappings = replay.mappings().map_err(wrong)?;
        let program = moment::program(&mappings, replay.names());
        if let Some(guest::End::Killed(signal)) = end
            && [nix::libc::SIGSEGV, nix::libc::SIGBUS].contains(&signal)
        {
            fatal(&replay, &mut machine);
        }
        // The machine may have asked for an end; that was about the tape.
        interrupt.store(user.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(Watched {
            name: name.to_owned(),
            replay,
            machine,
            program,
            steps,
            there: None,
            user,
        })
    }

    /// An error if somebody wants an end to it.
    pub(crate) fn go_on(&self) -> Result<(), Error> {
        match self.user.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// What is mapped where the guest stands.
    pub(crate) fn program_there(&mut self, mappings: &[guest::Mapping]) -> Rc<Program> {
        let code = mappings.iter().filter(|m| m.protection.execute);
        let key: Vec<_> = code.map(|m| (m.start, m.name.clone())).collect();
        match &self.there {
            Some((known, program)) if *known == key => program.clone(),
            _ => {
                let program = Rc::new(moment::program(mappings, self.replay.names()));
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

/// The access that killed the guest, which is not on the tape.
fn fatal(replay: &Replay, machine: &mut Machine) {
    let regs = replay.regs();
    let mut bytes = [0; 15];
    let n = replay.read(regs.rip, &mut bytes);
    let decoded = iced_x86::Decoder::with_ip(64, &bytes[..n], regs.rip, 0).decode();
    if n == 0 || decoded.is_invalid() {
        return;
    }
    let read = |r: image::effects::RegRange| crate::trace::register_of(&regs, r);
    for access in Effects::of(&decoded).accesses {
        let at = access.address.resolve(read);
        let size = match access.size {
            Size::Fixed(n) => u64::from(n),
            Size::Repeat { element, .. } => u64::from(element),
            _ => continue,
        };
        let mapped = |at: u64| replay.read(at, &mut [0]) == 1;
        // Of two accesses (a copy from memory to memory) it is the one that cannot be made.
        if mapped(at) && mapped(at.wrapping_add(size - 1)) && !access.writes {
            continue;
        }
        let register = access.address.base.or(access.address.index);
        machine.fatal_access(regs.rip, at, size, access.writes, register);
    }
}

/// The instructions by which a function returns.
fn returns(program: &Program, replay: &Replay, entry: u64) -> Vec<u64> {
    let Some(function) = program.function_at(entry) else {
        return Vec::new();
    };
    let size = function.high.saturating_sub(entry).min(MOST_CODE);
    let mut code = vec![0; size as usize];
    let n = replay.read(entry, &mut code);
    let decoder = iced_x86::Decoder::with_ip(64, &code[..n], entry, 0);
    let found = decoder
        .into_iter()
        .filter(|i| i.flow_control() == iced_x86::FlowControl::Return);
    found.take(MOST_RETURNS).map(|i| i.ip()).collect()
}

fn stack_of(replay: &mut Replay) -> Result<Option<(u64, u64)>, guest::Error> {
    const LARGEST: u64 = 8 << 20;
    let rsp = replay.regs().rsp;
    let list = replay.mappings()?;
    let stack = list.iter().find(|m| (m.start..m.end).contains(&rsp));
    // It grows down from where it is.
    Ok(stack.map(|m| (m.end.saturating_sub(LARGEST), m.end)))
}

impl Loader {
    fn stops(&self) -> Vec<StopAt> {
        let choosers = self.choosers.iter().map(|(pc, _)| *pc);
        let ends = self.ends.iter().copied();
        let all = choosers.chain(ends);
        all.map(|pc| StopAt { pc, nth: 1 }).collect()
    }

    /// System calls at which the mappings are looked at. A program may close files all the time.
    fn calls(&self) -> Vec<u64> {
        let close = self.loading.then_some(CLOSE);
        LOADING.into_iter().chain(close).collect()
    }

    fn refresh(&mut self, replay: &mut Replay) -> Result<(), guest::Error> {
        if !std::mem::take(&mut self.stale) {
            return Ok(());
        }
        let mappings = replay.mappings()?;
        let code = mappings.iter().filter(|m| m.protection.execute);
        let modules: Vec<_> = code.map(|m| (m.start, m.name.clone())).collect();
        if modules == self.modules {
            return Ok(());
        }
        if self.modules.iter().any(|m| !modules.contains(m)) {
            // The machine may be behind: it has to know code that is gone as what it was.
            replay.let_tape_be_heard()?;
            let there = |at: u64| {
                let code = mappings.iter().find(|m| (m.start..m.end).contains(&at));
                code.is_some_and(|m| self.modules.iter().any(|k| k.0 == m.start && k.1 == m.name))
            };
            self.chosen.retain(|at| there(*at));
            self.resolved.retain(|(at, _)| there(*at));
        }
        self.modules = modules;
        let program = moment::program(&mappings, replay.names());
        let found = program.functions_named(|name| {
            self.wanted.contains_key(name) || self.patterns.iter().any(|p| p.matches(name))
        });
        let mut codebase = self
            .codebase
            .lock()
            .expect("nobody panics while holding it");
        codebase.entries.clear();
        self.choosers.clear();
        self.ends.clear();
        let mut entries = Vec::new();
        for f in found {
            let role = self.wanted.get(&f.name).cloned().unwrap_or(Role::Noted);
            if !self.ended {
                match role {
                    Role::Ends => self.ends.push(f.entry),
                    _ if f.name == "main" => self.ends.extend(returns(&program, replay, f.entry)),
                    _ => {}
                }
            }
            let function = Function { name: f.name, role };
            let n = match codebase
                .functions
                .iter()
                .position(|known| *known == function)
            {
                Some(n) => n,
                None => {
                    codebase.functions.push(function);
                    codebase.functions.len() - 1
                }
            };
            entries.push((f.entry, n as u16, f.chooses));
        }
        for (entry, n, chooses) in entries {
            if chooses {
                if !self.chosen.contains(&entry) && self.choosers.len() < 400 {
                    self.choosers.push((entry, n));
                }
            } else {
                codebase.add_entry(entry, n);
            }
        }
        for (entry, n) in &self.resolved {
            codebase.add_entry(*entry, *n);
        }
        let shared = |name: &str| SHARED.iter().any(|list| list.contains(&name));
        codebase.stubs.clear();
        for (stub, name) in program.stubs_named(shared) {
            let known = codebase.functions.iter().position(|f| f.name == name);
            if let Some(n) = known {
                codebase.stubs.insert(stub, n as u16);
            }
        }
        codebase.library = program
            .modules()
            .iter()
            .filter(|m| {
                let name = m.name.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("libc.so") || name.starts_with("ld-linux")
            })
            .map(|m| (m.start, m.end))
            .collect();
        codebase.program = Some(Arc::new(program));
        let probes = codebase.probes();
        drop(codebase);
        replay.probe(probes);
        Ok(())
    }

    /// The guest stands at one of the stops.
    fn stopped(&mut self, n: usize, replay: &mut Replay) -> Result<(), guest::Error> {
        if n < self.choosers.len() {
            return self.choose(n, replay);
        }
        // Leaks are looked for where the program ends, and it is a long way there.
        self.ends.clear();
        self.ended = true;
        replay.checkpoint().map(drop)
    }

    /// The guest stands before code that chooses a function: which one?
    fn choose(&mut self, n: usize, replay: &mut Replay) -> Result<(), guest::Error> {
        let (chooser, function) = self.choosers.remove(n);
        self.chosen.push(chooser);
        let rsp = replay.regs().rsp;
        let mut word = [0; 8];
        if replay.read(rsp, &mut word) != 8 {
            return Ok(());
        }
        let until = Until {
            stops: vec![StopAt {
                pc: u64::from_le_bytes(word),
                nth: 1,
            }],
            ..Until::default()
        };
        if !matches!(replay.run(&until)?, Halt::Stop(_)) {
            return Ok(());
        }
        let entry = replay.regs().rax;
        self.resolved.push((entry, function));
        let mut codebase = self
            .codebase
            .lock()
            .expect("nobody panics while holding it");
        codebase.add_entry(entry, function);
        let probes = codebase.probes();
        drop(codebase);
        replay.probe(probes);
        Ok(())
    }
}
