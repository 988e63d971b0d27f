//! The heap over time: every allocation that there ever was.
//!
//! Blocks get a number each that never comes again, and stay in the table when they are freed. So the
//! table is also the trace of `malloc` and `free` events, and the heap H and the freed set F of any
//! earlier step can be had from it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use std::io;

use jit::BoundsTable;

use crate::mapped::Mapped;
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

    /// Blocks of an allocator that the user declared may be parts of a block of another: a pool is made by `malloc`. So
    /// each of them has a layer of its own, and an address may be the beginning of a block in several.
    fn layer(self) -> u16 {
        match self {
            Family::Declared(n) => n + 1,
            _ => 0,
        }
    }
}

/// Living blocks in the order of their addresses. It is seldom asked for, and blocks come and go often: it is brought up
/// to date when it is.
#[derive(Default)]
struct Ordered {
    /// By layer and address. Also some that were freed.
    blocks: BTreeMap<(u16, u64), BlockId>,
    /// Blocks from this one on have not been looked at.
    next: usize,
}

pub struct Heap {
    blocks: Vec<Block>,
    /// Where a pointer into each block may lead: nowhere for freed ones, anywhere for those that are none.
    bounds: BoundsTable,
    /// The latest of each layer at each address.
    latest: FxHashMap<(u16, u64), BlockId>,
    /// How many layers there are.
    layers: u16,
    ordered: RefCell<Ordered>,
    /// Blocks that were reallocated and stayed where they were, and what they are since.
    stayed: FxHashMap<BlockId, BlockId>,
    /// Variables that pointers lead into of which it is not known whether they mean them.
    presumed: FxHashSet<BlockId>,
    /// Memory that the system has given.
    mapped: Mapped,
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
            layers: 1,
            ordered: RefCell::default(),
            stayed: FxHashMap::default(),
            presumed: FxHashSet::default(),
            mapped: Mapped::default(),
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

    /// Whether so many bytes at an address are where a pointer into the block may lead.
    #[inline]
    pub fn allows(&self, id: BlockId, address: u64, len: u64) -> bool {
        let (begin, size) = self.bounds(id);
        let offset = address.wrapping_sub(begin);
        offset < size && size - offset >= len
    }

    /// Of all blocks, by number.
    pub fn all_bounds(&self) -> &BoundsTable {
        &self.bounds
    }

    /// Another program begins. Variables that were found in its files by now stay known.
    pub fn begin_anew(&mut self) {
        self.latest.clear();
        self.mapped = Mapped::default();
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

    /// Memory is mapped.
    pub(crate) fn map(&mut self, address: u64, len: u64, step: u64) {
        self.mapped.add(address, address.saturating_add(len), step);
    }

    /// Where the allocations were that are freed at a step, unless other memory is there since.
    pub fn freed_before(&self, step: u64) -> impl Iterator<Item = (u64, u64)> {
        let freed = self.all().filter_map(|(_, b)| Some((b, b.freed?.step)));
        let freed = freed.filter(move |(_, freed)| *freed < step);
        let freed = freed.map(|(b, freed)| ((b.begin, b.begin.saturating_add(b.size)), freed));
        freed
            .filter(move |(range, freed)| !self.mapped.is_between(*range, *freed, step))
            .map(|(range, _)| range)
    }

    /// All local variables that were met, those whose functions have returned too.
    pub fn locals(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        let list = self.blocks.iter().enumerate().skip(self.first);
        list.map(|(i, b)| (BlockId(i as u32), b))
            .filter(|(_, b)| b.family == Family::Local)
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

    /// A variable that a pointer leads into. Whether the pointer means it is not known before something is accessed
    /// through it: until then it may lead nowhere, so that no access is overlooked.
    pub fn presume_variable(&mut self, block: Block) -> BlockId {
        let id = BlockId(self.blocks.len() as u32);
        self.bounds.push(Bounds::NOWHERE);
        self.blocks.push(block);
        self.presumed.insert(id);
        id
    }

    /// It is not known yet whether pointers mean the block.
    pub fn is_presumed(&self, id: BlockId) -> bool {
        self.presumed.contains(&id)
    }

    /// Not one of those that pointers turned out not to mean.
    pub fn is_meant(&self, id: BlockId) -> bool {
        self.bounds[id.0 as usize] != Bounds::ANYWHERE
    }

    /// It is known from now on. If they do not, they may lead anywhere.
    pub fn settle(&mut self, id: BlockId, meant: bool) {
        self.presumed.remove(&id);
        let block = &self.blocks[id.0 as usize];
        let (begin, end) = (block.begin, block.begin.saturating_add(block.size));
        let bounds = match meant {
            true => Bounds { begin, end },
            false => Bounds::ANYWHERE,
        };
        self.bounds.set(id, bounds);
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
        let layer = block.family.layer();
        self.latest.insert((layer, block.begin), id);
        self.layers = self.layers.max(layer + 1);
        self.blocks.push(block);
        id
    }

    /// A block was reallocated, and is where it was.
    pub fn stay(&mut self, old: BlockId, new: BlockId) {
        self.stayed.insert(old, new);
    }

    /// What a block has become by being reallocated without being moved, one after the other.
    pub fn successors(&self, id: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        std::iter::successors(self.stayed.get(&id).copied(), |id| {
            self.stayed.get(id).copied()
        })
    }

    /// A living block turns out to be larger.
    pub fn widen(&mut self, id: BlockId, size: u64) {
        let block = &mut self.blocks[id.0 as usize];
        block.size = size;
        let (begin, end) = (block.begin, block.begin.saturating_add(size));
        self.bounds.set(id, Bounds { begin, end });
    }

    pub fn free(&mut self, id: BlockId, freed: Freed) {
        let block = &mut self.blocks[id.0 as usize];
        if block.freed.is_some() {
            return;
        }
        block.freed = Some(freed);
        self.bounds.set(id, Bounds::NOWHERE);
    }

    /// The live block that begins here: the one of the family, if there are several. Where an allocator that was declared
    /// had one of its own, that one is meant, also if it was freed, and not the pool that it was a part of.
    pub fn live_at(&self, address: u64, family: Family) -> Option<BlockId> {
        let own = family.layer();
        let latest = |layer: u16| self.latest.get(&(layer, address)).copied();
        let lives = |id: &BlockId| self.block(*id).freed.is_none();
        match latest(own) {
            Some(id) if own > 0 || lives(&id) => Some(id).filter(lives),
            _ => {
                let others = (0..self.layers).filter(|layer| *layer != own);
                others.filter_map(latest).find(lives)
            }
        }
    }

    /// Living blocks of declared allocators that share memory with this one: those of its own allocator, or if it is none
    /// of these, all.
    pub fn declared_inside(&self, id: BlockId) -> Vec<BlockId> {
        if self.layers == 1 {
            return Vec::new();
        }
        let of = self.block(id);
        let (begin, end) = (of.begin, of.begin.saturating_add(of.size));
        let ordered = &mut *self.ordered.borrow_mut();
        self.bring_up_to_date(ordered);
        let layers = match of.family.layer() {
            0 => 1..self.layers,
            own => own..own + 1,
        };
        let mut out = Vec::new();
        for layer in layers {
            // Blocks of one allocator do not overlap, so that one alone can begin before and end inside.
            let before = ordered.blocks.range((layer, 0)..(layer, begin)).next_back();
            let within = ordered.blocks.range((layer, begin)..(layer, end));
            let all = before.into_iter().chain(within).map(|(_, inner)| *inner);
            out.extend(all.filter(|inner| {
                let b = self.block(*inner);
                *inner != id && b.freed.is_none() && b.begin.saturating_add(b.size) > begin
            }));
        }
        out
    }

    /// The block that an address is in, or was in: the innermost.
    pub fn around(&self, address: u64) -> BlockId {
        let inside = |id: &BlockId| {
            let b = self.block(*id);
            address - b.begin < b.size.max(1)
        };
        let mut layers = (0..self.layers).rev();
        let mut living = layers.clone().filter_map(|l| self.live_before(address, l));
        if let Some(id) = living.find(inside) {
            return id;
        }
        let latest = layers.find_map(|layer| self.latest.get(&(layer, address)));
        latest.copied().unwrap_or(NONE)
    }

    /// The last living block of a layer that begins at an address or before it.
    fn live_before(&self, address: u64, layer: u16) -> Option<BlockId> {
        let ordered = &mut *self.ordered.borrow_mut();
        self.bring_up_to_date(ordered);
        let upto = (layer, 0)..=(layer, address);
        while let Some((key, id)) = ordered.blocks.range(upto.clone()).next_back() {
            let (key, id) = (*key, *id);
            if self.block(id).freed.is_none() {
                return Some(id);
            }
            ordered.blocks.remove(&key);
        }
        None
    }

    fn bring_up_to_date(&self, ordered: &mut Ordered) {
        let from = ordered.next.max(self.first);
        for (n, b) in self.blocks.iter().enumerate().skip(from) {
            if b.freed.is_none() && !b.family.is_variable() {
                let key = (b.family.layer(), b.begin);
                ordered.blocks.insert(key, BlockId(n as u32));
            }
        }
        ordered.next = self.blocks.len();
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
            let live = heap.live_at(begin, Family::Malloc);
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
            assert_eq!(heap.live_at(begin, Family::Malloc), found.map(|(id, _)| id));
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
