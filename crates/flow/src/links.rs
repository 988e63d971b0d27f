//! Who wrote what a record reads.
//!
//! A slice asks that of everything that is in it, again and again; going forward it is known at once: a
//! table has for each cell of registers and memory who wrote its bytes last. So a chunk is gone through
//! forward before it is walked back, on another CPU where there is one, and each record gets its *links*: for
//! every input of its variant, the records that wrote it.
//!
//! That is done in *segments*: records in a row of which all is known in advance ([`crate::variant`]).
//! Between them is what is not: events, repeated string instructions, and the like. What a segment reads and has
//! not written is left to the walk. Registers that are saved and restored are what they were: they have
//! the links of what was saved.
//!
//! Records are numbered on and on, so that what an earlier segment left in the table is told by its number and
//! need not be cleared away.
//!
//! What goes from one CPU to the other costs more than what is done with it there, so it is little: eight bytes for
//! most links, and what is wanted is kept by those who go back.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tape::Term;

use crate::codes::Codes;
use crate::link::{From, Link, List, Packed, Rest, Slot, Table, Writer};
use crate::plan::{self, Values};
use crate::reader::FrameId;
use crate::roll::{Item, Record, What};
use crate::variant::{self, FLAGS, Origin, Spot, Variant, count, is_regular};
use crate::wanted::CELLS;

/// Variants of a shape beyond which its records are gone through one by one.
const MANY_VARIANTS: usize = 256;
/// Pieces that a record may have.
const MANY_PIECES: usize = 256;
/// The last cell of the address space.
const LAST_CELL: u64 = u64::MAX / 8;
/// Cells of the table beyond which it is thrown away.
const MANY_CELLS: usize = 1 << 23;

/// Variants are numbered with what is left beside the output.
const MANY_NUMBERS: usize = 1 << 24;

/// A cell as it was before a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell {
    Register(u16),
    /// The address divided by eight.
    Memory(u64),
}

/// A record of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linked {
    pub(crate) variant: u32,
    /// Where its links begin, and what is wanted of its outputs.
    pub(crate) links: u32,
    pub(crate) wanted: u32,
    /// The step of its first instruction, from that of the chunk on.
    step: u32,
    /// The frame that this is executed in, and the number that the first call in it has.
    pub(crate) frame: FrameId,
    pub(crate) first_frame: u32,
}

/// Records in a row.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Which item of the chunk is its first.
    pub(crate) first: u32,
    pub(crate) thread: u32,
    pub(crate) records: Range<u32>,
    /// Cells that it has written.
    pub(crate) registers: Range<u32>,
    pub(crate) memory: Range<u32>,
}

/// A chunk with its links.
#[derive(Default, Debug)]
pub(crate) struct Links {
    /// Number of the first record.
    first: u32,
    /// The steps of the chunk.
    pub(crate) step: u64,
    pub(crate) end: u64,
    /// How many items it has, and those that are in no segment.
    pub(crate) items: u32,
    pub(crate) others: Vec<(u32, Item)>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) records: Vec<Linked>,
    /// The same records as they are on the tape.
    pub(crate) taped: Vec<Record>,
    pub(crate) links: Vec<Packed>,
    /// Links that are more than can be packed, with the cell of memory, or 0.
    pub(crate) wide: Vec<(Link, u64)>,
    lists: Vec<List>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) registers: Vec<(u16, Link)>,
    pub(crate) memory: Vec<(u64, Link)>,
    /// Outputs of all records, and of each the bytes that are wanted.
    outputs: u32,
    pub(crate) wanted: Vec<u8>,
    /// Those that were not there before, in the order of their numbers.
    pub(crate) variants: Vec<Arc<Variant>>,
}

impl Links {
    /// Where the bytes of a cell are from, as far as that is known.
    pub(crate) fn writers(&self, link: &Link) -> List {
        if link.is_list() {
            return self.lists[link.more() as usize].clone();
        }
        let slot = |n: usize| Writer {
            bits: link.bits()[n],
            from: From::Slot(link.slots()[n]),
        };
        let rest = Writer {
            bits: link.bits()[2],
            from: match link.what() {
                Rest::Before => From::Before(link.more()),
                Rest::Nowhere | Rest::List => From::Nowhere,
            },
        };
        let all = [slot(0), slot(1), rest].into_iter();
        all.filter(|w| w.bits != 0).collect()
    }

    /// The record that a slot belongs to.
    #[inline]
    pub(crate) fn record_of(&self, slot: Slot) -> &Linked {
        &self.records[((slot.0 >> 8) - self.first) as usize]
    }

    /// The step of a record's first instruction.
    #[inline]
    pub(crate) fn step_of(&self, linked: &Linked) -> u64 {
        self.step + u64::from(linked.step)
    }

    /// Nothing is wanted yet.
    pub(crate) fn begin(&mut self) {
        self.wanted.clear();
        self.wanted.resize(self.outputs as usize, 0);
    }

    /// Notes that bytes are wanted of an output; which one it is, of which variant.
    #[inline]
    pub(crate) fn want(&mut self, slot: Slot, bits: u8) -> u32 {
        let output = slot.0 & 0xff;
        let linked = &self.records[((slot.0 >> 8) - self.first) as usize];
        self.wanted[(linked.wanted + output) as usize] |= bits;
        linked.variant << 8 | output
    }

    /// `cell` is that of memory, or 0.
    #[inline]
    fn pack(&mut self, link: Link, cell: u64) -> Packed {
        if link.is_none() {
            return Packed::unknown(cell);
        }
        if let Some((slot, bits)) = link.single()
            && (cell == 0 || bits == 0xff)
        {
            return Packed::one(slot, bits);
        }
        self.wide.push((link, cell));
        Packed::wide(self.wide.len() - 1)
    }

    fn clear(&mut self) {
        self.segments.clear();
        self.others.clear();
        self.records.clear();
        self.taped.clear();
        self.links.clear();
        self.lists.clear();
        self.cells.clear();
        self.registers.clear();
        self.memory.clear();
        self.wide.clear();
        self.outputs = 0;
        self.variants.clear();
    }
}

/// What is the same for all records of a shape.
struct Form {
    accesses: Box<[Access]>,
    conditions: Box<[Term]>,
    /// By what differs: the variant, unless it is beyond what is followed.
    variants: FxHashMap<Box<[u8]>, Option<u32>>,
    /// The one that came last, and the last where no piece met another, by a number for what differs.
    last: Option<(Box<[u8]>, u32)>,
    plain: (u64, u32),
}

impl Form {
    /// Nothing where records of the shape are not linked.
    fn of(codes: &Codes, shape: u32) -> Option<Box<Form>> {
        let way = codes.way(shape);
        let steps = &codes.plan(shape).steps[..way.executed as usize];
        is_regular(steps).then(|| {
            let spots = steps.iter().flat_map(|s| &s.spots);
            Box::new(Form {
                accesses: spots.map(|s| Access::of(s, way.unit)).collect(),
                conditions: steps.iter().filter_map(|s| s.condition).collect(),
                variants: FxHashMap::default(),
                last: None,
                plain: (NO_NUMBER, 0),
            })
        })
    }
}

/// Cells among which it is looked for one that a record has stored to.
const STORES: usize = 1024;
/// No variant has this number.
const NO_NUMBER: u64 = u64::MAX;
/// Bits of such a number.
const BITS: usize = 60;

/// A memory access.
struct Access {
    /// The address is what is at these places of the record, the second so many times, and a constant; or what its
    /// [`plan::Spot`] says.
    base: u16,
    index: u16,
    scale: u8,
    writes: bool,
    len: u16,
    plus: u64,
    spot: Option<Box<plan::Spot>>,
}

/// Places of a record that are none: the values 0, of rsp and of rbp.
const ZERO: u16 = 0xfffc;
const RSP: u16 = 0xfffd;
const RBP: u16 = 0xfffe;

/// Goes through chunks and links their records.
pub(crate) struct Linker<'a> {
    codes: &'a Codes,
    forms: Vec<Option<Option<Box<Form>>>>,
    variants: Vec<Arc<Variant>>,
    memory: Table,
    registers: Vec<Link>,
    /// Number of the next record.
    next: u32,
    /// The first slot of the segment at hand, and its first record in the chunk.
    first: Slot,
    begin: u32,
    first_item: u32,
    thread: u32,
    /// Items of the chunk so far, and variants that there were before it.
    items: u32,
    heard: usize,
    /// Flags that it has written.
    flags: u8,
    /// Cells that it has written.
    written: Vec<u16>,
    stored: Vec<(u64, u32)>,
    /// Of the record at hand: the cells of its pieces, and where they are; what distinguishes its variant.
    pieces: Box<[(u64, u32)]>,
    key: Vec<u8>,
    /// The record that stored to a cell last, by the lowest bits of that.
    stores: Box<[u32; STORES]>,
}

impl<'a> Linker<'a> {
    pub(crate) fn new(codes: &'a Codes) -> Self {
        let mut forms = Vec::new();
        forms.resize_with(codes.ways(), || None);
        Linker {
            codes,
            forms,
            variants: Vec::new(),
            memory: Table::new(),
            registers: vec![Link::NONE; CELLS],
            next: 1,
            first: Slot::of(1, 0),
            begin: 0,
            first_item: 0,
            thread: 0,
            items: 0,
            heard: 0,
            flags: 0,
            written: Vec::new(),
            stored: Vec::new(),
            pieces: vec![(0, 0); MANY_PIECES].into(),
            key: Vec::new(),
            stores: Box::new([0; STORES]),
        }
    }

    /// Begins a chunk, of so many bytes, at a step.
    pub(crate) fn begin(&mut self, bytes: usize, step: u64, to: &mut Links) {
        to.clear();
        if self.memory.cells.len() > MANY_CELLS {
            self.memory = Table::new();
        }
        if self.next as usize + bytes / tape::RECORD_HEAD >= Slot::MANY as usize {
            // What is in the tables would be taken for something later.
            self.memory = Table::new();
            self.registers.fill(Link::NONE);
            self.next = 1;
        }
        to.first = self.next;
        to.step = step;
        to.end = step;
        self.heard = self.variants.len();
        self.items = 0;
        self.begin_segment(to);
    }

    fn begin_segment(&mut self, to: &Links) {
        self.first = Slot::of(self.next, 0);
        self.begin = to.records.len() as u32;
        self.first_item = self.items;
        self.flags = 0;
    }

    /// Goes past an item, which stands for so many records; `values` has what a record says. Whether it is taken: a single one
    /// is in any case.
    #[inline]
    pub(crate) fn item<'v>(
        &mut self,
        item: Item,
        records: u32,
        values: impl Fn(&Record) -> Values<'v>,
        to: &mut Links,
    ) -> bool {
        let What::Record(record) = item.what else {
            to.end = item.step + 1;
            self.other(item, to);
            return true;
        };
        if self.linked(item, &record, values, to) {
            self.items += records;
            return true;
        }
        if records == 1 {
            self.other(item, to);
        }
        records == 1
    }

    fn linked<'v>(
        &mut self,
        item: Item,
        record: &Record,
        values: impl Fn(&Record) -> Values<'v>,
        to: &mut Links,
    ) -> bool {
        to.end = item.step + u64::from(self.codes.way(record.shape).executed);
        if self.begin == to.records.len() as u32 {
            self.thread = item.thread;
        }
        self.record(&item, record, &values(record), to)
    }

    /// An item that is in no segment.
    fn other(&mut self, item: Item, to: &mut Links) {
        self.end_segment(to);
        to.others.push((self.items, item));
        self.items += 1;
        self.begin_segment(to);
    }

    /// Ends a chunk.
    pub(crate) fn end(&mut self, to: &mut Links) {
        self.end_segment(to);
        to.items = self.items;
        to.variants.extend_from_slice(&self.variants[self.heard..]);
    }

    /// Ends a segment.
    fn end_segment(&mut self, to: &mut Links) {
        let records = self.begin..to.records.len() as u32;
        let (registers, memory) = (to.registers.len() as u32, to.memory.len() as u32);
        for cell in self.written.drain(..) {
            to.registers.push((cell, self.registers[cell as usize]));
        }
        if self.flags != 0 {
            let link = flags(to, &self.variants, self.begin, self.flags);
            to.registers.push((FLAGS, link));
            self.flags = 0;
        }
        for (cell, place) in self.stored.drain(..) {
            to.memory.push((cell, self.memory.cells[place as usize]));
        }
        if !records.is_empty() {
            to.segments.push(Segment {
                first: self.first_item,
                thread: self.thread,
                records,
                registers: registers..to.registers.len() as u32,
                memory: memory..to.memory.len() as u32,
            });
        }
    }

    /// Links a record, if it is one of which all is known in advance.
    fn record(&mut self, item: &Item, taped: &Record, values: &Values<'_>, to: &mut Links) -> bool {
        let variant = self.variant(taped.shape, values);
        variant.is_some_and(|v| self.take(item, taped, v, to))
    }

    fn variant(&mut self, shape: u32, values: &Values<'_>) -> Option<u32> {
        let codes = self.codes;
        let form = self.forms[shape as usize].get_or_insert_with(|| Form::of(codes, shape));
        let form = form.as_deref_mut()?;
        let known = [0, values.rsp, values.rbp, 0];
        let record = self.next;
        let mut meets = 3 * form.accesses.len() + form.conditions.len() > BITS;
        let mut number = 0;
        let mut pieces = 0;
        for a in &form.accesses {
            let addr = a.address(values, &known);
            let (cell, align) = (addr / 8, addr % 8);
            number = number << 3 | align;
            let mut piece = |cell: u64, memory: &mut Table| {
                let stored = &mut self.stores[cell as usize % STORES];
                meets |= *stored == record;
                if a.writes {
                    *stored = record;
                }
                let place = memory.place(cell, a.writes);
                *self.pieces.get_mut(pieces)? = (cell, place);
                pieces += 1;
                Some(())
            };
            piece(cell, &mut self.memory)?;
            if align + u64::from(a.len) > 8 {
                let last = cell + count(addr, a.len);
                if last > LAST_CELL {
                    return None;
                }
                for cell in cell + 1..last {
                    piece(cell, &mut self.memory)?;
                }
            }
        }
        for c in &form.conditions {
            number = number << 1 | values.get(*c) & 1;
        }
        if !meets && form.plain.0 == number {
            return Some(form.plain.1);
        }
        self.key.clear();
        let aligned = form.accesses.iter();
        let aligned = aligned.map(|a| (a.address(values, &known) % 8) as u8);
        self.key.extend(aligned);
        let moved = form.conditions.iter().map(|c| (values.get(*c) & 1) as u8);
        self.key.extend(moved);
        let cells = &self.pieces[..pieces];
        if meets {
            meetings(form, cells, &mut self.key);
        }
        let known = match &form.last {
            Some((key, variant)) if **key == self.key[..] => return Some(*variant),
            _ => form.variants.get(&self.key[..]).copied(),
        };
        let known = known.unwrap_or_else(|| {
            let few = form.variants.len() < MANY_VARIANTS && self.variants.len() < MANY_NUMBERS;
            let executed = codes.way(shape).executed as usize;
            let steps = &codes.plan(shape).steps[..executed];
            let made = match few {
                true => variant::variant(shape, steps, values, cells),
                false => return None,
            };
            let number = made.map(|variant| {
                self.variants.push(Arc::new(variant));
                self.variants.len() as u32 - 1
            });
            form.variants.insert(self.key[..].into(), number);
            number
        })?;
        match meets {
            true => form.last = Some((self.key[..].into(), known)),
            false => form.plain = (number, known),
        }
        Some(known)
    }

    /// Gives a record its links, and notes what it wrote.
    fn take(&mut self, item: &Item, taped: &Record, number: u32, to: &mut Links) -> bool {
        let Linker {
            variants,
            registers,
            memory,
            pieces,
            written,
            stored,
            ..
        } = self;
        let variant = &*variants[number as usize];
        let (record, first, begin) = (self.next, self.first, self.begin);
        let slot = Slot::of(record, 0);
        let of_flags = match variant.flags_read & self.flags {
            0 => Link::NONE,
            read => flags(to, variants, begin, read),
        };
        let link = |input: Spot| match input {
            Spot::Register(FLAGS) => of_flags,
            Spot::Register(cell) => registers[cell as usize].since(first),
            Spot::Memory(piece) => memory.cells[pieces[piece as usize].1 as usize].since(first),
        };
        let mut passed: SmallVec<[(u8, Link); 8]> = SmallVec::new();
        for &n in &variant.passed {
            let link = link(variant.inputs[n as usize]);
            // A cell of which only a part is known cannot be passed on as a whole.
            if !is_whole_or_nothing(to, &link) {
                return false;
            }
            passed.push((n, link));
        }
        let links = to.links.len();
        to.links.reserve(variant.inputs.len());
        for &input in &variant.inputs {
            let packed = match input {
                Spot::Register(FLAGS) => to.pack(of_flags, 0),
                Spot::Register(cell) => to.pack(registers[cell as usize].since(first), 0),
                Spot::Memory(piece) => {
                    let (cell, place) = pieces[piece as usize];
                    to.pack(memory.cells[place as usize].since(first), cell)
                }
            };
            to.links.push(packed);
        }
        for &(cell, output) in &variant.whole_registers {
            let link = &mut registers[cell as usize];
            if link.is_old(first) {
                written.push(cell);
            }
            *link = Link::one(Slot::of(record, output));
        }
        for &(piece, output) in &variant.whole_memory {
            let (cell, place) = pieces[piece as usize];
            let link = &mut memory.cells[place as usize];
            if link.is_old(first) {
                stored.push((cell, place));
            }
            *link = Link::one(Slot::of(record, output));
        }
        for u in &variant.updates {
            let link = match u.spot {
                Spot::Register(cell) => {
                    let link = &mut registers[cell as usize];
                    if link.is_old(first) {
                        written.push(cell);
                    }
                    link
                }
                Spot::Memory(piece) => {
                    let (cell, place) = pieces[piece as usize];
                    let link = &mut memory.cells[place as usize];
                    if link.is_old(first) {
                        stored.push((cell, place));
                    }
                    link
                }
            };
            *link = match u.parts[..] {
                [(0xff, Origin::Nowhere)] => Link::rest(slot, Rest::Nowhere, 0),
                [(_, Origin::Input(n))] => {
                    let link = passed.iter().find(|p| p.0 == n);
                    let link = link.map_or(Link::NONE, |p| p.1);
                    match link.is_none() {
                        true => {
                            to.cells.push(match variant.inputs[n as usize] {
                                Spot::Register(cell) => Cell::Register(cell),
                                Spot::Memory(piece) => Cell::Memory(pieces[piece as usize].0),
                            });
                            Link::rest(slot, Rest::Before, to.cells.len() - 1)
                        }
                        false => link,
                    }
                }
                _ => {
                    let mut link = link.since(first);
                    for &(bits, origin) in &u.parts {
                        let output = match origin {
                            Origin::Output(output) => Some(Slot::of(record, output)),
                            Origin::Nowhere | Origin::Input(_) => None,
                        };
                        link = write(to, link, slot, output, bits);
                    }
                    link
                }
            };
        }
        to.taped.push(*taped);
        to.records.push(Linked {
            variant: number,
            links: links as u32,
            wanted: to.outputs,
            step: (item.step - to.step) as u32,
            frame: item.frame,
            first_frame: taped.first_frame,
        });
        to.outputs += variant.outputs.len() as u32;
        self.next += 1;
        self.flags |= variant.flags_written;
        true
    }
}

/// Adds to a key which pieces meet a cell that was stored to before.
fn meetings(form: &Form, cells: &[(u64, u32)], key: &mut Vec<u8>) {
    let mut list: SmallVec<[(u64, u8); 16]> = SmallVec::new();
    let mut at = 0;
    for (n, a) in form.accesses.iter().enumerate() {
        for _ in 0..count(u64::from(key[n]), a.len) {
            let cell = cells[at].0;
            match list.iter().find(|l| l.0 == cell) {
                Some(before) => key.extend([at as u8, before.1]),
                None if a.writes => list.push((cell, at as u8)),
                None => {}
            }
            at += 1;
        }
    }
}

/// Who wrote some of the flags last, in a segment: looked for, since that is seldom asked.
fn flags(to: &mut Links, variants: &[Arc<Variant>], begin: u32, read: u8) -> Link {
    let mut link = Link::NONE;
    let mut left = read;
    let mut n = to.records.len();
    while left != 0 && n > begin as usize {
        n -= 1;
        let variant = to.records[n].variant;
        let record = to.first + n as u32;
        let flags = &variants[variant as usize].flags;
        for &(bits, output) in flags.iter().filter(|f| f.0 & left != 0) {
            let slot = Slot::of(record, output);
            link = write(to, link, slot, Some(slot), bits & left);
        }
        left &= !variants[variant as usize].flags_written;
    }
    link
}

/// All bytes of a link are known, or none.
fn is_whole_or_nothing(links: &Links, link: &Link) -> bool {
    if link.is_list() {
        return links.writers(link).iter().fold(0, |all, w| all | w.bits) == 0xff;
    }
    let [a, b, rest] = link.bits();
    matches!(a | b | rest, 0 | 0xff)
}

/// Some bytes are written by a record of which this is a slot: an output, or what is of no interest.
fn write(to: &mut Links, link: Link, slot: Slot, output: Option<Slot>, bits: u8) -> Link {
    if !link.is_list() {
        let (mut slots, mut what) = (link.slots(), link.what());
        let [a, b, mut rest] = link.bits().map(|b| b & !bits);
        let mut known = [a, b];
        if let Some(n) = (0..2).find(|n| known[*n] == 0) {
            let fits = match output {
                Some(output) => {
                    (slots[n], known[n]) = (output, bits);
                    true
                }
                None => {
                    let fits = rest == 0 || what == Rest::Nowhere;
                    if fits {
                        (slots[n], rest, what) = (slot, rest | bits, Rest::Nowhere);
                    }
                    fits
                }
            };
            if fits {
                return Link::new(slots, known, rest, what, link.more());
            }
        }
    }
    let mut list = to.writers(&link);
    for w in &mut list {
        w.bits &= !bits;
    }
    list.retain(|w| w.bits != 0);
    let from = output.map_or(From::Nowhere, From::Slot);
    list.push(Writer { bits, from });
    to.lists.push(list);
    Link::rest(slot, Rest::List, to.lists.len() - 1)
}

impl Access {
    fn of(spot: &plan::Spot, unit: u8) -> Access {
        let place = |slot| match slot {
            tape::slot::ZERO => ZERO,
            tape::slot::RSP => RSP,
            tape::slot::RBP => RBP,
            n => (tape::RECORD_HEAD + unit as usize * n as usize) as u16,
        };
        let len = spot.access.fixed().unwrap_or(0);
        let writes = spot.access.writes;
        match spot.sum() {
            Some(sum) => Access {
                base: place(sum.base),
                index: place(sum.index),
                scale: sum.scale,
                writes,
                len,
                plus: sum.at,
                spot: None,
            },
            None => Access {
                base: ZERO,
                index: ZERO,
                scale: 0,
                writes,
                len,
                plus: 0,
                spot: Some(Box::new(*spot)),
            },
        }
    }

    #[inline]
    fn address(&self, values: &Values<'_>, known: &[u64; 4]) -> u64 {
        if let Some(spot) = &self.spot {
            return spot.address(values);
        }
        let get = |at: u16| match values.record.get(at as usize..) {
            Some(b) => b.first_chunk().map_or(0, |b| u64::from_le_bytes(*b)),
            None => known[at as usize % 4],
        };
        let mut sum = self.plus.wrapping_add(get(self.base));
        if self.index != ZERO {
            sum = sum.wrapping_add(get(self.index).wrapping_mul(u64::from(self.scale)));
        }
        sum
    }
}
