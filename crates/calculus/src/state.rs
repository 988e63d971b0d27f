//! Fig. 8, top: what a state is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::syntax::{Definition, Expr, Program, Span, Value};

/// Where a block lies. The figure has H and S; global variables are in a frame below all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {
    Heap,
    Stack,
    Global,
}

/// A block id, such as 1_H. A number never comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bid {
    pub region: Region,
    pub number: u32,
}

impl fmt::Display for Bid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let region = match self.region {
            Region::Heap => "H",
            Region::Stack => "S",
            Region::Global => "G",
        };
        write!(f, "{}_{region}", self.number)
    }
}

/// A location r: a key of the pointer map P.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ref(pub u32);

impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// What a location means: r -> (bid, i).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pointer {
    pub bid: Bid,
    pub index: i64,
}

/// A unit of memory; `None` is junk.
pub type Cell = Option<Value>;

/// (b, n, k): contents, of which there are n, and the time of its making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub contents: Vec<Cell>,
    pub time: u64,
}

impl Block {
    pub(crate) fn junk(size: usize, time: u64) -> Block {
        Block {
            contents: vec![None; size],
            time,
        }
    }

    /// The unit at an index, if there is one.
    pub fn at(&self, index: i64) -> Option<&Cell> {
        self.contents.get(usize::try_from(index).ok()?)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub blocks: BTreeMap<Bid, Block>,
}

/// f: where the last value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Generated,
    Symbol(String),
    Location(Ref),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Write {
        at: Ref,
        value: Value,
        origin: Origin,
    },
    /// The guard of an `if0`.
    If(i64),
    Malloc {
        size: u64,
        bid: Bid,
    },
    Free {
        at: Ref,
        bid: Bid,
    },
    Call(String, Value),
    Ret(String, Value),
}

/// (k, ev), and the place in the program that did it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    pub time: u64,
    pub event: Event,
    pub span: Span,
}

/// A legal state: <H; F; S; P; k; sigma; f; e>.
#[derive(Clone, Debug)]
pub struct State {
    pub heap: BTreeMap<Bid, Block>,
    /// F. The figure's tag, h or s, is the region of the block.
    pub freed: BTreeSet<Bid>,
    /// The first frame has the global variables, the second is main's.
    pub stack: Vec<Frame>,
    pub pointers: BTreeMap<Ref, Pointer>,
    pub time: u64,
    pub trace: Vec<Timed>,
    pub origin: Origin,
    pub expr: Expr,
    /// What is made only once: the locations of global variables, and the functions.
    pub(crate) globals: BTreeMap<String, Ref>,
    pub(crate) functions: BTreeMap<String, (String, Expr)>,
    pub(crate) blocks_made: u32,
}

impl State {
    /// The state in which a program begins. Initial values of global variables count as written.
    pub fn new(program: &Program) -> State {
        let mut state = State {
            heap: BTreeMap::new(),
            freed: BTreeSet::new(),
            stack: vec![Frame::default()],
            pointers: BTreeMap::new(),
            time: 0,
            trace: Vec::new(),
            origin: Origin::Generated,
            expr: program.main.clone(),
            globals: BTreeMap::new(),
            functions: BTreeMap::new(),
            blocks_made: 0,
        };
        for d in &program.definitions {
            match d {
                Definition::Variable { name, value } => {
                    let bid = state.fresh(Region::Global);
                    let mut block = Block::junk(1, state.time);
                    block.contents[0] = Some(value.clone());
                    state.stack[0].blocks.insert(bid, block);
                    let at = state.point_to(Pointer { bid, index: 0 });
                    state.globals.insert(name.clone(), at);
                    let write = Event::Write {
                        at,
                        value: value.clone(),
                        origin: state.origin_of(value),
                    };
                    state.note(write, Span::default());
                    state.time += 1;
                }
                Definition::Function {
                    name,
                    parameter,
                    body,
                } => {
                    let function = (parameter.clone(), body.clone());
                    state.functions.insert(name.clone(), function);
                }
            }
        }
        state.stack.push(Frame::default());
        state
    }

    pub(crate) fn fresh(&mut self, region: Region) -> Bid {
        self.blocks_made += 1;
        Bid {
            region,
            number: self.blocks_made,
        }
    }

    /// A fresh r with P[r -> (bid, i)].
    pub(crate) fn point_to(&mut self, pointer: Pointer) -> Ref {
        let r = Ref(self.pointers.len() as u32);
        self.pointers.insert(r, pointer);
        r
    }

    pub(crate) fn note(&mut self, event: Event, span: Span) {
        let time = self.time;
        self.trace.push(Timed { time, event, span });
    }

    /// orig(v, f)
    pub(crate) fn origin_of(&self, value: &Value) -> Origin {
        match value {
            Value::Number(_) => Origin::Generated,
            Value::Symbol(z) => Origin::Symbol(z.clone()),
            Value::Pointer(_) => self.origin.clone(),
        }
    }

    /// The location that a value stands for, if it is one.
    pub fn location(&self, value: &Value) -> Option<Ref> {
        match value {
            Value::Number(_) => None,
            Value::Symbol(z) => self.globals.get(z).copied(),
            Value::Pointer(r) => Some(*r),
        }
    }

    /// Bid(r) and Idx(r).
    pub fn pointer(&self, value: &Value) -> Option<Pointer> {
        Some(self.pointers[&self.location(value)?])
    }

    /// A block that lives, in the heap or on the stack.
    pub fn block(&self, bid: Bid) -> Option<&Block> {
        let frames = self.stack.iter().rev().map(|f| &f.blocks);
        frames
            .chain([&self.heap])
            .find_map(|blocks| blocks.get(&bid))
    }

    pub(crate) fn block_mut(&mut self, bid: Bid) -> Option<&mut Block> {
        let frames = self.stack.iter_mut().rev().map(|f| &mut f.blocks);
        frames
            .chain([&mut self.heap])
            .find_map(|blocks| blocks.get_mut(&bid))
    }

    /// Heap blocks that the program would still find if it ended here: from its global variables and the value
    /// that main returns, through blocks that live.
    pub fn kept(&self, returned: Option<&Value>) -> BTreeSet<Bid> {
        let globals = self.stack[0].blocks.values();
        let values = globals.flat_map(|b| b.contents.iter().flatten());
        let roots = values.chain(returned).filter_map(|v| self.pointer(v));
        let inside = |bid: Bid| {
            let block = self.heap.get(&bid)?;
            let values = block.contents.iter().flatten();
            let pointers = values.filter_map(|v| self.pointer(v)).collect();
            Some((block.contents.len() as i64, pointers))
        };
        reachable(roots.collect(), inside)
    }
}

/// The blocks that can be found from some pointers. `inside` gives the size of a block that lives and the pointers
/// in it. A pointer that stands outside of its block leads nowhere; one past the end still belongs to it.
pub fn reachable(
    mut todo: Vec<Pointer>,
    inside: impl Fn(Bid) -> Option<(i64, Vec<Pointer>)>,
) -> BTreeSet<Bid> {
    let mut found = BTreeSet::new();
    while let Some(p) = todo.pop() {
        if let Some((size, more)) = inside(p.bid)
            && (0..=size).contains(&p.index)
            && found.insert(p.bid)
        {
            todo.extend(more);
        }
    }
    found
}
