//! Running a program and recording it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::Error;
use crate::cost::{Clock, Cost};
use crate::crash::{CrashReport, Witness};
use crate::limit::Limit;
use crate::meta::{self, Ended, Figures, Meta};
use crate::program;
use crate::schedule;
use crate::store::{RecordingName, Store};
use crate::threads::{self, DeadlockReport, ThreadInfo};

#[derive(Clone, Debug)]
pub struct RunRequest {
    /// A path, or a name that is sought in `PATH`.
    pub program: PathBuf,
    /// Without the program's name.
    pub args: Vec<OsString>,
    /// What to call the recording; named after the program if absent.
    pub name: Option<String>,
    /// How threads take turns: 0 is evenly.
    pub seed: u64,
    /// A list of switches to follow.
    pub schedule: Option<PathBuf>,
    /// Hostile turns between these steps; see [`ChaosRequest`](crate::ChaosRequest).
    pub chaos: Option<(u64, u64)>,
    /// A guest that takes longer is ended.
    pub time_limit: Option<Duration>,
}

/// Told of a guest in which no thread can run, though a signal might help.
pub type Stuck = Rc<dyn Fn(&DeadlockReport)>;

/// What a run has that is not the tool's own.
#[derive(Default)]
pub(crate) struct Surroundings {
    pub(crate) streams: [Option<Arc<OwnedFd>>; 3],
    /// Also one that a signal could end.
    pub(crate) end_any_deadlock: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    pub recording: RecordingName,
    pub ended: Ended,
    /// It was ended because it took too long.
    pub timed_out: bool,
    pub figures: Figures,
    pub cost: Cost,
    pub notes: Vec<String>,
    /// There if the guest died of a signal that it met itself.
    pub crash: Option<CrashReport>,
    /// There if no thread could run any more.
    pub deadlock: Option<DeadlockReport>,
}

pub(crate) fn run(
    store: &Store,
    request: &RunRequest,
    surroundings: &Surroundings,
    stuck: Option<Stuck>,
) -> Result<RunReport, Error> {
    let plainly = |r: &mut guest::Recorder| {
        while !matches!(r.run_until(&guest::Until::end())?, guest::Halt::Ended(_)) {}
        Ok(())
    };
    run_as(store, request, surroundings, stuck, plainly, |_| ())
}

/// The same, with `drive` letting the guest run to its end. `dying` sees a guest that is about to die of a signal.
pub(crate) fn run_as(
    store: &Store,
    request: &RunRequest,
    surroundings: &Surroundings,
    stuck: Option<Stuck>,
    drive: impl FnOnce(&mut guest::Recorder) -> Result<(), guest::Error>,
    mut dying: impl FnMut(&guest::Crash<'_>) + 'static,
) -> Result<RunReport, Error> {
    let how = turns(request)?;
    let mut clock = Clock::start();
    survive_file_limit();
    let mut launch = guest::Launch::new(request.program.clone(), request.args.iter().cloned())
        .map_err(|e| program::explain(&request.program, &e))?;
    launch.streams = surroundings.streams.clone();
    let mut place = store.make(&request.program, request.name.as_deref())?;
    let name = place.name.clone();
    let mut meta = describe(&launch);
    meta.seed = request.seed;
    let unwritable = |e| Error::Folder(place.folder.clone(), e);
    meta.write(&place.folder).map_err(unwritable)?;

    let mut recorder = guest::Recorder::start(&launch, &place.folder).map_err(|e| match e {
        guest::Error::Exec(..) | guest::Error::Unsupported(_) | guest::Error::Lost => {
            program::explain(&launch.program, &e)
        }
        error => Error::Engine {
            name: name.clone(),
            error,
        },
    })?;
    place.keep();
    let witness = Witness::default();
    let mut look = witness.look(&name);
    recorder.on_crash(move |crash| {
        look(crash);
        dying(crash);
    });
    recorder.schedule(&how);
    let deadlock: Rc<RefCell<Option<DeadlockReport>>> = Rc::default();
    recorder.on_deadlock({
        let (deadlock, name) = (deadlock.clone(), name.clone());
        let end_any = surroundings.end_any_deadlock;
        move |d| {
            let report = threads::deadlock(&name, d);
            let end = end_any || report.handlers.is_empty();
            match &stuck {
                Some(stuck) if !end => stuck(&report),
                _ => *deadlock.borrow_mut() = Some(report),
            }
            end
        }
    });
    clock.started();
    let limit = request.time_limit;
    let limit = limit.map(|t| Limit::start(recorder.pid(), t)).transpose();
    let limit = limit.map_err(|error| Error::Engine {
        name: name.clone(),
        error: guest::Error::Os("pidfd_open", error),
    })?;
    let result = drive(&mut recorder).and_then(|()| recorder.finished());
    let timed_out = limit.is_some_and(Limit::stop);
    clock.reporting = witness.took();
    let cost = clock.stop();
    meta.cost = Some(cost.clone());
    match result {
        Ok(done) => {
            let figures = Figures::from(&done.stats);
            meta.ended = done.end.into();
            meta.figures = Some(figures.clone());
            meta.notes = done.notes.clone();
            meta.threads = done.threads.iter().map(ThreadInfo::from).collect();
            meta.files = stored_names(&done.files);
            meta.write(&place.folder)
                .map_err(|e| Error::Folder(place.folder.clone(), e))?;
            Ok(RunReport {
                recording: RecordingName(name),
                ended: done.end.into(),
                timed_out,
                figures,
                cost,
                notes: done.notes,
                crash: witness.report(&place.folder),
                deadlock: deadlock.take(),
            })
        }
        Err(error) => {
            meta.ended = Ended::Failed {
                why: error.to_string(),
            };
            // The disk may be full; the error that is reported is the first one.
            let _ = meta.write(&place.folder);
            Err(Error::Engine { name, error })
        }
    }
}

/// How threads are to take turns.
fn turns(request: &RunRequest) -> Result<guest::Schedule, Error> {
    let lines = match &request.schedule {
        None => Vec::new(),
        Some(file) => {
            let wrong = |wrong| Error::Schedule {
                file: file.clone(),
                wrong,
            };
            let text = std::fs::read_to_string(file).map_err(|e| wrong(vec![e.to_string()]))?;
            schedule::parse(&text).map_err(wrong)?
        }
    };
    Ok(guest::Schedule {
        seed: request.seed,
        chaos: request.chaos.map(|(from, to)| guest::Chaos { from, to }),
        lines,
    })
}

pub(crate) fn describe(launch: &guest::Launch) -> Meta {
    let text = |s: &OsString| s.to_string_lossy().into_owned();
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    let cwd = std::env::current_dir().unwrap_or_default();
    Meta {
        format: meta::FORMAT,
        wherefore: env!("CARGO_PKG_VERSION").to_owned(),
        program: std::path::absolute(&launch.program)
            .unwrap_or_else(|_| launch.program.clone())
            .to_string_lossy()
            .into_owned(),
        args: launch.args.iter().map(text).collect(),
        cwd: cwd.to_string_lossy().into_owned(),
        env: launch.env.iter().map(|(k, v)| (text(k), text(v))).collect(),
        started: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        ended: Ended::Running {
            pid,
            since: meta::started_at(pid).unwrap_or(0),
        },
        figures: None,
        cost: None,
        notes: Vec::new(),
        threads: Vec::new(),
        seed: 0,
        files: Vec::new(),
        suite: None,
    }
}

pub(crate) fn stored_names(files: &HashMap<PathBuf, PathBuf>) -> Vec<(String, String)> {
    let mut out: Vec<_> = files
        .iter()
        .filter_map(|(stored, name)| {
            let stored = stored.file_name()?.to_string_lossy().into_owned();
            Some((stored, name.to_string_lossy().into_owned()))
        })
        .collect();
    out.sort();
    out
}

/// A recording that outgrows the limit on the size of a file is an error to report, not a reason to
/// die. A handler does not outlive the exec, so that the guest's own limit works as ever.
fn survive_file_limit() {
    const SIGXFSZ: i32 = nix::libc::SIGXFSZ;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|l| l.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    if ignored >> (SIGXFSZ - 1) & 1 == 0 {
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    }
}
