//! Slices against the slow and obvious way: single-stepping, every last writer remembered, control
//! dependence by Xin and Zhang's stack, and reachability over the whole graph.

mod generate;
mod oracle;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use flow::{
    Classes, Codes, Controls, Criterion, Edge, Joined, Kind, Merged, Options, Roll, Sizes, Slicer,
};
use guest::{Halt, Launch, Recorder, Replay, Until};
use image::Program;
use image::cfg::Graphs;
use image::effects::RegRange;

/// The guest's memory, for those who ask for its code.
struct Guest<'a>(&'a Replay);

impl image::Memory for Guest<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
        self.0.read(addr, buf) == buf.len()
    }
}

/// Facts about the code.
pub(crate) struct Facts<'a> {
    program: &'a Program,
    memory: Guest<'a>,
    graphs: Graphs,
    /// Code that is shown as the calls that led to it.
    hidden: fn(&Program, u64) -> bool,
    /// There may be such code.
    hides: bool,
}

/// Nothing is hidden.
fn none(_: &Program, _: u64) -> bool {
    false
}

/// About half of the functions are hidden.
fn some(program: &Program, pc: u64) -> bool {
    let name = program.symbol(pc).map_or(String::new(), |s| s.name);
    name.bytes().fold(0, |sum, b| sum ^ b).count_ones() % 2 == 1 && name != "_start"
}

/// Libraries are hidden.
fn libraries(program: &Program, pc: u64) -> bool {
    let modules = program.modules();
    let module = modules.iter().find(|m| (m.start..m.end).contains(&pc));
    module.is_none_or(|m| m.name.to_string_lossy().contains(".so"))
}

impl Facts<'_> {
    fn meets_at(&mut self, pc: u64) -> Option<u64> {
        let graph = self.graphs.graph(self.program, &self.memory, pc)?;
        graph.meets_at(pc)
    }
}

impl Controls for Facts<'_> {
    fn controllers(&mut self, pc: u64) -> Vec<u64> {
        let facts = self.graphs.control(self.program, &self.memory, pc);
        facts.map(|f| f.controllers).unwrap_or_default()
    }

    fn omitted(&mut self, _: u64) -> Vec<flow::Omission> {
        Vec::new()
    }

    fn shown(&mut self, pc: u64) -> bool {
        !(self.hidden)(self.program, pc)
    }
}

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    /// Without any library.
    #[track_caller]
    fn compile(source: &str, flags: &[&str]) -> Scene {
        let alone = ["-nostdlib", "-static", "-no-pie", "-ffreestanding"];
        let bare = ["-fno-stack-protector", "-fcf-protection=none"];
        Scene::compile_hosted(source, &[&alone[..], &bare, flags].concat())
    }

    #[track_caller]
    fn compile_hosted(source: &str, flags: &[&str]) -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let (text, program) = (folder.path().join("guest.c"), folder.path().join("guest"));
        std::fs::write(&text, source).expect("the source");
        let out = Command::new("gcc")
            .args(["-g", "-w"])
            .args(flags)
            .arg("-o")
            .args([&program, &text])
            .output()
            .expect("gcc can be started");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{said}\n{source}");
        Scene { folder }
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("guest")
    }

    #[track_caller]
    fn record(source: &str, flags: &[&str]) -> Scene {
        let scene = Scene::compile(source, flags);
        scene.record_program(&scene.program(), vec!["guest".into()]);
        scene
    }

    /// Runs and records a program.
    fn record_program(&self, program: &Path, args: Vec<OsString>) {
        let recording = self.recording();
        std::fs::create_dir(&recording).expect("a folder");
        let null = std::fs::File::options().write(true).open("/dev/null");
        let null = null.expect("/dev/null");
        let launch = Launch {
            program: program.to_owned(),
            args,
            env: Vec::new(),
            cwd: None,
            streams: [None, Some(Arc::new(null.into())), None],
        };
        let recorder = Recorder::start(&launch, &recording).expect("it starts");
        recorder.run().expect("it runs");
    }

    fn recording(&self) -> PathBuf {
        self.folder.path().join("rec")
    }

    fn replay(&self) -> Replay {
        Replay::open(&self.recording(), Box::new(|_, _| {})).expect("the recording opens")
    }
}

fn load(replay: &mut Replay) -> Program {
    let mappings = replay.mappings().expect("mappings");
    let names = replay.names().clone();
    let list: Vec<image::Mapping> = mappings
        .iter()
        .map(|m| image::Mapping {
            start: m.start,
            end: m.end,
            offset: m.offset,
            executable: m.protection.execute,
            name: names.get(&m.name).unwrap_or(&m.name).clone(),
            file: m.name.clone(),
        })
        .collect();
    let mut program = Program::new();
    program.load(&list);
    program
}

/// The tape of the whole run.
fn roll(scene: &Scene) -> (Roll, u64) {
    let mut replay = scene.replay();
    // Small enough that there are many chunks, most of them compressed.
    let sizes = Sizes {
        chunk: 4 << 10,
        raw: 8 << 10,
    };
    let roll = Roll::with_sizes(Codes::default(), sizes);
    replay.tape(Box::new(roll)).expect("a tape");
    let halt = replay.run(&Until::end()).expect("the replay runs");
    assert!(matches!(halt, Halt::Ended(_)), "{halt:?}");
    let roll = replay.end_tape().expect("the tape");
    let roll = roll.into_any().downcast::<Roll>().expect("the roll");
    (*roll, replay.step().expect("a step"))
}

type Sliced = (BTreeSet<u64>, BTreeSet<Edge>);

fn fast(roll: &Roll, criterion: Criterion, data_only: bool, facts: &mut Facts<'_>) -> Sliced {
    let options = Options {
        data_only,
        ..Options::default()
    };
    let root = criterion.step;
    let mut slicer = Slicer::new(&roll.codes, criterion, options, facts, Vec::new());
    slicer.walk(roll, |_| true);
    let edges: BTreeSet<Edge> = slicer.edges.iter().copied().collect();
    let mut steps: BTreeSet<u64> = edges
        .iter()
        .flat_map(|e| [e.from.step, e.to.step])
        .collect();
    steps.insert(root);
    (steps, edges)
}

/// A slice as it is shown to people: how often each instruction is in it, and the dependences between
/// instructions, by both and through what.
type Shown = (
    BTreeMap<u64, (u64, u64, u64)>,
    BTreeMap<(u64, u64, Kind), Dependences>,
);

/// Of dependences between the same: the latest, how many, and with each cell that it goes through counted for itself.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Dependences {
    latest: (u64, u64),
    times: u64,
    pieces: u64,
}

fn shown(roll: &Roll, criterion: &Criterion, options: Options, facts: &mut Facts<'_>) -> Shown {
    let (criterion, edges) = (criterion.clone(), Merged::default());
    // What is known of a function may grow with what is asked: each begins with nothing.
    facts.graphs = Graphs::new();
    let mut slicer = Slicer::new(&roll.codes, criterion, options, facts, edges);
    slicer.walk(roll, |_| true);
    let nodes = slicer.nodes().into_iter();
    let nodes = nodes.map(|(pc, t)| (pc, (t.count, t.first, t.last)));
    let list: Vec<Joined> = slicer.edges.iter().collect();
    let sum: u64 = list.iter().map(|j| j.times).sum();
    assert_eq!(sum, slicer.edges.count(), "dependences");
    let edges = list.into_iter().map(|Joined { edge: e, times }| {
        let latest = (e.from.step, e.to.step);
        let pieces = times;
        let all = Dependences {
            latest,
            times,
            pieces,
        };
        ((e.from.pc, e.to.pc, class(e.kind)), all)
    });
    (nodes.collect(), edges.collect())
}

/// What was seen before is done again, or each instruction is looked at by itself: the slice is the
/// same.
#[track_caller]
fn quick_and_plain(roll: &Roll, criterion: &Criterion, options: Options, facts: &mut Facts<'_>) {
    let plain = one_by_one(roll, criterion, options.clone(), facts);
    for eager in [false, true] {
        let options = Options {
            eager,
            ..options.clone()
        };
        let quick = shown(roll, criterion, options.clone(), facts);
        same(&quick, &plain, criterion.step, facts.hides);
        // Whatever the other thread does meanwhile.
        assert!(
            quick == shown(roll, criterion, options, facts),
            "twice the same"
        );
    }
}

/// The same from each dependence by itself.
fn one_by_one(
    roll: &Roll,
    criterion: &Criterion,
    options: Options,
    facts: &mut Facts<'_>,
) -> Shown {
    facts.graphs = Graphs::new();
    let mut slicer = Slicer::new(&roll.codes, criterion.clone(), options, facts, Vec::new());
    slicer.walk(roll, |_| true);
    let nodes = slicer.nodes().into_iter();
    let nodes = nodes.map(|(pc, t)| (pc, (t.count, t.first, t.last)));
    let mut edges: BTreeMap<_, BTreeMap<(u64, u64), u64>> = BTreeMap::new();
    for e in slicer.edges.iter().collect::<BTreeSet<_>>() {
        let known = edges.entry((e.from.pc, e.to.pc, class(e.kind)));
        let pieces = known.or_default().entry((e.from.step, e.to.step));
        *pieces.or_default() += 1;
    }
    let edges = edges.into_iter().map(|(key, all)| {
        let (latest, _) = all.last_key_value().expect("one at least");
        let all = Dependences {
            latest: *latest,
            times: all.len() as u64,
            pieces: all.values().sum(),
        };
        (key, all)
    });
    (nodes.collect(), edges.collect())
}

#[track_caller]
fn same(quick: &Shown, plain: &Shown, step: u64, hides: bool) {
    let nodes = quick.0.iter().zip(&plain.0).filter(|(a, b)| a != b);
    let nodes: Vec<_> = nodes.take(4).collect();
    assert!(nodes.is_empty(), "at {step}: quick, plain {nodes:x?}");
    assert_eq!(quick.0.len(), plain.0.len(), "instructions, at {step}");
    let all: BTreeSet<_> = quick.1.keys().chain(plain.1.keys()).collect();
    let mut differ = Vec::new();
    for k in &all {
        let (quick, plain) = (quick.1.get(k), plain.1.get(k));
        // One that goes through several cells may be counted for each. Of calls that stand for much that happened
        // inside of them, it is known between which there is a dependence, and about how many.
        let same = quick.zip(plain).is_some_and(|(q, p)| {
            let count = hides || (p.times..=p.pieces).contains(&q.times);
            q.latest == p.latest && count
        });
        if !same {
            differ.push((k, quick, plain));
        }
    }
    let (some, of) = (&differ[..differ.len().min(3)], all.len());
    assert!(
        differ.is_empty(),
        "at {step}: {} of {of}: {some:#x?}",
        differ.len()
    );
}

/// Through what a dependence is, whatever bytes of memory.
fn class(kind: Kind) -> Kind {
    match kind {
        Kind::Memory { .. } => Kind::Memory { addr: 0, len: 0 },
        kind => kind,
    }
}

/// How bytes that are wanted together are put into words is not compared, only between which
/// instructions there is a dependence, and through which register, memory or control.
fn normal((steps, edges): Sliced) -> Sliced {
    let kind = |k| match k {
        Kind::Memory { .. } => Kind::Memory { addr: 0, len: 0 },
        Kind::Register(r) => match (r.general_number(), r.vector_number()) {
            (Some(n), _) => Kind::Register(RegRange::general(n)),
            (_, Some(n)) => Kind::Register(RegRange::vector(n)),
            _ => Kind::Register(RegRange {
                at: r.at / 8 * 8,
                len: 8,
            }),
        },
        Kind::Control | Kind::Omitted { .. } => k,
    };
    let edges = edges.into_iter().map(|e| Edge {
        kind: kind(e.kind),
        ..e
    });
    (steps, edges.collect())
}

#[track_caller]
fn check(source: &str, flags: &[&str]) {
    let scene = Scene::record(source, flags);
    let (mut roll, steps) = roll(&scene);
    roll.join();
    let file = scene.folder.path().join("tape");
    roll.save(&file).expect("the tape can be saved");
    let saved = Roll::open(&file).expect("the tape can be opened");
    assert_eq!(
        roll.times(),
        saved.times(),
        "how often each instruction ran"
    );
    writers::check(&roll, &[1]);
    let mut replay = scene.replay();
    let program = load(&mut replay);
    let result = program
        .global("result", &Guest(&replay))
        .expect("a variable `result`");
    let addr = result.address.expect("it is in memory");
    let mut facts = Facts {
        program: &program,
        memory: Guest(&replay),
        graphs: Graphs::new(),
        hidden: none,
        hides: false,
    };
    let mut second = scene.replay();
    let oracle = oracle::Oracle::of(&mut second, &mut facts);
    assert_eq!(oracle.steps(), steps, "instructions");
    for (step, data_only) in [
        (steps - 1, true),
        (steps - 1, false),
        (steps * 2 / 3, false),
    ] {
        let criterion = Criterion {
            step,
            pc: oracle.pc(step),
            thread: 1,
            memory: vec![(addr, 8)],
            control: !data_only,
            ..Criterion::default()
        };
        for (hidden, hides) in [(none as fn(&_, _) -> _, false), (some, true)] {
            (facts.hidden, facts.hides) = (hidden, hides);
            let options = Options {
                data_only,
                ..Options::default()
            };
            quick_and_plain(&roll, &criterion, options, &mut facts);
        }
        (facts.hidden, facts.hides) = (none, false);
        let slow = oracle.slice(step, &[(addr, 8)], data_only);
        let again = fast(&saved, criterion.clone(), data_only, &mut facts);
        let fast = fast(&roll, criterion, data_only, &mut facts);
        assert_eq!(again, fast, "the tape that was saved");
        let (slow, fast) = (normal(slow), normal(fast));
        let missing: Vec<&Edge> = slow.1.difference(&fast.1).take(5).collect();
        let extra: Vec<&Edge> = fast.1.difference(&slow.1).take(5).collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "at step {step} of {steps}, data only: {data_only}, {} edges\nmissing {missing:#x?}\nextra {extra:#x?}\n{source}",
            slow.1.len(),
        );
        assert_eq!(fast.0, slow.0, "instructions of the slice");
    }
}

#[test]
fn a_program_of_everything() {
    for flags in [["-O0"], ["-O1"], ["-O2"]] {
        check(include_str!("everything.c"), &flags);
    }
}

/// Control goes into functions and out of them in ever other ways.
#[test]
fn into_functions_and_out() {
    for flags in [["-O0"], ["-O1"], ["-O2"]] {
        check(include_str!("calls.c"), &flags);
    }
}

#[test]
fn random_programs() {
    for seed in 0..12 {
        let source = generate::program(seed);
        check(&source, &["-O0"]);
        check(&source, &["-O2"]);
    }
}

/// Compiles, runs, and gives what is printed. A program that does not end is as wrong as another
/// output.
#[track_caller]
fn printed(source: &str) -> Option<Vec<u8>> {
    let scene = Scene::compile(source, &["-O0"]);
    let out = Command::new("timeout")
        .arg("20")
        .arg(scene.program())
        .output()
        .expect("timeout can be started");
    (out.stdout.len() == 8).then_some(out.stdout)
}

/// What is not in the slice of a variable has nothing to do with its value: without those statements
/// it has the same.
#[test]
fn what_is_not_in_the_slice_can_be_left_out() {
    let (mut left_out, mut of) = (0, 0);
    for seed in 100..130 {
        let source = generate::program(seed);
        let scene = Scene::record(&source, &["-O0"]);
        let (roll, steps) = roll(&scene);
        let mut replay = scene.replay();
        let program = load(&mut replay);
        let result = program.global("result", &Guest(&replay));
        let addr = result.and_then(|r| r.address).expect("it is in memory");
        let mut facts = Facts {
            program: &program,
            memory: Guest(&replay),
            graphs: Graphs::new(),
            hidden: none,
            hides: false,
        };
        let lines_of = |pc| program.locate(pc).into_iter().filter_map(|p| p.line);
        // A slice is about what was executed, a program without the rest also about what was not: a
        // jump that is left out would let in what it has skipped. So these stay. And a statement
        // that stays is executed each time, with what each of its executions depends on.
        let jumps = source.lines().zip(1..);
        let jumps = jumps.filter(|(text, _)| generate::may_jump(text));
        let mut lines: BTreeSet<u32> = jumps.map(|(_, line)| line).collect();
        loop {
            let mut roots = Vec::new();
            let here = |pc| lines_of(pc).any(|l| lines.contains(&l));
            roll.executions_from(0, here, |e| {
                roots.push(e.step);
                true
            });
            let criterion = Criterion {
                step: steps - 1,
                thread: 1,
                memory: vec![(addr, 8)],
                roots,
                control: true,
                ..Criterion::default()
            };
            let (codes, options) = (&roll.codes, Options::default());
            let mut slicer = Slicer::new(codes, criterion, options, &mut facts, Vec::new());
            slicer.walk(&roll, |_| true);
            let before = lines.len();
            lines.extend(slicer.nodes().keys().flat_map(|pc| lines_of(*pc)));
            if lines.len() == before {
                break;
            }
        }
        let reduced: Vec<&str> = source
            .lines()
            .zip(1..)
            .map(|(text, line)| {
                let may_go = generate::may_go(text);
                of += usize::from(may_go);
                if !may_go || lines.contains(&line) {
                    return text;
                }
                left_out += 1;
                "  ;"
            })
            .collect();
        let reduced = reduced.join("\n") + "\n";
        let (whole, part) = (printed(&source), printed(&reduced));
        assert!(whole.is_some(), "{source}");
        assert_eq!(whole, part, "seed {seed}\n{source}\n\n{reduced}");
    }
    assert!(left_out > of / 10, "{left_out} of {of} statements left out");
}

/// A program that was not made for this, with its libraries.
#[test]
fn a_foreign_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let scene = Scene { folder };
    let text = scene.folder.path().join("text");
    let lines = (0..60).map(|n| format!("{} line {n}\n", n * 7919 % 61));
    std::fs::write(&text, lines.collect::<String>()).expect("a text");
    let args = ["sort", "-k1,1n"].map(OsString::from);
    let args = args.into_iter().chain([text.into_os_string()]);
    scene.record_program(Path::new("/usr/bin/sort"), args.collect());
    let (mut roll, steps) = roll(&scene);
    assert!(roll.join() > 0, "some ways follow each other often");
    let mut replay = scene.replay();
    let halt = replay.run(&Until::step(steps - 1)).expect("it runs");
    assert!(!matches!(halt, Halt::Ended(_)), "{halt:?}");
    let program = load(&mut replay);
    let mut facts = Facts {
        program: &program,
        memory: Guest(&replay),
        graphs: Graphs::new(),
        hidden: none,
        hides: false,
    };
    for (n, hidden) in [none, libraries].into_iter().enumerate() {
        (facts.hidden, facts.hides) = (hidden, n == 1);
        for part in 1..=4 {
            let mut roots = Vec::new();
            roll.executions_from(
                steps * part / 4 - 5000,
                |_| true,
                |e| {
                    roots.push(e.step);
                    e.step < steps * part / 4 - 2
                },
            );
            let some = roots.iter().step_by(500).copied();
            let criterion = Criterion {
                step: steps * part / 4,
                thread: 1,
                roots: some.collect(),
                control: part % 2 == 0,
                ..Criterion::default()
            };
            let options = Options {
                data_only: part == 3,
                window: (part == 1).then_some((n as u64 * 999, steps * 8 / 40)),
                ..Options::default()
            };
            quick_and_plain(&roll, &criterion, options, &mut facts);
        }
    }
}

/// Where threads take turns, each has registers of its own, and memory is everybody's.
#[test]
fn threads() {
    let scene = Scene::compile_hosted(include_str!("threads.c"), &["-O1", "-pthread"]);
    scene.record_program(&scene.program(), vec!["guest".into()]);
    let (mut roll, steps) = roll(&scene);
    assert!(roll.join() > 0, "some ways follow each other often");
    let mut turns = Vec::new();
    roll.forward(|_, item| {
        if turns.last() != Some(&item.thread) {
            turns.push(item.thread);
        }
        true
    });
    assert!(turns.len() > 40, "turns: {turns:?}");
    let threads: BTreeSet<u32> = turns.into_iter().collect();
    assert_eq!(threads.len(), 2, "{threads:?}");
    let threads: Vec<u32> = threads.into_iter().collect();
    writers::check(&roll, &threads);
    let mut replay = scene.replay();
    replay.run(&Until::step(steps - 1)).expect("it runs");
    let program = load(&mut replay);
    let result = program.global("result", &Guest(&replay));
    let addr = result.and_then(|r| r.address).expect("it is in memory");
    let mut facts = Facts {
        program: &program,
        memory: Guest(&replay),
        graphs: Graphs::new(),
        hidden: none,
        hides: false,
    };
    for (hidden, hides) in [(none as fn(&_, _) -> _, false), (libraries, true)] {
        (facts.hidden, facts.hides) = (hidden, hides);
        let criterion = Criterion {
            step: steps - 1,
            thread: threads[0],
            memory: vec![(addr, 8)],
            control: true,
            ..Criterion::default()
        };
        quick_and_plain(&roll, &criterion, Options::default(), &mut facts);
        let (nodes, _) = shown(&roll, &criterion, Options::default(), &mut facts);
        let own = nodes.keys().any(|pc| {
            let symbol = program.symbol(*pc);
            symbol.is_some_and(|s| s.name == "other")
        });
        assert!(own, "what the other thread did is in the slice");
    }
}

/// Executions by class, counted one by one.
#[test]
fn counting() {
    let scene = Scene::record(include_str!("everything.c"), &["-O1"]);
    let (roll, steps) = roll(&scene);
    let mut all = Vec::new();
    roll.executions_from(
        0,
        |_| true,
        |e| {
            all.push(e);
            true
        },
    );
    assert_eq!(all.len() as u64, steps, "every step has an instruction");
    let pcs: BTreeSet<u64> = all.iter().map(|e| e.pc).collect();
    let some: Vec<u64> = pcs.into_iter().step_by(3).collect();
    let classes: Classes = some
        .iter()
        .enumerate()
        .map(|(n, pc)| (*pc, [n % 7, 7 + n % 2].into_iter().collect()))
        .collect();
    let asked: Vec<u64> = (0..steps).step_by(997).collect();
    let mut answers = vec![Vec::new(); asked.len()];
    roll.counts_at(&classes, &asked, |n, count| {
        answers[n] = (0..9).map(count).collect();
    });
    for (at, answer) in asked.iter().zip(answers) {
        let mut counts = vec![0; 9];
        for e in all.iter().filter(|e| e.step <= *at) {
            for class in classes.get(&e.pc).into_iter().flatten() {
                counts[*class] += 1;
            }
        }
        assert_eq!(answer, counts, "up to step {at}");
    }
    for pc in some.into_iter().step_by(5) {
        let times: Vec<_> = all.iter().filter(|e| e.pc == pc).copied().collect();
        let n = times.len() as u64;
        assert_eq!(roll.last_execution(|p| p == pc), times.last().copied());
        for nth in [1, n / 2 + 1, n] {
            let found = roll.nth_execution(|p| p == pc, nth);
            assert_eq!(found, Ok(times[nth as usize - 1]), "{pc:#x} #{nth}");
        }
        assert_eq!(roll.nth_execution(|p| p == pc, n + 1), Err(n));
    }
}

/// Whatever happens to the file, it is the same roll or an error.
#[test]
fn a_damaged_tape() {
    let scene = Scene::record(include_str!("everything.c"), &["-O2"]);
    let (roll, _) = roll(&scene);
    let file = scene.folder.path().join("tape");
    roll.save(&file).expect("the tape can be saved");
    let whole = std::fs::read(&file).expect("the tape");
    for n in 0..200 {
        let mut bytes = whole.clone();
        let at = n * 7919 * 131 % whole.len();
        if n % 2 == 0 {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << (n % 8);
        }
        std::fs::write(&file, &bytes).expect("a file");
        assert!(
            Roll::open(&file).is_err(),
            "damaged at {at} of {}",
            whole.len()
        );
    }
    let mut newer = whole.clone();
    newer[15] += 1;
    std::fs::write(&file, &newer).expect("a file");
    assert!(matches!(Roll::open(&file), Err(flow::Damaged::Version(2))));
}
