//! What a backward walk still looks for: who wants which bytes. Of registers here, of memory in
//! [`crate::memory`].

use std::rc::Rc;

use image::effects::RegRange;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::codes::InsnId;
use crate::plan::{Mask, mask};
use crate::slice::NOBODY;
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
    /// By instruction, their numbers, each with a code for the reason.
    numbers: Vec<SmallVec<[(u32, WhoId); 2]>>,
    /// The same for all that is outside.
    nobody: SmallVec<[(u32, WhoId); 2]>,
    /// Instructions of a record that ask the same, each with its place in the record.
    groups: FxHashMap<WhoId, Rc<[(u8, WhoId)]>>,
    by_members: FxHashMap<Rc<[(u8, WhoId)]>, WhoId>,
}

/// A group has no address.
pub(crate) const GROUP: u64 = u64::MAX;

impl Everybody {
    fn number(&mut self, id: InsnId, who: Who) -> WhoId {
        let code = match who.why {
            Why::Register(r) => u32::from(r.at) << 16 | u32::from(r.len),
            Why::Memory => u32::MAX,
            Why::Control => u32::MAX - 1,
        };
        let known = match id {
            NOBODY => &mut self.nobody,
            id => {
                let n = id as usize;
                if self.numbers.len() <= n {
                    self.numbers.resize(n + 1, SmallVec::new());
                }
                &mut self.numbers[n]
            }
        };
        if let Some(known) = known.iter().find(|k| k.0 == code) {
            return known.1;
        }
        let memory = WhoId::from(who.why == Why::Memory);
        let number = (self.list.len() as WhoId) << 1 | memory;
        self.list.push(who);
        known.push((code, number));
        number
    }

    /// One execution of an instruction, shown as `node`, wants something.
    pub(crate) fn wants(&mut self, id: InsnId, node: Node, why: Why) -> Wants {
        let who = self.number(id, Who { pc: node.pc, why });
        Wants::one(who, node.step)
    }

    /// Some instructions of a record, as one that is executed where the record begins.
    pub(crate) fn group(&mut self, members: Vec<(u8, WhoId)>) -> WhoId {
        let members: Rc<[(u8, WhoId)]> = members.into();
        if let Some(known) = self.by_members.get(&members) {
            return *known;
        }
        let number = (self.list.len() as WhoId) << 1;
        self.list.push(Who {
            pc: GROUP,
            why: Why::Control,
        });
        self.groups.insert(number, members.clone());
        self.by_members.insert(members, number);
        number
    }

    /// The members of a group.
    pub(crate) fn members(&self, who: WhoId) -> Option<Rc<[(u8, WhoId)]>> {
        self.groups.get(&who).cloned()
    }

    pub(crate) fn get(&self, who: WhoId) -> Who {
        self.list[who as usize >> 1]
    }
}

/// Whether it is memory that somebody wants: the numbers tell.
pub(crate) fn wants_memory(who: WhoId) -> bool {
    who & 1 != 0
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

/// What is kept of those who want something: executions, or a name for them.
pub(crate) trait Wish: Copy {
    fn who(self) -> WhoId;
}

impl Wish for Wants {
    fn who(self) -> WhoId {
        self.who
    }
}

/// Somebody wants some of eight bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<W = Wants> {
    pub(crate) wants: W,
    /// The address of the first of the eight, where memory is wanted.
    pub(crate) base: u64,
    pub(crate) bytes: u8,
}

/// Eight bytes: which of them are wanted by whom.
pub(crate) type Cell<W = Wants> = SmallVec<[Entry<W>; 1]>;

/// Bytes of a written range that were wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took<W = Wants> {
    /// Offset from the beginning of the range.
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) entry: Entry<W>,
}

impl<W: Wish> Took<W> {
    pub(crate) fn wants(&self) -> W {
        self.entry.wants
    }

    /// The dependence, in words.
    pub(crate) fn kind(&self, why: Why) -> Kind {
        match why {
            Why::Register(r) => Kind::Register(r),
            Why::Control => Kind::Control,
            Why::Memory => Kind::Memory {
                addr: self.entry.base.wrapping_add(self.at_in_cell()),
                len: self.len,
            },
        }
    }

    /// The same wish for other bytes of the same number: `n` of them from the `from`-th on.
    fn moved(&self, from: u64, n: u64, to: u64) -> Entry<W> {
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

pub(crate) type Taken<W = Wants> = Vec<Took<W>>;

/// How wishes for the same are put together.
pub(crate) trait Joins<W> {
    /// Adds `new` to an entry of the same one's, if they can be one entry.
    fn join(&mut self, old: &mut Entry<W>, new: &Entry<W>) -> bool;
}

/// Many executions of an instruction may want the same; unless each is to be known, they are one
/// entry.
#[derive(Clone, Copy)]
pub(crate) struct Each(pub(crate) bool);

impl Joins<Wants> for Each {
    #[inline]
    fn join(&mut self, old: &mut Entry, new: &Entry) -> bool {
        let same = match self.0 {
            true => old.wants.earliest == new.wants.earliest && old.base == new.base,
            false => old.bytes == new.bytes,
        };
        match self.0 {
            _ if !same => {}
            true => old.bytes |= new.bytes,
            false => old.wants.join(new.wants),
        }
        same
    }
}

/// Puts an entry into a cell; whether it is one more there.
#[inline]
pub(crate) fn put<W: Wish>(cell: &mut Cell<W>, new: Entry<W>, joins: &mut impl Joins<W>) -> bool {
    let who = new.wants.who();
    for old in cell.iter_mut().filter(|e| e.wants.who() == who) {
        if joins.join(old, &new) {
            return false;
        }
    }
    cell.push(new);
    true
}

/// The cells in which `[addr, addr + len)` is, and the bits of each.
pub(crate) fn pieces(addr: u64, len: u64) -> impl Iterator<Item = (u64, u8)> {
    let last = addr.saturating_add(len.max(1) - 1);
    (addr / 8..=last / 8).map(move |n| (n, part(n, addr, len)))
}

/// The bits of the part of cell `n` that lies in `[addr, addr + len)`.
pub(crate) fn part(n: u64, addr: u64, len: u64) -> u8 {
    let begin = addr.saturating_sub(n * 8).min(8);
    let end = addr.wrapping_add(len).saturating_sub(n * 8).min(8);
    ((1u16 << end) - (1u16 << begin)) as u8
}

/// The runs of bits: where each begins, and its length.
pub(crate) fn runs(mut bits: u8) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let first = bits.trailing_zeros();
        let run = (!(bits >> first)).trailing_zeros();
        bits &= !((((1u16 << run) - 1) << first) as u8);
        Some((u64::from(first), u64::from(run)))
    })
}

/// Takes what is wanted of `bytes` out of a cell; `at` is the offset of the cell's first byte.
pub(crate) fn take<W: Wish>(cell: &mut Cell<W>, bytes: u8, at: i64, out: &mut Taken<W>) {
    cell.retain(|entry| {
        let wanted = entry.bytes & bytes;
        entry.bytes &= !wanted;
        for (first, len) in runs(wanted) {
            out.push(Took {
                at: (at + first as i64) as u64,
                len,
                entry: Entry {
                    bytes: (((1u16 << len) - 1) << first) as u8,
                    ..*entry
                },
            });
        }
        entry.bytes != 0
    });
}

/// Splits what was taken among the cells of other bytes, of which the first is number `addr`.
pub(crate) fn spread<W: Wish>(took: &Took<W>, addr: u64, mut f: impl FnMut(u64, Entry<W>)) {
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
pub(crate) struct Registers<W = Wants> {
    pub(crate) cells: Vec<Cell<W>>,
    pub(crate) mask: Mask,
}

/// Cells of registers.
pub(crate) const CELLS: usize = (image::effects::SIZE as usize).div_ceil(8);

/// Of the summary, the bit for a few registers that are seldom wanted.
const REST: usize = 17;

/// The bit of the summary for the register that a cell is of, and the register's cells.
fn register_of(cell: usize) -> (usize, std::ops::Range<usize>) {
    match cell {
        0..=16 => (cell, cell..cell + 1),
        32..288 => (32 + (cell - 32) / 8, cell / 8 * 8..cell / 8 * 8 + 8),
        _ => (REST, 0..0),
    }
}

impl<W: Wish> Registers<W> {
    pub(crate) fn new() -> Self {
        Registers {
            cells: vec![Cell::new(); CELLS],
            mask: 0,
        }
    }

    /// Puts an entry into one of the cells.
    #[inline]
    pub(crate) fn put(&mut self, n: u64, entry: Entry<W>, joins: &mut impl Joins<W>) {
        put(&mut self.cells[n as usize], entry, joins);
    }

    pub(crate) fn add(&mut self, r: RegRange, wants: W, joins: &mut impl Joins<W>) {
        for (n, bytes) in pieces(u64::from(r.at), u64::from(r.len)) {
            let base = 0;
            self.put(n, Entry { wants, base, bytes }, joins);
        }
        self.mask |= mask(r);
    }

    /// What was wanted of other bytes is wanted of `r`.
    pub(crate) fn pass(&mut self, r: RegRange, took: &Took<W>, joins: &mut impl Joins<W>) {
        spread(took, u64::from(r.at), |n, entry| self.put(n, entry, joins));
        self.mask |= mask(r);
    }

    pub(crate) fn take(&mut self, r: RegRange, out: &mut Taken<W>) {
        if self.mask & mask(r) == 0 {
            return;
        }
        let (addr, len) = (u64::from(r.at), u64::from(r.len));
        for (n, bytes) in pieces(addr, len) {
            let cell = &mut self.cells[n as usize];
            if !cell.is_empty() {
                let at = (n * 8) as i64 - addr as i64;
                take(cell, bytes, at, out);
            }
        }
        self.summarise(usize::from(r.at / 8));
    }

    /// Corrects the summary for the register that a cell is of.
    pub(crate) fn summarise(&mut self, cell: usize) {
        let (bit, cells) = register_of(cell);
        let wanted = self.cells[cells].iter().any(|c| !c.is_empty());
        if wanted || bit == REST {
            self.mask |= 1 << bit;
        } else {
            self.mask &= !(1 << bit);
        }
    }

    /// Adds what another has.
    pub(crate) fn join(&mut self, other: Registers<W>) {
        for (mine, theirs) in self.cells.iter_mut().zip(other.cells) {
            mine.extend(theirs);
        }
        self.mask |= other.mask;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mask == 0
    }
}
