//! Runs a case natively, recorded and replayed, and says how the three differ.
//!
//! All three happen at the same path, which is emptied in between, so that a program that prints its directory
//! prints the same. Before the replay the directory is gone: whatever the replay needs must be in the recording.

use crate::case::{self, Case, Children};
use crate::process::{self, Ending, Job, Outcome};
use crate::tool;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Exit status of `wherefore replay` when the replay leaves the recording.
const DIVERGED: i32 = 3;

#[derive(Debug)]
pub(crate) struct Scene<'a> {
    case: &'a Case,
    wherefore: &'a Path,
    place: TempDir,
    env: Vec<(String, String)>,
    mark: String,
}

/// What is wrong with a run, in lines for people. Empty when nothing is.
pub(crate) type Complaints = Vec<String>;

impl<'a> Scene<'a> {
    pub(crate) fn new(case: &'a Case, wherefore: &'a Path) -> Result<Scene<'a>> {
        let place = tempfile::Builder::new().prefix("case-").tempdir()?;
        for directory in ["aside", "home", "recordings", "elsewhere"] {
            fs::create_dir(place.path().join(directory))?;
        }
        let number = place
            .path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut env: Vec<(String, String)> = [
            ("PATH", tool::PATH.to_owned()),
            ("HOME", place.path().join("home").display().to_string()),
            ("LC_ALL", "C".to_owned()),
            ("TZ", "UTC".to_owned()),
            ("XTASK_CASE", number.clone()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        env.extend(case.env.iter().cloned());
        Ok(Scene {
            case,
            wherefore,
            place,
            env,
            mark: format!("XTASK_CASE={number}"),
        })
    }

    /// The whole comparison, with the way to repeat it by hand when something is wrong.
    pub(crate) fn check(&self) -> Result<Complaints> {
        let mut complaints = self.three_ways()?;
        if !complaints.is_empty() {
            let program = self.case.program.display();
            complaints.push(format!(
                "by hand: wherefore run -- {program} {:?}",
                self.case.args
            ));
        }
        Ok(complaints)
    }

    /// A guest that would hang natively, recorded and replayed.
    fn two_ways(&self) -> Result<Complaints> {
        let mut complaints = Complaints::new();
        self.prepare()?;
        let recorded = self.record()?;
        if Some(recorded.ending) != self.case.ending {
            complaints.push(format!("run: {}, not a deadlock", recorded.ending));
        }
        self.outlived("run", &mut complaints);
        fs::remove_dir_all(self.work())?;
        self.compare_replay(&recorded, &self.replay()?, &mut complaints);
        self.outlived("replay", &mut complaints);
        Ok(complaints)
    }

    fn three_ways(&self) -> Result<Complaints> {
        if self.case.hangs {
            return self.two_ways();
        }
        let mut complaints = Complaints::new();
        self.prepare()?;
        let native = self.native()?;
        let native_files = case::contents(&self.work())?;
        if let Some(ending) = self.case.ending.filter(|ending| *ending != native.ending) {
            complaints.push(format!(
                "natively: {} where its header says {ending}",
                native.ending
            ));
        }
        self.prepare()?;
        let recorded = self.record()?;
        let recorded_files = case::contents(&self.work())?;
        self.compare(
            "run",
            &native,
            &recorded,
            self.case.nondeterministic,
            &mut complaints,
        );
        if !self.case.nondeterministic && native_files != recorded_files {
            let name = native_files
                .iter()
                .find(|(name, bytes)| recorded_files.get(*name) != Some(bytes))
                .or_else(|| {
                    recorded_files
                        .iter()
                        .find(|(name, _)| !native_files.contains_key(*name))
                })
                .map(|(name, _)| name.display().to_string());
            complaints.push(format!(
                "run: left other files behind; the first is {}",
                name.unwrap_or_default()
            ));
        }
        self.outlived("run", &mut complaints);
        if !complaints.is_empty() {
            return Ok(complaints);
        }
        fs::remove_dir_all(self.work())?;
        let replayed = self.replay()?;
        self.compare_replay(&recorded, &replayed, &mut complaints);
        self.outlived("replay", &mut complaints);
        Ok(complaints)
    }

    /// Records once and replays many times; says how many replays were not the recorded run.
    pub(crate) fn repeat(&self, runs: u32) -> Result<Complaints> {
        self.prepare()?;
        let recorded = self.record()?;
        fs::remove_dir_all(self.work())?;
        let mut complaints = Complaints::new();
        for run in 1..=runs {
            let mut found = Complaints::new();
            self.compare_replay(&recorded, &self.replay()?, &mut found);
            complaints.extend(
                found
                    .into_iter()
                    .map(|text| format!("replay {run} of {runs}: {text}")),
            );
        }
        Ok(complaints)
    }

    /// Records once and looks for faults of memory; says those that were found.
    pub(crate) fn alarms(&self) -> Result<Complaints> {
        const RULES: &str = "stack_free,double_free,unmatched_free,mismatched_free,invalid_realloc,\
                             dangling_deref,null_deref,heap_overflow,heap_underflow,global_overflow,\
                             stack_overflow,dead_frame,overlapping_copy,uninitialised_read";
        self.prepare()?;
        self.record()?;
        let recordings = self.place.path().join("recordings");
        let command: Vec<OsString> = vec![
            self.wherefore.into(),
            "check".into(),
            "--recordings".into(),
            recordings.into(),
            "--only".into(),
            RULES.into(),
        ];
        let checked = self.job(command, &self.place.path().join("elsewhere"))?;
        let mut complaints = Complaints::new();
        if checked.ending != Ending::Exit(0) {
            complaints.push(format!(
                "check: {:?}: {}",
                checked.ending,
                String::from_utf8_lossy(&checked.stderr)
            ));
        }
        self.outlived("check", &mut complaints);
        Ok(complaints)
    }

    fn work(&self) -> PathBuf {
        self.place.path().join("work")
    }

    fn prepare(&self) -> Result<()> {
        let work = self.work();
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        fs::create_dir(&work)?;
        (self.case.fill)(&work).context("cannot make the case's input files")?;
        case::settle(&work)
    }

    fn native(&self) -> Result<Outcome> {
        let mut command: Vec<OsString> = vec![self.case.program.clone().into()];
        command.extend(self.case.args.iter().map(OsString::from));
        self.job(command, &self.work())
    }

    fn record(&self) -> Result<Outcome> {
        let mut command = self.tool("run");
        command.push("--".into());
        command.push(self.case.program.clone().into());
        command.extend(self.case.args.iter().map(OsString::from));
        self.job(command, &self.work())
    }

    fn replay(&self) -> Result<Outcome> {
        self.job(self.tool("replay"), &self.place.path().join("elsewhere"))
    }

    fn tool(&self, verb: &str) -> Vec<OsString> {
        let recordings = self.place.path().join("recordings");
        vec![
            self.wherefore.into(),
            verb.into(),
            "--quiet".into(),
            "--recordings".into(),
            recordings.into(),
        ]
    }

    fn job(&self, command: Vec<OsString>, directory: &Path) -> Result<Outcome> {
        let aside = self.place.path().join("aside");
        let (env, input, limit) = (&self.env, &self.case.input, self.case.limit);
        Job {
            command,
            directory,
            env,
            input,
            aside: &aside,
            limit,
        }
        .run()
    }

    fn compare(
        &self,
        verb: &str,
        a: &Outcome,
        b: &Outcome,
        only_ending: bool,
        complaints: &mut Complaints,
    ) {
        if a.ending != b.ending {
            complaints.push(format!(
                "{verb}: {} instead of {}; {}",
                b.ending,
                a.ending,
                last_words(&b.stderr)
            ));
        }
        if only_ending {
            return;
        }
        for (stream, a, b) in [
            ("stdout", &a.stdout, &b.stdout),
            ("stderr", &a.stderr, &b.stderr),
        ] {
            if a != b {
                complaints.push(format!(
                    "{verb}: {stream} differs {}",
                    first_difference(a, b)
                ));
            }
        }
    }

    fn compare_replay(&self, recorded: &Outcome, replayed: &Outcome, complaints: &mut Complaints) {
        if replayed.ending == Ending::Exit(DIVERGED) && recorded.ending != replayed.ending {
            complaints.push(format!(
                "replay: diverged; {}",
                last_words(&replayed.stderr)
            ));
            return;
        }
        match &self.case.children {
            Children::Silent => self.compare("replay", recorded, replayed, false, complaints),
            Children::Lines(text) => {
                let own = Outcome {
                    stdout: without(&recorded.stdout, text),
                    stderr: without(&recorded.stderr, text),
                    ending: recorded.ending,
                };
                self.compare("replay", &own, replayed, false, complaints);
            }
            Children::Unknown => {
                self.compare("replay", recorded, replayed, true, complaints);
                let out = ("stdout", &recorded.stdout, &replayed.stdout);
                let err = ("stderr", &recorded.stderr, &replayed.stderr);
                for (stream, all, part) in [out, err] {
                    if let Some(line) = first_stranger(all, part) {
                        complaints.push(format!(
                            "replay: {stream} has a line that the recorded run has not: {line}"
                        ));
                    }
                }
            }
        }
    }

    fn outlived(&self, verb: &str, complaints: &mut Complaints) {
        let left = process::survivors(&self.mark);
        if !left.is_empty() {
            complaints.push(format!(
                "{verb}: left processes behind: {}",
                left.join(", ")
            ));
        }
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n')
}

/// The text less the lines that contain `mark`.
fn without(text: &[u8], mark: &str) -> Vec<u8> {
    let carries = |line: &[u8]| String::from_utf8_lossy(line).contains(mark);
    let kept: Vec<&[u8]> = lines(text).filter(|line| !carries(line)).collect();
    kept.join(&b'\n')
}

fn shown(line: Option<&[u8]>) -> String {
    match line {
        None => "nothing".to_owned(),
        Some(line) => format!(
            "{:?}",
            String::from_utf8_lossy(&line[..line.len().min(160)])
        ),
    }
}

fn first_difference(a: &[u8], b: &[u8]) -> String {
    let (mut left, mut right) = (lines(a), lines(b));
    for number in 1.. {
        let (expected, got) = (left.next(), right.next());
        if expected != got || expected.is_none() {
            return format!(
                "in line {number}: {} instead of {}",
                shown(got),
                shown(expected)
            );
        }
    }
    String::new()
}

/// The first line of `part` that cannot be found in `all` after the lines found before it.
fn first_stranger(all: &[u8], part: &[u8]) -> Option<String> {
    let mut rest = lines(all);
    lines(part)
        .find(|line| !line.is_empty() && !rest.any(|other| other == *line))
        .map(|line| shown(Some(line)))
}

fn last_words(stderr: &[u8]) -> String {
    match lines(stderr).filter(|line| !line.is_empty()).last() {
        Some(line) => format!("stderr ends with {}", shown(Some(line))),
        None => "stderr is empty".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_the_line() {
        assert_eq!(
            first_difference(b"a\nb\n", b"a\nc\n"),
            "in line 2: \"c\" instead of \"b\""
        );
        assert_eq!(
            first_difference(b"a\n", b"a\nc"),
            "in line 2: \"c\" instead of \"\""
        );
    }

    #[test]
    fn lines_of_children_are_left_out() {
        assert_eq!(
            without(b"mine\nfrom child\nmine too\n", "child"),
            b"mine\nmine too\n"
        );
        assert_eq!(without(b"a", "child"), b"a");
    }

    #[test]
    fn strangers_are_lines_out_of_order_or_unknown() {
        assert_eq!(first_stranger(b"a\nb\nc\n", b"a\nc\n"), None);
        assert_eq!(
            first_stranger(b"a\nb\nc\n", b"c\na\n"),
            Some("\"a\"".to_owned())
        );
        assert_eq!(first_stranger(b"a\n", b"x\n"), Some("\"x\"".to_owned()));
    }
}
