//! Soundness: the core calculus of the paper (Figs. 7 and 8) as an executable small-step machine, and the shipped
//! rules beside it. Whenever the machine is about to step into Error, the rule of that error fires, and no rule fires
//! otherwise.
//!
//! The machine knows blocks by their numbers and keeps their contents; it has never heard of rules. The rules see
//! only the trace of events and the pointer at hand.

use std::collections::{BTreeMap, BTreeSet};

use rules::eval::{Bindings, Facts, Value, holds};
use rules::heap::{Block, BlockId, Family, Freed, Heap, NONE};
use rules::term::Checked;
use rules::{SHIPPED, compile};

/// A redex, with variables for places.
#[derive(Clone, Copy, Debug)]
enum Redex {
    Malloc { to: usize, size: u64 },
    Free { pointer: usize },
    Read { pointer: usize },
    Assign { pointer: usize },
    Shift { to: usize, from: usize, by: i64 },
    Copy { to: usize, from: usize },
    Null { to: usize },
}

/// Values are pointers r -> (bid, i), or NULL.
type Pointer = Option<(u32, i64)>;

/// Why the machine cannot go on; the name is that of the rule that must see it.
type Error = &'static str;

#[derive(Default)]
struct Machine {
    /// H: contents, `false` for junk.
    heap: BTreeMap<u32, Vec<bool>>,
    /// F.
    freed: BTreeSet<u32>,
    pointers: [Pointer; VARIABLES],
    next: u32,
}

const VARIABLES: usize = 4;
/// Numbers of blocks begin where those of the rules' table do.
const FIRST: u32 = 2;

impl Machine {
    /// The error rules of Fig. 8: what the next step would be.
    fn error(&self, redex: Redex) -> Option<Error> {
        match redex {
            Redex::Free { pointer } => {
                let Some((bid, i)) = self.pointers[pointer] else {
                    // free(NULL) is no free.
                    return None;
                };
                if self.freed.contains(&bid) {
                    Some("double_free")
                } else if i != 0 {
                    Some("unmatched_free")
                } else {
                    None
                }
            }
            Redex::Read { pointer } | Redex::Assign { pointer } => {
                let Some((bid, i)) = self.pointers[pointer] else {
                    return Some("null_deref");
                };
                if self.freed.contains(&bid) {
                    return Some("dangling_deref");
                }
                let block = &self.heap[&bid];
                if i < 0 {
                    return Some("heap_underflow");
                }
                let reads = matches!(redex, Redex::Read { .. });
                match block.get(i as usize) {
                    None => Some("heap_overflow"),
                    Some(false) if reads => Some("uninitialised_read"),
                    Some(_) => None,
                }
            }
            _ => None,
        }
    }

    /// The reduction rules, for a redex without an error.
    fn step(&mut self, redex: Redex) {
        match redex {
            Redex::Malloc { to, size } => {
                let bid = FIRST + self.next;
                self.next += 1;
                self.heap.insert(bid, vec![false; size as usize]);
                self.pointers[to] = Some((bid, 0));
            }
            Redex::Free { pointer } => {
                if let Some((bid, _)) = self.pointers[pointer] {
                    self.heap.remove(&bid);
                    self.freed.insert(bid);
                }
            }
            Redex::Assign { pointer } => {
                let (bid, i) = self.pointers[pointer].expect("no error");
                self.heap.get_mut(&bid).expect("no error")[i as usize] = true;
            }
            Redex::Shift { to, from, by } => {
                self.pointers[to] = self.pointers[from].map(|(bid, i)| (bid, i + by));
            }
            Redex::Copy { to, from } => self.pointers[to] = self.pointers[from],
            Redex::Null { to } => self.pointers[to] = None,
            Redex::Read { .. } => {}
        }
        // Definition 3.1 and Lemma 3.2: no block lives and is freed.
        assert!(self.heap.keys().all(|b| !self.freed.contains(b)));
    }
}

/// The names of the rules that fire before a redex.
fn fire(rules: &[Checked], heap: &Heap, machine: &Machine, redex: Redex, step: u64) -> Vec<String> {
    let (points, variable): (&[&str], usize) = match redex {
        Redex::Free { pointer } if machine.pointers[pointer].is_some() => (&["free"], pointer),
        Redex::Read { pointer } => (&["deref", "deref_r"], pointer),
        Redex::Assign { pointer } => (&["deref", "deref_w"], pointer),
        _ => return Vec::new(),
    };
    let (value, written) = match machine.pointers[variable] {
        None => (Value::Number(0, NONE), true),
        Some((bid, i)) => {
            let id = BlockId(bid);
            let at = heap.block(id).begin.wrapping_add_signed(i);
            let known = machine
                .heap
                .get(&bid)
                .and_then(|b| b.get(usize::try_from(i).ok()?));
            (Value::Number(at, id), known.copied().unwrap_or(true))
        }
    };
    let family = |_: BlockId| "malloc".to_owned();
    let facts = Facts {
        heap,
        calls: &[],
        step,
        releaser: "malloc",
        family: &family,
        on_stack: &|_| false,
        written: Some(written),
        contents: None,
    };
    let mut out = Vec::new();
    for rule in rules.iter().filter(|r| points.contains(&r.point.word())) {
        let mut bindings: Bindings = vec![None; rule.variables.len()];
        if let Some(Some(slot)) = rule.arguments.first() {
            bindings[slot.0 as usize] = Some(value.clone());
        }
        if holds(rule, &mut bindings, &facts).expect("nothing needs memory") {
            out.push(rule.name.clone());
        }
    }
    out
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

fn redex(r: &mut Random) -> Redex {
    let to = r.below(VARIABLES as u64) as usize;
    let from = r.below(VARIABLES as u64) as usize;
    match r.below(20) {
        0..4 => Redex::Malloc {
            to,
            size: 1 + r.below(3),
        },
        4..6 => Redex::Free { pointer: from },
        6..10 => Redex::Read { pointer: from },
        10..15 => Redex::Assign { pointer: from },
        15..17 => Redex::Shift {
            to,
            from,
            by: r.below(5) as i64 - 2,
        },
        17..19 => Redex::Copy { to, from },
        _ => Redex::Null { to },
    }
}

#[test]
fn detectors_fire_exactly_before_errors() {
    let rules: Vec<Checked> = SHIPPED
        .iter()
        .filter(|f| f.usual)
        .flat_map(|f| compile(f.text).0.rules)
        .collect();
    let mut r = Random(7);
    let mut errors: BTreeMap<Error, u32> = BTreeMap::new();
    let mut quiet = 0;
    for _ in 0..10_000 {
        let mut machine = Machine::default();
        let mut heap = Heap::default();
        for step in 1..60 {
            let next = redex(&mut r);
            let fired = fire(&rules, &heap, &machine, next, step);
            match machine.error(next) {
                Some(error) => {
                    assert_eq!(fired, [error], "{next:?}");
                    *errors.entry(error).or_default() += 1;
                    break;
                }
                None => assert!(fired.is_empty(), "{next:?}: {fired:?}"),
            }
            quiet += 1;
            if let Redex::Malloc { size, .. } = next {
                let begin = 0x10_0000 * (u64::from(machine.next) + 1);
                let family = Family::Malloc;
                heap.add(Block {
                    begin,
                    size,
                    born: step,
                    made: step,
                    by: 0,
                    family,
                    freed: None,
                });
            }
            if let Redex::Free { pointer } = next
                && let Some((bid, _)) = machine.pointers[pointer]
            {
                let pointer = heap.block(BlockId(bid)).begin;
                heap.free(
                    BlockId(bid),
                    Freed {
                        step,
                        pointer,
                        by: 0,
                    },
                );
            }
            machine.step(next);
        }
    }
    assert!(quiet > 5000, "{quiet}");
    assert_eq!(errors.len(), 7, "each error was met: {errors:?}");
    assert!(errors.values().all(|n| *n > 10), "{errors:?}");
}
