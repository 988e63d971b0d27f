//! The heap over time: every allocation that there ever was.
//!
//! Blocks get a number each that never comes again, and stay in the table when they are freed. So the
//! table is also the trace of `malloc` and `free` events, and the heap H and the freed set F of any
//! earlier step can be had from it.

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

pub struct Heap {
    blocks: Vec<Block>,
    /// Where a pointer into each block may lead: nowhere for freed ones, anywhere for those that are none.
    bounds: BoundsTable,
    live: BTreeMap<u64, BlockId>,
    /// The latest at each address.
    latest: FxHashMap<u64, BlockId>,
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
            live: BTreeMap::new(),
            latest: FxHashMap::default(),
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
        self.live.clear();
        self.latest.clear();
        self.first = self.blocks.len();
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
        self.live.values().copied()
    }

    pub fn add(&mut self, block: Block) -> BlockId {
        let id = BlockId(self.blocks.len() as u32);
        // A size of zero still takes a place of its own.
        self.bounds.push(Bounds {
            begin: block.begin,
            end: block.begin.saturating_add(block.size),
        });
        self.live.insert(block.begin, id);
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
        if self.live.get(&block.begin) == Some(&id) {
            self.live.remove(&block.begin);
        }
        self.bounds.set(id, Bounds::NOWHERE);
    }

    /// The live block that begins here.
    pub fn live_at(&self, address: u64) -> Option<BlockId> {
        self.live.get(&address).copied()
    }

    /// The block that an address is in, or was in.
    pub fn around(&self, address: u64) -> BlockId {
        if let Some((_, &id)) = self.live.range(..=address).next_back() {
            let b = self.block(id);
            if address - b.begin < b.size.max(1) {
                return id;
            }
        }
        self.latest.get(&address).copied().unwrap_or(NONE)
    }

    pub fn lives(&self, id: BlockId, step: u64) -> bool {
        let b = self.block(id);
        id > DIFFERENCE && b.born <= step && b.freed.is_none_or(|f| f.step >= step)
    }
}
