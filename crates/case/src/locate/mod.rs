//! Finding the statement that is at fault, from tests that pass and tests that fail.
//!
//! The tests are first run natively: that is what the user sees. Then each is recorded, and its
//! replay observed, which gives the coverage and the value profile of the whole suite. With those,
//! the failing runs are searched for replacements that mend their output (`laboratory`), and the
//! lines ranked. The technique itself is the crate `locate`; here are processes, files and reports.

mod bench;
pub(crate) mod compare;
pub(crate) mod due;
mod evidence;
pub(crate) mod expected;
pub(crate) mod laboratory;
mod native;
mod observe;
mod report;
mod state;
pub(crate) mod suite;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::locate::faults::{self, Failing, Recompute};
use ::locate::rank::{Counts, Formula, Ranked, Weight, rank};
use ::locate::{Ivmp, Pointer, Progress, Reduction, Search, SearchState, Statement, Tally};

use crate::Error;
use crate::store::Store;

pub use compare::Compare;
pub use native::TestEnd;
pub use report::{
    Evidence, LocateReport, Pointers, RankedLine, Rerun, SearchReport, TestReport, TruthReport,
    ValueChange,
};
pub use suite::{Content, Expected, Suite, Test};

use bench::{Specimen, limits};
use due::Due;
use laboratory::Workshop;
use native::{Desk, Wanted};
use observe::Observed;
use report::Line;
use state::State;

/// How statements are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By value replacement; ties by this formula.
    Replacement(Formula),
    /// By which tests execute them alone.
    Coverage(Formula),
}

#[derive(Clone, Debug)]
pub struct LocateRequest {
    pub suite: Suite,
    pub method: Method,
    pub reduction: Reduction,
    /// Experiments begin in a copy of the guest at the place of change, not at the beginning.
    pub fork: bool,
    /// CPUs to use; all if absent.
    pub workers: Option<usize>,
    pub budget: Option<Duration>,
    /// Failing runs that are searched, the shortest first; 0 for all.
    pub runs: usize,
    /// Executions of one instruction that are looked at in a run; 0 for all.
    pub instances: u32,
    /// Several faults: how the next list is made.
    pub several: Option<Recompute>,
    /// Go on with an interrupted search.
    pub resume: bool,
    /// A fault has been mended since: make the next list.
    pub proceed: bool,
    /// The lines that were mended, as FILE, LINE; found by comparing if empty.
    pub fixed: Vec<(String, u32)>,
    /// The lines that are at fault, to see how they rank.
    pub truth: Vec<(String, u32)>,
    /// Lines for which evidence is written out.
    pub explain: usize,
}

/// Who is told how the search goes.
pub trait LocateAudience: Sync {
    fn tests(&self, tests: &[TestReport]);
    /// Recording and observing: `done` of `of` tests.
    fn observing(&self, done: usize, of: usize);
    fn searching(&self, at: &Searching);
}

/// Where a search stands.
#[derive(Clone, Debug)]
pub struct Searching {
    /// The failing run at hand, from 0, and how many there are.
    pub run: usize,
    pub runs: usize,
    pub round: u32,
    pub done: usize,
    pub trials: usize,
    pub tried: u64,
    pub per_second: f64,
    /// The most suspicious lines so far, with the number of runs that they mend.
    pub leading: Vec<(String, u32)>,
}

struct Judged {
    report: TestReport,
    wanted: Option<Wanted>,
    desk: Desk,
}

pub(crate) fn locate(
    store: &Store,
    request: &LocateRequest,
    audience: &dyn LocateAudience,
    stop: &AtomicBool,
) -> Result<LocateReport, Error> {
    let begun = Instant::now();
    let suite = &request.suite;
    let home = state::folder(store, &suite.name)?;
    let previous = if request.resume || request.proceed {
        Some(State::read(&home, &suite.name)?)
    } else {
        None
    };
    let dues = due::seen_by(begun, request.budget).map(|at| Due::new(stop, at));
    native::build(suite, &home, &dues[1])?;
    let fingerprint = state::fingerprint(suite);
    match &previous {
        Some(previous) if request.resume => previous.must_fit(&suite.name, fingerprint)?,
        Some(_) => {}
        None if matches!(request.method, Method::Coverage(_)) => {}
        None => State::begun(fingerprint).write(&home)?,
    }
    let judged = run_tests(suite, &home, &dues[1])?;
    let tests: Vec<TestReport> = judged.iter().map(|j| j.report.clone()).collect();
    audience.tests(&tests);
    let mut report = LocateReport::new(suite, &tests, request.method);
    if tests.iter().all(|t| t.passed) {
        return Ok(report);
    }
    let cpus = laboratory::cpus();
    // The engine pins its thread to a CPU; this one stays free.
    let observed = std::thread::scope(|scope| {
        let look = || observe::observe(store, request, &judged, audience, &dues, &cpus);
        scope
            .spawn(look)
            .join()
            .unwrap_or_else(|_| Err(Error::Internal("observing the tests failed".into())))
    })?;
    report.notes.extend(observed.notes.iter().cloned());
    let facts = Facts::new(&observed, &tests);
    let formula = match request.method {
        Method::Coverage(formula) => {
            report.rank(
                &observed,
                &facts.rank(&BTreeMap::new(), formula),
                &facts,
                &request.truth,
            );
            report.seconds = begun.elapsed().as_secs_f64();
            return Ok(report);
        }
        Method::Replacement(formula) => formula,
    };
    let searched = choose(request, &judged, &observed, &mut report);
    if searched.is_empty() {
        return Err(Error::NothingToSearch);
    }
    let names: Vec<String> = searched.iter().map(|&t| tests[t].name.clone()).collect();
    let seen: Vec<String> = (tests.iter().zip(&observed.seen))
        .filter(|(_, seen)| **seen)
        .map(|(t, _)| t.name.clone())
        .collect();
    let mut search_state = SearchState::default();
    let mut reused: Vec<bool> = vec![false; searched.len()];
    let mut shown = BTreeSet::new();
    let mut iteration = 0;
    if let Some(previous) = &previous {
        if request.resume {
            search_state = previous.resumed(&names, &seen, &observed.lines);
        } else {
            iteration = previous.iteration + 1;
            shown = previous.shown_in(&observed.lines);
            let recompute = request.several.unwrap_or(Recompute::Full);
            reused = previous.reuse(
                recompute,
                &request.fixed,
                &names,
                &observed,
                &searched,
                &mut search_state,
            );
        }
    }
    for &t in &searched {
        if let Some(wanted) = &judged[t].wanted {
            let compare = &suite.tests[t].compare;
            expected::keep(&observed.folders[t], wanted, compare, &suite.folder);
        }
    }
    let specimens: Vec<Specimen> = searched
        .iter()
        .map(|&t| Specimen {
            folder: observed.folders[t].clone(),
            wanted: judged[t].wanted.clone().expect("searched tests have one"),
            compare: suite.tests[t].compare.clone(),
            limits: limits(
                observed.steps[t],
                tests[t].seconds,
                judged[t].wanted.as_ref().map_or(0, |w| w.stdout.len()),
            ),
            home: suite.folder.clone(),
        })
        .collect();
    let workers = request.workers.unwrap_or(cpus.len()).clamp(1, cpus.len());
    let runs: Vec<&::locate::Run> = searched.iter().map(|&t| &observed.runs[t]).collect();
    let statement = |entry: u32| observed.statements[entry as usize];
    let mut reduction = request.reduction;
    if request.several.is_some() {
        // The working set supposes that all runs fail for the same reason.
        reduction.working_set = false;
    }
    let search = Search {
        profile: &observed.profile,
        runs: &runs,
        statement: &statement,
        reduction,
        deadline: request.budget.map(|b| begun + b),
    };
    let search_begun = Instant::now();
    let before = search_state.tally.tried;
    let progress = Watcher {
        audience,
        stop,
        lines: &observed.lines,
        runs: runs.len(),
        begun: search_begun,
        before,
        told: Mutex::new((search_begun, BTreeMap::new())),
    };
    let complete = std::thread::scope(|scope| {
        let workshop = Workshop::open(scope, &specimens, &cpus[..workers], request.fork);
        search.go(&mut search_state, &workshop, &progress)
    });
    let complete = complete.map_err(|error| Error::Engine {
        name: suite.name.clone(),
        error,
    });
    let seconds = search_begun.elapsed().as_secs_f64();
    let mut failing: Vec<Failing> = Vec::new();
    for (n, &t) in searched.iter().enumerate() {
        let mut mended_at: BTreeMap<Statement, f64> = BTreeMap::new();
        for ivmp in search_state.runs.get(n).map_or(&[][..], |r| &r.ivmps) {
            let late = ivmp.step as f64 / observed.steps[t].max(1) as f64;
            let known = mended_at.entry(ivmp.statement).or_default();
            *known = known.max(late);
        }
        failing.push(Failing {
            executed: observed.executed(t),
            mended_at,
        });
    }
    let (passed, all_passed) = (facts.passed(), facts.all.passed);
    let list = match request.several {
        Some(Recompute::Partial) => {
            let lists = faults::lists(&failing, &passed, all_passed, formula);
            let at = if iteration == 0 {
                faults::first(&lists)
            } else {
                faults::next(&lists, &shown)
            };
            at.map(|i| lists[i].clone()).unwrap_or_default()
        }
        Some(Recompute::Minimal) if previous.is_some() && request.proceed => previous
            .as_ref()
            .map(|p| p.list_in(&observed.lines))
            .unwrap_or_default(),
        _ => facts.rank(&faults::weigh(failing.iter()), formula),
    };
    shown.extend(
        list.iter()
            .filter(|r| r.suspiciousness > 0)
            .take(faults::DIFFERENT)
            .map(|r| r.statement),
    );
    let state = State::new(
        fingerprint,
        &names,
        &seen,
        &observed.lines,
        &search_state,
        &failing,
        &list,
        &shown,
        iteration,
    );
    state.write(&home)?;
    let complete = complete?;
    report.rank(&observed, &list, &facts, &request.truth);
    report.search = Some(SearchReport {
        complete,
        searched: names.clone(),
        reused: names
            .iter()
            .zip(&reused)
            .filter(|(_, r)| **r)
            .map(|(n, _)| n.clone())
            .collect(),
        steps: (searched.get(searched.len() / 2)).map_or(0, |&t| observed.steps[t]),
        tally: search_state.tally.clone(),
        // What is found is followed back, which nobody can count in advance.
        full: search.full().max(search_state.tally.tried),
        seconds,
        per_second: (search_state.tally.tried - before) as f64 / seconds.max(1e-9),
        workers,
        operands: observed.profile.operands(),
        pointers: pointers(&observed.profile),
        overflowed: observed.profile.overflowed,
        dropped: searched.iter().map(|&t| observed.runs[t].dropped).sum(),
        iteration,
    });
    evidence::explain(
        &mut report,
        request.explain,
        &observed,
        &searched,
        &names,
        &search_state,
        &suite.name,
    );
    for line in &mut report.ranking {
        for e in &mut line.evidence {
            let test = suite.tests.iter().position(|t| t.name == e.test);
            if let Some(t) = test {
                rerun(&mut e.run, suite, &suite.tests[t], &judged[t].desk);
            }
        }
    }
    report.seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

fn pointers(profile: &::locate::Profile) -> Pointers {
    let [by_type, by_use, by_origin] =
        [Pointer::Type, Pointer::Use, Pointer::Origin].map(|how| profile.pointers(how));
    Pointers {
        all: by_type + by_use + by_origin,
        by_type,
        by_use,
        by_origin,
    }
}

/// Completes the command that runs the program as the test does.
fn rerun(run: &mut Rerun, suite: &Suite, test: &Test, desk: &Desk) {
    run.folder = (!test.files.is_empty()).then(|| desk.cwd.clone());
    run.env = test.env.clone();
    run.command.push(suite.program.display().to_string());
    run.command.extend(test.args.iter().cloned());
    let empty = matches!(&test.stdin, Content::Text(text) if text.is_empty());
    run.stdin = (!empty).then(|| desk.stdin.clone());
}

fn run_tests(suite: &Suite, home: &std::path::Path, due: &Due<'_>) -> Result<Vec<Judged>, Error> {
    let mut out = Vec::new();
    for test in &suite.tests {
        let folder = home.join("tests").join(suite::clean(&test.name));
        let desk = Desk::lay(&folder, test)?;
        let wanted = native::wanted(test, &desk, due)?;
        // The reference has been at work in there.
        let desk = Desk::lay(&folder, test)?;
        let done = native::run(&suite.program, test, &desk, due)?;
        let why = match (&wanted, &test.expected) {
            (Some(wanted), _) => native::judge(test, wanted, &done, &suite.folder, due),
            (None, Expected::Verdict { passes: false }) => Some("said to fail".into()),
            _ => None,
        };
        let desk = Desk::lay(&desk.folder, test)?;
        out.push(Judged {
            report: TestReport {
                name: test.name.clone(),
                passed: why.is_none(),
                why,
                end: done.end,
                seconds: done.seconds,
            },
            wanted,
            desk,
        });
    }
    Ok(out)
}

/// The failing tests that can be searched, the shortest first.
fn choose(
    request: &LocateRequest,
    judged: &[Judged],
    observed: &Observed,
    report: &mut LocateReport,
) -> Vec<usize> {
    let mut out = Vec::new();
    for (n, j) in judged.iter().enumerate().filter(|(_, j)| !j.report.passed) {
        let name = &j.report.name;
        match j.report.end {
            _ if j.wanted.is_none() => report.notes.push(format!(
                "test {name} is not searched: what it should print is not known"
            )),
            TestEnd::Timeout | TestEnd::Flood => report
                .notes
                .push(format!("test {name} is not searched: it does not end")),
            _ if !observed.seen[n] => {}
            _ if observed.runs[n].instances.is_empty() => report.notes.push(format!(
                "test {name} is not searched: none of what it executes has line numbers"
            )),
            _ => out.push(n),
        }
    }
    out.sort_by_key(|&n| observed.runs[n].length);
    if request.runs > 0 && out.len() > request.runs {
        report.notes.push(format!(
            "the {} shortest of {} failing tests are searched; --runs 0 searches all",
            request.runs,
            out.len()
        ));
        out.truncate(request.runs);
    }
    out
}

/// Which tests execute which lines.
pub(crate) struct Facts {
    pub(crate) counts: BTreeMap<Statement, Counts>,
    pub(crate) all: Counts,
}

impl Facts {
    fn new(observed: &Observed, tests: &[TestReport]) -> Facts {
        let mut counts: BTreeMap<Statement, Counts> = BTreeMap::new();
        let mut all = Counts::default();
        for (n, t) in tests.iter().enumerate().filter(|(n, _)| observed.seen[*n]) {
            let add = |c: &mut Counts| {
                *(if t.passed {
                    &mut c.passed
                } else {
                    &mut c.failed
                }) += 1;
            };
            add(&mut all);
            for s in observed.executed(n) {
                add(counts.entry(s).or_default());
            }
        }
        Facts { counts, all }
    }

    pub(crate) fn rank(
        &self,
        evidence: &BTreeMap<Statement, Weight>,
        formula: Formula,
    ) -> Vec<Ranked> {
        rank(&self.counts, self.all, evidence, formula)
    }

    fn passed(&self) -> BTreeMap<Statement, u32> {
        self.counts.iter().map(|(s, c)| (*s, c.passed)).collect()
    }
}

/// Passes the progress of the search on to the audience.
struct Watcher<'a> {
    audience: &'a dyn LocateAudience,
    stop: &'a AtomicBool,
    lines: &'a [Line],
    runs: usize,
    begun: Instant,
    before: u64,
    told: Mutex<(Instant, BTreeMap<Statement, u32>)>,
}

/// Time between two words on the progress.
const PAUSE: Duration = Duration::from_millis(200);

impl Progress for Watcher<'_> {
    fn found(&self, _run: usize, ivmp: &Ivmp) {
        if let Ok(mut told) = self.told.lock() {
            *told.1.entry(ivmp.statement).or_default() += 1;
        }
    }

    fn tried(&self, of: &Tally, run: usize, round: u32, done: usize, trials: usize) {
        let Ok(mut told) = self.told.lock() else {
            return;
        };
        if told.0.elapsed() < PAUSE {
            return;
        }
        told.0 = Instant::now();
        let mut leading: Vec<(&Statement, &u32)> = told.1.iter().collect();
        leading.sort_by_key(|(s, n)| (std::cmp::Reverse(**n), **s));
        let name = |s: &Statement| self.lines[s.0 as usize].short();
        self.audience.searching(&Searching {
            run,
            runs: self.runs,
            round,
            done,
            trials,
            tried: of.tried,
            per_second: (of.tried - self.before) as f64
                / self.begun.elapsed().as_secs_f64().max(1e-9),
            leading: leading
                .iter()
                .take(3)
                .map(|(s, n)| (name(s), **n))
                .collect(),
        });
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Where the recording of a failing test is kept.
pub(crate) fn recording_name(suite: &str, test: &str) -> String {
    format!("{}.{}", suite::clean(suite), suite::clean(test))
}

pub(crate) type Folders = Vec<PathBuf>;
