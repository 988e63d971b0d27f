//! Slices: the statements that had to do with a value or a failure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use flow::{
    Classes, Controls, Criterion, Edge, Edges, Joined, Kind, Merged, Node, Omission, Options,
    Slicer, Times,
};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};
use image::cfg::{Graph, Graphs};
use image::effects::{Effects, Place, RegRange};
use image::{Program, ValuePlace};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::Error;
use crate::frames;
use crate::moment::Guest;
use crate::point::{Point, Window};
use crate::replay::Audience;
use crate::store::{RecordingName, Store};
use crate::trace::Traced;

#[derive(Clone, Debug, Default)]
pub struct SliceRequest {
    /// The latest if absent.
    pub recording: Option<String>,
    /// The crash if absent.
    pub at: Option<Point>,
    /// What is asked about; everything used there if nothing is named.
    pub about: About,
    pub data_only: bool,
    /// With branches that might have led to a write of what was used.
    pub relevant: bool,
    /// Registers, addresses (`ADDR+LEN`) or global variables whose dependences are left out.
    pub prune: Vec<String>,
    /// Only what was executed from one step to another.
    pub window: Option<Window>,
    /// Show what happened inside of libraries.
    pub library: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum About {
    #[default]
    Everything,
    Variable(String),
    Memory {
        addr: u64,
        len: u64,
    },
    Register(String),
}

#[derive(Clone, Debug, Serialize)]
pub struct SliceReport {
    pub recording: RecordingName,
    /// Where the slice begins.
    pub at: Instance,
    /// What it is about.
    pub about: Vec<String>,
    /// By file and line.
    pub statements: Vec<Statement>,
    pub figures: SliceFigures,
}

#[derive(Clone, Debug, Serialize)]
pub struct SliceFigures {
    /// Executed instructions in the slice.
    pub instructions: u64,
    pub dependences: u64,
    /// Instructions that were executed up to the point.
    pub steps: u64,
    pub tape_bytes: usize,
    pub windows: u64,
    pub replay_seconds: f64,
    pub slice_seconds: f64,
}

/// A source line; an address where there is none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SourcePlace {
    pub file: Option<PathBuf>,
    pub line: Option<u32>,
    pub function: Option<String>,
    /// Where there is no line: `libc.so.6+0x1234`.
    pub code: Option<String>,
}

/// One execution of a statement.
#[derive(Clone, Debug, Serialize)]
pub struct Instance {
    #[serde(flatten)]
    pub place: SourcePlace,
    /// Which execution of the line, from 1; 0 if that is not known.
    pub nth: u64,
    pub step: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Statement {
    #[serde(flatten)]
    pub place: SourcePlace,
    pub text: Option<String>,
    /// How often one of its instructions is in the slice.
    pub times: u64,
    pub first: u64,
    pub last: u64,
    pub edges: Vec<Dependence>,
}

/// Why an execution of a statement depends on another.
#[derive(Clone, Debug, Serialize)]
pub struct Dependence {
    pub nth: u64,
    pub step: u64,
    pub to: Instance,
    pub kind: &'static str,
    /// What carries the value.
    pub what: String,
    /// Dependences between the two statements for this reason; the latest is the one shown.
    pub times: u64,
}

/// Number of the frame pointer.
const RBP: u8 = 5;

/// Facts for the slicer, from the guest's files.
pub(crate) struct Facts<'a> {
    pub(crate) program: &'a Program,
    pub(crate) memory: Guest<'a>,
    pub(crate) graphs: Graphs,
    pub(crate) library: bool,
    /// By function, and by branch in it.
    pub(crate) omitted: FxHashMap<u64, Omissions>,
}

/// What each branch decides about, of the variables that a function writes by their names.
pub(crate) type Omissions = FxHashMap<u64, Vec<Omission>>;

fn omissions(graph: &Graph, memory: &Guest<'_>) -> Omissions {
    let mut out = Omissions::default();
    let framed = has_frame_pointer(graph.entry, memory);
    for block in &graph.blocks {
        let mut code = vec![0; (block.end - block.start) as usize];
        if !image::Memory::read(memory, block.start, &mut code) {
            continue;
        }
        let decoder = Decoder::with_ip(64, &code, block.start, DecoderOptions::NONE);
        let mut written: Vec<Omission> = Vec::new();
        for insn in decoder {
            for a in Effects::of(&insn).accesses.iter().filter(|a| a.writes) {
                let place = &a.address;
                let local = framed && place.base == Some(RBP);
                let named = place.base.is_none() || local;
                let fixed = named && place.index.is_none() && place.segment.is_none();
                if let Some(len) = a.fixed().filter(|_| fixed) {
                    written.push(Omission {
                        local,
                        at: place.displacement,
                        len: u64::from(len),
                    });
                }
            }
        }
        if written.is_empty() {
            continue;
        }
        // All branches on the way: had one gone otherwise, the next might have been there to decide.
        let mut seen = HashSet::new();
        let mut left = graph.controllers(block.start).to_vec();
        while let Some(branch) = left.pop() {
            if seen.insert(branch) {
                out.entry(branch).or_default().extend(&written);
                left.extend(graph.controllers(branch));
            }
        }
    }
    out
}

/// The function begins by making rbp point to its frame.
fn has_frame_pointer(entry: u64, memory: &Guest<'_>) -> bool {
    let mut code = [0; 32];
    let whole = image::Memory::read(memory, entry, &mut code);
    let decoder = Decoder::with_ip(64, &code, entry, DecoderOptions::NONE);
    let sets = |i: Instruction| {
        i.mnemonic() == Mnemonic::Mov
            && i.op0_register() == Register::RBP
            && i.op1_register() == Register::RSP
    };
    // endbr64, push rbp, mov rbp, rsp
    whole && decoder.into_iter().take(3).any(sets)
}

/// Code of the user's: a line of a program or library that is not the system's. Of one without debug
/// information every instruction.
pub(crate) fn is_own(program: &Program, pc: u64) -> bool {
    let modules = program.modules();
    let Some(module) = modules.iter().find(|m| (m.start..m.end).contains(&pc)) else {
        return false;
    };
    if frames::is_system(&module.name) {
        return false;
    }
    let lines = || program.locate(pc).iter().any(|p| p.line.is_some());
    !program.has_debug_info(module.start) || lines()
}

impl Controls for Facts<'_> {
    fn controllers(&mut self, pc: u64) -> Vec<u64> {
        let facts = self.graphs.control(self.program, &self.memory, pc);
        facts.map(|f| f.controllers).unwrap_or_default()
    }

    fn omitted(&mut self, pc: u64) -> Vec<Omission> {
        if !is_own(self.program, pc) {
            return Vec::new();
        }
        let Some(graph) = self.graphs.graph(self.program, &self.memory, pc) else {
            return Vec::new();
        };
        let memory = &self.memory;
        let known = self
            .omitted
            .entry(graph.entry)
            .or_insert_with(|| omissions(&graph, memory));
        known.get(&pc).cloned().unwrap_or_default()
    }

    fn shown(&mut self, pc: u64) -> bool {
        self.library || is_own(self.program, pc)
    }
}

pub(crate) fn slice(
    store: &Store,
    request: &SliceRequest,
    audience: &Rc<dyn Audience>,
) -> Result<SliceReport, Error> {
    let begun = Instant::now();
    Traced::answer(store, request.recording.as_deref(), audience, |traced| {
        let walked = |steps, of| audience.walked(steps, of);
        slice_of(traced, request, begun.elapsed(), &walked)
    })
}

/// What a walk along the dependences found.
struct Walked<E> {
    point: Point,
    about: Vec<String>,
    /// Where it began.
    at: Node,
    nodes: FxHashMap<u64, Times>,
    edges: E,
}

fn walk<E: Edges>(
    traced: &mut Traced,
    request: &SliceRequest,
    edges: E,
    walked: &dyn Fn(u64, u64),
) -> Result<Walked<E>, Error> {
    let point = request.at.clone().unwrap_or(Point::Crash);
    let (criterion, about) = criterion(traced, &point, request)?;
    let mut facts = Facts {
        program: &traced.program,
        memory: Guest(&traced.replay),
        graphs: Graphs::new(),
        library: request.library,
        omitted: FxHashMap::default(),
    };
    let options = options(traced, request)?;
    traced.roll.join();
    let at = Node {
        step: criterion.roots.first().copied().unwrap_or(criterion.step),
        pc: criterion.pc,
    };
    let from = criterion.step;
    let mut slicer = Slicer::new(&traced.roll.codes, criterion, options, &mut facts, edges);
    let stopped = || traced.interrupt.load(Ordering::Relaxed);
    guest::aside(|| {
        slicer.walk(&traced.roll, |step| {
            walked(from.saturating_sub(step), from);
            !stopped()
        });
    });
    if stopped() {
        return Err(Error::Interrupted);
    }
    Ok(Walked {
        point,
        about,
        at,
        nodes: slicer.nodes(),
        edges: slicer.edges,
    })
}

/// The latest executions of instructions that are in a slice.
struct Latest {
    nodes: BTreeSet<Node>,
    most: usize,
}

impl Edges for Latest {
    const EACH: bool = true;

    fn add(&mut self, _: u64, edge: Edge, _: u64) {
        self.nodes.extend([edge.from, edge.to]);
        while self.nodes.len() > self.most {
            self.nodes.pop_first();
        }
    }
}

/// The executions of statements that are in a slice: each with its number and the step of its first
/// instruction that is in the slice. No more than the latest `most` instructions are looked at.
pub(crate) fn instances_of(
    traced: &mut Traced,
    request: &SliceRequest,
    most: usize,
) -> Result<Vec<Instance>, Error> {
    let latest = Latest {
        nodes: BTreeSet::new(),
        most,
    };
    let nodes = walk(traced, request, latest, &|_, _| {})?.edges.nodes;
    let mut report = Report::new(traced);
    report.number(nodes.iter().copied());
    let mut first: HashMap<(u32, u64), Node> = HashMap::new();
    for n in nodes.iter().filter(|n| **n != flow::OUTSIDE) {
        let nth = report.numbers.get(n).copied().unwrap_or(0);
        let place = report.place(n.pc);
        first.entry((place, nth)).or_insert(*n);
    }
    let mut list: Vec<Instance> = first.into_values().map(|n| report.instance(n)).collect();
    list.sort_by_key(|i| i.step);
    Ok(list)
}

/// A slice of a run that was traced, which took that long. `walked` is told how far it got.
pub(crate) fn slice_of(
    traced: &mut Traced,
    request: &SliceRequest,
    replayed: Duration,
    walked: &dyn Fn(u64, u64),
) -> Result<SliceReport, Error> {
    let begun = Instant::now();
    let Walked {
        point,
        about,
        at,
        nodes,
        edges,
    } = walk(traced, request, Merged::default(), walked)?;
    let mut report = Report::new(traced);
    let ends = edges.iter().flat_map(|j| [j.edge.from, j.edge.to]);
    report.number(ends.chain([at]));
    let statements = report.statements(&nodes, &edges);
    let mut at = report.instance(at);
    if let Point::Line { line, .. } = point {
        // The line that was asked for; what was inlined into it has others.
        at.nth = traced.times_at(&point, at.step)?;
        at.place.line = Some(line);
    }
    Ok(SliceReport {
        at,
        recording: RecordingName(traced.name.clone()),
        about,
        statements,
        figures: SliceFigures {
            instructions: nodes.values().map(|t| t.count).sum(),
            dependences: edges.count(),
            steps: traced.steps,
            tape_bytes: traced.roll.bytes(),
            windows: 1,
            replay_seconds: replayed.as_secs_f64(),
            slice_seconds: begun.elapsed().as_secs_f64(),
        },
    })
}

/// What the slice begins with, and that in words.
fn criterion(
    traced: &mut Traced,
    point: &Point,
    request: &SliceRequest,
) -> Result<(Criterion, Vec<String>), Error> {
    let found = match request.about {
        About::Variable(_) => traced.find_settled(point)?,
        _ => traced.find(point)?,
    };
    let mut c = Criterion {
        step: found.map_or(traced.steps, |e| e.step),
        pc: found.map_or(traced.regs.rip, |e| e.pc),
        thread: found.map_or(traced.thread, |e| e.thread),
        control: !request.data_only,
        ..Criterion::default()
    };
    let mut words = Vec::new();
    match &request.about {
        About::Memory { len: 0, .. } => {
            return Err(Error::Request(
                "`--len 0` asks for no bytes; it has to be 1 or more".to_owned(),
            ));
        }
        About::Memory { addr, len } => {
            c.memory.push((*addr, *len));
            words.push(format!("{len} bytes at {addr:#x}"));
        }
        About::Register(name) => {
            let r = RegRange::parse(name)
                .ok_or_else(|| Error::Request(format!("there is no register `{name}`")))?;
            c.registers.push(r);
            words.push(name.clone());
        }
        About::Variable(name) => {
            traced.go(found)?;
            let v = traced.evaluate(name)?;
            if v.places.is_empty() {
                return Err(Error::Request(format!(
                    "`{name}` is computed and names no object; ask for what it is computed from, such as `p->next` or \
                     `a[i]`"
                )));
            }
            for place in v.places {
                match place {
                    ValuePlace::Memory { address, len } => c.memory.push((address, len)),
                    ValuePlace::Register(r) => c.registers.push(r),
                    ValuePlace::Nowhere { .. } => {}
                }
            }
            if c.memory.is_empty() && c.registers.is_empty() {
                return Err(Error::Request(format!(
                    "`{name}` is nowhere here: the compiler has thrown it away"
                )));
            }
            words.push(name.clone());
        }
        About::Everything => match found {
            Some(e) => {
                let at = traced.statement(point, e);
                c.pc = at[0].pc;
                c.roots = at.iter().map(|e| e.step).collect();
                c.step = c.roots.last().map_or(e.step, |s| s + 1);
                words.push("everything used there".to_owned());
            }
            None => crash_uses(traced, &mut c, &mut words),
        },
    }
    Ok((c, words))
}

/// What the instruction that failed, or the one that led to nowhere, used.
fn crash_uses(traced: &Traced, c: &mut Criterion, words: &mut Vec<String>) {
    let pc = traced.regs.rip;
    let mut code = [0; 15];
    let n = traced.replay.read(pc, &mut code);
    let mut decoder = Decoder::with_ip(64, &code[..n], pc, DecoderOptions::NONE);
    let decoded = decoder.decode();
    if n == 0 || decoded.is_invalid() || !traced.is_code(pc) {
        // It is the last instruction executed that matters: the one that came here.
        c.roots = vec![traced.steps.saturating_sub(1)];
        words.push(format!("the jump to {pc:#x}"));
        return;
    }
    let effects = Effects::of(&decoded);
    for r in effects.registers_read() {
        words.push(r.to_string());
        c.registers.push(r);
    }
    let register = |r: RegRange| traced.register(r);
    for t in &effects.transfers {
        for s in &t.from {
            if let Place::Memory { access, at, len } = s.place {
                let a = effects.accesses[access as usize].address.resolve(register);
                c.memory
                    .push((a.wrapping_add(u64::from(at)), u64::from(len)));
            }
        }
    }
}

fn options(traced: &Traced, request: &SliceRequest) -> Result<Options, Error> {
    let mut o = Options {
        data_only: request.data_only,
        relevant: request.relevant,
        window: request
            .window
            .as_ref()
            .map(|w| traced.window(w))
            .transpose()?,
        ..Options::default()
    };
    for p in &request.prune {
        if let Some(r) = RegRange::parse(p) {
            o.pruned_registers.push(r);
            continue;
        }
        if let Some((addr, len)) = p.split_once('+')
            && let (Some(addr), Ok(len)) = (number(addr), len.parse())
        {
            o.pruned_memory.push((addr, len));
            continue;
        }
        match traced
            .program
            .global(p, &crate::moment::Guest(&traced.replay))
        {
            Some(v) if v.address.is_some() => {
                let addr = v.address.unwrap_or(0);
                o.pruned_memory.push((addr, v.size.unwrap_or(8)));
            }
            _ => {
                return Err(Error::Request(format!(
                    "`{p}` cannot be pruned: it is no register, no ADDR+LEN and no global variable"
                )));
            }
        }
    }
    Ok(o)
}

/// A number as people write addresses.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Dependences between two statements that are the same to a reader.
#[derive(PartialEq, Eq, Hash)]
enum Through {
    Control,
    Register(RegRange),
    /// A global variable, or memory that has no name.
    Memory(Option<u64>),
    Omitted(u64),
}

/// File and line, or where there is no line, the code.
type PlaceKey = (Option<PathBuf>, Option<u32>, Option<String>);

/// From instructions to statements.
pub(crate) struct Report<'a> {
    traced: &'a Traced,
    /// The number of the place of each address.
    places: FxHashMap<u64, u32>,
    /// All places, and their numbers.
    list: Vec<SourcePlace>,
    by_place: HashMap<PlaceKey, u32>,
    numbers: FxHashMap<Node, u64>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(traced: &'a Traced) -> Self {
        Report {
            traced,
            places: FxHashMap::default(),
            list: Vec::new(),
            by_place: HashMap::new(),
            numbers: FxHashMap::default(),
        }
    }

    fn place(&mut self, pc: u64) -> u32 {
        if let Some(&n) = self.places.get(&pc) {
            return n;
        }
        let place = self.traced.place(pc);
        // A line is one place, whatever it is inlined into.
        let key = match place.line {
            Some(line) => (place.file.clone(), Some(line), None),
            None => (None, None, place.code.clone()),
        };
        let n = *self.by_place.entry(key).or_insert_with(|| {
            self.list.push(place);
            self.list.len() as u32 - 1
        });
        self.places.insert(pc, n);
        n
    }

    /// Finds out which execution of its line each of these is: how often the line had been reached.
    pub(crate) fn number(&mut self, nodes: impl Iterator<Item = Node>) {
        let mut list: Vec<Node> = nodes.collect();
        list.sort_unstable();
        list.dedup();
        let mut lines: FxHashMap<u32, usize> = FxHashMap::default();
        let mut files = HashMap::new();
        // An instruction may begin several lines.
        let mut starts = Classes::default();
        let mut of: Vec<usize> = Vec::with_capacity(list.len());
        for n in &list {
            let place = self.place(n.pc);
            let next = lines.len();
            let id = *lines.entry(place).or_insert_with(|| {
                let place = &self.list[place as usize];
                if let (Some(file), Some(line)) = (&place.file, place.line) {
                    let known = files
                        .entry(file.clone())
                        .or_insert_with(|| self.traced.program.line_starts(file));
                    for a in known.get(&line).into_iter().flatten() {
                        starts.entry(*a).or_default().push(next);
                    }
                }
                next
            });
            of.push(id);
        }
        let steps: Vec<u64> = list.iter().map(|n| n.step).collect();
        let numbers = &mut self.numbers;
        self.traced.roll.counts_at(&starts, &steps, |n, count| {
            numbers.insert(list[n], count(of[n]));
        });
    }

    pub(crate) fn instance(&mut self, node: Node) -> Instance {
        Instance {
            place: {
                let n = self.place(node.pc);
                self.list[n as usize].clone()
            },
            nth: self.numbers.get(&node).copied().unwrap_or(0),
            step: node.step,
        }
    }

    fn statements(
        &mut self,
        nodes: &FxHashMap<u64, flow::Times>,
        edges: &Merged,
    ) -> Vec<Statement> {
        let mut statements: FxHashMap<u32, Statement> = FxHashMap::default();
        for (&pc, times) in nodes {
            let n = self.place(pc);
            let place = &self.list[n as usize];
            let s = statements.entry(n).or_insert_with(|| Statement {
                text: self.traced.text(place),
                place: place.clone(),
                times: 0,
                first: u64::MAX,
                last: 0,
                edges: Vec::new(),
            });
            s.times += times.count;
            s.first = s.first.min(times.first);
            s.last = s.last.max(times.last);
        }
        let mut merged: FxHashMap<(u32, u32, Through), (flow::Edge, u64)> = FxHashMap::default();
        for Joined { edge: e, times } in edges.iter() {
            let (from, to) = (self.place(e.from.pc), self.place(e.to.pc));
            let own = from == to
                && self.numbers.get(&e.from) == self.numbers.get(&e.to)
                && e.kind != Kind::Control;
            if own {
                // Within one execution of a statement.
                continue;
            }
            let through = self.through(e.kind);
            let entry = merged.entry((from, to, through)).or_insert((e, 0));
            entry.1 += times;
            entry.0 = entry.0.max(e);
        }
        for ((from, ..), (e, times)) in merged {
            let to = self.instance(e.to);
            let (kind, what) = self.why(&e);
            if let Some(s) = statements.get_mut(&from) {
                s.edges.push(Dependence {
                    nth: self.numbers.get(&e.from).copied().unwrap_or(0),
                    step: e.from.step,
                    to,
                    kind,
                    what,
                    times,
                });
            }
        }
        let mut list: Vec<Statement> = statements.into_values().collect();
        list.sort_by(|a, b| a.place.cmp(&b.place));
        for s in &mut list {
            s.edges.sort_by(|a, b| {
                let key = |e: &Dependence| (e.step, e.to.step);
                key(b)
                    .cmp(&key(a))
                    .then_with(|| (a.kind, &a.what).cmp(&(b.kind, &b.what)))
            });
        }
        list
    }

    fn through(&self, kind: Kind) -> Through {
        match kind {
            Kind::Control => Through::Control,
            Kind::Register(r) => Through::Register(r),
            Kind::Memory { addr, .. } => {
                let symbol = self.traced.program.data_symbol(addr);
                Through::Memory(symbol.map(|s| s.start))
            }
            Kind::Omitted { addr, .. } => Through::Omitted(addr),
        }
    }

    fn why(&self, e: &flow::Edge) -> (&'static str, String) {
        match e.kind {
            Kind::Control => ("control", String::new()),
            Kind::Register(r) => ("register", r.to_string()),
            Kind::Memory { addr, len } => ("memory", self.traced.memory_name(addr, len)),
            Kind::Omitted { addr, len } => ("omitted", self.traced.memory_name(addr, len)),
        }
    }
}
