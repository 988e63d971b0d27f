//! The façade: what a user can ask of wherefore, as plain data.
//!
//! A front end (the command line, later others) fills in a request and renders the report. Nothing
//! here prints, parses options or knows of a terminal; nothing in a front end knows of the engine.
//! Each method of [`Case`] is one line that leads to the file that does it.

#![forbid(unsafe_code)]

mod access;
mod chaos;
mod check;
mod cost;
mod crash;
mod debug;
mod error;
mod frames;
mod history;
mod info;
mod limit;
mod locate;
mod meta;
mod moment;
mod point;
mod position;
mod program;
mod remove;
mod replay;
mod run;
mod schedule;
mod set;
mod slice;
mod store;
mod threads;
mod trace;

pub use ::locate::faults::Recompute;
pub use ::locate::rank::Formula;
pub use ::locate::{Reduction, Tally, When};
pub use chaos::{ChaosAudience, ChaosReport, ChaosRequest, Ending, Failure};
pub use check::{
    AbstractEvent, Amount, BlockReport, Chain, CheckFigures, CheckReport, CheckRequest,
    DetourFigures, EventKind, Fault, Hop, LeakedBlocks, PastEvent, RuleFile, RuleReport,
    RulesReport, RulesRequest, Site, Unfinished,
};
pub use cost::Cost;
pub use crash::{CrashReport, Sent, SignalName};
pub use debug::{
    Alteration, CameFrom, Catch, CheckpointInfo, Condition, DebugThread, Detector, EditInfo,
    EditKind, EditRequest, Filter, Go, LibraryBreak, MoveRequest, Session, TimelineInfo, Times,
    TryReport, Watch, Why, Writer,
};
pub use error::Error;
pub use frames::{Excerpt, Frame, FrameList, Parameter, SourceLine};
pub use guest::UserRegs;
pub use history::{
    HistoryReport, NamedValue, PastWrite, RanLine, SourceReport, ValueReport, ValueRequest, Values,
    ValuesReport, ValuesRequest,
};
pub use info::{InfoReport, ListReport, RecordingInfo, StoredFile};
pub use locate::{
    Compare, Content, Evidence, Expected, LocateAudience, LocateReport, LocateRequest, Method,
    Pointers, RankedLine, Rerun, SearchReport, Searching, Suite, Test, TestEnd, TestReport,
    TruthReport, ValueChange,
};
pub use meta::{Ended, Figures, Meta};
pub use point::{Point, Window};
pub use position::{Instruction, Position};
pub use remove::RemoveReport;
pub use replay::{Audience, ReplayEnd, ReplayReport, ReplayRequest, Stream};
pub use run::{RunReport, RunRequest, Stuck};
pub use schedule::{ScheduleReport, Switch};
pub use set::SetRequest;
pub use slice::{
    About, Dependence, Instance, SliceFigures, SliceReport, SliceRequest, SourcePlace, Statement,
};
pub use store::{RecordingName, default_folder};
pub use threads::{DeadlockReport, ThreadInfo, ThreadLabel, ThreadReport, Wait};

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

/// The recordings of a folder, and what can be asked of them.
#[derive(Clone, Debug)]
pub struct Case {
    store: store::Store,
}

impl Case {
    /// The folder need not exist; the first recording makes it.
    pub fn new(folder: PathBuf) -> Self {
        Case {
            store: store::Store::new(folder),
        }
    }

    /// Runs a program and records it. `stuck` is told when no thread can run but a signal might
    /// help.
    pub fn run(&self, request: &RunRequest, stuck: Stuck) -> Result<RunReport, Error> {
        run::run(
            &self.store,
            request,
            &run::Surroundings::default(),
            Some(stuck),
        )
    }

    /// Runs a program many times under hostile schedules, until it fails.
    pub fn chaos(
        &self,
        request: &ChaosRequest,
        audience: &dyn ChaosAudience,
    ) -> Result<ChaosReport, Error> {
        chaos::chaos(&self.store, request, audience)
    }

    /// The changes of turn in a recording; the latest if none is named.
    pub fn schedule(&self, name: Option<&str>) -> Result<ScheduleReport, Error> {
        schedule::schedule(&self.store, name)
    }

    /// Runs a recording again.
    pub fn replay(
        &self,
        request: &ReplayRequest,
        audience: Rc<dyn Audience>,
    ) -> Result<ReplayReport, Error> {
        replay::replay(&self.store, request, audience)
    }

    /// A recording under a debugger.
    pub fn debug(
        &self,
        recording: Option<&str>,
        audience: Rc<dyn Audience>,
    ) -> Result<Session, Error> {
        debug::debug(&self.store, recording, audience)
    }

    /// The files of a recording that are no longer what they were.
    pub fn changed_files(&self, name: &str) -> Result<Vec<PathBuf>, Error> {
        debug::changed_files(&self.store, name)
    }

    /// Runs a recording with statements switched or suppressed, or values set.
    pub fn try_edits(
        &self,
        recording: Option<&str>,
        edits: &[Alteration],
        audience: Rc<dyn Audience>,
    ) -> Result<TryReport, Error> {
        debug::try_edits(&self.store, recording, edits, audience)
    }

    /// Ranks the lines of a program by how likely they are at fault, from its tests. Once `stop` is
    /// set, the search ends and can be resumed.
    pub fn locate(
        &self,
        request: &LocateRequest,
        audience: &dyn LocateAudience,
        stop: &AtomicBool,
    ) -> Result<LocateReport, Error> {
        locate::locate(&self.store, request, audience, stop)
    }

    /// Finds what rules say is a fault, in a program's run or a recording.
    pub fn check(
        &self,
        request: &CheckRequest,
        stuck: Stuck,
        audience: Rc<dyn Audience>,
    ) -> Result<CheckReport, Error> {
        check::check(&self.store, request, stuck, &audience)
    }

    /// What rule files say, and what becomes of them.
    pub fn rules(&self, request: &RulesRequest) -> Result<RulesReport, Error> {
        check::rules(request)
    }

    /// The statements that had to do with a value or a failure.
    pub fn slice(
        &self,
        request: &SliceRequest,
        audience: Rc<dyn Audience>,
    ) -> Result<SliceReport, Error> {
        slice::slice(&self.store, request, &audience)
    }

    /// The values of expressions each time that a place is reached, in one pass over the run.
    pub fn values(
        &self,
        request: &ValuesRequest,
        audience: Rc<dyn Audience>,
    ) -> Result<ValuesReport, Error> {
        history::values(&self.store, request, &audience)
    }

    /// The value of an expression at a place in the run.
    pub fn value(
        &self,
        request: &ValueRequest,
        audience: Rc<dyn Audience>,
    ) -> Result<ValueReport, Error> {
        history::value(&self.store, request, &audience)
    }

    /// Who wrote a variable, the latest first.
    pub fn history(
        &self,
        request: &ValueRequest,
        audience: Rc<dyn Audience>,
    ) -> Result<HistoryReport, Error> {
        history::history(&self.store, request, &audience)
    }

    /// Which lines of the user's source ran, and how often.
    pub fn source(
        &self,
        recording: Option<&str>,
        audience: Rc<dyn Audience>,
    ) -> Result<SourceReport, Error> {
        history::source(&self.store, recording, &audience)
    }

    /// All recordings, the oldest first.
    pub fn list(&self) -> Result<ListReport, Error> {
        info::list(&self.store)
    }

    /// Everything about one recording; the latest if none is named.
    pub fn info(&self, name: Option<&str>) -> Result<InfoReport, Error> {
        info::info(&self.store, name)
    }

    /// Removes recordings; all of them if none is named.
    pub fn remove(&self, names: Option<&[String]>) -> Result<RemoveReport, Error> {
        remove::remove(&self.store, names)
    }
}

/// Ends this process by a signal, as the guest ended.
pub fn die_of(signal: i32) -> ! {
    guest::die_of(signal)
}

/// The name of a signal, such as `SIGSEGV`.
pub fn signal_name(signal: i32) -> String {
    abi::signal::name(signal).unwrap_or_else(|| format!("signal {signal}"))
}

/// Has Ctrl-C and its like set `stop` instead of ending the process.
pub fn on_interrupt(stop: &std::sync::Arc<AtomicBool>) {
    guest::survive_interrupts();
    use nix::libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        let _ = signal_hook::flag::register(signal, stop.clone());
    }
}
