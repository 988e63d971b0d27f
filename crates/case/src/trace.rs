//! A recording replayed once with the tape on: what ran, and the guest at its end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flow::{Codes, Execution, Roll};
use guest::{Halt, Replay, Until};
use image::Program;
use image::effects::RegRange;

use crate::Error;
use crate::moment;
use crate::point::{Point, Window};
use crate::replay::Audience;
use crate::slice::SourcePlace;
use crate::store::{Finished, Store};

/// How often each instruction of a recorded run was executed, from its tape; nothing if it was interrupted.
pub(crate) fn executions(replay: &mut Replay) -> Result<Option<BTreeMap<u64, u64>>, guest::Error> {
    replay.tape(Box::new(Roll::new(Codes::default())))?;
    if replay.run(&Until::end())? == Halt::Interrupted {
        return Ok(None);
    }
    Ok(Some(roll_of(replay.end_tape()?).times()))
}

fn roll_of(listener: Box<dyn tape::Listener>) -> Roll {
    let roll = listener.into_any().downcast::<Roll>();
    *roll.expect("the listener that was given")
}

/// Steps between two words on the progress.
const STRIDE: u64 = 50_000_000;

/// Where the tape of a recording is kept, and from how many bytes on it is.
const TAPE: &str = "tape";
const WORTH_SAVING: usize = 1 << 20;

pub(crate) struct Traced {
    pub(crate) name: String,
    pub(crate) replay: Replay,
    pub(crate) roll: Roll,
    pub(crate) program: Program,
    pub(crate) end: guest::End,
    pub(crate) steps: u64,
    /// Registers and thread at the end.
    pub(crate) regs: guest::UserRegs,
    pub(crate) thread: u32,
    mappings: Vec<guest::Mapping>,
    /// Set when somebody wants an end to it.
    pub(crate) interrupt: Arc<AtomicBool>,
}

/// What is changed in a run at a step.
#[derive(Clone)]
pub(crate) enum Action {
    Put(Box<Values>),
    Edits(Vec<guest::Edit>),
    /// Edits, and then what is in memory because of them.
    Move {
        edits: Vec<guest::Edit>,
        values: Box<Values>,
    },
}

/// Registers and memory that are set.
#[derive(Clone)]
pub(crate) struct Values {
    pub(crate) regs: guest::UserRegs,
    pub(crate) vectors: Option<Vec<u8>>,
    pub(crate) writes: Vec<(u64, Vec<u8>)>,
}

impl Values {
    fn put(&self, replay: &mut Replay) -> Result<(), guest::Error> {
        for (addr, bytes) in &self.writes {
            replay.write(*addr, bytes)?;
        }
        if let Some(v) = &self.vectors {
            replay.set_vector_state(v)?;
        }
        replay.set_regs(&self.regs)
    }
}

fn edit(replay: &mut Replay, list: &[guest::Edit]) -> Result<(), guest::Error> {
    list.iter()
        .try_for_each(|e| replay.edit(e.clone()).map(|_| ()))
}

impl Action {
    pub(crate) fn apply(&self, replay: &mut Replay) -> Result<(), guest::Error> {
        match self {
            Action::Edits(list) => edit(replay, list),
            Action::Put(values) => values.put(replay),
            Action::Move { edits, values } => {
                edit(replay, edits)?;
                values.put(replay)
            }
        }
    }
}

impl Traced {
    pub(crate) fn of(
        store: &Store,
        recording: Option<&str>,
        audience: &Rc<dyn Audience>,
    ) -> Result<Traced, Error> {
        Traced::changed(store, recording, audience, &[], None)
    }

    /// Answers a question about a recording, and says what was missing for it.
    pub(crate) fn answer<T>(
        store: &Store,
        recording: Option<&str>,
        audience: &Rc<dyn Audience>,
        question: impl FnOnce(&mut Traced) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut traced = Traced::of(store, recording, audience)?;
        let answer = question(&mut traced);
        for w in traced.program.warnings() {
            audience.note(&w);
        }
        answer
    }

    /// The same of a run that is changed at certain steps, in ascending order, and perhaps left at
    /// one.
    pub(crate) fn changed(
        store: &Store,
        recording: Option<&str>,
        audience: &Rc<dyn Audience>,
        changes: &[(u64, Action)],
        until: Option<u64>,
    ) -> Result<Traced, Error> {
        let Finished { name, folder, meta } = store.finished(recording)?;
        let wrong = |error| Error::Engine {
            name: name.clone(),
            error,
        };
        let mut replay = Replay::open(&folder, Box::new(|_, _| {})).map_err(wrong)?;
        let interrupt = replay.interrupter();
        for signal in [nix::libc::SIGINT, nix::libc::SIGTERM, nix::libc::SIGHUP] {
            let _ = signal_hook::flag::register(signal, interrupt.clone());
        }
        replay
            .keep_checkpoints(guest::Spacing::default())
            .map_err(wrong)?;
        let steps = meta.figures.as_ref().map(|f| f.steps);
        // A tape that is damaged, or of another version, is made again.
        let saved = folder.join(TAPE);
        let plain = changes.is_empty() && until.is_none();
        let known = plain.then(|| Roll::open(&saved).ok()).flatten();
        let known = known.filter(|r| Some(r.end_step()) == steps);
        if known.is_none() {
            let roll = Roll::new(Codes::default());
            replay.tape(Box::new(roll)).map_err(wrong)?;
        }
        for (step, action) in changes {
            replay.run(&Until::step(*step)).map_err(wrong)?;
            action.apply(&mut replay).map_err(wrong)?;
        }
        let end = loop {
            let step = replay.step().map_err(wrong)?;
            if until.is_some_and(|u| step >= u) {
                break guest::End::Exited(0);
            }
            let stride = until.map_or(STRIDE, |u| STRIDE.min(u - step));
            match replay.run(&Until::step(step + stride)).map_err(wrong)? {
                Halt::Ended(end) => break end,
                Halt::Interrupted => return Err(Error::Interrupted),
                _ => audience.progress(replay.step().map_err(wrong)?, steps),
            }
        };
        let roll = match known {
            Some(roll) => roll,
            None => {
                let roll = roll_of(replay.end_tape().map_err(wrong)?);
                if roll.bytes() > WORTH_SAVING && plain {
                    // Where there is no room, the next question takes longer, and that is all.
                    let _ = roll.save(&saved);
                }
                roll
            }
        };
        let mappings = replay.mappings().map_err(wrong)?;
        let program = moment::program(&mappings, replay.names());
        let steps = replay.step().map_err(wrong)?;
        let regs = replay.regs();
        let thread = roll.last_thread();
        Ok(Traced {
            name,
            replay,
            roll,
            program,
            end,
            steps,
            regs,
            thread,
            mappings,
            interrupt,
        })
    }

    pub(crate) fn is_code(&self, pc: u64) -> bool {
        let executable =
            |m: &guest::Mapping| m.protection.execute && (m.start..m.end).contains(&pc);
        self.mappings.iter().any(executable)
    }

    /// A general register at the end, or a part of it.
    pub(crate) fn register(&self, r: RegRange) -> u64 {
        register_of(&self.regs, r)
    }

    pub(crate) fn place(&self, pc: u64) -> SourcePlace {
        if pc == flow::OUTSIDE.pc {
            return SourcePlace {
                file: None,
                line: None,
                function: None,
                code: Some("start of the program".to_owned()),
            };
        }
        place_of(&self.program, pc)
    }

    pub(crate) fn text(&self, place: &SourcePlace) -> Option<String> {
        let text = self
            .program
            .source_line(place.file.as_ref()?, place.line?)?;
        Some(text.trim().to_owned())
    }

    pub(crate) fn memory_name(&self, addr: u64, len: u64) -> String {
        if let Some(s) = self.program.data_symbol(addr) {
            return match addr - s.start {
                0 => s.name,
                offset => format!("{}+{offset}", s.name),
            };
        }
        let stack = |m: &&guest::Mapping| (m.start..m.end).contains(&addr);
        let kind = match self.mappings.iter().find(stack) {
            Some(m) if m.name.as_os_str() == "[stack]" => "stack ",
            Some(m) if m.name.as_os_str() == "[heap]" => "heap ",
            _ => "",
        };
        format!("{kind}{addr:#x}+{len}")
    }

    /// The executions that make up the statement of which this is one: its line, in the same call.
    /// What was inlined into the line is passed over like a call, unless there is nothing else.
    pub(crate) fn statement(&self, point: &Point, first: Execution) -> Vec<Execution> {
        let places = self.program.locate(first.pc);
        let asked = match point {
            Point::Line { line, .. } => places.iter().find(|p| p.line == Some(*line)),
            _ => None,
        };
        let Some(wanted) = asked.or(places.first()) else {
            return vec![first];
        };
        let is_it = |file: &Option<PathBuf>, line| *file == wanted.file && line == wanted.line;
        // How deep in what was inlined the line is that an instruction belongs to.
        let depth = |pc| {
            let places = self.program.locate(pc);
            let found = places.iter().position(|p| is_it(&p.file, p.line));
            found.or_else(|| {
                let rows = self.program.lines_at(pc);
                let here = |(file, line)| is_it(&Some(file), Some(line));
                rows.into_iter().any(here).then_some(0)
            })
        };
        let (mut own, mut inlined) = (Vec::new(), Vec::new());
        let mut known: HashMap<u64, Option<usize>> = HashMap::new();
        self.roll.executions_from(
            first.step,
            |_| true,
            |e| {
                if e.step < first.step || e.thread != first.thread {
                    return true;
                }
                if e.frame != first.frame {
                    // Inside a call; or the statement has returned.
                    return e.frame > first.frame;
                }
                match *known.entry(e.pc).or_insert_with(|| depth(e.pc)) {
                    Some(0) => own.push(e),
                    Some(_) => inlined.push(e),
                    None => return false,
                }
                true
            },
        );
        match (own.is_empty(), inlined.is_empty()) {
            (false, _) => own,
            (true, false) => inlined,
            (true, true) => vec![first],
        }
    }

    /// The steps of a part of the run.
    pub(crate) fn window(&self, w: &Window) -> Result<(u64, u64), Error> {
        let from = w.from.as_ref().map(|p| self.find(&p.first())).transpose()?;
        let to = w.to.as_ref().map(|p| self.find(p)).transpose()?;
        // An end of which nothing was executed is the end of the run.
        let step = |e: Option<Execution>| e.map_or(self.steps, |e| e.step);
        let (from, to) = (from.map_or(0, step), to.map_or(u64::MAX, step));
        if from >= to {
            return Err(Error::Request(
                "the window ends before it begins".to_owned(),
            ));
        }
        Ok((from, to))
    }

    /// The addresses at which a line or a function is reached.
    pub(crate) fn addresses(&self, point: &Point) -> Result<HashSet<u64>, Error> {
        let found: HashSet<u64> = match point {
            Point::Line { file, line, .. } => {
                let list = self.program.addresses_of_line(file, *line);
                if let Some(other) = list.first().filter(|a| a.line != *line) {
                    return Err(Error::NoSuchPlace(format!(
                        "{file}:{line} has no code; the next line that has is {}",
                        other.line
                    )));
                }
                list.iter().map(|a| a.address).collect()
            }
            Point::Function { name, .. } => {
                let list = self.program.addresses_of_function(name);
                list.iter().map(|f| f.entry).collect()
            }
            _ => HashSet::new(),
        };
        if found.is_empty() {
            return Err(Error::NoSuchPlace(format!(
                "the program has no code at `{point}`; is it built with -g?"
            )));
        }
        Ok(found)
    }

    /// How often a line or a function had been reached, up to a step.
    pub(crate) fn times_at(&self, point: &Point, step: u64) -> Result<u64, Error> {
        let addresses = self.addresses(point)?.into_iter();
        let class = addresses.map(|a| (a, smallvec::smallvec![0])).collect();
        let mut times = 0;
        let roll = &self.roll;
        roll.counts_at(&class, &[step], |_, count| times = count(0));
        Ok(times)
    }

    /// The execution that a point names. `None` for a place at which nothing was executed: the end.
    pub(crate) fn find(&self, point: &Point) -> Result<Option<Execution>, Error> {
        let mut found = None;
        match point {
            Point::Crash => match self.end {
                guest::End::Killed(_) | guest::End::Deadlocked => return Ok(None),
                guest::End::Exited(status) => {
                    return Err(Error::NoSuchPlace(format!(
                        "the program did not crash: it exited with status {status}; say where with --at"
                    )));
                }
            },
            Point::Step(step) if *step >= self.steps => {
                if *step > self.steps {
                    return Err(Error::NoSuchStep {
                        step: *step,
                        steps: self.steps,
                    });
                }
                return Ok(None);
            }
            Point::Step(step) => {
                self.roll.executions_from(
                    *step,
                    |_| true,
                    |e| {
                        found = Some(e);
                        e.step < *step
                    },
                );
            }
            Point::Line { nth, .. } | Point::Function { nth, .. } => {
                let wanted = self.addresses(point)?;
                let wanted = |pc| wanted.contains(&pc);
                let one = match nth {
                    Some(nth) => self.roll.nth_execution(wanted, *nth),
                    None => self.roll.last_execution(wanted).ok_or(0),
                };
                let one = one.map_err(|n| {
                    let times = match n {
                        0 => "never".to_owned(),
                        1 => "once".to_owned(),
                        n => format!("{n} times"),
                    };
                    Error::NoSuchPlace(format!("`{point}` was reached {times}"))
                });
                found = Some(one?);
            }
        }
        Ok(found)
    }

    /// The same for someone who asks for a variable: where a function begins, its frame has to be set up first. A
    /// debugger that is told to stop at a function does the same.
    pub(crate) fn find_settled(&self, point: &Point) -> Result<Option<Execution>, Error> {
        let found = self.find(point)?;
        Ok(match point {
            Point::Line { .. } | Point::Function { .. } => found.map(|e| self.settled(e)),
            _ => found,
        })
    }

    /// If an execution is that of the first instruction of a function, the one with which its body begins.
    pub(crate) fn settled(&self, entry: Execution) -> Execution {
        let Some(after) = self.program.after_prologue(entry.pc) else {
            return entry;
        };
        let mut body = None;
        self.roll.executions_from(
            entry.step,
            |_| true,
            |e| {
                if e.step <= entry.step || e.thread != entry.thread {
                    return true;
                }
                if e.frame == entry.frame && e.pc == after {
                    body = Some(e);
                }
                // It may be left before, by a signal that ends it.
                body.is_none() && e.frame >= entry.frame
            },
        );
        body.unwrap_or(entry)
    }
}

/// A general register, or a part of it.
pub(crate) fn register_of(g: &guest::UserRegs, r: RegRange) -> u64 {
    let all = [
        g.rax, g.rcx, g.rdx, g.rbx, g.rsp, g.rbp, g.rsi, g.rdi, g.r8, g.r9, g.r10, g.r11, g.r12,
        g.r13, g.r14, g.r15,
    ];
    let whole = match r.general_number() {
        Some(n) => all[n as usize],
        None if r == image::effects::FS_BASE => g.fs_base,
        None => 0,
    };
    let shifted = whole >> (8 * (r.at % 8));
    if r.len >= 8 {
        shifted
    } else {
        shifted & ((1 << (8 * r.len)) - 1)
    }
}

/// The source line of an address.
pub(crate) fn place_of(program: &Program, pc: u64) -> SourcePlace {
    let first = program.locate(pc).into_iter().next();
    let (file, line) = first
        .as_ref()
        .map_or((None, None), |p| (p.file.clone(), p.line));
    let function = first.and_then(|p| p.function);
    let function = function.or_else(|| program.symbol(pc).map(|s| s.name));
    let code = match line {
        Some(_) => None,
        None => program
            .module_offset(pc)
            .or_else(|| Some(format!("{pc:#x}"))),
    };
    SourcePlace {
        file,
        line,
        function,
        code,
    }
}
