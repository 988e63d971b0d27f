//! Which replacements there are to try.
//!
//! At each execution of an instruction in a failing run, the values that it uses can be replaced
//! before it and those that it defines after it, by any set of values that the profile has for it;
//! a conditional branch can be made to go the other way, and a call whose result nobody takes can
//! be left out. That is the full search; what is found is then followed back (`back.rs`).
//!
//! *Spanning values* are the lossy reduction: of the alternatives to one value, only the smallest,
//! the largest, and the two nearest are tried, since where any helps one of these nearly always
//! does.
//!
//! Two replacements that lead to the same state are one trial: a value replaced after the
//! instruction that defines it is the same as replaced before the next one that uses it.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::Statement;
use crate::origin::Pointer;
use crate::profile::{Entry, Instance, Profile, Run, Values};
use crate::shape::{Location, Operand, Place, signed};

/// What is done to the guest at a boundary between two instructions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Change {
    Set(Vec<(Location, u64)>),
    /// The branch that is next goes the other way, or the call is left out, which leads here.
    Branch(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// What the instruction uses, before it.
    Before,
    /// What it defines, after it.
    After,
}

/// A replacement to be tried, and which executions of which statements it is evidence for.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Steps executed before the change.
    pub step: u64,
    pub change: Change,
    pub sources: Vec<Source>,
}

#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub statement: Statement,
    /// Index into the instances of the run.
    pub instance: u32,
    pub when: When,
}

/// An interesting value mapping pair: with other values at one execution of an instruction, the
/// output of a failing run is right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ivmp {
    pub statement: Statement,
    pub pc: u64,
    /// Which execution of the instruction, from 1.
    pub nth: u32,
    pub when: When,
    pub step: u64,
    pub change: Change,
    /// Of each changed location the value that it had, in the order of the change.
    pub original: Vec<u64>,
}

impl Ivmp {
    pub(crate) fn new(trial: &Trial, source: &Source, run: &Run, profile: &Profile) -> Ivmp {
        let instance = &run.instances[source.instance as usize];
        let shape = &profile.entries[instance.entry as usize].shape;
        let original = match &trial.change {
            Change::Branch(_) => Vec::new(),
            Change::Set(list) => {
                let side = match source.when {
                    When::Before => (&shape.uses, instance.used),
                    When::After => (&shape.defines, instance.defined.unwrap_or_default()),
                };
                let value = |l: &(Location, u64)| {
                    let at = |o: &Operand| o.location(instance.address) == l.0;
                    side.0.iter().position(at).map_or(0, |i| side.1[i])
                };
                list.iter().map(value).collect()
            }
        };
        Ivmp {
            statement: source.statement,
            pc: shape.pc,
            nth: instance.nth,
            when: source.when,
            step: trial.step,
            change: trial.change.clone(),
            original,
        }
    }
}

/// The alternatives of one side of an instruction, ready to be chosen from.
struct Side {
    pointers: Vec<bool>,
    all: Vec<Values>,
    /// For each operand, the different values in order, each with a set that has it.
    sorted: Vec<Vec<(i64, Values)>>,
}

impl Side {
    fn new(
        operands: &[Operand],
        pointers: &[Option<Pointer>],
        values: impl Iterator<Item = Values>,
    ) -> Side {
        let mut all: Vec<Values> = values.collect();
        all.sort_unstable();
        let sorted = operands
            .iter()
            .enumerate()
            .map(|(i, o)| {
                let size = o.place.size();
                let mut list: Vec<(i64, Values)> =
                    all.iter().map(|v| (signed(v[i], size), *v)).collect();
                list.sort_unstable();
                list.dedup_by_key(|v| v.0);
                list
            })
            .collect();
        Side {
            pointers: pointers[..operands.len()]
                .iter()
                .map(Option::is_some)
                .collect(),
            all,
            sorted,
        }
    }

    fn masked(&self, values: &Values) -> Values {
        let mut out = *values;
        for (v, p) in out.iter_mut().zip(&self.pointers) {
            if *p {
                *v = 0;
            }
        }
        out
    }

    fn alternatives(&self, operands: &[Operand], original: &Values, spanning: bool) -> Vec<Values> {
        let original = self.masked(original);
        if !spanning {
            return self
                .all
                .iter()
                .copied()
                .filter(|v| *v != original)
                .collect();
        }
        let mut out = Vec::new();
        for (i, o) in operands.iter().enumerate() {
            if self.pointers[i] {
                continue;
            }
            let list = &self.sorted[i];
            let value = signed(original[i], o.place.size());
            let below = list.partition_point(|v| v.0 < value);
            let above = list.partition_point(|v| v.0 <= value);
            // The nearest first: they are the likeliest.
            let nearest = [below.checked_sub(1), (above < list.len()).then_some(above)];
            let farthest = [
                (below > 0).then_some(0),
                (above < list.len()).then(|| list.len() - 1),
            ];
            for at in nearest.into_iter().chain(farthest).flatten() {
                if !out.contains(&list[at].1) {
                    out.push(list[at].1);
                }
            }
        }
        out
    }
}

/// The values of all instructions, prepared for choosing.
pub struct Alternatives {
    used: Vec<Side>,
    defined: Vec<Side>,
}

impl Alternatives {
    pub fn new(profile: &Profile) -> Alternatives {
        let used = |e: &Entry| Side::new(&e.shape.uses, &e.pointers_used, e.used.keys().copied());
        let defined = |e: &Entry| {
            Side::new(
                &e.shape.defines,
                &e.pointers_defined,
                e.defined.keys().copied(),
            )
        };
        Alternatives {
            used: profile.entries.iter().map(used).collect(),
            defined: profile.entries.iter().map(defined).collect(),
        }
    }

    /// How many replacements the full search would try in a run.
    pub fn full(&self, profile: &Profile, run: &Run) -> u64 {
        let of = |i: &Instance| {
            let e = i.entry as usize;
            let others = |n: usize| n.saturating_sub(1) as u64;
            let defined = if i.defined.is_some() {
                others(self.defined[e].all.len())
            } else {
                0
            };
            let detour = detour(&profile.entries[e], i).is_some();
            others(self.used[e].all.len()) + defined + u64::from(detour)
        };
        run.instances.iter().map(of).sum()
    }
}

/// Where else execution could go on. That a branch never went there in any test is no reason not to try.
fn detour(entry: &Entry, instance: &Instance) -> Option<u64> {
    let shape = &entry.shape;
    match (shape.branch, instance.taken) {
        (Some(_), Some(true)) => Some(shape.next),
        (Some(target), Some(false)) => Some(target),
        _ => entry.skippable.then_some(shape.next),
    }
}

/// The first, then up to the fourth, up to the sixteenth, and so on.
fn step_of(nth: u32) -> u32 {
    (u32::BITS - (nth - 1).leading_zeros()).div_ceil(2)
}

/// Values that some passing test has come so much later than those that none has.
const COMMON: u32 = 2;

/// Steps that are little.
const NEAR: u64 = 1_000_000;

/// In which round each instance of a run is looked at. Every statement is tried before many executions of one, branches
/// that went both ways before values, since each is one trial, and first what no passing test has: executions that differ from all of
/// those are the likely ones, wherever in the run they are. Statements that are favoured count as such. In a long run
/// what is far from the end comes later: an experiment takes the rest of the run, and most of a run is over before
/// anything is wrong.
pub fn rounds(profile: &Profile, run: &Run, favoured: &dyn Fn(u32) -> bool) -> Vec<u32> {
    let mut novel: FxHashMap<u32, u32> = FxHashMap::default();
    let end = run.instances.last().map_or(0, |i| i.step);
    let far = |i: &Instance| {
        step_of(u32::try_from((end - i.step.min(end)) / NEAR + 1).unwrap_or(u32::MAX))
    };
    let mut kind = |i: &Instance| {
        let entry = &profile.entries[i.entry as usize];
        let both_ways = entry.shape.branch.is_some() && entry.outcomes == [true, true];
        let values = u32::from(!both_ways && !entry.skippable);
        if favoured(i.entry) {
            return values + step_of(i.nth);
        }
        if profile.is_novel(i) {
            let nth = novel.entry(i.entry).or_default();
            *nth += 1;
            return values + step_of(*nth);
        }
        values * (1 + COMMON) + step_of(i.nth)
    };
    run.instances.iter().map(|i| kind(i) + far(i)).collect()
}

/// The trials of one round of one run, in the order of the run; `rounds` has the round of each instance.
pub fn trials(
    profile: &Profile,
    alternatives: &Alternatives,
    run: &Run,
    rounds: &[u32],
    round: u32,
    spanning: bool,
    statement: &dyn Fn(u32) -> Option<Statement>,
) -> Vec<Trial> {
    let mut out: Vec<Trial> = Vec::new();
    let mut known: FxHashMap<(u64, Change), usize> = FxHashMap::default();
    let mut add = |step: u64, change: Change, source: Source| {
        let key = (step, change.clone());
        if let Some(&at) = known.get(&key) {
            let trial: &mut Trial = &mut out[at];
            if !trial
                .sources
                .iter()
                .any(|s| s.statement == source.statement)
            {
                trial.sources.push(source);
            }
            return;
        }
        known.insert(key, out.len());
        out.push(Trial {
            step,
            change,
            sources: vec![source],
        });
    };
    for (n, instance) in run.instances.iter().enumerate() {
        if rounds[n] != round {
            continue;
        }
        let Some(statement) = statement(instance.entry) else {
            continue;
        };
        let e = instance.entry as usize;
        let entry = &profile.entries[e];
        let source = |when| Source {
            statement,
            instance: n as u32,
            when,
        };
        if let Some(other) = detour(entry, instance) {
            add(instance.step, Change::Branch(other), source(When::Before));
        }
        let mut side = |side: &Side, operands: &[Operand], original: &Values, when: When| {
            for values in side.alternatives(operands, original, spanning) {
                let list: Vec<(Location, u64)> = operands
                    .iter()
                    .enumerate()
                    .filter(|&(i, _)| !side.pointers[i] && values[i] != original[i])
                    .map(|(i, o)| (o.location(instance.address), values[i]))
                    .collect();
                if !list.is_empty() {
                    let step = instance.step + u64::from(when == When::After);
                    add(step, Change::Set(list), source(when));
                }
            }
        };
        let shape = &entry.shape;
        side(
            &alternatives.used[e],
            &shape.uses,
            &instance.used,
            When::Before,
        );
        if let Some(defined) = &instance.defined {
            side(
                &alternatives.defined[e],
                &shape.defines,
                defined,
                When::After,
            );
        }
    }
    // An execution that defines what the next one uses has added trials out of order.
    out.sort_by_key(|t| t.step);
    out
}

/// What a place is called in assembly.
pub fn register_name(number: u8, size: u8, high: bool) -> String {
    const WIDE: [&str; 16] = [
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15",
    ];
    let wide = WIDE[usize::from(number & 15)];
    let old = number < 8;
    let letter = &wide[1..];
    match (size, high) {
        (1, true) => format!("{}h", &wide[1..2]),
        (1, false) if old && number < 4 => format!("{}l", &wide[1..2]),
        (1, false) if old => format!("{letter}l"),
        (1, false) => format!("{wide}b"),
        (2, _) if old => letter.to_owned(),
        (2, _) => format!("{wide}w"),
        (4, _) if old => format!("e{letter}"),
        (4, _) => format!("{wide}d"),
        _ => wide.to_owned(),
    }
}

impl Place {
    pub fn is_memory(self) -> bool {
        matches!(self, Place::Memory { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps() {
        let steps: Vec<u32> = [1, 2, 4, 5, 16, 17, 64, 65].map(step_of).to_vec();
        assert_eq!(steps, [0, 1, 1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn names() {
        for (n, size, high, name) in [
            (0, 4, false, "eax"),
            (0, 1, false, "al"),
            (0, 1, true, "ah"),
            (7, 1, false, "dil"),
            (7, 2, false, "di"),
            (9, 4, false, "r9d"),
            (12, 8, false, "r12"),
        ] {
            assert_eq!(register_name(n, size, high), name);
        }
    }

    /// The example of the thesis: the original is 11, and of ten alternatives four span them.
    #[test]
    fn spanning() {
        let operand = Operand {
            place: Place::Register {
                number: 0,
                size: 4,
                high: false,
            },
            addresses: false,
        };
        let of = |n: u64| [n, 0, 0, 0];
        let values = [2, 4, 5, 9, 11, 12, 18, 22, 24, 34, 56].map(of);
        let side = Side::new(&[operand], &[None], values.into_iter());
        let mut got: Vec<u64> = side
            .alternatives(&[operand], &of(11), true)
            .iter()
            .map(|v| v[0])
            .collect();
        got.sort_unstable();
        assert_eq!(got, [2, 9, 12, 56]);
        assert_eq!(side.alternatives(&[operand], &of(11), false).len(), 10);
    }
}
