//! The abstract machine: the run as the rules see it.
//!
//! It reads the tape while the guest runs ahead, on another CPU. From the records it keeps the heap H and
//! the freed set F, the pointer map P (which block each register and each cell of memory points to), which
//! memory was written, and the calls of functions that rules name. At each detection point the rules of that
//! point are asked.
//!
//! Contents of memory are not on the tape. A rule that needs them is asked later, with the guest taken to
//! that step; until then it is a [`Suspect`].

mod brief;
mod calls;
mod detours;
mod fast;
mod formats;
pub mod functions;
mod given;
mod judge;
mod make;
mod models;
mod operands;
mod operate;
mod paths;
mod plan;
mod spread;
#[cfg(test)]
mod tests;
mod traces;
mod twin;
mod variables;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use flow::Values;
use functions::{Function, Role};
use image::effects::Size;
use models::{Effect, Model, Touch};
use rustc_hash::{FxHashMap, FxHashSet};
use tape::{Event, Listener, Measures, Part, Shape};

use crate::eval::{Bindings, CallEvent, Facts, Value, holds};
use crate::fold;
use crate::heap::{Block, BlockId, DIFFERENCE, Family, Freed, Heap, NONE};
use crate::syntax::PointKind;
use crate::term::{Checked, Pair};
pub use detours::Detours;
use fast::Fast;
use jit::{Cell, Registers, Shadow, Stop, arithmetic};
pub use plan::Trackers;
use plan::{Judged, Mix, NO_UNIT, Op, Plan, Source};

/// Bytes below the stack pointer that a function may use.
const RED_ZONE: u64 = 128;
/// Faults that are kept; a broken loop makes millions.
const MOST: usize = 1000;
/// Faults of calls of one function that are kept for one rule.
const MOST_CALLS: u32 = 100;
/// Accesses by one instruction of the C library, which many parts of a program may have asked for.
const MOST_IN_LIBRARY: u32 = 20;
/// Blocks that realloc has left where they were, of which it is found out whether the program knows that.
const MOST_DOUBTED: usize = 64;
/// A pointer further than this from its block is not one into it: some arithmetic was not followed.
const FAR: u64 = 1 << 20;
/// Times that a record of a shape is worked on before it is worth machine code.
const PATIENCE: u32 = 16;
/// Addresses that a machine takes, though little memory.
pub const ADDRESSES: u64 = 1 << Shadow::BITS;
/// Accesses that are listed.
pub const MOST_NOTED: usize = 1_000_000;

/// What is known of the program's code. It grows while modules are loaded, before they run.
#[derive(Clone, Default)]
pub struct Codebase {
    pub functions: Vec<Function>,
    /// Entries of functions.
    pub entries: FxHashMap<u64, u16>,
    /// Where a function is asked for by a name that others share its code with.
    pub stubs: FxHashMap<u64, u16>,
    /// What its files say, for those who look for variables.
    pub program: Option<Arc<image::Program>>,
    /// The C library and the loader: they are judged by what they were asked to do.
    pub library: Vec<(u64, u64)>,
    /// The loader, whose decisions are no matter of the program's.
    pub loader: Vec<(u64, u64)>,
}

impl Codebase {
    /// A function begins at `entry`. Where several share their code, calls of which it is not known what was
    /// asked for are taken for the one that promises least.
    pub fn add_entry(&mut self, entry: u64, function: u16) {
        let name = |n: u16| self.functions[n as usize].name.as_str();
        let careful = |n: u16| functions::SHARED.iter().any(|list| list[0] == name(n));
        match self.entries.get(&entry) {
            Some(known) if careful(*known) || !careful(function) => {}
            _ => {
                self.entries.insert(entry, function);
            }
        }
    }

    /// Where the tape must tell more.
    pub fn probes(&self) -> Vec<(u64, Measures)> {
        let measures = |n: u16| match self.functions[usize::from(n)].role {
            Role::Touches(model) | Role::Gives(model) => model.measures,
            Role::Formats { list: Some(n), .. } => tape::list(n),
            _ => Measures::default(),
        };
        let stubs = self.stubs.keys().map(|pc| (*pc, Measures::default()));
        let entries = self.entries.iter().map(|(pc, n)| (*pc, measures(*n)));
        stubs.chain(entries).collect()
    }
}

/// Where a rule's condition held, or may have held.
#[derive(Clone, Debug)]
pub struct Suspect {
    pub rule: usize,
    /// The step before which it happened.
    pub step: u64,
    pub pc: u64,
    pub thread: u32,
    pub bindings: Bindings,
    pub what: Redex,
    /// Unless the guest's memory is needed for that.
    pub certain: bool,
    /// The block that the pointer came from, if realloc has left it where it was: no fault if the program knows that.
    pub stayed: Option<BlockId>,
    /// Family of the function at hand.
    pub releaser: String,
}

/// What is about to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redex {
    Access {
        address: u64,
        size: u64,
        write: bool,
        pointer: Option<Holder>,
        block: BlockId,
        /// Number of the system call that did it.
        call: Option<u64>,
    },
    /// Something that was never written decides where to go, or which memory is used.
    Use {
        register: Option<u8>,
    },
    /// The same inside of a function of the C library or the kernel: what of its arguments, in words.
    Given {
        what: String,
        by: Holder,
        /// The function that gives it was itself given it, as one that writes messages is: its callers are at fault, each for
        /// itself.
        passed_on: bool,
    },
    /// Memory at the two addresses is compared in which something was never written. It decides if so many bytes before it
    /// do not differ.
    Compared {
        addresses: [u64; 2],
        before: u64,
        what: String,
        by: Holder,
    },
    Call {
        function: String,
        arguments: [u64; 6],
        /// The argument that is the first one of the point: of a free, the pointer.
        first: u8,
    },
    Return {
        function: String,
        result: u64,
    },
    /// The program ends.
    End,
}

/// Where a pointer is, or something that was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// In the general register of this number.
    Register(u8),
    /// In the lowest bytes of a vector register.
    Vector(u8),
    /// In memory: at this address, so many bytes.
    Memory(u64, u64),
}

/// A read or write through a pointer that came from a block.
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    pub step: u64,
    pub pc: u64,
    pub block: BlockId,
    pub address: u64,
    pub size: u64,
    pub write: bool,
}

/// A function that means something.
struct Named {
    function: Function,
    /// A rule is about its calls.
    noted: bool,
    /// Rules that are asked when it is called, with what refutes them, and when it returns.
    at_call: Vec<(usize, fold::Refuted)>,
    at_return: Vec<usize>,
    /// Some rule asks later whether it was called.
    remembered: bool,
    /// The first function that means the same.
    kin: u16,
    /// If that is all there is to its calls, nearly always: what it does.
    brief: Option<Model>,
    /// Some of what it touches is known only when it returns.
    found_late: bool,
    /// The parameters that say what it is to do, a bit for each.
    parameters: u8,
}

/// A function that has been entered.
struct Active {
    function: u16,
    slot: u64,
    arguments: [u64; 6],
    /// How long strings are that they point to.
    measured: [u64; tape::MOST_MEASURED],
    blocks: [BlockId; 6],
    step: u64,
    pc: u64,
}

impl Active {
    fn given(&self) -> models::Given<'_> {
        models::Given {
            arguments: &self.arguments,
            measured: &self.measured,
        }
    }
}

struct Thread {
    registers: Box<Registers>,
    active: Vec<Active>,
    frames: variables::Living,
    /// How many of them are not looked into, and of how many reads are not held against anybody.
    closed: u32,
    lenient: u32,
    /// What signal handlers interrupted, the innermost last.
    interrupted: Vec<calls::Interrupted>,
}

impl Thread {
    fn new() -> Thread {
        Thread {
            registers: Box::default(),
            active: Vec::new(),
            frames: variables::Living::default(),
            closed: 0,
            lenient: 0,
            interrupted: Vec::new(),
        }
    }
}

/// The quick way of a shape.
enum Warm {
    /// There is none yet; it was met so often.
    Met(u32),
    Made(Box<Fast>),
}

/// The machine, which listens to the tape.
pub struct Machine {
    rules: Arc<Vec<Checked>>,
    pairs: Vec<Pair>,
    trackers: Trackers,
    codebase: Arc<Mutex<Codebase>>,
    /// Set when a fault is found and no others are wanted.
    enough: Option<Arc<AtomicBool>>,
    /// Made when a record of the code is first met: much of what is translated is never executed.
    plans: Vec<Option<Box<Plan>>>,
    by_code: FxHashMap<usize, u32>,
    codes: Vec<Arc<tape::Code>>,
    shapes: Vec<(u32, Shape)>,
    /// The quick ways through the shapes that were met.
    fasts: Vec<Warm>,
    /// The code of quick ways, if they are gone.
    code: Option<jit::Code>,
    /// How often a shape is met before a quick way is made.
    patience: u32,
    traces: traces::Traces,
    names: Vec<Named>,
    /// System calls that no rule names.
    unnamed_calls: FxHashSet<u64>,
    variables: variables::Table,
    formats: formats::Formats,
    /// How often memory was compared of which it is not known whether it decided, by caller.
    compared: FxHashMap<u64, u32>,
    pub heap: Heap,
    pub calls: Vec<CallEvent>,
    memory: Shadow,
    thread: u32,
    now: Thread,
    others: FxHashMap<u32, Thread>,
    step: u64,
    begun: bool,
    pub suspects: Vec<Suspect>,
    /// If they are asked for: accesses to blocks.
    pub accesses: Option<Vec<Noted>>,
    /// How often each rule fired at each place.
    seen: FxHashMap<(usize, u64), u32>,
    /// Rules that were asked of pointers to blocks that realloc has left where they were, and these.
    doubted: FxHashSet<(usize, BlockId)>,
    derefs: Vec<usize>,
    /// Rules of accesses that need a look at all of them.
    curious: bool,
    patterns: Vec<crate::syntax::Pattern>,
    /// Functions of which rules ask later whether they were called.
    remembered: Vec<crate::syntax::Pattern>,
    /// For each rule: whether it is about none of the calls with a pointer to the beginning of a block that lives.
    quiet: Vec<bool>,
    ended: bool,
    spread: spread::Spread,
    /// The guest has memory that cannot be told apart; nothing is heard any more.
    lost: bool,
    /// A system call that was entered, by thread.
    entered: FxHashMap<u32, calls::Entered>,
    stack: (u64, u64),
    twin: Option<Box<twin::Twin>>,
    detours: Detours,
}

impl Machine {
    /// Fails if the system does not set addresses aside for what is known of memory: [`ADDRESSES`].
    pub fn new(
        rules: Arc<Vec<Checked>>,
        pairs: Vec<Pair>,
        codebase: Arc<Mutex<Codebase>>,
        enough: Option<Arc<AtomicBool>>,
    ) -> io::Result<Machine> {
        Machine::made(rules, pairs, codebase, enough, false)
    }

    /// One that keeps a list of all accesses to blocks.
    pub fn noting(
        rules: Arc<Vec<Checked>>,
        pairs: Vec<Pair>,
        codebase: Arc<Mutex<Codebase>>,
        enough: Option<Arc<AtomicBool>>,
    ) -> io::Result<Machine> {
        Machine::made(rules, pairs, codebase, enough, true)
    }

    fn made(
        rules: Arc<Vec<Checked>>,
        pairs: Vec<Pair>,
        codebase: Arc<Mutex<Codebase>>,
        enough: Option<Arc<AtomicBool>>,
        noting: bool,
    ) -> io::Result<Machine> {
        let derefs: Vec<usize> = (0..rules.len()).filter(|i| rules[*i].is_deref()).collect();
        let trackers = Trackers {
            blocks: rules.iter().any(|r| {
                r.is_deref() && !r.asks_written()
                    || r.point == PointKind::Free
                    || r.point == PointKind::Call
            }),
            unwritten: rules.iter().any(Checked::asks_written),
            variables: rules.iter().any(Checked::asks_variables),
        };
        let curious = noting || derefs.iter().any(|i| !fold::is_quiet(&rules[*i]));
        let patterns = rules.iter().flat_map(Checked::functions).collect();
        let remembered = rules.iter().flat_map(Checked::remembered).collect();
        let quiet = rules.iter().map(fold::is_quiet_of_owned).collect();
        Ok(Machine {
            rules,
            pairs,
            trackers,
            codebase,
            enough,
            plans: Vec::new(),
            by_code: FxHashMap::default(),
            codes: Vec::new(),
            shapes: Vec::new(),
            fasts: Vec::new(),
            // Without memory for it, all is done one by one.
            code: (!curious).then(|| jit::Code::new().ok()).flatten(),
            patience: PATIENCE,
            traces: traces::Traces::default(),
            names: Vec::new(),
            unnamed_calls: FxHashSet::default(),
            variables: variables::Table::default(),
            formats: formats::Formats::default(),
            compared: FxHashMap::default(),
            heap: Heap::new()?,
            calls: Vec::new(),
            memory: Shadow::new()?,
            thread: 0,
            now: Thread::new(),
            others: FxHashMap::default(),
            step: 0,
            begun: false,
            suspects: Vec::new(),
            accesses: noting.then(Vec::new),
            seen: FxHashMap::default(),
            doubted: FxHashSet::default(),
            derefs,
            curious,
            patterns,
            remembered,
            quiet,
            ended: false,
            spread: spread::Spread::default(),
            lost: false,
            entered: FxHashMap::default(),
            stack: (0, 0),
            twin: None,
            detours: Detours::default(),
        })
    }

    /// Where the main thread's stack is.
    pub fn set_stack(&mut self, stack: (u64, u64)) {
        self.stack = stack;
        if let Some(twin) = &mut self.twin {
            twin.plain.set_stack(stack);
        }
    }

    fn learn(&mut self, shapes: &[Shape]) {
        for s in shapes {
            let next = self.plans.len() as u32;
            let key = Arc::as_ptr(&s.code) as usize;
            let n = *self.by_code.entry(key).or_insert(next);
            if n == next {
                self.plans.push(None);
                self.codes.push(s.code.clone());
            }
            self.shapes.push((n, s.clone()));
            self.fasts.push(Warm::Met(0));
            if let Some(code) = &mut self.code {
                code.add_shape();
            }
        }
    }

    /// Makes a plan. Nobody takes code away from the codebase before its records were heard.
    #[cold]
    fn prepare(&mut self, n: u32) -> Box<Plan> {
        let codebase = self.codebase.clone();
        let codebase = codebase.lock().expect("nobody panics while holding it");
        if self.trackers.variables {
            self.variables
                .renew(codebase.program.as_ref(), &codebase.library);
        }
        for function in &codebase.functions[self.names.len()..] {
            let name = &function.name;
            let at = |kind: PointKind| {
                let rules = self.rules.iter().enumerate();
                let about = |r: &Checked| r.function.as_ref().is_some_and(|p| p.matches(name));
                let asked = rules.filter(|(_, r)| r.point == kind && about(r));
                asked.map(|(n, _)| n).collect::<Vec<usize>>()
            };
            let kin = |n: &Named| n.function.role == function.role;
            let kin = self.names.iter().position(kin).unwrap_or(self.names.len());
            let (at_return, remembered) = (at(PointKind::Ret), self.remembers(name));
            let brief = match function.role {
                Role::Touches(model) if model.whole && at_return.is_empty() && !remembered => {
                    Some(model)
                }
                _ => None,
            };
            self.names.push(Named {
                found_late: brief.is_some_and(|m| m.touches.iter().any(Touch::is_found_late)),
                noted: self.patterns.iter().any(|p| p.matches(name)),
                at_call: at(PointKind::Call)
                    .into_iter()
                    .map(|n| (n, fold::Refuted::of(&self.rules[n])))
                    .collect(),
                at_return,
                remembered,
                kin: kin as u16,
                brief,
                parameters: match self.trackers.unwritten {
                    true => function.role.parameters(),
                    false => 0,
                },
                function: function.clone(),
            });
        }
        let is_in = |pc: u64, list: &[(u64, u64)]| list.iter().any(|(a, b)| (*a..*b).contains(&pc));
        let judged = |pc: u64| match (is_in(pc, &codebase.loader), is_in(pc, &codebase.library)) {
            (true, _) => Judged::Nothing,
            (false, true) => Judged::Decisions,
            (false, false) => Judged::All,
        };
        let mut variables = variables::Finder {
            table: &mut self.variables,
            heap: &mut self.heap,
            program: codebase.program.as_deref(),
        };
        let plan = Plan::of(
            &self.codes[n as usize],
            self.trackers,
            (&codebase.entries, &codebase.stubs),
            &mut variables,
            judged,
        );
        Box::new(plan)
    }

    /// Takes a plan for as long as it is worked by; it has to be put back.
    fn take_plan(&mut self, n: u32) -> Box<Plan> {
        match self.plans[n as usize].take() {
            Some(plan) => plan,
            None => self.prepare(n),
        }
    }

    /// Whether calls of a function are kept.
    fn remembers(&self, name: &str) -> bool {
        // A list of all that happened has those that any rule names.
        let patterns = match self.accesses {
            Some(_) => &self.patterns,
            None => &self.remembered,
        };
        patterns.iter().any(|p| p.matches(name))
    }

    pub fn function_name(&self, n: u16) -> &str {
        &self.names[n as usize].function.name
    }

    /// The name of a variable that a block stands for.
    pub fn variable_name(&self, block: &Block) -> Option<&str> {
        let is = block.family.is_variable();
        is.then(|| self.variables.name(block.by))
    }

    pub fn step(&self) -> u64 {
        self.step
    }

    /// What machine code left to others.
    pub fn detours(&self) -> Detours {
        self.detours
    }

    /// The step from which on the run was not followed, if it was not followed to the end.
    pub fn lost(&self) -> Option<u64> {
        self.lost.then_some(self.step)
    }
}

#[derive(Clone, Copy)]
struct Access {
    address: u64,
    size: u64,
    write: bool,
    by: Doer,
}

/// Who touches memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doer {
    Instruction,
    /// A function that was asked to, whatever its instructions do for that.
    Function,
    /// The kernel, in this system call.
    Call(u64),
}

#[derive(Clone, Copy)]
struct Context<'a> {
    step: u64,
    pc: u64,
    releaser: &'a str,
    written: Option<bool>,
}

fn abi_name(nr: u64) -> Option<String> {
    abi::name(nr).map(|name| format!("sys_{name}"))
}

fn family_word(family: Family, pairs: &[Pair]) -> String {
    match family {
        Family::Declared(n) => match pairs.get(n as usize) {
            Some(p) => p.allocate.clone(),
            None => family.word(),
        },
        _ => family.word(),
    }
}

fn product(list: &[u8], arguments: &[u64; 6]) -> u64 {
    list.iter()
        .fold(1u64, |n, i| n.saturating_mul(arguments[*i as usize]))
}

#[inline]
fn part(unit: &mut Cell, at: u8, len: u8, bits: u8) {
    let mask = (((1u32 << len) - 1) << at) as u8;
    *unit = Cell::new(NONE, unit.unwritten() & !mask | bits << at & mask);
}

impl Listener for Machine {
    fn shapes_heard(&self) -> usize {
        self.shapes.len()
    }

    fn wants_reads(&self) -> bool {
        false
    }

    fn wants_followed(&self) -> bool {
        self.trackers.blocks
    }

    fn hear(&mut self, tape: Part<'_>) {
        if !std::mem::replace(&mut self.begun, true) {
            self.step = tape.step;
        }
        self.learn(tape.shapes);
        self.agree();
        self.sample(&tape);
        let mut at = 0;
        for (n, event) in tape.events {
            if self.lost {
                break;
            }
            at = self.records(tape.records, at, *n as usize);
            self.event(event);
        }
        if !self.lost {
            self.records(tape.records, at, tape.records.len());
        }
        self.compare(tape);
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}
