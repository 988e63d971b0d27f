//! Statements that are switched or suppressed.
//!
//! A line's code is one or more *stretches*, each a run of instructions that belong to the line (also
//! those of what was inlined into it). An instance of the line is an arrival at one of them.
//!
//! To suppress an instance is to go on behind its stretch. To switch one is to find where its
//! predicate is decided: the conditional branches of the line that lead out of it. `a && b` has
//! several, but they lead to two places only, and whichever is about to be reached is exchanged for
//! the other.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::str::FromStr;

use guest::{Edit, Halt, StopAt, Until};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use serde::Serialize;

use super::moving::MoveRequest;
use super::timeline::What;
use super::{Go, Session, Why};
use crate::Error;
use crate::locate::expected;
use crate::meta::Ended;
use crate::replay::{Audience, Stream};
use crate::set::SetRequest;
use crate::store::{RecordingName, Store};
use crate::trace::{Action, Values};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EditKind {
    /// The outcome of a predicate is reversed.
    Switch,
    /// A statement is not executed.
    Suppress,
}

/// Which instances of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// All from here on.
    All,
    /// The next one.
    Once,
    /// This one, counted from the beginning of the run.
    Nth(u64),
}

/// A statement that is to be switched or suppressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditRequest {
    pub kind: EditKind,
    pub file: String,
    pub line: u32,
    pub times: Times,
}

impl EditRequest {
    /// `FILE:LINE [all|once|N]` or `FILE:LINE#N`; the next one if nothing is said.
    pub fn parse(kind: EditKind, text: &str) -> Result<EditRequest, String> {
        let form = "write FILE:LINE, then `all`, `once` or the number of an instance";
        let text = text.trim().replace('#', " ");
        let mut words = text.split_whitespace();
        let place = words.next().ok_or(form)?;
        let times = match words.next() {
            None | Some("once") => Times::Once,
            Some("all") => Times::All,
            Some(n) => match n.parse() {
                Ok(n) if n > 0 => Times::Nth(n),
                _ => return Err(format!("`{n}` is not the number of an instance; {form}")),
            },
        };
        if let Some(more) = words.next() {
            return Err(format!("`{more}` is too much; {form}"));
        }
        let (file, line) = place
            .rsplit_once(':')
            .ok_or_else(|| format!("`{place}` has no line; {form}"))?;
        let line = u32::from_str(line).map_err(|_| format!("`{line}` is not a line; {form}"))?;
        if file.is_empty() {
            return Err(format!("there is no file before the `:`; {form}"));
        }
        Ok(EditRequest {
            kind,
            file: file.to_owned(),
            line,
            times,
        })
    }
}

impl fmt::Display for EditRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            EditKind::Switch => "switch",
            EditKind::Suppress => "suppress",
        };
        write!(f, "{kind} {}:{} ", self.file, self.line)?;
        match self.times {
            Times::All => f.write_str("all"),
            Times::Once => f.write_str("once"),
            Times::Nth(n) => write!(f, "{n}"),
        }
    }
}

/// A stretch of a line's code.
struct Stretch {
    start: u64,
    end: u64,
    insns: Vec<Instruction>,
}

/// How a predicate is decided.
struct Predicate {
    branches: Vec<Instruction>,
    /// The two places it leads to.
    exits: [u64; 2],
}

/// More instructions than a line has.
const LONGEST: usize = 20_000;
/// More often than anything is executed.
const NEVER: u64 = 1 << 62;

/// Whether an arrival counts as an instance; each does if there is nothing to be asked.
type Counts<'a> = Option<&'a dyn Fn(&Session) -> bool>;

impl Session {
    /// Where the guest stands, in the source if that is known.
    pub fn place(&mut self) -> Result<String, Error> {
        let pc = self.replay.regs().rip;
        let found = self.program()?.locate(pc).into_iter().next();
        Ok(match found {
            Some(p) => {
                let function = p.function.unwrap_or_else(|| format!("{pc:#x}"));
                match (p.file, p.line) {
                    (Some(file), Some(line)) => {
                        let name = file.file_name().unwrap_or(file.as_os_str());
                        format!("{function} at {}:{line}", name.to_string_lossy())
                    }
                    _ => function,
                }
            }
            None => format!("{pc:#x}"),
        })
    }

    fn stretches(&mut self, file: &str, line: u32) -> Result<Vec<Stretch>, Error> {
        let nothing =
            |more: String| Error::NoSuchPlace(format!("there is no code at {file}:{line}{more}"));
        let starts = self.line_starts(file, line)?;
        let Some(starts) = starts else {
            let list = self.program()?.addresses_of_line(file, line);
            let next = list.first().map(|a| a.line);
            return Err(nothing(match next {
                Some(n) => format!("; the next line that has is {n}"),
                None => ": is the file part of the program, and was it built with -g?".to_owned(),
            }));
        };
        let mut out: Vec<Stretch> = Vec::new();
        for start in starts {
            if out.iter().any(|s| (s.start..s.end).contains(&start)) {
                continue;
            }
            let mut insns = Vec::new();
            let mut pc = start;
            while insns.len() < LONGEST && self.belongs(pc, file, line) {
                let mut code = [0; 15];
                let n = self.replay.read(pc, &mut code);
                let insn = Decoder::with_ip(64, &code[..n], pc, DecoderOptions::NONE).decode();
                if insn.is_invalid() {
                    break;
                }
                pc = insn.next_ip();
                insns.push(insn);
            }
            if !insns.is_empty() {
                out.push(Stretch {
                    start,
                    end: pc,
                    insns,
                });
            }
        }
        match out.is_empty() {
            true => Err(nothing(String::new())),
            false => Ok(out),
        }
    }

    /// The addresses at which an instance of a line begins, in the files that are mapped.
    pub(super) fn line_starts(&mut self, file: &str, line: u32) -> Result<Option<Vec<u64>>, Error> {
        let mut starts = self.program()?.line_starts(Path::new(file));
        Ok(starts.remove(&line).map(|s| s.into_iter().collect()))
    }

    fn belongs(&self, pc: u64, file: &str, line: u32) -> bool {
        let places = self.program.locate(pc);
        places.iter().any(|p| {
            let named = p.file.as_ref().is_some_and(|f| f.ends_with(file));
            named && p.line == Some(line)
        })
    }

    /// How often a line was reached before the present position.
    pub fn instance(&mut self, file: &str, line: u32) -> Result<u64, Error> {
        self.settle()?;
        self.stretches(file, line)?;
        let starts = self.line_starts(file, line)?.unwrap_or_default();
        let here = self.step()?;
        let n = self.count(&starts, here)?;
        self.stay(here)?;
        Ok(n)
    }

    /// Goes to the n-th execution of a line, counted from the beginning of the run.
    pub fn goto_instance(&mut self, file: &str, line: u32, n: u64) -> Result<(), Error> {
        self.settle()?;
        let here = self.step()?;
        self.stretches(file, line)?;
        let starts = self.line_starts(file, line)?.unwrap_or_default();
        self.go(0)?;
        match self.find_nth(&starts, n) {
            Ok(true) => {
                let step = self.step()?;
                self.goto(step)
            }
            other => {
                self.stay(here)?;
                other?;
                Err(Error::NoSuchPlace(format!(
                    "{file}:{line} is not executed {n} times"
                )))
            }
        }
    }

    /// Executions of these addresses before `step`. The guest is there afterwards.
    fn count(&mut self, at: &[u64], step: u64) -> Result<u64, Error> {
        self.go(0)?;
        let until = Until {
            step: Some(step),
            ..at_any(at, NEVER)
        };
        let mut n = u64::from(step > 0 && at.contains(&self.replay.regs().rip));
        loop {
            let halt = self.run(&until)?;
            n += self.passed.iter().sum::<u64>();
            match halt {
                Halt::Signal(_) => {}
                Halt::Interrupted => return Err(Error::Interrupted),
                _ => return Ok(n),
            }
        }
    }

    /// Goes to the `nth` time, from here on and with here, that one of the addresses is reached.
    pub(super) fn find_nth(&mut self, at: &[u64], nth: u64) -> Result<bool, Error> {
        let mut left = nth - u64::from(at.contains(&self.replay.regs().rip));
        while left > 0 {
            // The first address to be reached so often is, with the others, not reached more than `left` times.
            let share = left.div_ceil(at.len() as u64);
            let halt = self.run(&at_any(at, share))?;
            left -= self.passed.iter().sum::<u64>();
            match halt {
                Halt::Stop(_) | Halt::Signal(_) => {}
                Halt::Interrupted => return Err(Error::Interrupted),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The same, of the times that count.
    fn find_counting(
        &mut self,
        at: &[u64],
        nth: u64,
        counts: &dyn Fn(&Self) -> bool,
    ) -> Result<bool, Error> {
        let mut n = 0;
        let until = at_any(at, 1);
        let mut here = at.contains(&self.replay.regs().rip);
        loop {
            if here && counts(self) {
                n += 1;
                if n == nth {
                    return Ok(true);
                }
            }
            here = match self.run(&until)? {
                Halt::Stop(_) => true,
                Halt::Signal(_) => false,
                Halt::Interrupted => return Err(Error::Interrupted),
                _ => return Ok(false),
            };
        }
    }

    /// Switches or suppresses a statement from here on. Says at which step that takes effect.
    pub fn edit(&mut self, request: &EditRequest) -> Result<u64, Error> {
        self.settle()?;
        let here = self.step()?;
        let stretches = self.stretches(&request.file, request.line)?;
        let result = match request.kind {
            EditKind::Suppress => self.suppress(request, &stretches, here),
            EditKind::Switch => self.switch(request, &stretches, here),
        };
        let effect = match result {
            Ok(()) => self.step(),
            Err(e) => Err(e),
        };
        self.stay(here)?;
        effect
    }

    fn suppress(
        &mut self,
        request: &EditRequest,
        stretches: &[Stretch],
        here: u64,
    ) -> Result<(), Error> {
        for s in stretches {
            let place = format!("{}:{}", request.file, request.line);
            let function = self.program.function_at(s.start);
            let returns = |i: &Instruction| i.flow_control() == FlowControl::Return;
            if s.insns.iter().any(returns) {
                return Err(Error::Request(format!(
                    "{place} returns from its function: without it there is nowhere to go on"
                )));
            }
            if function.is_some_and(|f| f.entry == s.start) {
                return Err(Error::Request(format!(
                    "{place} begins a function: suppress the call of it instead"
                )));
            }
        }
        let to: BTreeMap<u64, u64> = stretches.iter().map(|s| (s.start, s.end)).collect();
        if request.times == Times::All {
            let edits = to.iter().map(|(&pc, &to)| Edit::JumpAlways { pc, to });
            let action = Action::Edits(edits.collect());
            return self.change(here, What::Statement(request.clone()), action);
        }
        let starts: Vec<u64> = to.keys().copied().collect();
        self.seek(request, &starts, here, None)?;
        let pc = self.replay.regs().rip;
        self.jump(here, request, to[&pc])
    }

    fn switch(
        &mut self,
        request: &EditRequest,
        stretches: &[Stretch],
        here: u64,
    ) -> Result<(), Error> {
        let p = predicate(request, stretches)?;
        let at: Vec<u64> = p.branches.iter().map(Instruction::ip).collect();
        if request.times == Times::All {
            let edits = at
                .iter()
                .map(|&pc| Edit::SwitchAlways { pc, exits: p.exits });
            let action = Action::Edits(edits.collect());
            return self.change(here, What::Statement(request.clone()), action);
        }
        let leads = |s: &Session| {
            let regs = s.replay.regs();
            let i = p.branches.iter().find(|i| i.ip() == regs.rip)?;
            let taken = guest::condition_holds(i.condition_code(), regs.eflags);
            Some(match taken {
                true => i.near_branch_target(),
                false => i.next_ip(),
            })
        };
        let decides = |s: &Session| leads(s).is_some_and(|to| p.exits.contains(&to));
        // One branch alone decides each time.
        let counts: Counts<'_> = (at.len() > 1).then_some(&decides);
        self.seek(request, &at, here, counts)?;
        let [one, other] = p.exits;
        let to = if leads(self) == Some(one) { other } else { one };
        self.jump(here, request, to)
    }

    /// Goes to the instance that is asked for.
    fn seek(
        &mut self,
        request: &EditRequest,
        at: &[u64],
        here: u64,
        counts: Counts<'_>,
    ) -> Result<(), Error> {
        let place = format!("{}:{}", request.file, request.line);
        let nth = match request.times {
            Times::Nth(n) => {
                self.go(0)?;
                n
            }
            _ => 1,
        };
        let found = match counts {
            None => self.find_nth(at, nth)?,
            Some(counts) => self.find_counting(at, nth, counts)?,
        };
        if !found {
            return Err(Error::NoSuchPlace(match request.times {
                Times::Nth(n) => format!("{place} is not executed {n} times"),
                _ => format!(
                    "{place} is not begun any more from here on; if the program stands within it, \
                     `reverse-step` goes to its beginning"
                ),
            }));
        }
        let step = self.step()?;
        if step < here {
            return Err(Error::Request(format!(
                "instance {nth} of {place} is in the past, at step {step}: go back first (goto {step})"
            )));
        }
        Ok(())
    }

    fn alter(&mut self, what: &Alteration) -> Result<u64, Error> {
        match what {
            Alteration::Statement(edit) => self.edit(edit),
            Alteration::Set(set) => self.set(set),
            Alteration::Move(request) => self.move_variables(request),
        }
    }

    /// Changes in the order in which they take effect: each makes what comes behind it another run.
    fn in_order(&mut self, edits: &[Alteration]) -> Result<Vec<Alteration>, Error> {
        let mut list: Vec<(u64, &Alteration)> = Vec::new();
        for e in edits {
            let step = match edits.len() {
                1 => 0,
                // It may be that only another change leads to its place.
                _ => self.alter(e).unwrap_or(u64::MAX),
            };
            self.timeline(0)?;
            list.push((step, e));
        }
        list.sort_by_key(|(step, _)| *step);
        Ok(list.into_iter().map(|(_, e)| e.clone()).collect())
    }

    /// Lets the guest go on elsewhere.
    fn jump(&mut self, here: u64, request: &EditRequest, to: u64) -> Result<(), Error> {
        let mut regs = self.replay.regs();
        regs.rip = to;
        let action = Action::Put(Box::new(Values {
            regs,
            vectors: None,
            writes: Vec::new(),
        }));
        self.change(here, What::Statement(request.clone()), action)
    }
}

fn at_any(at: &[u64], nth: u64) -> Until {
    Until {
        stops: at.iter().map(|&pc| StopAt { pc, nth }).collect(),
        signals: true,
        ..Until::default()
    }
}

/// The branches of a line that decide where it leads.
fn predicate(request: &EditRequest, stretches: &[Stretch]) -> Result<Predicate, Error> {
    let place = format!("{}:{}", request.file, request.line);
    let inside = |pc: u64| stretches.iter().any(|s| (s.start..s.end).contains(&pc));
    let all = || stretches.iter().flat_map(|s| &s.insns);
    let branches: Vec<Instruction> = all()
        .filter(|i| i.is_jcc_short_or_near())
        .copied()
        .collect();
    if branches.is_empty() {
        return Err(Error::Request(format!(
            "{place} has no conditional branch: it is no predicate, or the compiler has decided it without one"
        )));
    }
    if let [i] = branches[..] {
        return Ok(Predicate {
            exits: [i.near_branch_target(), i.next_ip()],
            branches,
        });
    }
    // A jump out of the line stands for where it leads.
    let real = |pc: u64| {
        let jump =
            all().find(|i| i.ip() == pc && i.flow_control() == FlowControl::UnconditionalBranch);
        jump.map_or(pc, |i| i.near_branch_target())
    };
    let mut exits: Vec<u64> = Vec::new();
    let mut deciding = Vec::new();
    for i in &branches {
        let out = [i.near_branch_target(), i.next_ip()].map(|to| (to, real(to)));
        let leaves = out.iter().any(|(_, to)| !inside(*to));
        if leaves {
            deciding.push(*i);
        }
        exits.extend(out.iter().filter(|(_, to)| !inside(*to)).map(|(pc, _)| *pc));
    }
    exits.sort_unstable();
    exits.dedup();
    match exits[..] {
        [one, other] => Ok(Predicate {
            branches: deciding,
            exits: [one, other],
        }),
        _ => Err(Error::Request(format!(
            "{place} has {} branches that lead to {} places: it is more than one predicate",
            branches.len(),
            exits.len()
        ))),
    }
}

/// Something that is changed in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alteration {
    Statement(EditRequest),
    Set(SetRequest),
    Move(MoveRequest),
}

impl fmt::Display for Alteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alteration::Statement(edit) => edit.fmt(f),
            Alteration::Set(set) => write!(f, "set {set}"),
            Alteration::Move(request) => request.fmt(f),
        }
    }
}

/// What a run with changes came to.
#[derive(Clone, Debug, Serialize)]
pub struct TryReport {
    pub recording: RecordingName,
    pub edits: Vec<String>,
    pub before: Ended,
    pub after: Ended,
    pub output_changed: bool,
    pub status_changed: bool,
    /// The recorded run failed (died of a signal, or its status was not 0), and this one does not.
    pub failure_gone: bool,
    /// This one fails, and the recorded run did not.
    pub failure_new: bool,
    /// Output and status are what the test should give, if that is known.
    pub as_expected: Option<bool>,
    /// Why the changed run left the recording, if it did.
    pub left: Option<String>,
}

/// Keeps the output that passes by.
struct Keeping {
    to: Rc<dyn Audience>,
    output: RefCell<Vec<u8>>,
}

impl Audience for Keeping {
    fn output(&self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Output {
            self.output.borrow_mut().extend_from_slice(bytes);
        }
        self.to.output(stream, bytes);
    }

    fn progress(&self, step: u64, of: Option<u64>) {
        self.to.progress(step, of);
    }

    fn note(&self, text: &str) {
        self.to.note(text);
    }
}

/// Runs a recording with changes, and says what that changes.
pub(crate) fn try_edits(
    store: &Store,
    recording: Option<&str>,
    edits: &[Alteration],
    audience: Rc<dyn Audience>,
) -> Result<TryReport, Error> {
    let keeping = Rc::new(Keeping {
        to: audience,
        output: RefCell::default(),
    });
    let mut session = super::debug(store, recording, keeping.clone())?;
    let mut list = Vec::new();
    for e in session.in_order(edits)? {
        session.alter(&e)?;
        list.push(e.to_string());
    }
    session.goto(0)?;
    session.moved = false;
    let after = loop {
        match session.forward(Go::On)? {
            Why::Exited(status) => break Ended::Exited { status },
            Why::Killed(signal) => break Ended::Killed { signal },
            Why::Interrupted => return Err(Error::Interrupted),
            Why::End if session.replay.run(&Until::end()).is_ok_and(deadlocked) => {
                break Ended::Deadlocked;
            }
            _ => {}
        }
    };
    let before = session.meta.ended.clone();
    let folder = store.path(&session.name);
    let recorded = crate::replay::recorded_output(&folder).map_err(|e| session.wrong(e))?;
    let fails = |e: &Ended| !matches!(e, Ended::Exited { status: 0 });
    Ok(TryReport {
        recording: RecordingName(session.name.clone()),
        edits: list,
        as_expected: expected::met(&folder, &keeping.output.borrow(), &after),
        output_changed: *keeping.output.borrow() != recorded,
        status_changed: before != after,
        failure_gone: fails(&before) && !fails(&after),
        failure_new: !fails(&before) && fails(&after),
        left: session
            .replay
            .departure()
            .map(|d| format!("step {}: {}", d.step, d.call)),
        before,
        after,
    })
}

fn deadlocked(halt: Halt) -> bool {
    halt == Halt::Ended(guest::End::Deadlocked)
}
