//! The heap over time: every allocation that there ever was.
//!
//! Blocks get a number each that never comes again, and stay in the table when they are freed. So the
//! table is also the trace of `malloc` and `free` events, and the heap H and the freed set F of any
//! earlier step can be had from it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use std::io;

use jit::BoundsTable;
pub use jit::{BlockId, Bounds, DIFFERENCE, NONE};

#[derive(Clone, Debug)]
pub struct Block {
    pub begin: u64,
    pub size: u64,
    /// The step at which the function that made it was entered.
    pub born: u64,
    /// The step of its return.
    pub made: u64,
    /// The function that made it, as an index in the table of functions; of a variable, its name in that of
    /// variables.
    pub by: u16,
    pub family: Family,
    pub freed: Option<Freed>,
}

#[derive(Clone, Copy, Debug)]
pub struct Freed {
    /// The step at which the function that freed it was entered.
    pub step: u64,
    pub pointer: u64,
    pub by: u16,
}

/// Functions that belong together: what one allocates another frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    Malloc,
    New,
    NewArray,
    /// The n-th pair that the user declared.
    Declared(u16),
    /// Not allocated at all: variables.
    Global,
    Local,
}

impl Family {
    pub fn word(self) -> String {
        match self {
            Family::Malloc => "malloc".to_owned(),
            Family::New => "new".to_owned(),
            Family::NewArray => "new[]".to_owned(),
            Family::Declared(n) => format!("declared {n}"),
            Family::Global => "global".to_owned(),
            Family::Local => "local".to_owned(),
        }
    }

    pub fn is_variable(self) -> bool {
        matches!(self, Family::Global | Family::Local)
    }
}

/// Living blocks in the order of their addresses. It is seldom asked for, and blocks come and go often: it is brought up
/// to date when it is.
#[derive(Default)]
struct Ordered {
    /// Also some that were freed.
    blocks: BTreeMap<u64, BlockId>,
    /// Blocks from this one on have not been looked at.
    next: usize,
}

pub struct Heap {
    blocks: Vec<Block>,
    /// Where a pointer into each block may lead: nowhere for freed ones, anywhere for those that are none.
    bounds: BoundsTable,
    /// The latest at each address.
    latest: FxHashMap<u64, BlockId>,
    ordered: RefCell<Ordered>,
    /// Those before this one were made by a program that is over.
    first: usize,
}

impl Heap {
    /// Fails if the system does not set addresses aside for the bounds of all blocks that there can be.
    pub fn new() -> io::Result<Heap> {
        let mut bounds = BoundsTable::new()?;
        bounds.push(Bounds::ANYWHERE);
        bounds.push(Bounds::ANYWHERE);
        let none = Block {
            begin: 0,
            size: 0,
            born: 0,
            made: 0,
            by: 0,
            family: Family::Malloc,
            freed: None,
        };
        Ok(Heap {
            blocks: vec![none.clone(), none],
            bounds,
            latest: FxHashMap::default(),
            ordered: RefCell::default(),
            first: DIFFERENCE.0 as usize + 1,
        })
    }

    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    #[inline]
    pub fn bounds(&self, id: BlockId) -> (u64, u64) {
        let Bounds { begin, end } = self.bounds[id.0 as usize];
        (begin, end - begin)
    }

    /// Of all blocks, by number.
    pub fn all_bounds(&self) -> &BoundsTable {
        &self.bounds
    }

    /// Another program begins. Variables that were found in its files by now stay known.
    pub fn begin_anew(&mut self) {
        self.latest.clear();
        self.first = self.blocks.len();
        *self.ordered.get_mut() = Ordered {
            next: self.first,
            ..Ordered::default()
        };
    }

    /// All allocations, in the order in which they were made.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = (BlockId, &Block)> {
        let list = self.blocks.iter().enumerate().skip(self.first);
        list.map(|(i, b)| (BlockId(i as u32), b))
            .filter(|(_, b)| !b.family.is_variable())
    }

    /// A variable: pointers to it are followed like those to allocations, but it is in neither H nor F.
    /// `before` bytes in front of it may be meant too.
    pub fn add_variable(&mut self, block: Block, before: u64) -> BlockId {
        let id = BlockId(self.blocks.len() as u32);
        self.bounds.push(Bounds {
            begin: block.begin.saturating_sub(before),
            end: block.begin.saturating_add(block.size),
        });
        self.blocks.push(block);
        id
    }

    pub fn live(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.all()
            .filter(|(_, b)| b.freed.is_none())
            .map(|(id, _)| id)
    }

    pub fn add(&mut self, block: Block) -> BlockId {
        let id = BlockId(self.blocks.len() as u32);
        // A size of zero still takes a place of its own.
        self.bounds.push(Bounds {
            begin: block.begin,
            end: block.begin.saturating_add(block.size),
        });
        self.latest.insert(block.begin, id);
        self.blocks.push(block);
        id
    }

    pub fn free(&mut self, id: BlockId, freed: Freed) {
        let block = &mut self.blocks[id.0 as usize];
        if block.freed.is_some() {
            return;
        }
        block.freed = Some(freed);
        self.bounds.set(id, Bounds::NOWHERE);
    }

    /// The live block that begins here.
    pub fn live_at(&self, address: u64) -> Option<BlockId> {
        let latest = self.latest.get(&address).copied();
        latest.filter(|id| self.block(*id).freed.is_none())
    }

    /// The block that an address is in, or was in.
    pub fn around(&self, address: u64) -> BlockId {
        if let Some(id) = self.live_before(address) {
            let b = self.block(id);
            if address - b.begin < b.size.max(1) {
                return id;
            }
        }
        self.latest.get(&address).copied().unwrap_or(NONE)
    }

    /// The last living block that begins at an address or before it.
    fn live_before(&self, address: u64) -> Option<BlockId> {
        let ordered = &mut *self.ordered.borrow_mut();
        let from = ordered.next.max(self.first);
        for (n, b) in self.blocks.iter().enumerate().skip(from) {
            if b.freed.is_none() && !b.family.is_variable() {
                ordered.blocks.insert(b.begin, BlockId(n as u32));
            }
        }
        ordered.next = self.blocks.len();
        while let Some((begin, id)) = ordered.blocks.range(..=address).next_back() {
            let (begin, id) = (*begin, *id);
            if self.block(id).freed.is_none() {
                return Some(id);
            }
            ordered.blocks.remove(&begin);
        }
        None
    }

    pub fn lives(&self, id: BlockId, step: u64) -> bool {
        let b = self.block(id);
        id > DIFFERENCE && b.born <= step && b.freed.is_none_or(|f| f.step >= step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_as_if_all_were_looked_at() {
        let mut heap = Heap::new().expect("addresses");
        let mut state = 5u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..20_000 {
            let begin = 4096 + 32 * random(64);
            let live = heap.live_at(begin);
            match (random(3), live) {
                (0, None) => {
                    heap.add(Block {
                        begin,
                        size: random(33),
                        born: step,
                        made: step,
                        by: 0,
                        family: Family::Malloc,
                        freed: None,
                    });
                }
                (1, Some(id)) => heap.free(
                    id,
                    Freed {
                        step,
                        pointer: begin,
                        by: 0,
                    },
                ),
                _ => {}
            }
            let lives = |b: &Block| b.freed.is_none();
            let here = |b: &Block| b.begin == begin;
            let found = heap.all().find(|(_, b)| lives(b) && here(b));
            assert_eq!(heap.live_at(begin), found.map(|(id, _)| id));
            if random(4) > 0 {
                continue;
            }
            let at = begin + random(32);
            let inside = |b: &Block| at.wrapping_sub(b.begin) < b.size.max(1);
            let around = heap.all().find(|(_, b)| lives(b) && inside(b));
            let last = || heap.all().rfind(|(_, b)| b.begin == at);
            let expected = around.or_else(last).map_or(NONE, |(id, _)| id);
            assert_eq!(heap.around(at), expected, "{at} at {step}");
        }
    }
}
