//! The core calculus beside the whole tool: the same programs run there and, translated to C, as recorded guests.
//! Faults must be the same, in the same order and at the same lines, and so must be the abstract traces.
//!
//! Many programs are put into one C program, for recording costs more than they do. A null pointer ends its process,
//! so such a program comes last in its batch.

mod harness;

use std::collections::{BTreeMap, BTreeSet};

use calculus::c::{self, Allocator, Part, Translated};
use calculus::{
    Bid, Block, Class, Event, Leak, Outcome, Point, Pointer, Program, Region, Span, State, Value,
    parse, random, reachable,
};
use harness::Place;
use serde_json::Value as Json;

/// Bytes of a unit of memory in C.
const CELL: i64 = 8;

const FREES: [Class; 3] = [Class::UnmatchedFree, Class::StackFree, Class::DoubleFree];

/// Blocks and bytes by lines.
type Lines = BTreeMap<u64, (u64, u64)>;

/// What happened, with the blocks of each program numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Malloc { bytes: u64 },
    Free { block: usize },
    Read { block: usize, index: i64 },
    Write { block: usize, index: i64 },
    Call(String, Passed),
    Ret(String, Passed),
}

/// A value that goes into a function or comes out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    Number(i64),
    Pointer {
        block: usize,
        index: i64,
    },
    /// Of the stack, of global variables and of functions nothing is told.
    Other,
    /// As the tool sees it.
    Word(u64),
}

/// What becomes of a program in the calculus.
struct Ran {
    program: Program,
    /// Reads, writes, allocations and frees, the one in error among them.
    operations: u64,
    seen: Vec<Seen>,
    error: Option<(Class, Span)>,
    /// All blocks: where they were made, and their bytes.
    blocks: Vec<(Span, u64)>,
    /// Blocks that live at the end, and those of them that nothing leads to.
    live: Vec<usize>,
    lost: Vec<usize>,
    /// What functions left behind.
    left: Vec<Left>,
}

/// Blocks that were made in a function and live when it returns.
struct Left {
    function: String,
    /// The calls that led there.
    way: Vec<Span>,
    blocks: Vec<usize>,
}

/// Nothing, if the program gets stuck.
fn run(text: &str) -> Option<Ran> {
    let program = parse(text).expect("a program");
    let mut state = State::new(&program);
    let mut blocks: Vec<(Bid, Span, u64)> = Vec::new();
    let mut seen = Vec::new();
    let mut operations = 0;
    let (mut left, mut way) = (Vec::new(), Vec::new());
    let error = loop {
        let number = |bid| blocks.iter().position(|b| b.0 == bid);
        let passed = |v: &Value| match (v, state.pointer(v)) {
            (Value::Number(n), _) => Passed::Number(*n),
            (_, Some(p)) if p.bid.region == Region::Heap => Passed::Pointer {
                block: number(p.bid).expect("it was made"),
                index: p.index,
            },
            _ => Passed::Other,
        };
        let point = state.point();
        match &point {
            Some((access @ (Point::Read(v) | Point::Write(v, _)), _)) => {
                operations += 1;
                if let Some(p) = state.pointer(v)
                    && let Some(block) = number(p.bid)
                {
                    let index = p.index;
                    seen.push(match access {
                        Point::Read(_) => Seen::Read { block, index },
                        _ => Seen::Write { block, index },
                    });
                }
            }
            Some((Point::Malloc(_) | Point::Free(_), _)) => operations += 1,
            Some((Point::Call(z, v), span)) => {
                seen.push(Seen::Call(z.clone(), passed(v)));
                way.push(*span);
            }
            Some((ret @ Point::Ret(z, v), _)) => {
                seen.push(Seen::Ret(z.clone(), passed(v)));
                let leaks = state.leaks(ret).into_iter();
                left.extend(leaks.filter(|l| l.0 == Leak::Transaction).map(|l| Left {
                    function: z.clone(),
                    way: way.clone(),
                    blocks: l.1.into_iter().filter_map(number).collect(),
                }));
                way.pop();
            }
            None => {}
        }
        let known = state.trace.len();
        match state.step() {
            Outcome::Next => {}
            Outcome::Done(_) => break None,
            Outcome::Error(class) => break Some((class, point.expect("a point").1)),
            Outcome::Stuck(_) => return None,
        }
        for t in &state.trace[known..] {
            match &t.event {
                Event::Malloc { size, bid } => {
                    let bytes = size * CELL as u64;
                    seen.push(Seen::Malloc { bytes });
                    blocks.push((*bid, t.span, bytes));
                }
                Event::Free { bid, .. } => {
                    let block = blocks.iter().position(|b| b.0 == *bid);
                    seen.push(Seen::Free {
                        block: block.expect("it was made"),
                    });
                }
                _ => {}
            }
        }
    };
    let successors = successors(&state);
    let kept = found_by_address(&state, &successors);
    let numbered = blocks.iter().enumerate();
    let living = numbered.filter(|(_, b)| state.heap.contains_key(&b.0));
    let lost = living.clone().filter(|(_, b)| !kept.contains(&b.0));
    let (live, lost) = (
        living.map(|(n, _)| n).collect(),
        lost.map(|(n, _)| n).collect(),
    );
    Some(Ran {
        program,
        operations,
        seen,
        error,
        blocks: blocks.into_iter().map(|b| (b.1, b.2)).collect(),
        live,
        lost,
        left,
    })
}

/// The block that is at the place of each block now, or was there last. The place that was freed last is handed out
/// first.
fn successors(state: &State) -> BTreeMap<Bid, Bid> {
    let mut place_of: BTreeMap<Bid, usize> = BTreeMap::new();
    let (mut made, mut spare, mut owner) = (0, Vec::new(), BTreeMap::new());
    for t in &state.trace {
        match &t.event {
            Event::Malloc { bid, .. } => {
                let place = spare.pop().unwrap_or(made);
                made = made.max(place + 1);
                place_of.insert(*bid, place);
                owner.insert(place, *bid);
            }
            Event::Free { bid, .. } => spare.push(place_of[bid]),
            _ => {}
        }
    }
    let now = |(bid, place): (Bid, usize)| (bid, owner[&place]);
    place_of.into_iter().map(now).collect()
}

/// Blocks that can still be found, as the tool finds them, by address: a pointer whose block was freed leads to the
/// block that has its place now.
fn found_by_address(state: &State, successors: &BTreeMap<Bid, Bid>) -> BTreeSet<Bid> {
    let pointer = |v: &Value| {
        let mut p = state.pointer(v)?;
        p.bid = *successors.get(&p.bid)?;
        Some(p)
    };
    let pointers = |b: &Block| b.contents.iter().flatten().filter_map(pointer).collect();
    let globals = state.stack[0].blocks.values();
    let roots = globals.flat_map(|b| -> Vec<Pointer> { pointers(b) });
    reachable(roots.collect(), |bid| {
        let block = state.heap.get(&bid)?;
        Some((block.contents.len() as i64, pointers(block)))
    })
}

/// Programs from one list of choices after another.
fn programs(seed: u64) -> impl Iterator<Item = Ran> {
    let mut state = seed;
    let mut random = move || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    std::iter::from_fn(move || {
        let length = random();
        let choices: Vec<u8> = (0..length).map(|_| random()).collect();
        Some(random::program(&choices).to_string())
    })
    .filter_map(|text| run(&text))
}

impl Ran {
    /// It ends the process it runs in.
    fn is_fatal(&self) -> bool {
        matches!(self.error, Some((Class::NullDeref, _)))
    }
}

/// A C program of some programs, recorded.
struct Batch<'a> {
    place: Place,
    parts: &'a [Ran],
    translated: Translated,
}

impl Batch<'_> {
    fn record(parts: &[Ran], allocator: Allocator) -> Batch<'_> {
        let list: Vec<Part<'_>> = parts
            .iter()
            .map(|r| Part {
                program: &r.program,
                operations: r.error.map(|_| r.operations),
            })
            .collect();
        let translated = c::translate(&list, allocator);
        let place = Place::new();
        let program = place.build("batch", &translated.text, &["-O0"]);
        let ran = place.run(&program, &[]);
        let killed = parts.iter().any(Ran::is_fatal);
        let by_itself = allocator == Allocator::Forgiving;
        if by_itself {
            let end = (ran.status, ran.signal);
            let expected = if killed {
                (None, Some(11))
            } else {
                (Some(0), None)
            };
            assert_eq!(end, expected, "{}", ran.err);
        }
        Batch {
            place,
            parts,
            translated,
        }
    }

    /// The report of `check` with some options.
    #[track_caller]
    fn check(&self, options: &[&str]) -> Json {
        let file = self.place.path("report");
        let mut args = vec!["check", "--json", "--no-chains", "-o"];
        args.push(file.to_str().expect("a path"));
        args.extend(options);
        let ran = self.place.say(&args);
        let text = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{}", ran.err));
        serde_json::from_str(&text).expect("a report")
    }

    /// The line of the innermost frame that is in a program.
    fn line(&self, site: &Json) -> u64 {
        let frames = site["stack"]["frames"].as_array().expect("frames");
        let lines = frames.iter().filter(|f| f["own"] == true);
        let mut lines = lines.filter_map(|f| f["line"].as_u64());
        let found = lines.find(|l| *l > self.translated.prelude);
        found.unwrap_or_else(|| panic!("{site:#}"))
    }

    fn expected_faults(&self) -> Vec<(String, u64)> {
        let parts = self.parts.iter().enumerate();
        let errors = parts.filter_map(|(n, r)| Some((n, r.error?)));
        errors
            .map(|(n, (class, span))| (class.rule().to_owned(), self.translated.lines[&(n, span)]))
            .collect()
    }

    /// Blocks of a program by the line that made them.
    fn by_line(&self, part: usize, blocks: &[usize]) -> Lines {
        let mut out = Lines::new();
        for b in blocks {
            let (span, bytes) = self.parts[part].blocks[*b];
            let entry = out.entry(self.translated.lines[&(part, span)]).or_default();
            *entry = (entry.0 + 1, entry.1 + bytes);
        }
        out
    }

    /// What is lost. Programs that go wrong are left out: in C, the error itself may have overwritten or freed
    /// something.
    fn expected_leaks(&self) -> Lines {
        let parts = self.parts.iter().enumerate();
        let right = parts.filter(|(_, r)| r.error.is_none());
        right.flat_map(|(n, r)| self.by_line(n, &r.lost)).collect()
    }

    fn found_leaks(&self, fault: &Json) -> Lines {
        let mut out = Lines::new();
        for l in fault["leaks"].as_array().expect("leaks") {
            let entry = out.entry(self.line(&l["allocated"])).or_default();
            entry.0 += l["blocks"].as_u64().expect("a number");
            entry.1 += l["bytes"].as_u64().expect("a number");
        }
        out
    }

    #[track_caller]
    fn faults_agree(&self, options: &[&str]) {
        let report = self.check(options);
        let mut found: Vec<(String, u64)> = Vec::new();
        let mut leaks = Lines::new();
        for f in report["faults"].as_array().expect("faults") {
            let rule = f["rule"].as_str().expect("a rule").to_owned();
            let lost = self.found_leaks(f);
            match lost.is_empty() {
                true => found.push((rule, self.line(&f["at"]))),
                false => assert_eq!(rule, "definite_leak"),
            }
            leaks.extend(lost);
        }
        leaks.retain(|line, _| self.parts[self.part_of(*line)].error.is_none());
        // What is read from where nothing may be read was not written either.
        found
            .dedup_by(|next, first| next.1 == first.1 && next.0 == Class::UninitialisedRead.rule());
        let expected = self.expected_faults();
        if found != expected {
            let n = found
                .iter()
                .zip(&expected)
                .take_while(|(a, b)| a == b)
                .count();
            let line = found.get(n).into_iter().chain(expected.get(n)).map(|f| f.1);
            let line = line.min().unwrap_or(0);
            let message = format!(
                "fault {n}: the tool has {:?}, the calculus {:?}",
                found.get(n),
                expected.get(n)
            );
            self.show(self.part_of(line), &message);
        }
        let killed = self.parts.iter().any(Ran::is_fatal);
        if !killed && !options.contains(&"--only") {
            let expected = self.expected_leaks();
            let mut lines = expected.keys().chain(leaks.keys());
            if let Some(line) = lines.find(|l| leaks.get(l) != expected.get(l)) {
                let message = format!(
                    "leaks of line {line}: the tool has {:?}, the calculus {:?}",
                    leaks.get(line),
                    expected.get(line)
                );
                self.show(self.part_of(*line), &message);
            }
        }
    }

    /// The program that has a line.
    fn part_of(&self, line: u64) -> usize {
        let lines = self.translated.lines.iter();
        let parts = lines
            .filter(|(_, l)| **l <= line)
            .map(|((part, _), _)| *part);
        parts.max().unwrap_or(0)
    }

    /// Shows a program in both languages.
    #[track_caller]
    fn show(&self, part: usize, message: &str) -> ! {
        let begins = |n| format!("static cell {}", c::function(n, ""));
        let text = self.translated.text.lines().enumerate();
        let own = text
            .skip_while(|(_, l)| !l.starts_with(&begins(part)))
            .take_while(|(_, l)| !l.starts_with(&begins(part + 1)))
            .map(|(n, l)| format!("{:5} {l}\n", n + 1));
        let own: String = own.collect();
        panic!("{message}\n{}\n{own}", self.parts[part].program);
    }

    /// The abstract trace of the machine, by program, and the addresses of the blocks.
    fn traces(&self) -> Vec<(Vec<Seen>, Vec<u64>)> {
        // Calls are seen of functions that some rule names.
        let rules = self.place.path("noted.rules");
        let text = "[noted] detect <Trace; ret \"p*_*\" v>: v == 0x7777777777777777\n";
        std::fs::write(&rules, text).expect("a file");
        let rules = rules.to_str().expect("a path");
        let report = self.check(&["--all", "--events", "--rules", rules]);
        let mut out = vec![(Vec::new(), Vec::new()); self.parts.len()];
        // The program that runs, and the numbers of its blocks.
        let mut current = None;
        let mut blocks: Vec<u64> = Vec::new();
        let number = |e: &Json, key: &str| e[key].as_u64().expect("a number");
        for e in report["events"].as_array().expect("events") {
            let name = e["function"].as_str().unwrap_or_default();
            let (part, name) = match name.strip_prefix('p').and_then(|s| s.split_once('_')) {
                Some((n, name)) => (n.parse::<usize>().ok(), name),
                None => (None, ""),
            };
            let kind = e["event"].as_str().expect("a kind");
            if (kind, name) == ("call", "main") {
                current = part;
                blocks.clear();
                continue;
            }
            // The C program's own main.
            if matches!(kind, "call" | "ret") && part.is_none() {
                current = None;
            }
            let Some(n) = current else { continue };
            let block = || {
                let wanted = number(e, "block");
                let found = blocks.iter().position(|b| *b == wanted);
                found.unwrap_or_else(|| panic!("a block of another program: {e}"))
            };
            let index = || e["index"].as_i64().expect("a number") / CELL;
            let seen = match kind {
                "malloc" => {
                    blocks.push(number(e, "block"));
                    out[n].1.push(number(e, "begin"));
                    let bytes = number(e, "size");
                    Seen::Malloc { bytes }
                }
                "free" => Seen::Free { block: block() },
                "read" => Seen::Read {
                    block: block(),
                    index: index(),
                },
                "write" => Seen::Write {
                    block: block(),
                    index: index(),
                },
                "call" => {
                    let value = e["values"][0].as_u64().expect("a number");
                    Seen::Call(name.to_owned(), Passed::Word(value))
                }
                _ => Seen::Ret(name.to_owned(), Passed::Word(number(e, "value"))),
            };
            out[n].0.push(seen);
        }
        out
    }

    #[track_caller]
    fn traces_agree(&self) {
        for (n, (r, (mut seen, places))) in self.parts.iter().zip(self.traces()).enumerate() {
            // The calculus stops before the error, C behind it: a wrong free may free what has the place now.
            if r.error.is_some_and(|e| FREES.contains(&e.0)) && seen.len() > r.seen.len() {
                seen.pop_if(|e| matches!(e, Seen::Free { .. }));
            }
            let both = seen.iter().zip(&r.seen);
            let i = both.take_while(|(a, b)| alike(a, b, &places)).count();
            if i < seen.len().max(r.seen.len()) {
                let message = format!(
                    "program {n}, event {i}: the tool has {:?}, the calculus {:?}",
                    seen.get(i),
                    r.seen.get(i)
                );
                self.show(n, &message);
            }
        }
    }
}

/// With the addresses of blocks. A number that was made from NULL by moving it is eight times as large in C.
fn alike(tool: &Seen, calculus: &Seen, places: &[u64]) -> bool {
    let passed = |a: &Passed, b: &Passed| match (a, *b) {
        (Passed::Word(v), Passed::Number(n)) => [n, CELL * n].contains(&(*v as i64)),
        (Passed::Word(v), Passed::Pointer { block, index }) => {
            *v == places[block].wrapping_add_signed(CELL * index)
        }
        _ => true,
    };
    match (tool, calculus) {
        (Seen::Call(f, a), Seen::Call(g, b)) | (Seen::Ret(f, a), Seen::Ret(g, b)) => {
            f == g && passed(a, b)
        }
        _ => tool == calculus,
    }
}

/// Batches of some size; those that end their process come last.
fn batches(seed: u64, count: usize, size: usize) -> Vec<Vec<Ran>> {
    let (mut ordinary, mut fatal) = (Vec::new(), Vec::new());
    for r in programs(seed) {
        match r.is_fatal() {
            true => fatal.push(r),
            false => ordinary.push(r),
        }
        if ordinary.len() == count * size {
            break;
        }
    }
    let mut out = Vec::new();
    while out.len() < count {
        let mut batch: Vec<Ran> = ordinary.drain(..size).collect();
        // Only a process that ends by itself tells of leaks.
        if out.len() % 2 == 1 {
            batch.extend(fatal.pop());
        }
        out.push(batch);
    }
    out
}

#[test]
fn programs_do_the_same_in_the_calculus_and_on_the_engine() {
    let mut classes: BTreeMap<Class, u32> = BTreeMap::new();
    let mut lost = 0;
    for parts in batches(17, 8, 30) {
        let batch = Batch::record(&parts, Allocator::Forgiving);
        batch.faults_agree(&["--all"]);
        batch.traces_agree();
        for (class, _) in parts.iter().filter_map(|r| r.error) {
            *classes.entry(class).or_default() += 1;
        }
        lost += batch.expected_leaks().len();
    }
    let met = Class::ALL.iter().all(|c| classes.contains_key(c));
    assert!(met && lost > 20, "{classes:?}, {lost} leaks");
}

/// Rules that do not look for leaks, which the C library's allocator hides by what it leaves in blocks.
fn without_leaks() -> String {
    Class::ALL.map(Class::rule).join(",")
}

#[test]
fn programs_without_errors_are_clean_with_the_allocator_of_the_c_library() {
    let right = programs(3).filter(|r| r.error.is_none());
    let parts: Vec<Ran> = right.take(60).collect();
    let batch = Batch::record(&parts, Allocator::Library);
    batch.faults_agree(&["--all", "--only", &without_leaks()]);
    batch.traces_agree();
}

#[test]
fn the_first_fault_is_that_of_the_calculus_with_the_allocator_of_the_c_library() {
    for class in Class::ALL {
        let mut list = programs(5).filter(|r| r.error.is_some_and(|e| e.0 == class));
        let one = [list.next().expect("one of each")];
        Batch::record(&one, Allocator::Library).faults_agree(&["--only", &without_leaks()]);
    }
}

#[test]
fn the_examples_of_the_manual_do_in_c_what_they_say() {
    let manual = include_str!("../../../docs/rules/calculus.md");
    let examples = manual.split("```core ").skip(1);
    for example in examples {
        let (said, rest) = example.split_once('\n').expect("a word");
        let (text, _) = rest.split_once("```").expect("an end");
        let parts = [run(text).expect("it is not stuck")];
        let batch = Batch::record(&parts, Allocator::Forgiving);
        batch.faults_agree(&["--all"]);
        batch.traces_agree();
        let report = batch.check(&["--all"]);
        let faults = report["faults"].as_array().expect("faults");
        let rules: Vec<&str> = faults.iter().filter_map(|f| f["rule"].as_str()).collect();
        assert_eq!(rules.first().copied().unwrap_or("done"), said);
    }
}

#[test]
fn functions_leave_the_same_blocks_behind() {
    let right = programs(9).filter(|r| r.error.is_none() && !r.left.is_empty());
    let parts: Vec<Ran> = right.take(15).collect();
    let batch = Batch::record(&parts, Allocator::Forgiving);
    // The shipped rule is about a function called `transaction`, and is to be copied for others.
    let shipped = batch
        .place
        .say(&["rules", "--show", "transaction.rules"])
        .out;
    let shipped = shipped
        .lines()
        .find(|l| l.starts_with('['))
        .expect("a rule");
    let mut text = String::new();
    for (n, r) in parts.iter().enumerate() {
        for d in &r.program.definitions {
            if let calculus::Definition::Function { name, .. } = d {
                text += &shipped.replace("transaction", &c::function(n, name));
                text.push('\n');
            }
        }
    }
    let names = text.lines().filter_map(|l| l[1..].split(']').next());
    let names = names.collect::<Vec<_>>().join(",") + ",possible_leak";
    let rules = batch.place.path("copied.rules");
    std::fs::write(&rules, text).expect("a file");
    let rules = rules.to_str().expect("a path");
    let report = batch.check(&["--all", "--rules", rules, "--only", &names]);
    let mut expected = Vec::new();
    let mut live = Lines::new();
    for (n, r) in parts.iter().enumerate() {
        let mut known = BTreeSet::new();
        for l in r
            .left
            .iter()
            .filter(|l| known.insert((&l.function, &l.way)))
        {
            let rule = format!("{}_leak", c::function(n, &l.function));
            expected.push((rule, batch.by_line(n, &l.blocks)));
        }
        live.extend(batch.by_line(n, &r.live));
    }
    expected.push(("possible_leak".to_owned(), live));
    let faults = report["faults"].as_array().expect("faults").iter();
    let found: Vec<(String, Lines)> = faults
        .map(|f| {
            let rule = f["rule"].as_str().expect("a rule").to_owned();
            (rule, batch.found_leaks(f))
        })
        .collect();
    assert_eq!(found, expected);
}
