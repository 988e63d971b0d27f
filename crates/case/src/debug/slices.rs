//! Slices of the timeline that is being debugged.
//!
//! A slice needs the tape of the run, which a replay of its own writes. That replay lives on a thread
//! of its own (a replay stays on its thread) and is kept, so that the next slice does not wait for it.

use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::Session;
use crate::Error;
use crate::point::Point;
use crate::replay::{Audience, Stream};
use crate::slice::{Instance, SliceReport, SliceRequest, instances_of, slice_of};
use crate::trace::Traced;

/// Steps of an edited run that are traced beyond where the guest stands, for the statement there.
const BEYOND: u64 = 10_000;

/// Instructions of a slice that are looked at to step along it.
const MOST: usize = 2_000_000;

/// The tape that is kept: of which timeline, up to which step if not to the end.
type Kept = Option<((u32, Option<u64>), Traced)>;
type Job = Box<dyn FnOnce(&mut Kept) + Send>;

#[derive(Default)]
pub(super) struct Tracer {
    to: Option<Sender<Job>>,
}

pub(super) struct Nobody;

impl Audience for Nobody {
    fn output(&self, _: Stream, _: &[u8]) {}

    fn progress(&self, _: u64, _: Option<u64>) {}

    fn note(&self, _: &str) {}
}

impl Session {
    /// Asks something of the tape of the present timeline. `f` is also told what making it took.
    fn traced<T: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut Traced, Duration) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let actions = self.actions();
        let until = match actions.is_empty() {
            true => None,
            false => Some(self.step()? + BEYOND),
        };
        let key = (self.on_timeline(), until);
        let (store, name) = (self.store.clone(), self.name.clone());
        let (answer, answered) = channel();
        let job: Job = Box::new(move |kept| {
            let begun = Instant::now();
            let known = kept.as_ref().is_some_and(|k| k.0 == key);
            if !known {
                *kept = None;
                let nobody: Rc<dyn Audience> = Rc::new(Nobody);
                match Traced::changed(&store, Some(&name), &nobody, &actions, until) {
                    Ok(traced) => *kept = Some((key, traced)),
                    Err(e) => {
                        let _ = answer.send(Err(e));
                        return;
                    }
                }
            }
            if let Some((_, traced)) = kept {
                let _ = answer.send(f(traced, begun.elapsed()));
            }
        });
        let to = self.tracer.to.get_or_insert_with(|| {
            let (to, jobs) = channel::<Job>();
            std::thread::spawn(move || {
                let mut kept = None;
                for job in jobs {
                    job(&mut kept);
                }
            });
            to
        });
        let lost = || Error::Internal("the thread that traces has ended".to_owned());
        to.send(job).map_err(|_| lost())?;
        answered.recv().map_err(|_| lost())?
    }

    /// A slice of the present timeline; where the guest stands if no place is named.
    pub fn slice(&mut self, request: &SliceRequest) -> Result<SliceReport, Error> {
        let mut request = request.clone();
        if request.at.is_none() {
            request.at = Some(Point::Step(self.step()?));
        }
        self.traced(move |traced, took| slice_of(traced, &request, took, &|_, _| {}))
    }

    /// The executions of statements that are in a slice, in the order of time.
    pub fn slice_instances(&mut self, request: &SliceRequest) -> Result<Vec<Instance>, Error> {
        let request = request.clone();
        self.traced(move |traced, _| instances_of(traced, &request, MOST))
    }

    /// The step at which a place is reached for the first time, from a step on.
    pub fn first_time(&mut self, point: &Point, from: u64) -> Result<Option<u64>, Error> {
        let point = point.clone();
        self.traced(move |traced, _| {
            let wanted = traced.addresses(&point)?;
            let mut found = None;
            traced.roll.executions_from(
                from,
                |pc| wanted.contains(&pc),
                |e| {
                    if e.step >= from {
                        found = Some(e.step);
                    }
                    found.is_none()
                },
            );
            Ok(found)
        })
    }
}
