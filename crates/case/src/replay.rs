//! Running a recording again.

use std::cell::RefCell;
use std::rc::Rc;

use guest::{Halt, Until};
use serde::Serialize;

use crate::Error;
use crate::cost::{Clock, Cost};
use crate::crash::{CrashReport, Witness};
use crate::meta::{Ended, Figures};
use crate::moment::Moment;
use crate::position::{self, Position};
use crate::store::{Finished, RecordingName, Store};
use crate::threads::{self, DeadlockReport};

/// Steps between two words on the progress.
const STRIDE: u64 = 100_000_000;

#[derive(Clone, Debug, Default)]
pub struct ReplayRequest {
    /// The latest if absent.
    pub recording: Option<String>,
    /// Stop before this step.
    pub to: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    pub recording: RecordingName,
    pub end: ReplayEnd,
    pub figures: Figures,
    pub cost: Cost,
    pub crash: Option<CrashReport>,
    /// There if no thread could run any more.
    pub deadlock: Option<DeadlockReport>,
}

/// How a replay came to its end.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayEnd {
    /// The guest ended as it did when it was recorded.
    Ended(Ended),
    /// It stands at the step that was asked for.
    Stopped(Box<Position>),
    /// Somebody interrupted it.
    Interrupted { step: u64 },
}

/// Which of the guest's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Output,
    Error,
}

impl From<guest::OutputKind> for Stream {
    fn from(kind: guest::OutputKind) -> Self {
        match kind {
            guest::OutputKind::Stdout => Stream::Output,
            guest::OutputKind::Stderr => Stream::Error,
        }
    }
}

/// Who is told what happens during a replay.
pub trait Audience {
    /// The guest wrote this.
    fn output(&self, stream: Stream, bytes: &[u8]);
    /// It got this far; `of` is where it ends, if that is known.
    fn progress(&self, step: u64, of: Option<u64>);
    /// A walk back through the run got past so many steps of so many.
    fn walked(&self, _steps: u64, _of: u64) {}
    /// Something that the user should know about the answer.
    fn note(&self, text: &str);
}

pub(crate) fn replay(
    store: &Store,
    request: &ReplayRequest,
    audience: Rc<dyn Audience>,
) -> Result<ReplayReport, Error> {
    let Finished { name, folder, meta } = store.finished(request.recording.as_deref())?;
    let steps = meta.figures.as_ref().map(|f| f.steps);
    if let (Some(step), Some(steps)) = (request.to, steps)
        && step > steps
    {
        return Err(Error::NoSuchStep { step, steps });
    }
    let wrong = |error| Error::Engine {
        name: name.clone(),
        error,
    };
    let mut clock = Clock::start();
    let sink = {
        let audience = audience.clone();
        Box::new(move |kind: guest::OutputKind, bytes: &[u8]| {
            audience.output(kind.into(), bytes);
        })
    };
    let mut replay = guest::Replay::open(&folder, sink).map_err(wrong)?;
    // The engine keeps the tool alive through these; here they end the replay.
    let interrupt = replay.interrupter();
    crate::on_interrupt(&interrupt);
    let witness = Witness::default();
    replay.on_crash(witness.look(&name));
    let deadlock: Rc<RefCell<Option<DeadlockReport>>> = Rc::default();
    replay.on_deadlock({
        let (deadlock, name) = (deadlock.clone(), name.clone());
        move |d| {
            *deadlock.borrow_mut() = Some(threads::deadlock(&name, d));
            true
        }
    });
    clock.started();
    let goal = request.to.or(steps);
    let end = loop {
        let step = replay.step().map_err(wrong)?;
        let near = step.saturating_add(STRIDE);
        let until = Until::step(request.to.map_or(near, |to| to.min(near)));
        match replay.run(&until).map_err(wrong)? {
            Halt::Ended(end) => break ReplayEnd::Ended(end.into()),
            Halt::Interrupted => {
                let step = replay.step().map_err(wrong)?;
                break ReplayEnd::Interrupted { step };
            }
            _ => {
                let step = replay.step().map_err(wrong)?;
                if request.to.is_some_and(|to| step >= to) {
                    break ReplayEnd::Stopped(Box::new(stand(&mut replay).map_err(wrong)?));
                }
                audience.progress(step, goal);
            }
        }
    };
    let mut figures = Figures::from(&replay.stats());
    figures.steps = replay.step().map_err(wrong)?;
    // The guest's time is known once it is gone.
    drop(replay);
    clock.reporting = witness.took();
    if let (ReplayEnd::Ended(_), Some(to)) = (&end, request.to)
        && to > figures.steps
    {
        return Err(Error::NoSuchStep {
            step: to,
            steps: figures.steps,
        });
    }
    Ok(ReplayReport {
        recording: RecordingName(name),
        end,
        figures,
        cost: clock.stop(),
        crash: witness.report(&folder),
        deadlock: deadlock.take(),
    })
}

/// What the recorded run printed.
pub(crate) fn recorded_output(folder: &std::path::Path) -> Result<Vec<u8>, guest::Error> {
    let printed: Rc<RefCell<Vec<u8>>> = Rc::default();
    let sink = {
        let printed = printed.clone();
        Box::new(move |kind, bytes: &[u8]| {
            if kind == guest::OutputKind::Stdout {
                printed.borrow_mut().extend_from_slice(bytes);
            }
        })
    };
    let mut replay = guest::Replay::open(folder, sink)?;
    replay.run(&Until::end())?;
    drop(replay);
    Ok(printed.take())
}

/// Where the stopped guest stands.
fn stand(replay: &mut guest::Replay) -> Result<Position, guest::Error> {
    let mappings = replay.mappings()?;
    let step = replay.step()?;
    let read = |addr: u64, buf: &mut [u8]| replay.read(addr, buf);
    let m = Moment::new(step, replay.regs(), &mappings, replay.names(), &read, None);
    let views = replay.threads();
    Ok(Position {
        thread: threads::label_of(&views, replay.thread()),
        threads: threads::others(&m, &views, replay.thread()),
        ..position::here(&m)
    })
}
