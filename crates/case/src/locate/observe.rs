//! Recording the tests and watching their replays.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use guest::{Halt, Launch, Recorder, Replay, Until};
use locate::{Address, Event, Observer, Profile, Run, Statement};

use super::due::{Due, killer};
use super::laboratory::stay_on;
use super::report::Line;
use super::{Folders, Judged, LocateAudience, LocateRequest, Method, TestEnd, recording_name};
use crate::Error;
use crate::meta::{Figures, Meta};
use crate::moment;
use crate::run::{describe, stored_names};
use crate::store::Store;
use crate::threads::ThreadInfo;
use crate::trace::executions;

/// What the runs of all tests have shown.
pub(crate) struct Observed {
    pub(crate) profile: Profile,
    /// One per test.
    pub(crate) runs: Vec<Run>,
    /// The test was recorded and seen to its end.
    pub(crate) seen: Vec<bool>,
    pub(crate) folders: Folders,
    pub(crate) steps: Vec<u64>,
    pub(crate) lines: Vec<Line>,
    /// The line of each entry of the profile.
    pub(crate) statements: Vec<Option<Statement>>,
    pub(crate) notes: Vec<String>,
    /// Instructions of a long run that were not observed.
    hot: usize,
}

impl Observed {
    pub(crate) fn executed(&self, test: usize) -> BTreeSet<Statement> {
        let entries = self.runs[test].executed.keys();
        entries
            .filter_map(|&e| self.statements[e as usize])
            .collect()
    }
}

/// The code whose lines are known, and where addresses may point.
struct Survey {
    ranges: Vec<(u64, u64)>,
    bytes: Vec<Vec<u8>>,
    program: image::Program,
    /// The program with its heap, roughly.
    low: u64,
    high: u64,
    /// Where global variables have pointers.
    pointers: Vec<u64>,
}

/// Everything else that is mapped.
const HIGH: std::ops::Range<u64> = 0x7ff0_0000_0000..0x8000_0000_0000;

/// Room for the variables of one function.
const FRAME: u64 = 1 << 20;

impl Address for Survey {
    fn is_address(&self, value: u64) -> bool {
        (self.low..self.high).contains(&value) || HIGH.contains(&value)
    }

    fn is_pointer(&self, event: &Event, operand: u64) -> bool {
        let mut r = image::Registers {
            rip: event.pc,
            ..image::Registers::default()
        };
        [r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, ..] = event.regs;
        [.., r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15] = event.regs;
        if !(r.rsp.saturating_sub(128)..r.rsp.saturating_add(FRAME)).contains(&operand) {
            return self.pointers.binary_search(&operand).is_ok();
        }
        // The frame that code stands in needs no memory to be found.
        let frames = self.program.unwind(&r, &image::NoMemory, 1);
        frames.first().is_some_and(|frame| {
            let list = self.program.frame_pointers(frame, &image::NoMemory);
            list.binary_search(&operand).is_ok()
        })
    }
}

/// The order in which tests are looked at: those that fail and those that pass in turn, each the quickest first, so
/// that what there was time for says most.
fn order(judged: &[Judged]) -> Vec<usize> {
    let of = |passed: bool| {
        let these = judged.iter().enumerate();
        let mut list: Vec<(usize, f64)> = these
            .filter(|(_, j)| j.report.passed == passed)
            .map(|(n, j)| (n, j.report.seconds))
            .collect();
        list.sort_by(|a, b| a.1.total_cmp(&b.1));
        list.into_iter().enumerate()
    };
    let mut all: Vec<(usize, bool, usize)> = [false, true]
        .into_iter()
        .flat_map(|passed| of(passed).map(move |(at, (n, _))| (at, passed, n)))
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(_, _, n)| n).collect()
}

/// `dues` is when to have seen the tests, and when one that fails.
pub(crate) fn observe(
    store: &Store,
    request: &LocateRequest,
    judged: &[Judged],
    audience: &dyn LocateAudience,
    dues: &[Due<'_>; 2],
    cpus: &[usize],
) -> Result<Observed, Error> {
    let out = Observed {
        profile: Profile::default(),
        runs: vec![Run::default(); judged.len()],
        seen: vec![false; judged.len()],
        folders: vec![PathBuf::new(); judged.len()],
        steps: vec![0; judged.len()],
        lines: Vec::new(),
        statements: Vec::new(),
        notes: Vec::new(),
        hot: 0,
    };
    let mut watcher = Watcher {
        store,
        request,
        judged,
        survey: None,
        late: Vec::new(),
        out,
    };
    // Until one that fails has been seen, there is more time.
    let has_failing = AtomicBool::new(false);
    let due = || &dues[usize::from(!has_failing.load(Ordering::Relaxed))];
    let order = order(judged);
    // The engine pins its thread to a CPU, which the guest of the next recording would learn.
    let recorded = |n: usize| {
        let (j, due) = (&judged[n], due());
        let unending = matches!(j.report.end, TestEnd::Timeout | TestEnd::Flood);
        if unending || due.over() {
            return Ok(Recording::Missing { unending });
        }
        let record = || record(store, request, n, j, due);
        std::thread::scope(|s| s.spawn(record).join())
            .unwrap_or_else(|_| Err(Error::Internal("recording a test failed".into())))
    };
    let mut watch = |at: usize, n: usize, recording: Result<Recording, Error>| {
        audience.observing(at, judged.len());
        watcher.see(n, recording?, due())?;
        if !judged[n].report.passed && watcher.out.seen[n] {
            has_failing.store(true, Ordering::Relaxed);
        }
        Ok(())
    };
    // The first fails, and everything waits for that. Of the others, while one is watched, the next is recorded.
    let (first, rest) = order.split_at(order.len().min(1));
    let watched = std::thread::scope(|scope| {
        for &n in first {
            watch(0, n, recorded(n))?;
        }
        let (send, receive) = sync_channel(1);
        let recorded = &recorded;
        scope.spawn(move || {
            // Not only where the engine has pinned the parent.
            stay_on(cpus);
            rest.iter().all(|&n| send.send(recorded(n)).is_ok())
        });
        for ((at, &n), recording) in (1..).zip(rest).zip(receive) {
            watch(at, n, recording)?;
        }
        Ok(())
    });
    let Watcher {
        mut out,
        late,
        survey,
        ..
    } = watcher;
    if let Err(e) = watched {
        // Some may have been recorded meanwhile.
        for &n in order.iter().filter(|n| !out.seen[**n]) {
            let name = recording_name(&request.suite.name, &judged[n].report.name);
            let _ = store.delete(&name);
        }
        return Err(e);
    }
    let mut failing = judged.iter().zip(&out.seen).filter(|j| !j.0.report.passed);
    if !late.is_empty() && !failing.any(|(_, seen)| *seen) {
        return Err(due().error("a failing test had been recorded"));
    }
    if !late.is_empty() {
        out.notes.push(format!(
            "{} of {} tests count for nothing, since there was no time for them: {}",
            late.len(),
            judged.len(),
            late.join(", ")
        ));
    }
    if out.hot > 0 {
        out.notes.push(format!(
            "up to {} instructions that a test executes more than {HOT} times were not looked at",
            out.hot
        ));
    }
    out.profile.settle();
    if let Some(survey) = &survey {
        out.name_lines(&survey.program);
    }
    Ok(out)
}

/// What became of recording a test.
enum Recording {
    Made(Recorded),
    /// It went on for too long, or it was due.
    CutShort,
    /// There was no time for it, or it would not end.
    Missing {
        unending: bool,
    },
}

/// Looks at one test after the other.
struct Watcher<'a> {
    store: &'a Store,
    request: &'a LocateRequest,
    judged: &'a [Judged],
    survey: Option<Survey>,
    /// Tests for which there was no time.
    late: Vec<&'a str>,
    out: Observed,
}

impl Watcher<'_> {
    /// Watches the replay of a test.
    fn see(&mut self, n: usize, recording: Recording, due: &Due<'_>) -> Result<(), Error> {
        let report = &self.judged[n].report;
        let name = recording_name(&self.request.suite.name, &report.name);
        let recorded = match recording {
            Recording::Made(recorded) if !due.over() => recorded,
            Recording::Missing { unending: true } => {
                self.out.notes.push(format!(
                    "test {} does not end and counts for nothing",
                    report.name
                ));
                return Ok(());
            }
            Recording::CutShort if !due.over() => {
                self.out.notes.push(format!(
                    "test {} does not end when it is recorded, and counts for nothing",
                    report.name
                ));
                return self.store.delete(&name);
            }
            Recording::Made(_) | Recording::CutShort | Recording::Missing { .. } => {
                self.late.push(&report.name);
                return self.store.delete(&name);
            }
        };
        let searches = matches!(self.request.method, Method::Replacement(_));
        let (folder, threads) = (recorded.folder, recorded.threads);
        let done = self.watch(n, &folder, recorded.steps, due);
        if searches && !report.passed && threads > 1 {
            self.out.notes.push(format!(
                "test {} has {threads} threads: what would change their order cannot be tried",
                report.name
            ));
        }
        let run = match done {
            Ok(Some(run)) => run,
            Ok(None) => {
                self.late.push(&report.name);
                return self.store.delete(&name);
            }
            Err(error) => return Err(Error::Engine { name, error }),
        };
        if self.survey.as_ref().is_none_or(|s| s.ranges.is_empty()) {
            return Err(Error::NoLines(self.request.suite.program.clone()));
        }
        if report.passed || !searches {
            self.store.delete(&name)?;
        }
        let out = &mut self.out;
        out.runs[n] = run;
        out.seen[n] = true;
        out.steps[n] = recorded.steps;
        out.folders[n] = folder;
        Ok(())
    }

    fn watch(
        &mut self,
        n: usize,
        folder: &Path,
        steps: u64,
        due: &Due<'_>,
    ) -> Result<Option<Run>, guest::Error> {
        if self.survey.is_none() {
            self.survey = look_around(folder, due)?;
        }
        let Some(survey) = &self.survey else {
            return Ok(None);
        };
        let passes = self.judged[n].report.passed;
        if matches!(self.request.method, Method::Replacement(_)) {
            let keep = match (passes, self.request.instances) {
                (true, _) => 0,
                (false, 0) => u32::MAX,
                (false, n) => n,
            };
            let watching = Watching {
                survey,
                keep,
                passes,
                long: steps > LONG,
                due,
            };
            return watching.watch(folder, &mut self.out);
        }
        let Some(times) = times(folder, due)? else {
            return Ok(None);
        };
        let mut run = Run::default();
        for (&pc, &times) in &times {
            let code = |pc| survey.code(pc);
            self.out.profile.cover(&mut run, pc, times, &code);
        }
        Ok(Some(run))
    }
}

/// A replay, and what is done with it until it is due.
fn replayed<T>(
    folder: &Path,
    due: &Due<'_>,
    work: impl FnOnce(&mut Replay) -> Result<T, guest::Error>,
) -> Result<T, guest::Error> {
    let mut replay = Replay::open(folder, Box::new(|_, _| {}))?;
    let flag = replay.interrupter();
    due.watch(&|| flag.store(true, Ordering::SeqCst), || work(&mut replay))
}

fn times(folder: &Path, due: &Due<'_>) -> Result<Option<BTreeMap<u64, u64>>, guest::Error> {
    replayed(folder, due, executions)
}

impl Observed {
    /// Finds the line of each instruction. Lines are numbered by where they are, whatever was executed first.
    fn name_lines(&mut self, program: &image::Program) {
        let mut known: BTreeMap<(PathBuf, u32), Option<String>> = BTreeMap::new();
        let mut places = Vec::new();
        for entry in &self.profile.entries {
            let place = program.locate(entry.shape.pc).into_iter().next();
            let key = place.and_then(|p| {
                let key = (p.file?, p.line?);
                known.entry(key.clone()).or_insert(p.function);
                Some(key)
            });
            places.push(key);
        }
        let numbers: HashMap<&(PathBuf, u32), Statement> = (0..)
            .zip(known.keys())
            .map(|(n, key)| (key, Statement(n)))
            .collect();
        let statement = |place: &Option<(PathBuf, u32)>| place.as_ref().map(|key| numbers[key]);
        self.statements = places.iter().map(statement).collect();
        let line = |((file, line), function): (&(PathBuf, u32), &Option<String>)| Line {
            file: file.clone(),
            line: *line,
            function: function.clone(),
            text: (program.source_line(file, *line)).map(|t| t.trim().to_owned()),
        };
        self.lines = known.iter().map(line).collect();
    }
}

struct Recorded {
    folder: PathBuf,
    steps: u64,
    threads: usize,
}

/// Records one test.
fn record(
    store: &Store,
    request: &LocateRequest,
    n: usize,
    j: &Judged,
    due: &Due<'_>,
) -> Result<Recording, Error> {
    let suite = &request.suite;
    let test = &suite.tests[n];
    let name = &recording_name(&suite.name, &j.report.name);
    // It has ended natively, and the engine is not that much slower.
    let patience = Duration::from_secs_f64(test.seconds * 10.0 + 5.0);
    let due = due.before(Instant::now() + patience);
    store.make_room(name)?;
    let disk = |e| Error::Folder(j.desk.folder.clone(), e);
    let stream = |f: File| Some(Arc::new(OwnedFd::from(f)));
    let input = File::open(&j.desk.stdin).map_err(disk)?;
    let output = File::create(j.desk.folder.join("stdout")).map_err(disk)?;
    let errors = File::create(j.desk.folder.join("stderr")).map_err(disk)?;
    let mut env: Vec<_> = std::env::vars_os()
        .filter(|(k, _)| k.to_str().is_none_or(|k| !test.env.contains_key(k)))
        .collect();
    env.extend(test.env.iter().map(|(k, v)| (k.into(), v.into())));
    let mut args = vec![suite.program.clone().into_os_string()];
    args.extend(test.args.iter().map(Into::into));
    let launch = Launch {
        program: suite.program.clone(),
        args,
        env,
        cwd: Some(j.desk.cwd.clone()),
        streams: [stream(input), stream(output), stream(errors)],
    };
    let mut place = store.make(&suite.program, Some(name))?;
    let mut meta = Meta {
        cwd: j.desk.cwd.to_string_lossy().into_owned(),
        suite: Some(suite.name.clone()),
        ..describe(&launch)
    };
    let unwritable = |e| Error::Folder(place.folder.clone(), e);
    meta.write(&place.folder).map_err(unwritable)?;
    let recorder = Recorder::start(&launch, &place.folder)
        .map_err(|e| crate::program::explain(&launch.program, &e))?;
    place.keep_aside();
    let end = killer(recorder.pid());
    let done = due.watch(&end, || recorder.run());
    if due.over() {
        return Ok(Recording::CutShort);
    }
    let done = done.map_err(|error| Error::Engine {
        name: name.to_owned(),
        error,
    })?;
    let figures = Figures::from(&done.stats);
    meta.ended = done.end.into();
    meta.figures = Some(figures.clone());
    meta.notes = done.notes.clone();
    meta.files = stored_names(&done.files);
    meta.threads = done.threads.iter().map(ThreadInfo::from).collect();
    meta.write(&place.folder)
        .map_err(|e| Error::Folder(place.folder.clone(), e))?;
    Ok(Recording::Made(Recorded {
        folder: place.folder.clone(),
        steps: figures.steps,
        threads: meta.threads.len(),
    }))
}

/// Runs a test to its end to see what it maps; nothing if there was no time for it.
fn look_around(folder: &Path, due: &Due<'_>) -> Result<Option<Survey>, guest::Error> {
    let whole = |replay: &mut Replay| {
        let first = replay.mappings()?;
        let halt = replay.run(&Until::end())?;
        (halt != Halt::Interrupted)
            .then(|| survey(replay, &first))
            .transpose()
    };
    replayed(folder, due, whole)
}

fn survey(replay: &mut Replay, first: &[guest::Mapping]) -> Result<Survey, guest::Error> {
    let mappings = replay.mappings()?;
    let program = moment::program(&mappings, replay.names());
    let mut ranges: Vec<(u64, u64)> = program
        .code_with_lines()
        .into_iter()
        .filter(|(name, _)| !crate::frames::is_system(name))
        .flat_map(|(_, ranges)| ranges)
        .collect();
    ranges.sort_unstable();
    ranges.dedup();
    let bytes = ranges
        .iter()
        .map(|&(a, b)| {
            let mut bytes = vec![0; (b - a) as usize];
            let n = replay.read(a, &mut bytes);
            bytes.truncate(n);
            bytes
        })
        .collect();
    // The program comes first; its heap, if it has one, right behind it.
    let low = first.iter().map(|m| m.start).min().unwrap_or(0);
    let end = first
        .iter()
        .filter(|m| m.start < low + (1 << 30))
        .map(|m| m.end)
        .max();
    let room = if low > 1 << 32 { 1 << 32 } else { 1 << 26 };
    Ok(Survey {
        ranges,
        bytes,
        pointers: program.global_pointers(&image::NoMemory),
        program,
        low,
        high: end.unwrap_or(low) + room,
    })
}

/// From how many steps on a run is long, and how often an instruction is executed there that is not observed: what is
/// at work so often is seldom what matters, and all the time would go to it.
const LONG: u64 = 20_000_000;
const HOT: u64 = 20_000;

/// How a run is observed.
struct Watching<'a> {
    survey: &'a Survey,
    keep: u32,
    passes: bool,
    long: bool,
    due: &'a Due<'a>,
}

impl Survey {
    /// The bytes of an instruction of interest.
    fn code(&self, pc: u64) -> Option<Vec<u8>> {
        let at = self.ranges.partition_point(|r| r.1 <= pc);
        let (start, _) = *self.ranges.get(at).filter(|r| r.0 <= pc)?;
        let bytes = self.bytes[at].get((pc - start) as usize..)?;
        Some(bytes[..bytes.len().min(15)].to_vec())
    }

    /// The code of interest without instructions that are executed very often.
    fn without(&self, hot: &[u64]) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        for &(start, end) in &self.ranges {
            let mut from = start;
            let first = hot.partition_point(|pc| *pc < start);
            for &pc in hot[first..].iter().take_while(|pc| **pc < end) {
                if from < pc {
                    out.push((from, pc));
                }
                // What lies within the instruction is the beginning of none.
                from = pc + 1;
            }
            if from < end {
                out.push((from, end));
            }
        }
        out
    }
}

impl Watching<'_> {
    /// What the run shows; nothing if there was no time for it.
    fn watch(&self, folder: &Path, out: &mut Observed) -> Result<Option<Run>, guest::Error> {
        let survey = self.survey;
        let mut hot: BTreeMap<u64, u64> = BTreeMap::new();
        if self.long {
            let Some(all) = times(folder, self.due)? else {
                return Ok(None);
            };
            hot = all;
            hot.retain(|pc, n| *n > HOT && survey.code(*pc).is_some());
        }
        let pcs: Vec<u64> = hot.keys().copied().collect();
        let code = |pc: u64| survey.code(pc);
        let profile = &mut out.profile;
        let mut observer = Observer::new(profile, &code, survey, self.keep, self.passes);
        let mut see = |seen: &guest::Seen| {
            observer.see(&Event {
                pc: seen.pc,
                step: seen.step,
                memory: seen.memory,
                regs: seen.regs,
                after: seen.after,
            });
        };
        let ranges = survey.without(&pcs);
        let observe = |replay: &mut Replay| replay.observe(&ranges, None, &mut see);
        if replayed(folder, self.due, observe)? == Halt::Interrupted {
            return Ok(None);
        }
        let mut run = observer.finish();
        for (&pc, &times) in &hot {
            profile.cover(&mut run, pc, times, &code);
        }
        out.hot = out.hot.max(hot.len());
        Ok(Some(run))
    }
}
