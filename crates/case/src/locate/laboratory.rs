//! Experiments on failing runs, on all CPUs.
//!
//! Each worker thread has a CPU and a replay of its own, which stays from one sweep to the next: ptrace binds a guest
//! to its thread, and a fresh replay takes as long as a hundred trials. A worker walks the failing run once in a
//! sweep, from one place of change to the next, and tries each change in a copy of the guest. Without forking, each
//! change is tried in a fresh replay from the beginning: the slow way, which must give the same results.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::Scope;

use locate::{Desk, Laboratory, Outcome, Trial};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::locate::bench::{Bench, Specimen, Task};
use crate::locate::due::watch;

/// Trials that a worker takes at a time.
const BATCH: usize = 8;

/// The CPUs that this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
        return vec![0];
    };
    let list: Vec<usize> = (0..CpuSet::count())
        .filter(|&n| set.is_set(n).unwrap_or(false))
        .collect();
    if list.is_empty() { vec![0] } else { list }
}

/// Lets the calling thread, and what it starts, run on these CPUs only.
pub(crate) fn stay_on(cpus: &[usize]) {
    let mut set = CpuSet::new();
    // A failure costs time only.
    if cpus.iter().all(|&cpu| set.set(cpu).is_ok()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

/// Where the experiments are made. The workers go when it does.
pub(crate) struct Workshop {
    workers: Vec<(Sender<Job>, Arc<Bell>)>,
    reports: Receiver<Report>,
}

struct Job {
    run: usize,
    tasks: Vec<Task>,
}

/// What a worker has to say of a job.
struct Report {
    worker: usize,
    done: Vec<(usize, Outcome)>,
    /// Trials that may not be of interest any more, since one mended something.
    left: Vec<usize>,
    result: Result<(), guest::Error>,
}

/// What stops a worker.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    guest: Mutex<Option<Arc<AtomicBool>>>,
}

impl Bell {
    fn set(&self, rung: bool) {
        self.rung.store(rung, Ordering::SeqCst);
        if let Ok(guest) = self.guest.lock()
            && let Some(flag) = guest.as_ref()
        {
            flag.store(rung, Ordering::SeqCst);
        }
    }
}

impl Workshop {
    pub(crate) fn open<'scope>(
        scope: &'scope Scope<'scope, '_>,
        specimens: &'scope [Specimen],
        cpus: &[usize],
        fork: bool,
    ) -> Self {
        let (report, reports) = channel();
        let workers = cpus.iter().enumerate().map(|(number, &cpu)| {
            let (send, jobs) = channel();
            let bell = Arc::new(Bell::default());
            let worker = Worker {
                number,
                specimens,
                fork,
                bell: bell.clone(),
                report: report.clone(),
            };
            scope.spawn(move || worker.serve(cpu, jobs));
            (send, bell)
        });
        Workshop {
            workers: workers.collect(),
            reports,
        }
    }
}

impl Laboratory for Workshop {
    type Error = guest::Error;

    fn sweep(&self, run: usize, trials: &[Trial], desk: &dyn Desk) -> Result<(), guest::Error> {
        let workers = &self.workers;
        let set = |rung: bool| workers.iter().for_each(|(_, bell)| bell.set(rung));
        set(false);
        let ring = || set(true);
        watch(&|| desk.stopped(), &ring, || {
            self.hand_out(run, trials, desk, &ring)
        })
    }
}

impl Workshop {
    fn hand_out(
        &self,
        run: usize,
        trials: &[Trial],
        desk: &dyn Desk,
        ring: &dyn Fn(),
    ) -> Result<(), guest::Error> {
        let mut next = 0..trials.len();
        let mut busy = 0;
        let mut result = Ok(());
        let mut hand = |worker: usize, left: Vec<usize>| {
            let wanted = left
                .into_iter()
                .chain(&mut next)
                .filter(|&n| desk.wanted(n));
            let tasks: Vec<Task> = wanted
                .take(BATCH)
                .map(|n| Task {
                    trial: n,
                    step: trials[n].step,
                    change: trials[n].change.clone(),
                })
                .collect();
            !tasks.is_empty() && self.workers[worker].0.send(Job { run, tasks }).is_ok()
        };
        for worker in 0..self.workers.len() {
            busy += usize::from(hand(worker, Vec::new()));
        }
        while busy > 0 {
            let Ok(report) = self.reports.recv() else {
                return result.and(Err(gone()));
            };
            busy -= 1;
            for (trial, outcome) in report.done {
                desk.done(trial, outcome);
            }
            if report.result.is_err() {
                result = result.and(report.result);
                ring();
            } else if result.is_ok() && !desk.stopped() {
                busy += usize::from(hand(report.worker, report.left));
            }
        }
        result
    }
}

fn gone() -> guest::Error {
    guest::Error::Internal("a worker is gone".into())
}

struct Worker<'s> {
    number: usize,
    specimens: &'s [Specimen],
    fork: bool,
    bell: Arc<Bell>,
    report: Sender<Report>,
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell(Vec::new(), Vec::new(), Err(gone()));
        }
    }
}

impl<'s> Worker<'s> {
    fn tell(
        &self,
        done: Vec<(usize, Outcome)>,
        left: Vec<usize>,
        result: Result<(), guest::Error>,
    ) {
        // Nobody listens when all is over.
        let _ = self.report.send(Report {
            worker: self.number,
            done,
            left,
            result,
        });
    }

    fn serve(self, cpu: usize, jobs: Receiver<Job>) {
        stay_on(&[cpu]);
        let mut bench = None;
        for job in jobs {
            let mut done = Vec::new();
            let result = self.work(&job, &mut bench, &mut done);
            let left = job.tasks[done.len()..].iter().map(|t| t.trial).collect();
            self.tell(done, left, result);
        }
    }

    fn open(&self, run: usize) -> Result<Bench<'s>, guest::Error> {
        let opened = Bench::open(&self.specimens[run])?;
        if let Ok(mut guest) = self.bell.guest.lock() {
            *guest = Some(opened.interrupter());
        }
        Ok(opened)
    }

    /// Tries one after the other, up to the first that mends something.
    fn work(
        &self,
        job: &Job,
        bench: &mut Option<(usize, Bench<'s>)>,
        done: &mut Vec<(usize, Outcome)>,
    ) -> Result<(), guest::Error> {
        let over = || self.bell.rung.load(Ordering::SeqCst);
        for task in &job.tasks {
            if over() {
                return Ok(());
            }
            // The old guest goes before the next one comes.
            bench.take_if(|(run, b)| !self.fork || *run != job.run || !b.reaches(task.step));
            let (_, this) = match bench {
                Some(known) => known,
                None => bench.insert((job.run, self.open(job.run)?)),
            };
            let outcome = if self.fork {
                this.try_in_copy(task, &over)
            } else {
                this.try_here(task, &over)
            };
            let outcome = outcome.unwrap_or_else(|_| {
                // What is left of the guest is of no use.
                *bench = None;
                Some(Outcome::Failed)
            });
            // One that was cut short has yet to be made.
            let Some(outcome) = outcome else {
                return Ok(());
            };
            done.push((task.trial, outcome));
            if outcome == Outcome::Mended {
                return Ok(());
            }
        }
        Ok(())
    }
}
