//! The schedule of a recording as a list that can be read, changed and given back.
//!
//! One line is one change of turn: `at step 1234 thread 2`. What follows a `#` is a comment. Steps
//! may have commas.

use std::collections::HashMap;
use std::path::PathBuf;

use image::{Memory, Program, Registers};
use serde::Serialize;

use crate::moment::{self, registers};
use crate::store::{Finished, RecordingName, Store};
use crate::threads::{ThreadInfo, ThreadLabel, label};
use crate::{Error, frames};

/// Frames looked at for one that is the user's.
const DEPTH: usize = 24;

#[derive(Clone, Debug, Serialize)]
pub struct ScheduleReport {
    pub recording: RecordingName,
    pub command: Vec<String>,
    pub threads: Vec<ThreadInfo>,
    pub switches: Vec<Switch>,
}

/// A change of turn.
#[derive(Clone, Debug, Serialize)]
pub struct Switch {
    pub step: u64,
    pub from: Option<ThreadLabel>,
    /// Where the thread that loses its turn stands, in words.
    pub from_place: Option<String>,
    pub to: ThreadLabel,
    pub to_place: Option<String>,
}

pub(crate) fn schedule(store: &Store, name: Option<&str>) -> Result<ScheduleReport, Error> {
    let Finished { name, folder, meta } = store.finished(name)?;
    let wrong = |error| Error::Engine {
        name: name.clone(),
        error,
    };
    let list = guest::switches(&folder).map_err(wrong)?;
    let mut replay = guest::Replay::open(&folder, Box::new(|_, _| {})).map_err(wrong)?;
    let mut places = Places::default();
    let mut switches = Vec::new();
    for s in list {
        if replay.step().map_err(wrong)? < s.step {
            replay.run(&guest::Until::step(s.step)).map_err(wrong)?;
        }
        let mappings = replay.mappings().map_err(wrong)?;
        places.see(&mappings, replay.names());
        let threads = replay.threads();
        let read = |addr: u64, buf: &mut [u8]| replay.read(addr, buf);
        let of = |id: guest::ThreadId| threads.iter().find(|v| v.about.id == id);
        let place = |v: Option<&guest::ThreadView>| {
            v.and_then(|v| places.of(&registers(&v.regs), &Reader(&read)))
        };
        // Several changes at one step: who had the turn in between is on the line before.
        let before = match switches.last() {
            Some(Switch { step, to, .. }) if *step == s.step => guest::ThreadId(to.number),
            _ => replay.thread(),
        };
        switches.push(Switch {
            step: s.step,
            from: of(before).map(|v| label(&v.about)),
            from_place: place(of(before)),
            to: of(s.thread).map_or(
                ThreadLabel {
                    number: s.thread.0,
                    name: None,
                },
                |v| label(&v.about),
            ),
            to_place: place(of(s.thread)),
        });
    }
    Ok(ScheduleReport {
        recording: RecordingName(name),
        command: meta.args,
        threads: meta.threads,
        switches,
    })
}

struct Reader<'a>(&'a dyn Fn(u64, &mut [u8]) -> usize);

impl Memory for Reader<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
        (self.0)(addr, buf) == buf.len()
    }
}

/// Source places of instructions. What the files say is read once.
#[derive(Default)]
struct Places {
    program: Program,
    code: Vec<(u64, u64, PathBuf)>,
}

impl Places {
    fn see(&mut self, mappings: &[guest::Mapping], stored: &HashMap<PathBuf, PathBuf>) {
        let code: Vec<(u64, u64, PathBuf)> = mappings
            .iter()
            .filter(|m| m.protection.execute)
            .map(|m| (m.start, m.end, m.name.clone()))
            .collect();
        if code != self.code {
            self.program = moment::program(mappings, stored);
            self.code = code;
        }
    }

    /// The innermost place in the user's own code, else the innermost there is.
    fn of(&self, at: &Registers, memory: &dyn Memory) -> Option<String> {
        let frames = self.program.unwind(at, memory, DEPTH);
        let own = frames.iter().find_map(|f| {
            let module = self
                .program
                .modules()
                .into_iter()
                .find(|m| (m.start..m.end).contains(&f.lookup_pc()))?;
            if frames::is_system(&module.name) {
                return None;
            }
            let place = self.program.locate(f.lookup_pc()).into_iter().next()?;
            place.line.is_some().then_some(place)
        });
        let place = match own {
            Some(place) => place,
            None => self.program.locate(at.rip).into_iter().next()?,
        };
        let function = place.function.unwrap_or_else(|| format!("{:#x}", at.rip));
        Some(match (place.file, place.line) {
            (Some(file), Some(line)) => {
                let file = file.file_name().map(|f| f.to_string_lossy().into_owned());
                format!("{function} {}:{line}", file.unwrap_or_default())
            }
            _ => function,
        })
    }
}

/// Reads a list of switches; all that is wrong with it at once.
pub(crate) fn parse(text: &str) -> Result<Vec<guest::Line>, Vec<String>> {
    let mut lines: Vec<guest::Line> = Vec::new();
    let mut wrong = Vec::new();
    for (i, raw) in text.lines().enumerate() {
        let number = i + 1;
        let line = raw.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let parsed = match words[..] {
            ["at", "step", step, "thread", thread] => step
                .replace([',', '_'], "")
                .parse()
                .ok()
                .zip(thread.parse().ok()),
            _ => None,
        };
        match parsed {
            None => wrong.push(format!(
                "line {number}: `{line}` is not of the form `at step STEP thread NUMBER`"
            )),
            Some((step, _)) if lines.last().is_some_and(|l| l.step > step) => {
                wrong.push(format!(
                    "line {number}: step {step} is before that of the line above"
                ));
            }
            Some((step, thread)) => lines.push(guest::Line {
                number,
                step,
                thread: guest::ThreadId(thread),
            }),
        }
    }
    if wrong.is_empty() {
        Ok(lines)
    } else {
        Err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let text = "# a comment\n\nat step 1,234 thread 2  # why\nat step 1300 thread 0\n";
        let lines = parse(text).expect("it is well formed");
        let read: Vec<_> = lines
            .iter()
            .map(|l| (l.number, l.step, l.thread.0))
            .collect();
        assert_eq!(read, [(3, 1234, 2), (4, 1300, 0)]);
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let wrong = parse("at step x thread 1\nat step 9 thread 1\nat step 8 thread 1\nhello\n")
            .expect_err("three lines are wrong");
        assert_eq!(wrong.len(), 3);
        for (text, line) in wrong.iter().zip(["line 1", "line 3", "line 4"]) {
            assert!(text.starts_with(line), "{text}");
        }
    }
}
