//! What a backward walk still looks for: bytes of registers and memory, and who wants them.

use image::effects::RegRange;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::codes::InsnId;
use crate::plan::{Mask, mask};
use crate::terms::{Kind, Node};

/// An instruction that wants something, and for what reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Who {
    pub(crate) pc: u64,
    pub(crate) why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Why {
    Register(RegRange),
    Memory,
    Control,
}

/// Number of a [`Who`].
pub(crate) type WhoId = u32;

/// All who ever wanted something.
#[derive(Default)]
pub(crate) struct Everybody {
    list: Vec<Who>,
    numbers: FxHashMap<(InsnId, u32), WhoId>,
}

impl Everybody {
    fn number(&mut self, id: InsnId, who: Who) -> WhoId {
        let code = match who.why {
            Why::Register(r) => u32::from(r.at) << 16 | u32::from(r.len),
            Why::Memory => u32::MAX,
            Why::Control => u32::MAX - 1,
        };
        *self.numbers.entry((id, code)).or_insert_with(|| {
            self.list.push(who);
            self.list.len() as WhoId - 1
        })
    }

    /// One execution of an instruction, shown as `node`, wants something.
    pub(crate) fn wants(&mut self, id: InsnId, node: Node, why: Why) -> Wants {
        let who = self.number(id, Who { pc: node.pc, why });
        Wants::one(who, node.step)
    }

    pub(crate) fn get(&self, who: WhoId) -> Who {
        self.list[who as usize]
    }
}

/// Executions of an instruction that want the same; the walk meets the latest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    pub(crate) who: WhoId,
    /// How many executions.
    pub(crate) times: u32,
    /// The latest execution and the earliest.
    pub(crate) latest: u64,
    pub(crate) earliest: u64,
}

impl Wants {
    pub(crate) fn one(who: WhoId, step: u64) -> Self {
        Wants {
            who,
            times: 1,
            latest: step,
            earliest: step,
        }
    }

    /// Others that want the same.
    pub(crate) fn join(&mut self, other: Wants) {
        if other.times == 1 && self.earliest == other.earliest {
            return;
        }
        self.times = self.times.saturating_add(other.times);
        self.latest = self.latest.max(other.latest);
        self.earliest = self.earliest.min(other.earliest);
    }
}

/// Somebody wants some of eight bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) wants: Wants,
    /// The address of the first of the eight, where memory is wanted.
    base: u64,
    bytes: u8,
}

/// Eight bytes: which of them are wanted by whom.
type Cell = SmallVec<[Entry; 1]>;

/// Bytes of a written range that were wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// Offset from the beginning of the range.
    pub(crate) at: u64,
    pub(crate) len: u64,
    entry: Entry,
}

impl Took {
    pub(crate) fn wants(&self) -> Wants {
        self.entry.wants
    }

    /// The dependence, in words.
    pub(crate) fn kind(&self, why: Why) -> Kind {
        match why {
            Why::Register(r) => Kind::Register(r),
            Why::Control => Kind::Control,
            Why::Memory => Kind::Memory {
                addr: self.entry.base + u64::from(self.entry.bytes.trailing_zeros()),
                len: self.len,
            },
        }
    }

    /// The same wish for other bytes of the same number: `n` of them from the `from`-th on.
    fn moved(&self, from: u64, n: u64, to: u64) -> Entry {
        let shift = |base: u64| base.wrapping_add(self.at_in_cell() + from).wrapping_sub(to);
        Entry {
            base: shift(self.entry.base),
            bytes: (((1u16 << n) - 1) << to) as u8,
            ..self.entry
        }
    }

    fn at_in_cell(&self) -> u64 {
        u64::from(self.entry.bytes.trailing_zeros())
    }
}

pub(crate) type Taken = Vec<Took>;

/// Many executions of an instruction may want the same; unless `each` is to be known, they are one
/// entry.
fn put(cell: &mut Cell, new: Entry, each: bool) {
    let same = |e: &Entry| {
        e.wants.who == new.wants.who
            && if each {
                e.wants.earliest == new.wants.earliest && e.base == new.base
            } else {
                e.bytes == new.bytes
            }
    };
    match cell.iter_mut().find(|e| same(e)) {
        Some(e) if each => e.bytes |= new.bytes,
        Some(e) => e.wants.join(new.wants),
        None => cell.push(new),
    }
}

/// The bits of the part of cell `n` that lies in `[addr, addr + len)`.
fn part(n: u64, addr: u64, len: u64) -> u8 {
    let begin = addr.saturating_sub(n * 8).min(8);
    let end = addr.wrapping_add(len).saturating_sub(n * 8).min(8);
    ((1u16 << end) - (1u16 << begin)) as u8
}

/// Takes what is wanted of `bytes` out of a cell; `at` is the offset of the cell's first byte.
fn take(cell: &mut Cell, bytes: u8, at: i64, out: &mut Taken) {
    cell.retain(|entry| {
        let mut rest = entry.bytes & bytes;
        entry.bytes &= !rest;
        while rest != 0 {
            let first = rest.trailing_zeros();
            let run = (!(rest >> first)).trailing_zeros();
            let bytes = (((1u16 << run) - 1) << first) as u8;
            out.push(Took {
                at: (at + i64::from(first)) as u64,
                len: u64::from(run),
                entry: Entry { bytes, ..*entry },
            });
            rest &= !bytes;
        }
        entry.bytes != 0
    });
}

/// Splits what was taken among the cells of other bytes, of which the first is number `addr`.
fn spread(took: &Took, addr: u64, mut f: impl FnMut(u64, Entry)) {
    let mut done = 0;
    while done < took.len {
        let here = addr.wrapping_add(done);
        let n = (8 - here % 8).min(took.len - done);
        f(here / 8, took.moved(done, n, here % 8));
        done += n;
    }
}

/// Wanted bytes of registers, of one thread.
#[derive(Clone)]
pub(crate) struct Registers {
    cells: Vec<Cell>,
    pub(crate) mask: Mask,
}

impl Registers {
    pub(crate) fn new() -> Self {
        Registers {
            cells: vec![Cell::new(); (image::effects::SIZE as usize).div_ceil(8)],
            mask: 0,
        }
    }

    pub(crate) fn add(&mut self, r: RegRange, wants: Wants, each: bool) {
        let (addr, len) = (u64::from(r.at), u64::from(r.len));
        for n in addr / 8..=(addr + len - 1) / 8 {
            let entry = Entry {
                wants,
                base: 0,
                bytes: part(n, addr, len),
            };
            put(&mut self.cells[n as usize], entry, each);
        }
        self.mask |= mask(r);
    }

    /// What was wanted of other bytes is wanted of `r`.
    pub(crate) fn pass(&mut self, r: RegRange, took: &Took, each: bool) {
        spread(took, u64::from(r.at), |n, entry| {
            put(&mut self.cells[n as usize], entry, each);
        });
        self.mask |= mask(r);
    }

    pub(crate) fn take(&mut self, r: RegRange, out: &mut Taken) {
        if self.mask & mask(r) == 0 {
            return;
        }
        let (addr, len) = (u64::from(r.at), u64::from(r.len));
        for n in addr / 8..=(addr + len - 1) / 8 {
            let cell = &mut self.cells[n as usize];
            if !cell.is_empty() {
                let at = (n * 8) as i64 - addr as i64;
                take(cell, part(n, addr, len), at, out);
            }
        }
        self.summarise(r);
    }

    /// Corrects the summary for the register of `r`.
    fn summarise(&mut self, r: RegRange) {
        let cells = match (r.general_number(), r.vector_number()) {
            (Some(n), _) => n as usize..n as usize + 1,
            (_, Some(n)) => 32 + 8 * n as usize..40 + 8 * n as usize,
            _ if r.at < 136 => 16..17,
            // A few registers that are seldom wanted.
            _ => return,
        };
        if self.cells[cells].iter().all(|c| c.is_empty()) {
            self.mask &= !mask(r);
        }
    }

    /// Adds what another has.
    pub(crate) fn join(&mut self, other: Registers) {
        for (mine, theirs) in self.cells.iter_mut().zip(other.cells) {
            mine.extend(theirs);
        }
        self.mask |= other.mask;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mask == 0
    }
}

const FILTER: usize = 1 << 14;

/// Wanted bytes of memory.
pub(crate) struct Memory {
    cells: FxHashMap<u64, Cell>,
    /// How many wanted cells have this hash: most stores are of no interest, and this says so.
    filter: Box<[u32; FILTER]>,
}

fn hash(n: u64) -> usize {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize
}

impl Memory {
    pub(crate) fn new() -> Self {
        Memory {
            cells: FxHashMap::default(),
            filter: Box::new([0; FILTER]),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    fn cell(&mut self, n: u64) -> &mut Cell {
        self.cells.entry(n).or_insert_with(|| {
            self.filter[hash(n)] += 1;
            Cell::new()
        })
    }

    pub(crate) fn add(&mut self, addr: u64, len: u64, wants: Wants, each: bool) {
        let Some(last) = len.checked_sub(1).and_then(|l| addr.checked_add(l)) else {
            return;
        };
        for n in addr / 8..=last / 8 {
            let entry = Entry {
                wants,
                base: n * 8,
                bytes: part(n, addr, len),
            };
            put(self.cell(n), entry, each);
        }
    }

    /// What was wanted of other bytes is wanted of those at `addr`.
    pub(crate) fn pass(&mut self, addr: u64, took: &Took, each: bool) {
        spread(took, addr, |n, entry| put(self.cell(n), entry, each));
    }

    /// Perhaps something in `[addr, addr + len)` is wanted.
    #[inline]
    pub(crate) fn maybe(&self, addr: u64, len: u64) -> bool {
        let (first, last) = (addr / 8, addr.wrapping_add(len.max(1) - 1) / 8);
        if last.wrapping_sub(first) > 64 {
            return !self.cells.is_empty();
        }
        (first..=last).any(|n| self.filter[hash(n)] != 0)
    }

    /// Who wants something of this; it stays wanted.
    pub(crate) fn peek(&self, addr: u64, len: u64, out: &mut Vec<Wants>) {
        for n in addr / 8..=addr.saturating_add(len.max(1) - 1) / 8 {
            let bytes = part(n, addr, len);
            let entries = self.cells.get(&n).into_iter().flatten();
            out.extend(entries.filter(|e| e.bytes & bytes != 0).map(|e| e.wants));
        }
    }

    pub(crate) fn take(&mut self, addr: u64, len: u64, out: &mut Taken) {
        if len == 0 || self.cells.is_empty() {
            return;
        }
        let last = addr.saturating_add(len - 1) / 8;
        if (last - addr / 8) as usize > self.cells.len() {
            let inside = |n: &&u64| (addr / 8..=last).contains(*n);
            let list: Vec<u64> = self.cells.keys().filter(inside).copied().collect();
            for n in list {
                self.take_cell(n, addr, len, out);
            }
        } else {
            for n in addr / 8..=last {
                self.take_cell(n, addr, len, out);
            }
        }
    }

    fn take_cell(&mut self, n: u64, addr: u64, len: u64, out: &mut Taken) {
        if self.filter[hash(n)] == 0 {
            return;
        }
        let Some(cell) = self.cells.get_mut(&n) else {
            return;
        };
        let at = (n * 8).wrapping_sub(addr) as i64;
        take(cell, part(n, addr, len), at, out);
        if cell.is_empty() {
            self.cells.remove(&n);
            self.filter[hash(n)] -= 1;
        }
    }
}
