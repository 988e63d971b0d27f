//! Who wrote each register and each piece of memory last.
//!
//! That is known for a moment of the run by going through the tape up to there and noting the step at
//! each write. There are many writes, so what is done for a record is little. Registers: those that it
//! writes are the same for each record of a shape, so it is enough to note when each shape came last; who
//! wrote a register follows from that when the walk is over. Memory: each store is a sum of values on the tape and
//! constants, which is worked out once for its shape ([`Table`]), and what is written to is found through two
//! tables, of which the first has a word for each 2 MiB of the guest's address space. Records are read where
//! they lie.
//!
//! Rejected: a list of items as a walk gives them ([`Roll::forward`]), because making the list takes longer
//! than all that is done here; hashing addresses, because neighbours in the guest are neighbours in a table and
//! share its cache lines; noting the step for each register that a record writes, because how many there are
//! differs from record to record, and the CPU guesses that wrong.

use image::effects::{self, RegRange, SIZE, Segment, Size};
use rustc_hash::FxHashMap;
use tape::{Event, RECORD_HEAD, Term, slot};

use crate::codes::Codes;
use crate::plan::{Spot, Step, Values};
use crate::reader::Reader;
use crate::roll::{Chunk, Roll};

/// Cells of registers, which have eight bytes each.
const REGISTERS: usize = (SIZE as usize).div_ceil(8);

/// A page of cells stands for so much of the guest's memory.
const PAGE_BITS: u32 = 21;
const PAGE_CELLS: usize = 1 << (PAGE_BITS - 3);
/// User space is 47 bits.
const PAGES: usize = 1 << (47 - PAGE_BITS);

/// The last writers at some moment of a run.
pub struct Writers {
    /// Step after the last write of each cell of the registers of each thread; 0: there was none.
    registers: FxHashMap<u32, [u64; REGISTERS]>,
    memory: Memory,
}

/// On the way there.
struct Pass<'a> {
    codes: &'a Codes,
    table: Table,
    place: Place,
    thread: Thread,
    /// Those that do not run.
    others: Vec<Thread>,
    memory: Memory,
}

struct Thread {
    number: u32,
    /// The step after the first one of the last record of each shape; 0: there was none.
    last: Vec<u64>,
    /// What was written to registers otherwise.
    registers: [u64; REGISTERS],
    /// The step after the last system call.
    call: u64,
}

/// Step after the last write of each cell of memory; 0: there was none.
struct Memory {
    /// Which page has the cells of an address; the kernel commits the table only where it is used.
    top: Box<[u32; PAGES]>,
    /// The first page stands for all that was never written.
    pages: Vec<Box<[u64; PAGE_CELLS]>>,
    /// The address that each page begins at.
    starts: Vec<u64>,
}

/// Where the guest is between two records.
#[derive(Clone, Copy)]
struct Place {
    step: u64,
    /// What is known besides the values of the record: by the last bits of [`ZERO`], [`RSP`], [`RBP`] and
    /// [`FS_BASE`].
    known: [u64; 4],
}

/// A value that is had from a record.
#[derive(Clone, Copy)]
struct Source {
    /// Its distance from the record's beginning, or one of those below.
    at: u16,
    plus: u64,
}

const ZERO: u16 = 0xfffc;
const RSP: u16 = 0xfffd;
const RBP: u16 = 0xfffe;
const FS_BASE: u16 = 0xffff;

/// What the records of a shape do.
#[derive(Clone, Copy)]
struct Way {
    /// Bytes of the record; 0 if nothing is known of the shape.
    len: u16,
    executed: u16,
    stores: (u32, u32),
    rsp: Source,
    rbp: Source,
}

/// A store of some instruction.
struct Store {
    insn: u8,
    /// Bytes; 0 for one that is told only by its [`Spot`].
    len: u8,
    scale: u8,
    /// The address is the base and so many times the index.
    base: Source,
    index: u16,
    spot: u32,
}

/// What the records of each shape do.
#[derive(Default)]
struct Table {
    ways: Vec<Way>,
    stores: Vec<Store>,
    spots: Vec<Spot>,
}

impl Table {
    fn add(&mut self, codes: &Codes, shape: u32) {
        let n = shape as usize;
        if self.ways.len() <= n {
            self.ways.resize(codes.len(), Way::UNKNOWN);
        }
        if self.ways[n].len > 0 {
            return;
        }
        let (plan, way) = (codes.plan(shape), codes.way(shape));
        let first_store = self.stores.len() as u32;
        for (i, spot) in plan.stores.iter().take_while(|s| s.0 < way.executed) {
            let store = Store::of(*i, spot, self.spots.len() as u32);
            if store.len == 0 {
                self.spots.push(*spot);
            }
            self.stores.push(store);
        }
        self.ways[n] = Way {
            len: way.record_len,
            executed: way.executed.into(),
            stores: (first_store, self.stores.len() as u32),
            rsp: Source::of(way.rsp),
            rbp: Source::of(way.rbp),
        };
    }

    #[inline]
    fn record<'a>(&self, bytes: &'a [u8]) -> Option<(u32, &Way, &'a [u8])> {
        let shape = u32::from_le_bytes(*bytes.first_chunk()?);
        let way = self.ways.get(shape as usize)?;
        let record = bytes.get(..way.len as usize)?;
        (!record.is_empty()).then_some((shape, way, record))
    }
}

impl Way {
    const UNKNOWN: Way = Way {
        len: 0,
        executed: 0,
        stores: (0, 0),
        rsp: Source { at: RSP, plus: 0 },
        rbp: Source { at: RBP, plus: 0 },
    };
}

impl Source {
    fn of(t: Term) -> Source {
        let at = match t.slot {
            slot::ZERO => ZERO,
            slot::RSP => RSP,
            slot::RBP => RBP,
            n => (RECORD_HEAD + 8 * n as usize) as u16,
        };
        let plus = t.offset as u64;
        Source { at, plus }
    }
}

impl Store {
    fn of(insn: u8, spot: &Spot, number: u32) -> Store {
        let a = &spot.access.address;
        let mut store = Store {
            insn,
            len: 0,
            scale: 0,
            base: Source { at: ZERO, plus: 0 },
            index: ZERO,
            spot: number,
        };
        let fs = a.segment == Some(Segment::Fs);
        let Size::Fixed(len) = spot.access.size else {
            return store;
        };
        let len = u8::try_from(len).unwrap_or(0);
        if spot.bit.is_some() || a.narrow || fs && spot.index.is_some() {
            return store;
        }
        if let Some(base) = spot.base {
            store.base = Source::of(base);
        }
        store.base.plus = store.base.plus.wrapping_add(a.displacement);
        if let Some(index) = spot.index {
            let Source { at, plus } = Source::of(index);
            (store.index, store.scale) = (at, a.scale);
            let plus = plus.wrapping_mul(a.scale.into());
            store.base.plus = store.base.plus.wrapping_add(plus);
        } else if fs {
            (store.index, store.scale) = (FS_BASE, 1);
        }
        store.len = len;
        store
    }
}

impl Place {
    fn of(reader: &Reader) -> Place {
        Place {
            step: reader.step,
            known: [0, reader.rsp, reader.rbp, reader.fs_base],
        }
    }

    #[inline]
    fn get(&self, record: &[u8], at: u16) -> u64 {
        if at >= ZERO {
            return self.known[usize::from(at) % 4];
        }
        let word = record.get(at as usize..).and_then(|b| b.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }

    #[inline]
    fn source(&self, record: &[u8], s: Source) -> u64 {
        self.get(record, s.at).wrapping_add(s.plus)
    }

    fn values<'a>(&self, record: &'a [u8]) -> Values<'a> {
        Values {
            record,
            rsp: self.known[1],
            rbp: self.known[2],
            fs_base: self.known[3],
            unit: Values::UNIT,
        }
    }
}

impl Writers {
    /// The step at which one of the eight-byte cells of a register was written last.
    pub fn register(&self, thread: u32, register: RegRange) -> Option<u64> {
        let last = self.registers.get(&thread)?[cells_of(register)].iter();
        last.max()?.checked_sub(1)
    }

    /// The step at which the eight-byte cell that an address is in was written last.
    pub fn memory(&self, addr: u64) -> Option<u64> {
        let Memory { top, pages, .. } = &self.memory;
        let page = top[(addr >> PAGE_BITS) as usize % PAGES];
        let cell = (addr >> 3) as usize % PAGE_CELLS;
        pages[page as usize][cell].checked_sub(1)
    }

    /// All cells of memory that were written, by address, in no order, with the step of the last write.
    pub fn written(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let Memory { pages, starts, .. } = &self.memory;
        starts.iter().zip(pages).flat_map(|(start, page)| {
            let cells = (*start..).step_by(8).zip(page.iter());
            cells.filter_map(|(addr, after)| Some((addr, after.checked_sub(1)?)))
        })
    }
}

impl Roll {
    /// Who wrote everything last before `step`, from the beginning of the tape on. What a system call
    /// writes, its own step has written; what the kernel writes for a signal or others write, the step that
    /// comes next.
    pub fn last_writers(&self, step: u64) -> Writers {
        let start = self.chunks.first().map(|c| &c.start);
        let mut pass = Pass {
            codes: &self.codes,
            table: Table::default(),
            place: Place::of(start.unwrap_or(&self.reader)),
            thread: Thread::new(start.map_or(0, |s| s.thread)),
            others: Vec::new(),
            memory: Memory::new(),
        };
        let end = self.chunks.partition_point(|c| c.start.step <= step);
        self.visit_records(0..end, |chunk, records| {
            self.count(chunk, &mut |shape, _| pass.table.add(&self.codes, shape));
            pass.place = Place::of(&chunk.start);
            pass.chunk(chunk, records, step);
        });
        pass.finish()
    }
}

impl Pass<'_> {
    /// Goes past what is in a chunk and before that step.
    fn chunk(&mut self, chunk: &Chunk, records: &[u8], before: u64) {
        let known = self.table.ways.len();
        self.thread.last.resize(known, 0);
        let mut at = 0;
        let events = chunk.events.iter().map(|(n, e)| (*n as usize, Some(e)));
        for (n, event) in events.chain([(records.len(), None)]) {
            at = self.records(records, at, n, before);
            if at < n {
                return self.part(&records[at..], before);
            }
            let Some(event) = event.filter(|e| self.place.step + e.steps() <= before) else {
                return;
            };
            self.event(event);
        }
    }

    /// Goes past the records up to `end` and before that step; returns where it is then.
    fn records(&mut self, records: &[u8], mut at: usize, end: usize, before: u64) -> usize {
        let (table, memory) = (&self.table, &mut self.memory);
        let last = &mut self.thread.last[..table.ways.len()];
        let mut place = self.place;
        while at < end {
            let Some((shape, way, record)) = table.record(&records[at..]) else {
                break;
            };
            if place.step + u64::from(way.executed) > before {
                break;
            }
            let after = place.step + 1;
            last[shape as usize] = after;
            for store in &table.stores[way.stores.0 as usize..way.stores.1 as usize] {
                let after = after + u64::from(store.insn);
                if store.len == 0 {
                    let spot = &table.spots[store.spot as usize];
                    memory.stretches(spot, &place.values(record), after);
                    continue;
                }
                let mut addr = place.source(record, store.base);
                if store.index != ZERO {
                    let index = place.get(record, store.index);
                    addr = addr.wrapping_add(index.wrapping_mul(store.scale.into()));
                }
                memory.store(addr, store.len.into(), after);
            }
            let [rsp, rbp] = [way.rsp, way.rbp].map(|s| place.source(record, s));
            (place.known[1], place.known[2]) = (rsp, rbp);
            place.step += u64::from(way.executed);
            at += record.len();
        }
        self.place = place;
        at
    }

    /// The first instructions of a record, before that step.
    fn part(&mut self, bytes: &[u8], before: u64) {
        let Some((shape, _, record)) = self.table.record(bytes) else {
            return;
        };
        let steps = &self.codes.plan(shape).steps;
        for (after, step) in (self.place.step + 1..=before).zip(steps) {
            for cell in cells(step) {
                self.thread.registers[cell] = after;
            }
            for spot in step.spots.iter().filter(|s| s.access.writes) {
                let values = self.place.values(record);
                self.memory.stretches(spot, &values, after);
            }
        }
    }

    fn event(&mut self, event: &Event) {
        let after = self.place.step + 1;
        match event {
            Event::State {
                thread,
                rsp,
                rbp,
                fs_base,
                ..
            } => {
                self.turn(*thread);
                self.place.known = [0, *rsp, *rbp, *fs_base];
            }
            Event::Enter { .. } => {
                self.thread.write(effects::RCX, after);
                self.thread.write(effects::R11, after);
                self.thread.call = after;
            }
            Event::Leave { writes, .. } => {
                // The tape may have begun during the call.
                let call = match self.thread.call {
                    0 => after,
                    call => call,
                };
                self.thread.write(effects::RAX, call);
                for w in writes {
                    self.memory.store(w.addr, w.len, call);
                }
            }
            Event::Special(insn) => {
                for cell in cells(&Step::of(insn, &[])) {
                    self.thread.registers[cell] = after;
                }
            }
            Event::Signal { frame, .. } => self.memory.store(frame.addr, frame.len, after),
            Event::Outside { writes } => {
                for w in writes {
                    self.memory.store(w.addr, w.len, after);
                }
            }
            Event::Followed(_) | Event::Exec => {}
        }
        self.place.step += event.steps();
    }

    fn turn(&mut self, thread: u32) {
        if thread == self.thread.number {
            return;
        }
        let known = self.others.iter().position(|t| t.number == thread);
        let mut next = match known {
            Some(n) => self.others.swap_remove(n),
            None => Thread::new(thread),
        };
        next.last.resize(self.table.ways.len(), 0);
        let last = std::mem::replace(&mut self.thread, next);
        self.others.push(last);
    }

    fn finish(self) -> Writers {
        let mut registers = FxHashMap::default();
        for mut t in self.others.into_iter().chain([self.thread]) {
            for (shape, after) in t.last.iter().enumerate().filter(|(_, n)| **n > 0) {
                let shape = shape as u32;
                let executed = self.codes.way(shape).executed as usize;
                for (after, step) in (*after..).zip(&self.codes.plan(shape).steps[..executed]) {
                    for cell in cells(step) {
                        t.registers[cell] = t.registers[cell].max(after);
                    }
                }
            }
            registers.insert(t.number, t.registers);
        }
        Writers {
            registers,
            memory: self.memory,
        }
    }
}

impl Thread {
    fn new(number: u32) -> Thread {
        Thread {
            number,
            last: Vec::new(),
            registers: [0; REGISTERS],
            call: 0,
        }
    }

    fn write(&mut self, r: RegRange, after: u64) {
        self.registers[cells_of(r)].fill(after);
    }
}

impl Memory {
    fn new() -> Memory {
        let top: Box<[u32]> = vec![0; PAGES].into();
        Memory {
            top: top.try_into().expect("so many were asked for"),
            pages: vec![page()],
            starts: vec![0],
        }
    }

    /// Notes a write of so many bytes, if any.
    #[inline(always)]
    fn store(&mut self, addr: u64, len: u64, after: u64) {
        let page = self.top[(addr >> PAGE_BITS) as usize % PAGES];
        let first = (addr >> 3) as usize % PAGE_CELLS;
        if page != 0 && (addr % 8).wrapping_add(len) <= 8 && len > 0 {
            self.pages[page as usize][first] = after;
        } else {
            self.store_many(addr, len, after);
        }
    }

    /// The same of more than a cell, or where nothing was written before.
    #[inline(never)]
    fn store_many(&mut self, addr: u64, len: u64, after: u64) {
        if len == 0 {
            return;
        }
        // An access may go round the end of the address space, but a guest cannot have memory there.
        let end = addr.saturating_add(len);
        let mut at = addr & !7;
        while at < end {
            let mut page = self.top[(at >> PAGE_BITS) as usize % PAGES];
            if page == 0 {
                page = self.add_page(at);
            }
            let first = (at >> 3) as usize % PAGE_CELLS;
            let cells = ((end - at).div_ceil(8) as usize).min(PAGE_CELLS - first);
            self.pages[page as usize][first..first + cells].fill(after);
            at += 8 * cells as u64;
        }
    }

    #[cold]
    fn add_page(&mut self, addr: u64) -> u32 {
        let number = self.pages.len() as u32;
        self.pages.push(page());
        self.starts.push(addr >> PAGE_BITS << PAGE_BITS);
        self.top[(addr >> PAGE_BITS) as usize % PAGES] = number;
        number
    }

    /// Notes a store whose size or address is told only when it happens.
    #[cold]
    fn stretches(&mut self, spot: &Spot, values: &Values<'_>, after: u64) {
        let mut list = Vec::new();
        spot.stretches(values, &mut list);
        for (addr, len) in list {
            self.store(addr, len, after);
        }
    }
}

fn page() -> Box<[u64; PAGE_CELLS]> {
    let page: Box<[u64]> = vec![0; PAGE_CELLS].into();
    page.try_into().expect("so many were asked for")
}

fn cells_of(r: RegRange) -> std::ops::Range<usize> {
    r.at as usize / 8..(r.end() as usize).div_ceil(8)
}

/// The cells of registers that an instruction writes.
fn cells(step: &Step) -> impl Iterator<Item = usize> + '_ {
    step.effects.registers_written().flat_map(cells_of)
}
