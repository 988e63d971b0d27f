//! The theorems of the paper as properties of random programs.
//!
//! Lemma 3.2: a step that is no error leads from well-formed states to well-formed ones. Theorem 3.3: before a step
//! into Error, the shipped rule of that error fires. And the other direction, which the paper does not claim: no
//! rule fires before any other step.
//!
//! The rules get what they get in a real run: the trace, and the block that a pointer came from. The machine's
//! heap, contents and freed set are not shown to them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use calculus::{
    Bid, Class, Event, Leak, Outcome, Point, Pointer, Program, Region, State, parse, random,
    well_formed,
};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use rules::eval::{Bindings, CallEvent, Contents, Facts, Value, holds};
use rules::heap::{Block, BlockId, Family, Freed, Heap, NONE};
use rules::term::Checked;
use rules::{SHIPPED, compile};

/// No random program needs more: functions do not call themselves.
const MOST_STEPS: u32 = 100_000;

/// The same programs each time, and the smallest of those that fail.
#[track_caller]
fn all_programs(cases: u32, check: impl Fn(&Program) -> Result<(), TestCaseError>) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&vec(any::<u8>(), 0..240), |choices| {
        let p = random::program(&choices);
        check(&p).map_err(|e| TestCaseError::fail(format!("{e}\n{p}")))
    });
    if let Err(e) = result {
        panic!("{e}");
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), TestCaseError> {
    match holds {
        true => Ok(()),
        false => Err(TestCaseError::fail(otherwise())),
    }
}

#[test]
fn what_is_printed_is_read_again() {
    all_programs(2000, |p| {
        let text = p.to_string();
        let again = parse(&text).map_err(|w| {
            TestCaseError::fail(w.iter().map(|w| w.render(&text)).collect::<String>())
        })?;
        ensure(again == *p, || format!("it became\n{again}"))
    });
}

#[test]
fn steps_preserve_well_formedness() {
    let steps = RefCell::new(0u32);
    all_programs(2500, |p| {
        let mut state = State::new(p);
        for _ in 0..MOST_STEPS {
            well_formed(&state).map_err(TestCaseError::fail)?;
            if state.step() != Outcome::Next {
                return Ok(());
            }
            *steps.borrow_mut() += 1;
        }
        Err(TestCaseError::fail("it does not end"))
    });
    let steps = steps.into_inner();
    assert!(steps > 20_000, "{steps}");
}

#[test]
fn rules_fire_exactly_before_errors() {
    let errors: RefCell<BTreeMap<Class, u32>> = RefCell::default();
    let leaks: RefCell<BTreeMap<Leak, u32>> = RefCell::default();
    let (quiet, done, stuck) = (RefCell::new(0), RefCell::new(0), RefCell::new(0));
    let shipped = compiled(None);
    all_programs(6000, |p| {
        let mut rules: Vec<Checked> = shipped.clone();
        for d in &p.definitions {
            if let calculus::Definition::Function { name, .. } = d {
                rules.extend(compiled(Some(name)));
            }
        }
        let mut state = State::new(p);
        let mut view = View::new();
        for _ in 0..MOST_STEPS {
            view.update(&state);
            let point = state.point().map(|(point, _)| point);
            let fired = match &point {
                Some(point) => view.fire(&rules, &state, point),
                None => BTreeSet::new(),
            };
            let leaking: Vec<Leak> = match &point {
                Some(point) => state.leaks(point).into_iter().map(|l| l.0).collect(),
                None => Vec::new(),
            };
            match state.step() {
                Outcome::Next => {
                    let expected: BTreeSet<String> =
                        leaking.iter().map(|l| l.rule().to_owned()).collect();
                    ensure(fired == expected, || {
                        format!("{fired:?} fired, not {expected:?}, before {point:?}")
                    })?;
                    leaking
                        .into_iter()
                        .for_each(|l| *leaks.borrow_mut().entry(l).or_default() += 1);
                    *quiet.borrow_mut() += 1;
                }
                Outcome::Error(class) => {
                    // Memory that is no longer there was not written either.
                    let rest = fired.iter().all(|rule| {
                        rule == class.rule() || rule == Class::UninitialisedRead.rule()
                    });
                    ensure(fired.contains(class.rule()) && rest, || {
                        format!("{fired:?} fired before {class:?}")
                    })?;
                    *errors.borrow_mut().entry(class).or_default() += 1;
                    return Ok(());
                }
                Outcome::Done(_) => {
                    *done.borrow_mut() += 1;
                    return Ok(());
                }
                Outcome::Stuck(_) => {
                    *stuck.borrow_mut() += 1;
                    return Ok(());
                }
            }
        }
        Err(TestCaseError::fail("it does not end"))
    });
    let (errors, leaks) = (errors.into_inner(), leaks.into_inner());
    let (quiet, done, stuck) = (quiet.into_inner(), done.into_inner(), stuck.into_inner());
    let told = format!("{errors:?} {leaks:?}, {quiet} steps, {done} ended, {stuck} stuck");
    println!("{told}");
    // It says something of every class, and of programs without errors.
    assert!(
        Class::ALL.iter().all(|c| errors.get(c) >= Some(&20)),
        "{told}"
    );
    assert!(
        leaks.len() == 3 && leaks.values().all(|n| *n > 100),
        "{told}"
    );
    assert!(quiet > 50_000 && done > 1000 && stuck < 600, "{told}");
}

/// The shipped rules; or the one about transactions, for a function, as its file says it is to be used.
fn compiled(transaction: Option<&str>) -> Vec<Checked> {
    let mut out = Vec::new();
    for file in SHIPPED {
        let about = file.name == "transaction.rules";
        let text = match transaction {
            Some(name) if about => file
                .text
                .replace("ret transaction", &format!("ret {name}"))
                .replace("call, transaction", &format!("call, {name}")),
            None if !about => file.text.to_owned(),
            _ => continue,
        };
        let (rules, _) = compile(&text);
        out.extend(rules.rules);
    }
    assert!(!out.is_empty());
    out
}

/// The world as rules see it: what the trace told.
struct View {
    read: usize,
    heap: Heap,
    ids: BTreeMap<Bid, BlockId>,
    places: BTreeMap<Bid, u64>,
    /// Memory that was freed is handed out again, the last first.
    free: Vec<u64>,
    calls: Vec<CallEvent>,
    memory: BTreeMap<Pointer, calculus::Value>,
}

const ROOM: u64 = 0x1_0000;
const STACK: u64 = 0x7000_0000_0000;

impl View {
    fn new() -> View {
        View {
            read: 0,
            heap: Heap::new().expect("addresses"),
            ids: BTreeMap::new(),
            places: BTreeMap::new(),
            free: Vec::new(),
            calls: Vec::new(),
            memory: BTreeMap::new(),
        }
    }

    fn update(&mut self, state: &State) {
        for t in &state.trace[self.read..] {
            let step = t.time;
            match &t.event {
                Event::Malloc { size, bid } => {
                    let fresh = 0x1000_0000 + ROOM * self.places.len() as u64;
                    let begin = self.free.pop().unwrap_or(fresh);
                    self.places.insert(*bid, begin);
                    let id = self.heap.add(Block {
                        begin,
                        size: *size,
                        born: step,
                        made: step,
                        by: 0,
                        family: Family::Malloc,
                        freed: None,
                    });
                    self.ids.insert(*bid, id);
                }
                Event::Free { bid, .. } => {
                    let pointer = self.places[bid];
                    let by = 0;
                    self.heap.free(self.ids[bid], Freed { step, pointer, by });
                    self.free.push(pointer);
                }
                Event::Write { at, value, .. } => {
                    self.memory.insert(state.pointers[at], value.clone());
                }
                Event::Call(z, v) | Event::Ret(z, v) => {
                    let mut values = [0; 6];
                    if let Value::Number(n, _) = self.value(state, v) {
                        values[0] = n;
                    }
                    self.calls.push(CallEvent {
                        step,
                        function: z.clone(),
                        returned: matches!(t.event, Event::Ret(..)),
                        values,
                    });
                }
                Event::If(_) => {}
            }
        }
        self.read = state.trace.len();
    }

    fn value(&self, state: &State, v: &calculus::Value) -> Value {
        let Some(p) = state.pointer(v) else {
            return match v {
                calculus::Value::Number(n) => Value::Number(*n as u64, NONE),
                _ => Value::Number(0x40_0000, NONE),
            };
        };
        let n = u64::from(p.bid.number);
        let (begin, id) = match p.bid.region {
            Region::Heap => (self.places[&p.bid], self.ids[&p.bid]),
            Region::Stack => (STACK + ROOM * n, NONE),
            Region::Global => (0x60_0000 + ROOM * n, NONE),
        };
        Value::Number(begin.wrapping_add_signed(p.index), id)
    }

    /// The names of the rules that fire before a redex.
    fn fire(&self, rules: &[Checked], state: &State, point: &Point) -> BTreeSet<String> {
        let value = |v| self.value(state, v);
        let (points, argument, function): (&[&str], Value, &str) = match point {
            // free(NULL) is no free.
            Point::Free(calculus::Value::Number(0)) => return BTreeSet::new(),
            Point::Free(v) => (&["free"], value(v), ""),
            Point::Read(v) => (&["deref", "deref_r"], value(v), ""),
            Point::Write(v, _) => (&["deref", "deref_w"], value(v), ""),
            Point::Malloc(n) => (&["malloc"], Value::Number(*n as u64, NONE), ""),
            Point::Call(z, v) => (&["call"], value(v), z),
            Point::Ret(z, v) => (&["ret"], value(v), z),
        };
        let written = match point {
            Point::Read(v) => state
                .pointer(v)
                .is_some_and(|p| self.memory.contains_key(&p)),
            _ => true,
        };
        let found = Found(match point {
            Point::Ret(_, v) => self.found(state, v),
            _ => BTreeSet::new(),
        });
        let facts = Facts {
            heap: &self.heap,
            calls: &self.calls,
            step: state.time,
            releaser: "malloc",
            family: &|_| "malloc".to_owned(),
            on_stack: &|a| (STACK..2 * STACK).contains(&a),
            written: Some(written),
            contents: Some(&found),
        };
        let mut out = BTreeSet::new();
        let at = |r: &&Checked| {
            let named = r.function.as_ref().is_none_or(|p| p.matches(function));
            points.contains(&r.point.word()) && named
        };
        for rule in rules.iter().filter(at) {
            let mut bindings: Bindings = vec![None; rule.variables.len()];
            if let Some(Some(slot)) = rule.arguments.first() {
                bindings[slot.0 as usize] = Some(argument.clone());
            }
            if holds(rule, &mut bindings, &facts).expect("memory is at hand") {
                out.insert(rule.name.clone());
            }
        }
        out
    }

    /// Blocks that can be found from global variables and a value, by what the trace tells: until there are no more,
    /// take those that something found has a pointer into.
    fn found(&self, state: &State, returned: &calculus::Value) -> BTreeSet<BlockId> {
        let into = |v: &calculus::Value| {
            let p = state.pointer(v)?;
            let id = *self.ids.get(&p.bid)?;
            let block = self.heap.block(id);
            let inside = (0..=block.size as i64).contains(&p.index);
            (block.freed.is_none() && inside).then_some(id)
        };
        let mut found: BTreeSet<BlockId> = into(returned).into_iter().collect();
        loop {
            let roots = self.memory.iter().filter(|(p, _)| {
                let known = self.ids.get(&p.bid);
                p.bid.region == Region::Global || known.is_some_and(|id| found.contains(id))
            });
            let more: Vec<BlockId> = roots.filter_map(|(_, v)| into(v)).collect();
            let before = found.len();
            found.extend(more);
            if found.len() == before {
                return found;
            }
        }
    }
}

struct Found(BTreeSet<BlockId>);

impl Contents for Found {
    fn word(&self, _: u64) -> Option<u64> {
        None
    }

    fn pointed(&self, block: BlockId) -> bool {
        self.0.contains(&block)
    }
}
