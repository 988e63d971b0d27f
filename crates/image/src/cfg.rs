//! The control flow of a function, from the code that is there.
//!
//! What decides whether a statement runs? To say so one needs all ways through its function:
//! those not taken as well. They are found by decoding from the function's entry and following
//! every branch. What the code does not say outright is worked out or looked up:
//!
//! * `switch` jumps through a table: `tables.rs` finds table and bounds from the instructions
//!   before the jump;
//! * calls that do not come back (`exit`, `abort`, `__assert_fail`, those that the debug
//!   information calls so) end a path;
//! * a jump out of the function is a tail call, unless it leads to the function's own cold part;
//! * an exception continues at a landing pad of the function: `landing.rs` reads where.
//!
//! An indirect jump that remains unresolved leads to the exit, and to where it has been seen
//! going: [`Graphs::observe`].
//!
//! [`Graph`] answers for one function, [`Graphs`] finds and keeps them. The parts of the question
//! that are about graphs and nothing else are in [`dominance`].

pub mod dominance;
mod explore;
mod landing;
mod noreturn;
mod tables;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::program::{Memory, Program};
use dominance::PostDominators;

/// A stretch of instructions that are executed one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub start: u64,
    /// Past its last byte.
    pub end: u64,
    /// Its last instruction.
    pub last: u64,
    /// Blocks that follow, by number. Nothing for the ways out of the function.
    pub successors: Vec<usize>,
    /// Blocks where an exception thrown by its last instruction, a call, continues.
    pub landing_pads: Vec<usize>,
    pub leaves: Leaves,
}

/// How a block ends the function, besides its successors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaves {
    /// It does not.
    #[default]
    No,
    Return,
    /// A jump to another function.
    TailCall,
    /// A call or instruction after which nothing comes.
    Never,
    /// An indirect jump to places unknown.
    Unknown,
}

/// One function.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Where calls arrive; the address of the first block.
    pub entry: u64,
    pub blocks: Vec<Block>,
    by_address: BTreeMap<u64, usize>,
    dominators: PostDominators,
    controllers: Vec<Vec<u64>>,
}

/// What decides over an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlFacts {
    /// Where calls of the function arrive.
    pub function: u64,
    /// The branches, by address, that the instruction directly depends on. A call is among them
    /// if the instruction runs because the call threw an exception. None: it runs whenever the
    /// function does.
    pub controllers: Vec<u64>,
}

impl Graph {
    fn new(entry: u64, blocks: Vec<Block>) -> Graph {
        // Exceptions are rare: code after a call is not said to depend on it.
        let successors: Vec<Vec<usize>> = blocks
            .iter()
            .map(|b| {
                let mut list = b.successors.clone();
                if b.leaves != Leaves::No && !list.is_empty() {
                    list.push(usize::MAX);
                }
                list
            })
            .collect();
        let dominators = PostDominators::of(&successors);
        let mut controllers = vec![BTreeSet::new(); blocks.len()];
        for (from, block) in blocks.iter().enumerate() {
            if successors[from].len() > 1 {
                for to in &block.successors {
                    for node in dominators.decided(from, *to) {
                        controllers[node].insert(block.last);
                    }
                }
            }
            for pad in &block.landing_pads {
                for node in dominators.decided(from, *pad) {
                    controllers[node].insert(block.last);
                }
            }
        }
        Graph {
            entry,
            by_address: blocks
                .iter()
                .enumerate()
                .map(|(n, b)| (b.start, n))
                .collect(),
            blocks,
            dominators,
            controllers: controllers.into_iter().map(Vec::from_iter).collect(),
        }
    }

    /// The block that an instruction is in.
    pub fn block_at(&self, pc: u64) -> Option<usize> {
        let (_, number) = self.by_address.range(..=pc).next_back()?;
        (pc < self.blocks[*number].end).then_some(*number)
    }

    /// The branches that an instruction directly depends on.
    pub fn controllers(&self, pc: u64) -> &[u64] {
        match self.block_at(pc) {
            Some(block) => &self.controllers[block],
            None => &[],
        }
    }

    /// Whether an instruction has several ways to go on in this function, exceptions aside.
    pub fn is_branch(&self, pc: u64) -> bool {
        self.block_at(pc).is_some_and(|n| {
            let block = &self.blocks[n];
            let ways = block.successors.len() + usize::from(block.leaves != Leaves::No);
            block.last == pc && ways > 1
        })
    }

    /// Where all ways from an instruction meet again: the first instruction of its block's
    /// nearest post-dominator. `None`: only outside the function.
    pub fn meets_at(&self, pc: u64) -> Option<u64> {
        let nearest = self.dominators.nearest(self.block_at(pc)?)?;
        Some(self.blocks[nearest].start)
    }
}

/// The graphs of a program, made when first asked for.
#[derive(Default)]
pub struct Graphs {
    /// By entry.
    graphs: HashMap<u64, Arc<Graph>>,
    /// Which function an address was found in.
    entries: HashMap<u64, Option<u64>>,
    /// Where indirect jumps were seen going.
    observed: BTreeMap<u64, BTreeSet<u64>>,
    noreturn: noreturn::Cache,
}

impl Graphs {
    pub fn new() -> Graphs {
        Graphs::default()
    }

    /// The function around an address.
    pub fn graph(&mut self, program: &Program, memory: &dyn Memory, pc: u64) -> Option<Arc<Graph>> {
        if let Some(known) = self.entries.get(&pc) {
            return known.and_then(|entry| self.graphs.get(&entry).cloned());
        }
        let found = self.find(program, memory, pc);
        self.entries.insert(pc, found.as_ref().map(|g| g.entry));
        found
    }

    fn find(&mut self, program: &Program, memory: &dyn Memory, pc: u64) -> Option<Arc<Graph>> {
        let extent = explore::extent(program, pc)?;
        if let Some(graph) = self.graphs.get(&extent.entry)
            && graph.block_at(pc).is_some()
        {
            return Some(graph.clone());
        }
        let mut graph = self.explore(program, memory, &extent);
        if graph.block_at(pc).is_none() {
            // Code that nothing seems to lead to was reached all the same.
            let mut extent = extent;
            extent.also.push(pc);
            graph = self.explore(program, memory, &extent);
        }
        let graph = Arc::new(graph);
        self.graphs.insert(graph.entry, graph.clone());
        Some(graph)
    }

    fn explore(
        &mut self,
        program: &Program,
        memory: &dyn Memory,
        extent: &explore::Extent,
    ) -> Graph {
        let blocks = explore::blocks(program, memory, extent, &self.observed, &mut self.noreturn);
        Graph::new(extent.entry, blocks)
    }

    /// What decides over an instruction.
    pub fn control(
        &mut self,
        program: &Program,
        memory: &dyn Memory,
        pc: u64,
    ) -> Option<ControlFacts> {
        let graph = self.graph(program, memory, pc)?;
        Some(ControlFacts {
            function: graph.entry,
            controllers: graph.controllers(pc).to_vec(),
        })
    }

    /// Notes that the indirect jump at `from` was seen going to `to`. What was said of its
    /// function before may change. Says whether this is news.
    pub fn observe(&mut self, from: u64, to: u64) -> bool {
        let graph = self.graphs.values().find(|g| g.block_at(from).is_some());
        if let Some(graph) = graph
            && let Some(block) = graph.block_at(from)
        {
            let block = &graph.blocks[block];
            let starts = |n: &usize| graph.blocks[*n].start == to;
            if block.last == from && block.successors.iter().any(starts) {
                return false;
            }
        }
        let stale = graph.map(|g| g.entry);
        if !self.observed.entry(from).or_default().insert(to) {
            return false;
        }
        if let Some(entry) = stale {
            self.graphs.remove(&entry);
        }
        self.entries.retain(|_, e| e.is_some() && *e != stale);
        true
    }

    /// Forgets everything that was read: the code has changed. Observations stay.
    pub fn clear(&mut self) {
        self.graphs.clear();
        self.entries.clear();
        self.noreturn = noreturn::Cache::default();
    }
}
