//! Many runs under hostile schedules, until one fails.
//!
//! The first run has the even schedule; it shows what is normal and how long the threads are at
//! work. Each further run has a seed of its own. Recordings of runs that did not fail are removed.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::meta::{Ended, Meta};
use crate::run::{self, RunReport, RunRequest, Surroundings};
use crate::store::Store;
use crate::{Error, remove};

#[derive(Clone, Debug)]
pub struct ChaosRequest {
    /// Its schedule's seed is that of the second run; the first is even.
    pub run: RunRequest,
    /// At most so many runs.
    pub runs: u32,
    /// Go on after a failure, to count.
    pub keep_going: bool,
    /// Exit statuses that are no failure. If there are none: 0 and that of the first run.
    pub expect: Vec<i32>,
    /// A run whose standard output is not that of the first one has failed.
    pub same_output: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct ChaosReport {
    /// Runs made.
    pub runs: u32,
    pub failed: u32,
    /// How they ended, and how many of them; the most frequent first.
    pub endings: Vec<Ending>,
    /// The first run that failed; its recording is kept.
    pub failure: Option<Failure>,
    /// Somebody interrupted it.
    pub interrupted: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Ending {
    pub ended: Ended,
    /// It was ended because it took too long.
    pub timed_out: bool,
    /// Its output was not that of the first run.
    pub other_output: bool,
    pub failed: bool,
    pub runs: u32,
}

#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Counted from 1.
    pub run: u32,
    pub seed: u64,
    pub other_output: bool,
    pub report: RunReport,
}

/// Who is told how far it is.
pub trait ChaosAudience {
    fn run_ended(&self, run: u32, of: u32, failed: u32);
}

pub(crate) fn chaos(
    store: &Store,
    request: &ChaosRequest,
    audience: &dyn ChaosAudience,
) -> Result<ChaosReport, Error> {
    let input = Input::take()?;
    let output = aside("output");
    let report = all_runs(store, request, audience, &input, &output);
    let _ = fs::remove_file(&output);
    report
}

fn all_runs(
    store: &Store,
    request: &ChaosRequest,
    audience: &dyn ChaosAudience,
    input: &Input,
    output: &PathBuf,
) -> Result<ChaosReport, Error> {
    let mut report = ChaosReport {
        runs: 0,
        failed: 0,
        endings: Vec::new(),
        failure: None,
        interrupted: false,
    };
    let mut normal: Option<(Ended, Option<Vec<u8>>)> = None;
    let mut span = None;
    let mut time_limit = request.run.time_limit;
    let first_seed = request.run.seed.max(1);
    for n in 1..=request.runs.max(1) {
        let mut run = request.run.clone();
        run.seed = if n == 1 {
            0
        } else {
            first_seed + u64::from(n) - 2
        };
        run.chaos = span;
        run.time_limit = time_limit;
        if report.failure.is_some() {
            run.name = None;
        }
        let done = one_run(store, &run, input, request.same_output.then_some(output))?;
        let printed = request
            .same_output
            .then(|| fs::read(output).unwrap_or_default());
        let interrupted =
            matches!(done.ended, Ended::Killed { signal } if ENDING.contains(&signal));
        if interrupted {
            drop_recording(store, &done)?;
            report.interrupted = true;
            break;
        }
        if span.is_none() {
            span = Some(at_work(store, &done));
            // A schedule may be slow, or one under which the threads wait for each other for ever.
            time_limit.get_or_insert(PATIENCE + Duration::from_micros(done.cost.wall) * 10);
        }
        let (reference, expected_output) =
            normal.get_or_insert_with(|| (done.ended.clone(), printed.clone()));
        let other_output = printed != *expected_output;
        let failed =
            done.timed_out || other_output || fails(&done.ended, reference, &request.expect);
        report.runs = n;
        report.failed += u32::from(failed);
        count(&mut report.endings, &done, other_output, failed);
        if failed && report.failure.is_none() {
            report.failure = Some(Failure {
                run: n,
                seed: run.seed,
                other_output,
                report: done,
            });
        } else {
            drop_recording(store, &done)?;
        }
        audience.run_ended(n, request.runs, report.failed);
        if report.failed > 0 && !request.keep_going {
            break;
        }
    }
    report.endings.sort_by_key(|e| std::cmp::Reverse(e.runs));
    Ok(report)
}

/// What a run may take, besides ten times what the first one took.
const PATIENCE: Duration = Duration::from_secs(10);

/// Signals by which people end a program.
const ENDING: [i32; 5] = [
    nix::libc::SIGINT,
    nix::libc::SIGTERM,
    nix::libc::SIGHUP,
    nix::libc::SIGQUIT,
    nix::libc::SIGKILL,
];

fn fails(ended: &Ended, reference: &Ended, expect: &[i32]) -> bool {
    match ended {
        Ended::Exited { status } if expect.is_empty() => *status != 0 && ended != reference,
        Ended::Exited { status } => !expect.contains(status),
        _ => true,
    }
}

fn count(endings: &mut Vec<Ending>, done: &RunReport, other_output: bool, failed: bool) {
    let ended = &done.ended;
    let same = |e: &&mut Ending| {
        (&e.ended, e.timed_out, e.other_output) == (ended, done.timed_out, other_output)
    };
    match endings.iter_mut().find(same) {
        Some(e) => e.runs += 1,
        None => endings.push(Ending {
            ended: ended.clone(),
            timed_out: done.timed_out,
            other_output,
            failed,
            runs: 1,
        }),
    }
}

/// The steps between which the run had several threads.
fn at_work(store: &Store, done: &RunReport) -> (u64, u64) {
    let folder = store.path(&done.recording.0);
    let threads = Meta::read(&done.recording.0, &folder)
        .map(|m| m.threads)
        .unwrap_or_default();
    let began = threads
        .iter()
        .filter(|t| t.creator.is_some())
        .map(|t| t.began);
    (began.min().unwrap_or(0), done.figures.steps)
}

fn drop_recording(store: &Store, done: &RunReport) -> Result<(), Error> {
    remove::remove(store, Some(std::slice::from_ref(&done.recording.0))).map(drop)
}

/// A temporary file of this process.
fn aside(what: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wherefore-{what}-{}", std::process::id()))
}

/// Empty, and for its owner only.
fn private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

/// On a thread of its own: a recorded run pins its thread to a CPU, and would tell the next guest
/// of that one only.
fn one_run(
    store: &Store,
    run: &RunRequest,
    input: &Input,
    output: Option<&PathBuf>,
) -> Result<RunReport, Error> {
    let trouble = |e| Error::Folder(std::env::temp_dir(), e);
    let fresh = |path: Option<&PathBuf>| -> io::Result<Arc<OwnedFd>> {
        let file = match path {
            Some(path) => private(path)?,
            None => File::options().write(true).open("/dev/null")?,
        };
        Ok(Arc::new(file.into()))
    };
    let surroundings = Surroundings {
        streams: [
            input.open().map_err(trouble)?,
            Some(fresh(output).map_err(trouble)?),
            Some(fresh(None).map_err(trouble)?),
        ],
        end_any_deadlock: true,
    };
    std::thread::scope(|scope| {
        let made = scope.spawn(|| run::run(store, run, &surroundings, None));
        made.join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Standard input, which each run reads from its beginning.
enum Input {
    /// As it is: a terminal, or nothing.
    Own,
    /// A file; the runs begin at this place.
    File(File, u64),
    /// What came through a pipe.
    Copy(PathBuf),
}

impl Input {
    fn take() -> Result<Self, Error> {
        let trouble = |e| Error::Folder(std::env::temp_dir(), e);
        let stdin = io::stdin();
        let Ok(fd) = stdin.as_fd().try_clone_to_owned() else {
            return Ok(Input::Own);
        };
        let mut file = File::from(fd);
        let kind = file.metadata().map(|m| m.file_type());
        if stdin.is_terminal() {
            return Ok(Input::Own);
        }
        use std::os::unix::fs::FileTypeExt;
        match kind {
            Ok(k) if k.is_file() => {
                let at = file.stream_position().map_err(trouble)?;
                Ok(Input::File(file, at))
            }
            Ok(k) if k.is_fifo() || k.is_socket() => {
                let path = aside("input");
                let mut copy = private(&path).map_err(trouble)?;
                io::copy(&mut file, &mut copy).map_err(trouble)?;
                Ok(Input::Copy(path))
            }
            _ => Ok(Input::Own),
        }
    }

    fn open(&self) -> io::Result<Option<Arc<OwnedFd>>> {
        match self {
            Input::Own => Ok(None),
            Input::File(file, at) => {
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(*at))?;
                Ok(Some(Arc::new(file.into())))
            }
            Input::Copy(path) => Ok(Some(Arc::new(File::open(path)?.into()))),
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Input::Copy(path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails() {
        let exited = |status| Ended::Exited { status };
        for (ended, reference, expect, failed) in [
            (exited(0), exited(0), &[][..], false),
            (exited(1), exited(0), &[][..], true),
            (exited(1), exited(1), &[][..], false),
            (exited(0), exited(1), &[][..], false),
            (exited(2), exited(1), &[][..], true),
            (exited(0), exited(0), &[3][..], true),
            (exited(3), exited(0), &[3][..], false),
            (Ended::Killed { signal: 11 }, exited(0), &[][..], true),
            (Ended::Deadlocked, exited(0), &[][..], true),
        ] {
            assert_eq!(fails(&ended, &reference, expect), failed, "{ended:?}");
        }
    }
}
