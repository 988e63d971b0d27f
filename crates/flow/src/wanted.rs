//! What a backward walk still looks for: bytes of registers and memory, and who wants them.

use image::effects::RegRange;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::plan::{Mask, mask};
use crate::terms::Kind;

/// Number of a want.
pub(crate) type Id = u32;

/// Somebody wants to know where bytes came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) pc: u64,
    pub(crate) step: u64,
    pub(crate) kind: Kind,
    /// Cells in which it is entered.
    cells: u32,
    /// It stands for several: one more than the number of their list.
    group: u32,
}

/// All wants; those that nobody refers to any more are used again.
#[derive(Default)]
pub(crate) struct Wants {
    list: Vec<Want>,
    free: Vec<Id>,
    groups: Vec<Vec<Want>>,
}

impl Wants {
    pub(crate) fn add(&mut self, pc: u64, step: u64, kind: Kind) -> Id {
        let want = Want {
            pc,
            step,
            kind,
            cells: 0,
            group: 0,
        };
        self.enter_list(want)
    }

    /// One want in place of several. What is passed on again and again, through the saving of a
    /// register by every function on the way, would otherwise be counted out each time.
    pub(crate) fn join(&mut self, list: Vec<Want>) -> Id {
        let mut want = list[0];
        if list.len() > 1 {
            self.groups.push(list);
            want.group = self.groups.len() as u32;
        }
        want.cells = 0;
        self.enter_list(want)
    }

    /// Tells `f` of all that a want stands for.
    pub(crate) fn each(&self, want: Want, f: &mut dyn FnMut(Want)) {
        let mut left = vec![want];
        while let Some(w) = left.pop() {
            match w.group.checked_sub(1) {
                Some(g) => left.extend(&self.groups[g as usize]),
                None => f(w),
            }
        }
    }

    fn enter_list(&mut self, want: Want) -> Id {
        match self.free.pop() {
            Some(id) => {
                self.list[id as usize] = want;
                id
            }
            None => {
                self.list.push(want);
                self.list.len() as Id - 1
            }
        }
    }

    pub(crate) fn get(&self, id: Id) -> Want {
        self.list[id as usize]
    }

    fn enter(&mut self, id: Id) {
        self.list[id as usize].cells += 1;
    }

    fn leave(&mut self, id: Id) {
        let w = &mut self.list[id as usize];
        w.cells -= 1;
        if w.cells == 0 {
            self.free.push(id);
        }
    }
}

/// Eight bytes: which of them are wanted by whom.
type Cell = SmallVec<[(u8, Id); 2]>;

/// Bytes of a written range that were wanted: offset from its beginning, by whom.
pub(crate) type Taken = Vec<(u64, u64, Want)>;

fn put(cell: &mut Cell, bytes: u8, id: Id, wants: &mut Wants) {
    // The parts of one want come one after the other; a place that is much read and seldom written
    // is wanted by very many.
    if let Some(entry) = cell.last_mut().filter(|(_, i)| *i == id) {
        entry.0 |= bytes;
        return;
    }
    wants.enter(id);
    cell.push((bytes, id));
}

/// The bits of the part of cell `n` that lies in `[addr, addr + len)`.
fn part(n: u64, addr: u64, len: u64) -> u8 {
    let begin = addr.saturating_sub(n * 8).min(8);
    let end = addr.wrapping_add(len).saturating_sub(n * 8).min(8);
    ((1u16 << end) - (1u16 << begin)) as u8
}

/// Takes what is wanted of `bytes` out of a cell; `at` is the offset of the cell's first byte.
fn take(cell: &mut Cell, bytes: u8, at: i64, wants: &mut Wants, out: &mut Taken) {
    cell.retain(|(mask, id)| {
        let hit = *mask & bytes;
        if hit != 0 {
            let want = wants.get(*id);
            let mut rest = hit;
            while rest != 0 {
                let first = rest.trailing_zeros();
                let run = (!(rest >> first)).trailing_zeros();
                out.push(((at + i64::from(first)) as u64, u64::from(run), want));
                rest &= !((((1u16 << run) - 1) << first) as u8);
            }
            *mask &= !hit;
            if *mask == 0 {
                wants.leave(*id);
            }
        }
        *mask != 0
    });
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

    pub(crate) fn add(&mut self, r: RegRange, id: Id, wants: &mut Wants) {
        let (addr, len) = (u64::from(r.at), u64::from(r.len));
        for n in addr / 8..=(addr + len - 1) / 8 {
            put(&mut self.cells[n as usize], part(n, addr, len), id, wants);
        }
        self.mask |= mask(r);
    }

    pub(crate) fn wanted(&self, r: RegRange) -> bool {
        if self.mask & mask(r) == 0 {
            return false;
        }
        let (addr, len) = (u64::from(r.at), u64::from(r.len));
        (addr / 8..=(addr + len - 1) / 8).any(|n| {
            let bytes = part(n, addr, len);
            self.cells[n as usize].iter().any(|(m, _)| m & bytes != 0)
        })
    }

    pub(crate) fn take(&mut self, r: RegRange, wants: &mut Wants, out: &mut Taken) {
        let (addr, len) = (u64::from(r.at), u64::from(r.len));
        for n in addr / 8..=(addr + len - 1) / 8 {
            let cell = &mut self.cells[n as usize];
            take(
                cell,
                part(n, addr, len),
                (n * 8) as i64 - addr as i64,
                wants,
                out,
            );
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

    pub(crate) fn add(&mut self, addr: u64, len: u64, id: Id, wants: &mut Wants) {
        let Some(last) = len.checked_sub(1).and_then(|l| addr.checked_add(l)) else {
            return;
        };
        for n in addr / 8..=last / 8 {
            let cell = self.cells.entry(n).or_insert_with(|| {
                self.filter[hash(n)] += 1;
                Cell::new()
            });
            put(cell, part(n, addr, len), id, wants);
        }
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

    pub(crate) fn take(&mut self, addr: u64, len: u64, wants: &mut Wants, out: &mut Taken) {
        if len == 0 || self.cells.is_empty() {
            return;
        }
        let last = addr.saturating_add(len - 1) / 8;
        if (last - addr / 8) as usize > self.cells.len() {
            let inside = |n: &&u64| (addr / 8..=last).contains(*n);
            let list: Vec<u64> = self.cells.keys().filter(inside).copied().collect();
            for n in list {
                self.take_cell(n, addr, len, wants, out);
            }
        } else {
            for n in addr / 8..=last {
                self.take_cell(n, addr, len, wants, out);
            }
        }
    }

    fn take_cell(&mut self, n: u64, addr: u64, len: u64, wants: &mut Wants, out: &mut Taken) {
        if self.filter[hash(n)] == 0 {
            return;
        }
        let Some(cell) = self.cells.get_mut(&n) else {
            return;
        };
        let at = (n * 8).wrapping_sub(addr) as i64;
        take(cell, part(n, addr, len), at, wants, out);
        if cell.is_empty() {
            self.cells.remove(&n);
            self.filter[hash(n)] -= 1;
        }
    }
}
