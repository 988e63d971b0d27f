//! `check`: a run under the eyes of rules.
//!
//! A program is run once: it writes the tape while it is recorded, and the abstract machine of `rules`, which finds where
//! conditions hold, hears it meanwhile. A recording is replayed with the tape on instead. If something was found, the
//! guest is then taken to each of these steps in a replay: to look at what the tape does not tell, to show the stacks,
//! and to follow the pointers back.
//!
//! What the program can still find when it ends, of which leaks are the other side, is looked for in the memory that it
//! has then: it stops for that, so that a program without faults is not run again.

mod chain;
mod events;
mod loader;
mod moved;
mod reach;
mod report;
mod select;
mod trail;
mod watch;

pub use chain::{Chain, Hop};
pub use events::{AbstractEvent, EventKind};
pub use report::{Amount, BlockReport, Fault, LeakedBlocks, PastEvent, Site};
pub(crate) use select::rules;
pub use select::{RuleFile, RuleReport, RulesReport, RulesRequest};

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use rules::machine::Detours;
use serde::Serialize;

use crate::Error;
use crate::crash::CrashReport;
use crate::meta::{Ended, Meta};
use crate::replay::Audience;
use crate::run::{RunRequest, Stuck};
use crate::store::{Finished, RecordingName, Store};
use watch::{How, Watched};

/// What is said of a run that was followed twice.
const SAME: &str = "machine code and plain operations came to the same";

/// Why a run is not followed to its end.
const TWICE: &str = "the program has memory at addresses of which the lower 42 bits are the same, \
    which cannot be told apart";

#[derive(Clone, Debug, Default)]
pub struct CheckRequest {
    /// A program to run and record first.
    pub program: Option<RunRequest>,
    /// Otherwise a recording; the latest if absent.
    pub recording: Option<String>,
    /// Rule files of the user's, beside the shipped ones.
    pub rules: Vec<PathBuf>,
    /// Only these rules.
    pub only: Vec<String>,
    /// All faults, not only the first.
    pub all: bool,
    /// Without value propagation chains.
    pub no_chains: bool,
    /// With the events that the rules were asked about.
    pub events: bool,
    /// Follow the run also without machine code, and say whether that comes to the same.
    pub doubt: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    pub recording: RecordingName,
    /// How the program ended.
    pub ended: Ended,
    /// What it died of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash: Option<CrashReport>,
    /// In the order of steps.
    pub faults: Vec<Fault>,
    /// Names of the rules that were asked.
    pub rules: Vec<String>,
    /// The abstract trace, if it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<AbstractEvent>,
    /// Warnings about rule files, and what could not be done.
    pub notes: Vec<String>,
    /// The report lacks something that it was not possible to look up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    pub figures: CheckFigures,
}

/// Why a report is not all that it could be.
#[derive(Clone, Debug, Serialize)]
pub struct Unfinished {
    pub why: String,
    /// Somebody did not want to wait for it: the recording has all of it.
    pub interrupted: bool,
    /// Places that may be faults beside those of the report.
    pub undecided: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct CheckFigures {
    pub steps: u64,
    /// Allocations that were followed.
    pub blocks: u64,
    /// Running, or replaying, with the tape on while the rules are asked.
    pub watch_seconds: f64,
    /// Making the report.
    pub report_seconds: f64,
    /// Records that were not done by machine code.
    pub detours: DetourFigures,
}

/// Why records of the tape were done otherwise than by machine code, and how many of them.
#[derive(Clone, Debug, Serialize)]
pub struct DetourFigures {
    pub cold: u64,
    pub calls: u64,
    pub odd: u64,
    pub unwritten: u64,
    pub left: u64,
    pub returns: u64,
    /// Instructions in them.
    pub steps: u64,
}

impl From<Detours> for DetourFigures {
    fn from(d: Detours) -> DetourFigures {
        DetourFigures {
            cold: d.cold,
            calls: d.calls,
            odd: d.odd,
            unwritten: d.unwritten,
            left: d.left,
            returns: d.returns,
            steps: d.steps,
        }
    }
}

impl CheckReport {
    /// Something is wrong with the program, whether or not a rule says what.
    pub fn is_fault(&self) -> bool {
        let crashed = self.crash.as_ref().is_some_and(|c| c.is_fault);
        crashed || !self.faults.is_empty() || matches!(self.ended, Ended::Deadlocked)
    }
}

pub(crate) fn check(
    store: &Store,
    request: &CheckRequest,
    stuck: Stuck,
    audience: &Rc<dyn Audience>,
) -> Result<CheckReport, Error> {
    let chosen = select::choose(&request.rules, &request.only)?;
    let begun = Instant::now();
    let how = How {
        first_only: !request.all,
        heeds_signals: true,
        events: request.events,
        doubt: request.doubt,
    };
    let (mut watched, ended) = match &request.program {
        Some(program) => Watched::recorded(store, program, &chosen, how, stuck)?,
        None => {
            let Finished { name, folder, meta } = store.finished(request.recording.as_deref())?;
            let watched = Watched::of(&name, &folder, &meta, &chosen, how, audience)?;
            (watched, meta.ended)
        }
    };
    let watch_seconds = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let report::Told {
        faults,
        trouble,
        undecided,
    } = report::faults(&mut watched, &chosen, request);
    // The first that went wrong is the reason of the rest.
    let trouble = watched.trouble.take().or(trouble);
    let unfinished = match trouble {
        Some(trouble) if faults.is_empty() && watched.crash.is_none() => return Err(trouble),
        trouble => trouble.map(|why| Unfinished {
            why: why.to_string(),
            interrupted: matches!(why, Error::Interrupted),
            undecided: undecided as u64,
        }),
    };
    let mut notes = chosen.notes;
    notes.append(&mut watched.lacks);
    match watched.machine.doubts() {
        None => {}
        Some(Ok(())) => notes.push(SAME.to_owned()),
        Some(Err(how)) => notes.push(format!("machine code and plain operations differ: {how}")),
    }
    if let Some(step) = watched.machine.lost() {
        notes.push(format!(
            "from step {step} on nothing was looked at: {TWICE}"
        ));
    }
    let events = match request.events {
        true => events::events(&watched, &mut notes),
        false => Vec::new(),
    };
    Ok(CheckReport {
        recording: RecordingName(watched.name.clone()),
        ended,
        crash: watched.crash.take(),
        faults,
        rules: chosen.rules.iter().map(|r| r.name.clone()).collect(),
        events,
        notes,
        unfinished,
        figures: CheckFigures {
            steps: watched.steps,
            blocks: watched.machine.heap.all().count() as u64,
            watch_seconds,
            report_seconds: begun.elapsed().as_secs_f64(),
            detours: watched.machine.detours().into(),
        },
    })
}

/// All faults that one of the shipped rules finds in a recording, for a debugger.
pub(crate) fn found_by(
    rule: &str,
    name: &str,
    folder: &Path,
    meta: &Meta,
    audience: &Rc<dyn Audience>,
) -> Result<Vec<Fault>, Error> {
    let request = CheckRequest {
        only: vec![rule.to_owned()],
        all: true,
        no_chains: true,
        ..CheckRequest::default()
    };
    let chosen = select::choose(&[], &request.only)?;
    let how = How {
        first_only: false,
        heeds_signals: false,
        events: false,
        doubt: false,
    };
    let mut watched = Watched::of(name, folder, meta, &chosen, how, audience)?;
    let told = report::faults(&mut watched, &chosen, &request);
    match watched.trouble.take().or(told.trouble) {
        Some(trouble) => Err(trouble),
        None => Ok(told.faults),
    }
}
