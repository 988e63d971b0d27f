//! What a slice is asked about, and what it consists of.

use image::effects::RegRange;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::roll::Roll;
use crate::slice::Slicer;
use crate::wanted::{Everybody, WhoId, Why};

/// Why one instruction depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Register(RegRange),
    Memory {
        addr: u64,
        len: u64,
    },
    Control,
    /// Had it gone otherwise, this memory might have been written.
    Omitted {
        addr: u64,
        len: u64,
    },
}

/// An executed instruction of the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Node {
    pub step: u64,
    pub pc: u64,
}

/// Stands for all code that is not the user's and was not called by it.
pub const OUTSIDE: Node = Node { step: 0, pc: 0 };

/// `from` depends on `to`, which was executed earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    pub from: Node,
    pub to: Node,
    pub kind: Kind,
}

/// Takes the dependences of a slice.
pub trait Edges {
    /// Whether it is told of each. Else executions of an instruction that depend on the same one
    /// instruction's execution, for the same reason, are told as one: the latest, and how many.
    const EACH: bool;

    /// `key` is the same for dependences between the same instructions for the same reason.
    fn add(&mut self, key: u64, edge: Edge, times: u64);

    /// [`Slicer::walk`], compiled where these are known.
    fn walk(slicer: &mut Slicer<'_, Self>, roll: &Roll, go_on: &dyn Fn(u64) -> bool)
    where
        Self: Sized,
    {
        slicer.go_back(roll, go_on);
    }

    /// Where dependences can be added by the number of their key, if that is how they are kept.
    fn merged(&mut self) -> Option<&mut Merged> {
        None
    }
}

impl Edges for Vec<Edge> {
    const EACH: bool = true;

    fn add(&mut self, _: u64, edge: Edge, _: u64) {
        self.push(edge);
    }
}

/// Dependences by the instructions between which they are.
#[derive(Default)]
pub struct Merged {
    numbers: FxHashMap<u64, u32>,
    tallies: Vec<Tally>,
    /// By number, the latest.
    edges: Vec<Edge>,
}

/// How often there is a dependence.
#[derive(Clone, Copy)]
struct Tally {
    times: u64,
    /// The ends of the latest; of those that begin there, the one that ends latest.
    latest: (u64, u64),
    /// The one that was found last, which may come again for other bytes.
    last: (u64, u64),
}

/// Dependences between two instructions for one reason.
#[derive(Clone, Copy, Debug)]
pub struct Joined {
    /// The latest.
    pub edge: Edge,
    pub times: u64,
}

impl Merged {
    pub fn iter(&self) -> impl Iterator<Item = Joined> {
        let all = self.tallies.iter().zip(&self.edges);
        all.filter(|(t, _)| t.times > 0).map(|(t, edge)| Joined {
            edge: *edge,
            times: t.times,
        })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.tallies.iter().map(|t| t.times).sum()
    }

    /// The number of a key.
    pub(crate) fn number(&mut self, key: u64) -> u32 {
        *self.numbers.entry(key).or_insert_with(|| {
            self.tallies.push(Tally {
                times: 0,
                latest: (0, 0),
                last: (u64::MAX, u64::MAX),
            });
            self.edges.push(Edge {
                from: OUTSIDE,
                to: OUTSIDE,
                kind: Kind::Control,
            });
            self.edges.len() as u32 - 1
        })
    }

    /// Adds a dependence by the number of its key; `edge` says which it is in full.
    #[inline]
    pub(crate) fn add_one(
        &mut self,
        number: u32,
        (from, to): (u64, u64),
        times: u64,
        edge: impl FnOnce() -> Edge,
    ) {
        let tally = &mut self.tallies[number as usize];
        if tally.last == (from, to) {
            return;
        }
        tally.last = (from, to);
        if tally.times == 0 || (from, to) > tally.latest {
            tally.latest = (from, to);
            self.edges[number as usize] = edge();
        }
        tally.times += times;
    }

    /// Whether a dependence between these would be the latest.
    pub(crate) fn is_later(&self, number: u32, ends: (u64, u64)) -> bool {
        let tally = &self.tallies[number as usize];
        tally.times == 0 || ends > tally.latest
    }

    /// Dependences of groups become those of their members.
    pub(crate) fn split(&mut self, everybody: &Everybody) {
        let numbers = self.numbers.iter();
        let all: Vec<(u64, u32)> = numbers.map(|(key, number)| (*key, *number)).collect();
        for (key, number) in all {
            let Some(members) = everybody.members((key >> 32) as WhoId) else {
                continue;
            };
            let tally = &mut self.tallies[number as usize];
            let times = std::mem::take(&mut tally.times);
            let Edge { from, to, kind } = self.edges[number as usize];
            for &(i, who) in members.iter().filter(|_| times > 0) {
                let number = self.number(u64::from(who) << 32 | key & 0xffff_ffff);
                let from = Node {
                    step: from.step + u64::from(i),
                    pc: everybody.get(who).pc,
                };
                let kind = match everybody.get(who).why {
                    Why::Register(r) => Kind::Register(r),
                    Why::Memory | Why::Control => kind,
                };
                let ends = (from.step, to.step);
                self.tallies[number as usize].last = (u64::MAX, u64::MAX);
                self.add_one(number, ends, times, || Edge { from, to, kind });
            }
        }
    }

    /// The same dependence again so many times, earlier.
    pub(crate) fn again(&mut self, number: u32, times: u64) {
        if times > 0 {
            self.tallies[number as usize].times += times;
        }
    }
}

impl Edges for Merged {
    const EACH: bool = false;

    fn add(&mut self, key: u64, edge: Edge, times: u64) {
        let number = self.number(key);
        let ends = (edge.from.step, edge.to.step);
        self.add_one(number, ends, times, || edge);
    }

    fn walk(slicer: &mut Slicer<'_, Self>, roll: &Roll, go_on: &dyn Fn(u64) -> bool) {
        slicer.go_back(roll, go_on);
    }

    fn merged(&mut self) -> Option<&mut Merged> {
        Some(self)
    }
}

/// A variable that was perhaps not written because of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Omission {
    /// It is a local variable: `at` is its distance from where rbp points.
    pub local: bool,
    pub at: u64,
    pub len: u64,
}

/// What decides whether an instruction is executed: facts about the program's code.
pub trait Controls {
    /// The branches (their addresses) on which the instruction at `pc` is directly dependent.
    fn controllers(&mut self, pc: u64) -> Vec<u64>;

    /// Variables that might have been written if the branch at `pc` had gone otherwise.
    fn omitted(&mut self, pc: u64) -> Vec<Omission>;

    /// The instruction is the user's own; others are shown as the call that led to them.
    fn shown(&mut self, pc: u64) -> bool;
}

/// What a slice is asked about, at a step: before the instruction that is next there.
#[derive(Clone, Debug, Default)]
pub struct Criterion {
    pub step: u64,
    /// Where that is.
    pub pc: u64,
    pub thread: u32,
    pub registers: Vec<RegRange>,
    pub memory: Vec<(u64, u64)>,
    /// The instructions executed at these steps, in ascending order, belong to the slice with all that
    /// they use.
    pub roots: Vec<u64>,
    /// Why was this place reached?
    pub control: bool,
}

/// What is left out of a slice.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub data_only: bool,
    /// Branches belong to it that might have led to a write of what was used.
    pub relevant: bool,
    /// Dependences through these are not followed.
    pub pruned_registers: Vec<RegRange>,
    pub pruned_memory: Vec<(u64, u64)>,
    /// Only what was executed between these steps is looked at.
    pub window: Option<(u64, u64)>,
    /// The walk goes by links from the beginning, also where little has to do with the slice. That takes longer and
    /// finds the same.
    pub eager: bool,
}

/// How often an instruction is in the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub count: u64,
    pub first: u64,
    pub last: u64,
}
