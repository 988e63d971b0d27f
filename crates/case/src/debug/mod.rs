//! A recording under a debugger: one guest that stands still, and goes where it is told.
//!
//! A debugger asks for registers and memory, sets breakpoints, and says "go on" or "go back". All of
//! that is answered from a replay, so going back is going to an earlier step: [`Session`] knows the
//! positions of a run as (timeline, step). `travel.rs` moves the guest, `timeline.rs` keeps apart
//! what is the recording's and what was changed, `statement.rs` finds the code of a statement that is
//! to be switched or suppressed, `set.rs` sets values, `surroundings.rs` shows what a debugger looks for in `/proc`.
//!
//! Breakpoints are stops of the engine: the guest's code is never patched, so memory reads as it is.
//!
//! Nothing here speaks a protocol: a gdb server, and later other front ends, translate.

mod crash;
mod detectors;
mod library;
mod moving;
mod set;
mod slices;
mod statement;
mod surroundings;
mod thread_local;
mod timeline;
mod travel;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use guest::{CheckpointId, Replay, Spacing, Switch, ThreadId};
use image::Program;

use crate::Error;
use crate::meta::Meta;
use crate::moment;
use crate::replay::Audience;
use crate::store::{Finished, Store};

pub use crash::{CameFrom, Writer};
pub use detectors::Detector;
pub use library::{Condition, LibraryBreak};
pub use moving::MoveRequest;
pub use statement::{Alteration, EditKind, EditRequest, Times, TryReport};
pub use timeline::{CheckpointInfo, EditInfo, TimelineInfo};

pub(crate) use set::location_put;
pub(crate) use statement::try_edits;
pub(crate) use surroundings::changed_files;

/// Running time between two checkpoints that the session keeps by itself.
const SPACING: Spacing = Spacing {
    time: std::time::Duration::from_millis(50),
    most: 48,
};

/// Memory whose accesses stop the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    pub addr: u64,
    pub len: u64,
    pub read: bool,
    pub write: bool,
}

/// Which system calls stop the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Catch {
    #[default]
    Nothing,
    All,
    Numbers(Vec<u64>),
}

/// How far a debugger lets the guest go. Threads are named by the numbers that the guest knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// To the next breakpoint, watchpoint or signal.
    On,
    /// One instruction of this thread.
    Step { tid: i32 },
    /// While this thread is in a stretch of code.
    Range { tid: i32, start: u64, end: u64 },
}

/// Why the guest stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Step,
    Breakpoint,
    Watch(Watch),
    Call {
        nr: u64,
        entry: bool,
    },
    Signal(i32),
    Interrupted,
    /// Nothing was executed before this.
    Begin,
    /// The guest is about to end.
    End,
    /// A command has put it elsewhere.
    Moved,
    /// A step that was marked.
    Marked,
    /// Before a call that this library breakpoint is about.
    Library(u32),
    Exited(i32),
    Killed(i32),
}

/// Whether a stop at a breakpoint is one that the debugger wants to know of.
pub type Filter = Rc<dyn Fn(&Session) -> bool>;

/// A thread of the guest.
#[derive(Clone, Debug)]
pub struct DebugThread {
    pub tid: i32,
    pub name: Option<String>,
    /// It is inside a system call.
    pub waits: bool,
    pub current: bool,
}

/// A recording that is being debugged.
pub struct Session {
    pub(crate) store: Store,
    pub(crate) name: String,
    pub(crate) meta: Meta,
    pub(crate) replay: Replay,
    program: Program,
    switches: Vec<Switch>,
    /// Addresses that stop the guest, and how often each was asked for.
    breakpoints: BTreeMap<u64, u32>,
    /// Conditions of breakpoints, judged each time one of them is come to.
    conditions: BTreeMap<u64, Filter>,
    /// How often a breakpoint is yet to be passed by on the way forward.
    ignored: BTreeMap<u64, u64>,
    /// How often each stop of the last run was come to.
    passed: Vec<u64>,
    watches: Vec<Watch>,
    pub catch: Catch,
    /// A system call was shown at its entry; its return is next.
    returning: Option<(ThreadId, u64)>,
    /// Where a command has put the guest, to be told to the debugger when it next asks to go on.
    moved: bool,
    near: Vec<(CheckpointId, u64)>,
    /// Steps that stop the guest.
    pub marks: std::collections::BTreeSet<u64>,
    /// What the rules that are on have found: steps, and what happens there.
    detectors: BTreeMap<String, Vec<(u64, String)>>,
    library_breaks: Vec<LibraryBreak>,
    last_library_break: u32,
    /// The entry of the call before which it stopped last: going on makes that call.
    library_passed: Option<u64>,
    /// Why it stopped last.
    last: Option<Why>,
    tracer: slices::Tracer,
    times: timeline::Times,
    auxv: Vec<u8>,
    executable: Option<PathBuf>,
}

pub(crate) fn debug(
    store: &Store,
    recording: Option<&str>,
    audience: Rc<dyn Audience>,
) -> Result<Session, Error> {
    let Finished { name, folder, meta } = store.finished(recording)?;
    let wrong = |error| Error::Engine {
        name: name.clone(),
        error,
    };
    let sink = Box::new(move |kind: guest::OutputKind, bytes: &[u8]| {
        audience.output(kind.into(), bytes);
    });
    let mut replay = Replay::open(&folder, sink).map_err(wrong)?;
    replay.keep_checkpoints(SPACING).map_err(wrong)?;
    // Only what the user lets run is shown, not what runs to find something.
    replay.mute(true);
    let mut session = Session {
        switches: guest::switches(&folder).map_err(wrong)?,
        store: store.clone(),
        program: Program::new(),
        breakpoints: BTreeMap::new(),
        conditions: BTreeMap::new(),
        ignored: BTreeMap::new(),
        passed: Vec::new(),
        watches: Vec::new(),
        catch: Catch::default(),
        returning: None,
        moved: false,
        near: Vec::new(),
        marks: std::collections::BTreeSet::new(),
        detectors: BTreeMap::new(),
        library_breaks: Vec::new(),
        last_library_break: 0,
        library_passed: None,
        last: None,
        tracer: slices::Tracer::default(),
        times: timeline::Times::default(),
        auxv: surroundings::auxv(&replay),
        executable: None,
        name,
        meta,
        replay,
    };
    session.executable = session.find_executable()?;
    Ok(session)
}

impl Session {
    pub fn recording(&self) -> &str {
        &self.name
    }

    /// Instructions executed before the place at which the guest stands.
    pub fn step(&self) -> Result<u64, Error> {
        self.replay.step().map_err(|e| self.wrong(e))
    }

    /// Steps of the whole recording, if it was made to its end.
    pub fn steps(&self) -> Option<u64> {
        self.meta.figures.as_ref().map(|f| f.steps)
    }

    /// Once set, a run in progress stops.
    pub fn interrupter(&self) -> Arc<AtomicBool> {
        self.replay.interrupter()
    }

    /// Why the guest stopped when it was last let go.
    pub fn last_stop(&self) -> Option<Why> {
        self.last
    }

    pub fn threads(&self) -> Vec<DebugThread> {
        let current = self.replay.thread();
        let views = self.replay.threads().into_iter();
        views
            .map(|v| DebugThread {
                tid: v.about.tid,
                name: v.about.name,
                waits: v.waits,
                current: v.about.id == current,
            })
            .collect()
    }

    /// The thread that runs.
    pub fn thread(&self) -> i32 {
        let threads = self.threads();
        let current = threads.iter().find(|t| t.current).or(threads.first());
        current.map_or(1, |t| t.tid)
    }

    /// The number of the process, as the guest knows it.
    pub fn pid(&self) -> i32 {
        self.replay.threads().first().map_or(1, |v| v.about.tid)
    }

    pub(crate) fn id_of(&self, tid: i32) -> Option<ThreadId> {
        let views = self.replay.threads();
        views
            .iter()
            .find(|v| v.about.tid == tid)
            .map(|v| v.about.id)
    }

    /// The general registers of a thread.
    pub fn registers(&self, tid: i32) -> Option<guest::UserRegs> {
        let views = self.replay.threads();
        views.iter().find(|v| v.about.tid == tid).map(|v| v.regs)
    }

    /// The general registers of the thread that runs.
    pub fn current_registers(&self) -> guest::UserRegs {
        self.replay.regs()
    }

    /// Its x87 and vector registers, as XSAVE lays them out.
    pub fn vectors(&self, tid: i32) -> Result<Vec<u8>, Error> {
        let id = self.id_of(tid).unwrap_or(self.replay.thread());
        self.replay.vector_state_of(id).map_err(|e| self.wrong(e))
    }

    /// The `siginfo_t` of the signal for which the guest stands.
    pub fn signal_info(&self) -> Option<&[u8; 128]> {
        self.replay.signal_info()
    }

    /// Reads memory; says how many bytes there are.
    pub fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        self.replay.read(addr, buf)
    }

    pub fn add_breakpoint(&mut self, addr: u64) {
        *self.breakpoints.entry(addr).or_default() += 1;
    }

    /// False if there was none.
    pub fn remove_breakpoint(&mut self, addr: u64) -> bool {
        let Some(n) = self.breakpoints.get_mut(&addr) else {
            return false;
        };
        *n -= 1;
        if *n == 0 {
            self.breakpoints.remove(&addr);
            self.conditions.remove(&addr);
        }
        true
    }

    /// Has the breakpoint at an address stop the guest only if a condition holds there.
    pub fn set_condition(&mut self, addr: u64, condition: Option<Filter>) {
        match condition {
            Some(filter) => self.conditions.insert(addr, filter),
            None => self.conditions.remove(&addr),
        };
    }

    /// Has the breakpoint at an address not stop the guest the next `times` times. They are counted by the
    /// guest's own code, at no cost to speak of.
    pub fn ignore(&mut self, addr: u64, times: u64) {
        match times {
            0 => self.ignored.remove(&addr),
            n => self.ignored.insert(addr, n),
        };
    }

    /// How often the breakpoint at an address is yet to be passed by.
    pub fn ignores(&self, addr: u64) -> u64 {
        self.ignored.get(&addr).copied().unwrap_or(0)
    }

    /// The condition of the breakpoint at which the guest stands is false.
    fn passes_by(&self) -> bool {
        let condition = self.conditions.get(&self.replay.regs().rip);
        condition.is_some_and(|holds| !holds(self))
    }

    pub fn add_watch(&mut self, watch: Watch) {
        self.watches.push(watch);
    }

    pub fn remove_watch(&mut self, watch: Watch) -> bool {
        let at = self.watches.iter().position(|w| *w == watch);
        at.map(|i| self.watches.remove(i)).is_some()
    }

    pub(crate) fn wrong(&self, error: guest::Error) -> Error {
        match error {
            guest::Error::Request(why) => Error::Request(why),
            error => Error::Engine {
                name: self.name.clone(),
                error,
            },
        }
    }

    /// What the files say that are mapped at present.
    pub(crate) fn program(&mut self) -> Result<&Program, Error> {
        let mappings = self.replay.mappings().map_err(|e| self.wrong(e))?;
        let list = moment::mapped(&mappings, self.replay.names());
        self.program.load(&list);
        Ok(&self.program)
    }
}
