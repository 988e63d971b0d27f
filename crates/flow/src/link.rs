//! A link: who wrote the bytes of a cell last.
//!
//! There are many, so they are small: two words where they are kept up to date ([`Link`]), one where they are handed over
//! ([`Packed`]). Both are read and written as words, because a CPU waits where a word is read of which a part was just
//! written.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// An output of a record: the number of the record, and that of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    /// Records that can be numbered.
    pub(crate) const MANY: u32 = 1 << 24;

    #[inline]
    pub(crate) fn of(record: u32, output: u8) -> Slot {
        Slot(record << 8 | u32::from(output))
    }
}

/// Who wrote the bytes of a cell last: mostly one or two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Two of them, of which one is of the record that came last in any case.
    slots: u64,
    /// From the lowest byte on: which bytes are those of the first slot, of the second, which others are known, and what
    /// those are ([`Rest`]); then which list that is, or which cell from before the segment.
    bits: u64,
}

/// A link of an input, in eight bytes: what it is in the highest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed(u64);

/// What links are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unpacked {
    /// Nothing is known of a register.
    Unknown,
    /// Nothing is known of a cell of memory.
    UnknownCell(u64),
    /// These bytes are an output's, and no more is known.
    One(Slot, u8),
    /// One of [`Links::wide`].
    Wide(u32),
}

impl Packed {
    const TAG: u32 = 56;

    /// Nothing is known: of a cell of memory, or with 0 of a register.
    #[inline]
    pub(crate) fn unknown(cell: u64) -> Packed {
        match cell {
            0 => Packed(0),
            cell => Packed(2 << Self::TAG | cell),
        }
    }

    pub(crate) fn wide(n: usize) -> Packed {
        Packed(3 << Self::TAG | n as u64)
    }

    #[inline]
    pub(crate) fn one(slot: Slot, bits: u8) -> Packed {
        Packed(1 << Self::TAG | u64::from(bits) << 32 | u64::from(slot.0))
    }

    #[inline]
    pub(crate) fn unpack(self) -> Unpacked {
        let low = self.0 as u32;
        match self.0 >> Self::TAG {
            0 => Unpacked::Unknown,
            1 => Unpacked::One(Slot(low), (self.0 >> 32) as u8),
            2 => Unpacked::UnknownCell(self.0 & ((1 << Self::TAG) - 1)),
            _ => Unpacked::Wide(low),
        }
    }
}

/// What bytes are that are not an output of one or two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Rest {
    /// Of no interest.
    Nowhere,
    /// What a cell held before the segment.
    Before,
    /// What a list says: it says all.
    List,
}

/// Where bytes of a cell are from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    pub(crate) bits: u8,
    pub(crate) from: From,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    Slot(Slot),
    Nowhere,
    /// A cell as it was before the segment.
    Before(u32),
}

pub(crate) type List = SmallVec<[Writer; 4]>;

impl Link {
    pub(crate) const NONE: Link = Link { slots: 0, bits: 0 };

    #[inline]
    pub(crate) fn new(slots: [Slot; 2], bits: [u8; 2], rest: u8, what: Rest, more: u32) -> Link {
        let [a, b] = slots.map(|s| u64::from(s.0));
        let [x, y] = bits.map(u64::from);
        Link {
            slots: a | b << 32,
            bits: x | y << 8 | u64::from(rest) << 16 | (what as u64) << 24 | u64::from(more) << 32,
        }
    }

    /// All bytes are an output's.
    #[inline]
    pub(crate) fn one(slot: Slot) -> Link {
        Link {
            slots: slot.0.into(),
            bits: 0xff,
        }
    }

    /// All bytes are something else, as a record says of which this is a slot.
    #[inline]
    pub(crate) fn rest(slot: Slot, what: Rest, more: usize) -> Link {
        Link::new([slot, Slot(0)], [0, 0], 0xff, what, more as u32)
    }

    #[inline]
    pub(crate) fn slots(&self) -> [Slot; 2] {
        [Slot(self.slots as u32), Slot((self.slots >> 32) as u32)]
    }

    /// Which bytes are those of the slots, and which others are known.
    #[inline]
    pub(crate) fn bits(&self) -> [u8; 3] {
        [0, 8, 16].map(|n| (self.bits >> n) as u8)
    }

    pub(crate) fn what(&self) -> Rest {
        match (self.bits >> 24) as u8 {
            0 => Rest::Nowhere,
            1 => Rest::Before,
            _ => Rest::List,
        }
    }

    pub(crate) fn more(&self) -> u32 {
        (self.bits >> 32) as u32
    }

    pub(crate) fn is_list(&self) -> bool {
        self.bits()[2] != 0 && self.what() == Rest::List
    }

    /// Without what was written before a slot.
    #[inline]
    pub(crate) fn since(self, first: Slot) -> Link {
        match self.slots as u32 >= first.0 && self.bits & 0xff00 == 0 {
            true => self,
            false => self.cut(first),
        }
    }

    #[inline]
    fn cut(self, first: Slot) -> Link {
        let [a, b] = self.slots();
        let mut bits = self.bits;
        if a < first {
            bits &= !0xff;
        }
        if b < first {
            bits &= !0xff00;
        }
        if a.max(b) < first {
            bits = 0;
        }
        Link { bits, ..self }
    }

    /// The only output that the bytes that are known are of.
    #[inline]
    pub(crate) fn single(&self) -> Option<(Slot, u8)> {
        let single = self.bits & 0xff_ff00 == 0;
        single.then_some((Slot(self.slots as u32), self.bits as u8))
    }

    /// Nothing of it was written since a slot.
    #[inline]
    pub(crate) fn is_old(&self, first: Slot) -> bool {
        let [a, b] = self.slots();
        a.max(b) < first
    }

    /// Nothing is known.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.bits & 0xff_ffff == 0
    }
}

/// Cells of a page, and pages that were looked up last.
const PAGE: u64 = 512;
const NEAR: usize = 256;
const NO_PAGE: u32 = u32::MAX;

/// Who wrote the cells of memory last.
pub(crate) struct Table {
    pages: FxHashMap<u64, u32>,
    near: Box<[(u64, u32); NEAR]>,
    pub(crate) cells: Vec<Link>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Table {
            pages: FxHashMap::default(),
            near: Box::new([(u64::MAX, NO_PAGE); NEAR]),
            // The first is that of cells that were never written.
            cells: vec![Link::NONE],
        }
    }

    /// Where a cell is: 0 if its page has never been written to and `make` is not said.
    #[inline]
    pub(crate) fn place(&mut self, cell: u64, make: bool) -> u32 {
        let page = cell / PAGE;
        let near = &mut self.near[page as usize % NEAR];
        if near.0 != page {
            *near = (page, self.pages.get(&page).copied().unwrap_or(NO_PAGE));
        }
        if near.1 == NO_PAGE {
            if !make {
                return 0;
            }
            near.1 = ((self.cells.len() - 1) / PAGE as usize) as u32;
            self.pages.insert(page, near.1);
            self.cells
                .resize(self.cells.len() + PAGE as usize, Link::NONE);
        }
        1 + near.1 * PAGE as u32 + (cell % PAGE) as u32
    }
}
