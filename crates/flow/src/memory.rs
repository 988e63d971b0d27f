//! Bytes of memory that a backward walk looks for, and who wants them.
//!
//! A slice may want much memory, and looks at it in the order in which the guest used it: what each
//! look costs is the memory that it touches. So a page of which something was ever wanted has a
//! table, of four bytes for each cell of eight; and who wants something of a cell is packed into a
//! *line*, which a CPU fetches at once. A wish has sixteen bytes there: a number for who wants which
//! bytes, how many executions, the latest and the earliest. What does not fit into that is kept
//! elsewhere in full, and so are wishes that came from other memory.
//!
//! A hash map of lists takes as many instructions, and several times as long: it waits for memory.

use std::cell::Cell as Shared;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::wanted::{
    Cell, Each, Entry, Taken, Took, Wants, WhoId, part, pieces, put, runs, spread, take,
    wants_memory,
};

/// Cells of a page.
const PAGE: u64 = 512;
/// Pages that were looked up last.
const NEAR: usize = 256;
/// A page of which nothing was ever wanted.
const NO_PAGE: u32 = u32::MAX;

/// Bits of a step, and what remains for a number.
const STEP: u32 = 40;
const STEPS: u64 = (1 << STEP) - 1;
const NUMBERS: u64 = 1 << (64 - STEP);
/// Instead of who wants what: the wish is in `odd`, or the list goes on in another line.
const ODD: u64 = NUMBERS - 1;
const MORE: u64 = NUMBERS - 2;

/// A wish: who wants which bytes and the latest execution; how many, and the earliest.
#[derive(Clone, Copy, Default)]
struct Packed(u64, u64);

impl Packed {
    fn new(what: u64, latest: u64, times: u64, earliest: u64) -> Self {
        Packed(what << STEP | latest, times << STEP | earliest)
    }

    /// A place instead of a wish.
    fn at(what: u64, place: u32) -> Self {
        Packed::new(what, u64::from(place), 1, 0)
    }

    #[inline]
    fn what(self) -> u64 {
        self.0 >> STEP
    }

    fn place(self) -> usize {
        (self.0 & STEPS) as usize
    }

    /// No more than room for one.
    fn is_none(self) -> bool {
        self.1 >> STEP == 0
    }

    /// Other executions of the same want the same; whether there was room to say so.
    #[inline]
    fn join(&mut self, other: &Wants) -> bool {
        let (latest, earliest) = (self.0 & STEPS, self.1 & STEPS);
        if other.times == 1 && earliest == other.earliest {
            return true;
        }
        let times = (self.1 >> STEP) + u64::from(other.times);
        if times >= NUMBERS || other.latest > STEPS {
            return false;
        }
        self.0 = self.what() << STEP | latest.max(other.latest);
        self.1 = times << STEP | earliest.min(other.earliest);
        true
    }
}

/// Some of those who want something of a cell.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([Packed; 4]);

/// Which bytes were wanted the last time, and the number for who wants them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Trace {
    bytes: u8,
    what: u32,
}

/// A wish of one execution that is not in its line yet.
struct Waiting {
    /// The cell.
    n: u64,
    step: u64,
    what: u32,
}

/// Cells that are looked at together.
pub(crate) const TOGETHER: usize = 64;

/// Wanted bytes of memory.
pub(crate) struct Memory {
    /// Where the table of a page is.
    pages: FxHashMap<u64, u32>,
    /// By cell of a page, which line has its wishes; 0 if there are none.
    tables: Vec<u32>,
    near: Box<[Shared<(u64, u32)>; NEAR]>,
    lines: Vec<Line>,
    /// Of `lines`, those that are not used.
    free: Vec<u32>,
    /// Cells of which something is wanted.
    count: usize,
    /// Who wants which bytes, and by who that is, the numbers for it.
    whats: Vec<(WhoId, u8)>,
    numbers: Vec<SmallVec<[(u8, u32); 1]>>,
    odd: Vec<Entry>,
    free_odd: Vec<u32>,
    waiting: Vec<Waiting>,
    /// A cell that is looked at.
    room: Cell,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Memory {
            pages: FxHashMap::default(),
            tables: Vec::new(),
            near: Box::new([const { Shared::new((u64::MAX, NO_PAGE)) }; NEAR]),
            lines: vec![Line::default()],
            free: Vec::new(),
            count: 0,
            whats: Vec::new(),
            numbers: Vec::new(),
            odd: Vec::new(),
            free_odd: Vec::new(),
            waiting: Vec::new(),
            room: Cell::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Nothing is wanted any more. The numbers for who wants what stay what they are: a [`Trace`] has them.
    pub(crate) fn clear(&mut self) {
        *self = Memory {
            whats: std::mem::take(&mut self.whats),
            numbers: std::mem::take(&mut self.numbers),
            ..Memory::new()
        };
    }

    /// Where the table of cell `n` has it, if its page has one.
    #[inline]
    fn slot(&self, n: u64) -> Option<usize> {
        let page = n / PAGE;
        let near = &self.near[page as usize % NEAR];
        let (known, mut table) = near.get();
        if known != page {
            table = self.pages.get(&page).copied().unwrap_or(NO_PAGE);
            near.set((page, table));
        }
        (table != NO_PAGE).then(|| table as usize * PAGE as usize + (n % PAGE) as usize)
    }

    /// Which line has the wishes of cell `n`: 0 if there are none.
    #[inline]
    fn line(&self, n: u64) -> u32 {
        self.slot(n).map_or(0, |slot| self.tables[slot])
    }

    /// Makes a table for the page of cell `n`.
    #[cold]
    fn page(&mut self, n: u64) -> usize {
        let (page, at) = (n / PAGE, self.tables.len());
        self.tables.resize(at + PAGE as usize, 0);
        let table = (at / PAGE as usize) as u32;
        self.pages.insert(page, table);
        self.near[page as usize % NEAR].set((page, table));
        at + (n % PAGE) as usize
    }

    /// All that is in a line and those that it goes on in.
    #[inline]
    fn packed(&self, line: u32) -> impl Iterator<Item = Packed> {
        let (mut line, mut at) = (line as usize, 0);
        std::iter::from_fn(move || {
            let mut next = *self.lines[line].0.get(at)?;
            if next.what() == MORE {
                (line, at) = (next.place(), 0);
                next = self.lines[line].0[0];
            }
            at += 1;
            (!next.is_none()).then_some(next)
        })
    }

    #[inline]
    fn unpack(&self, n: u64, packed: Packed) -> Entry {
        if packed.what() == ODD {
            return self.odd[packed.place()];
        }
        let (who, bytes) = self.whats[packed.what() as usize];
        Entry {
            wants: Wants {
                who,
                times: (packed.1 >> STEP) as u32,
                latest: packed.0 & STEPS,
                earliest: packed.1 & STEPS,
            },
            base: n * 8,
            bytes,
        }
    }

    fn pack(&mut self, n: u64, entry: &Entry) -> Packed {
        let what = self.what(entry.wants.who, entry.bytes);
        self.pack_as(n, entry, what)
    }

    /// The same where the number for who wants which bytes is known.
    fn pack_as(&mut self, n: u64, entry: &Entry, what: u32) -> Packed {
        let Wants {
            who,
            times,
            latest,
            earliest,
        } = entry.wants;
        let here = entry.base == n * 8 || !wants_memory(who);
        let what = u64::from(what);
        if here && latest <= STEPS && u64::from(times) < NUMBERS && what < MORE {
            return Packed::new(what, latest, u64::from(times), earliest);
        }
        let place = self.free_odd.pop().unwrap_or_else(|| {
            self.odd.push(*entry);
            self.odd.len() as u32 - 1
        });
        self.odd[place as usize] = *entry;
        Packed::at(ODD, place)
    }

    /// The number for somebody who wants these bytes.
    fn what(&mut self, who: WhoId, bytes: u8) -> u32 {
        let known = self.numbers.get(who as usize).into_iter().flatten();
        match known.into_iter().find(|k| k.0 == bytes) {
            Some(k) => k.1,
            None => self.new_what(who, bytes),
        }
    }

    #[cold]
    fn new_what(&mut self, who: WhoId, bytes: u8) -> u32 {
        let (what, who) = (self.whats.len() as u32, who as usize);
        self.whats.push((who as WhoId, bytes));
        if self.numbers.len() <= who {
            self.numbers.resize(who + 1, SmallVec::new());
        }
        self.numbers[who].push((bytes, what));
        what
    }

    /// Changes what is wanted of a cell.
    fn change(&mut self, n: u64, f: impl FnOnce(&mut Cell)) {
        let slot = self.slot(n).unwrap_or_else(|| self.page(n));
        let line = self.tables[slot];
        let mut room = std::mem::take(&mut self.room);
        room.clear();
        if line != 0 {
            room.extend(self.packed(line).map(|p| self.unpack(n, p)));
            self.forget(line);
            self.count -= 1;
        }
        f(&mut room);
        self.tables[slot] = match room.is_empty() {
            true => 0,
            false => {
                self.count += 1;
                self.keep(n, &room)
            }
        };
        self.room = room;
    }

    /// Frees a line and those that it goes on in.
    fn forget(&mut self, mut line: u32) {
        loop {
            self.free.push(line);
            let Line(all) = self.lines[line as usize];
            let odd = all.iter().filter(|p| !p.is_none() && p.what() == ODD);
            self.free_odd.extend(odd.map(|p| p.place() as u32));
            if all[3].is_none() || all[3].what() != MORE {
                return;
            }
            line = all[3].place() as u32;
        }
    }

    /// A line for these.
    fn keep_line(&mut self, line: Line) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.lines[place as usize] = line;
                place
            }
            None => {
                self.lines.push(line);
                self.lines.len() as u32 - 1
            }
        }
    }

    /// Puts a list into as many lines as it takes; the first of them.
    fn keep(&mut self, n: u64, list: &[Entry]) -> u32 {
        let mut line = Line::default();
        let here = if list.len() > 4 { 3 } else { list.len() };
        for (to, entry) in line.0.iter_mut().zip(&list[..here]) {
            *to = self.pack(n, entry);
        }
        if here < list.len() {
            line.0[3] = Packed::at(MORE, self.keep(n, &list[here..]));
        }
        self.keep_line(line)
    }

    pub(crate) fn add(&mut self, addr: u64, len: u64, wants: Wants, mut each: Each) {
        if len
            .checked_sub(1)
            .and_then(|l| addr.checked_add(l))
            .is_none()
        {
            return;
        }
        for (n, bytes) in pieces(addr, len) {
            let base = n * 8;
            self.join(n, Entry { wants, base, bytes }, &mut each);
        }
    }

    /// Somebody wants something of a cell.
    fn join(&mut self, n: u64, entry: Entry, each: &mut Each) {
        match each {
            Each(true) => self.change(n, |cell| {
                put(cell, entry, each);
            }),
            Each(false) => {
                let what = self.what(entry.wants.who, entry.bytes);
                self.put(n, entry, what);
            }
        }
    }

    /// The same for one execution and bytes of one cell, where executions are put together; not before
    /// [`Memory::catch_up`]. `trace` is what the same was found to be the last time.
    #[inline]
    pub(crate) fn want(&mut self, n: u64, bytes: u8, who: WhoId, step: u64, trace: &mut Trace) {
        if trace.bytes != bytes {
            *trace = Trace {
                bytes,
                what: self.what(who, bytes),
            };
        }
        let what = trace.what;
        self.waiting.push(Waiting { n, step, what });
        if self.waiting.len() == TOGETHER {
            self.catch_up();
        }
    }

    /// The lines of cells, as far as there is room. They are fetched, which takes no longer than fetching one: the CPU need not
    /// know what is in one to ask for the next.
    pub(crate) fn fetch(&self, cells: impl Iterator<Item = u64>) -> [u32; TOGETHER] {
        let mut lines = [0; TOGETHER];
        for (n, line) in cells.zip(&mut lines) {
            *line = self.line(n);
        }
        let firsts = lines.map(|line| self.lines[line as usize].0[0].0);
        std::hint::black_box(&firsts);
        lines
    }

    /// Does what waits to be done.
    pub(crate) fn catch_up(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let lines = self.fetch(waiting.iter().map(|w| w.n));
        for (w, line) in waiting.iter().zip(lines) {
            let (who, bytes) = self.whats[w.what as usize];
            let wants = Wants::one(who, w.step);
            let what = u64::from(w.what);
            let Line(all) = &mut self.lines[line as usize];
            let same = all.iter_mut().find(|p| p.what() == what && !p.is_none());
            if same.is_none_or(|same| !same.join(&wants)) {
                let base = w.n * 8;
                self.put(w.n, Entry { wants, base, bytes }, w.what);
            }
        }
        self.waiting = waiting;
        self.waiting.clear();
    }

    /// Puts a wish into a cell, where executions are put together. `what` is the number for it.
    fn put(&mut self, n: u64, entry: Entry, what: u32) {
        let slot = self.slot(n).unwrap_or_else(|| self.page(n));
        if self.tables[slot] == 0 {
            let mut line = Line::default();
            line.0[0] = self.pack_as(n, &entry, what);
            self.tables[slot] = self.keep_line(line);
            self.count += 1;
            return;
        }
        let mut line = self.tables[slot] as usize;
        'lines: loop {
            let Line(all) = self.lines[line];
            for (at, known) in all.into_iter().enumerate() {
                if known.is_none() {
                    let packed = self.pack_as(n, &entry, what);
                    self.lines[line].0[at] = packed;
                    return;
                }
                match known.what() {
                    ODD => break 'lines,
                    MORE => {
                        line = known.place();
                        continue 'lines;
                    }
                    same if same == u64::from(what) => {
                        if self.lines[line].0[at].join(&entry.wants) {
                            return;
                        }
                        break 'lines;
                    }
                    _ => {}
                }
            }
            // There is no room: the last goes to another line, and this one after it.
            let mut more = Line::default();
            (more.0[0], more.0[1]) = (all[3], self.pack_as(n, &entry, what));
            let more = self.keep_line(more);
            self.lines[line].0[3] = Packed::at(MORE, more);
            return;
        }
        self.change(n, |cell| {
            put(cell, entry, &mut Each(false));
        });
    }

    /// What was wanted of other bytes is wanted of those at `addr`.
    pub(crate) fn pass(&mut self, addr: u64, took: &Took, mut each: Each) {
        spread(took, addr, |n, entry| self.join(n, entry, &mut each));
    }

    /// The cells in which `[addr, addr + len)` is, as far as something of that is wanted: number, which bytes of
    /// those, and the bits in question.
    #[inline]
    pub(crate) fn wanted(&self, addr: u64, len: u64) -> impl Iterator<Item = (u64, u8, u8)> {
        pieces(addr, len).filter_map(|(n, bytes)| {
            let wanted = match self.line(n) {
                0 => 0,
                line => self.bytes(line),
            };
            (wanted & bytes != 0).then_some((n, wanted & bytes, bytes))
        })
    }

    /// Which bytes those in a line want.
    #[inline]
    fn bytes(&self, line: u32) -> u8 {
        let bytes = self.packed(line).map(|packed| match packed.what() {
            ODD => self.odd[packed.place()].bytes,
            what => self.whats[what as usize].1,
        });
        bytes.fold(0, |all, b| all | b)
    }

    /// Who wants something of a cell.
    pub(crate) fn entries(&self, n: u64) -> impl Iterator<Item = Entry> {
        let line = self.line(n);
        let all = (line != 0).then(|| self.packed(line));
        all.into_iter().flatten().map(move |p| self.unpack(n, p))
    }

    /// Perhaps something in `[addr, addr + len)` is wanted.
    #[inline]
    pub(crate) fn maybe(&self, addr: u64, len: u64) -> bool {
        let (first, last) = (addr / 8, addr.wrapping_add(len.max(1) - 1) / 8);
        if last.wrapping_sub(first) > 64 {
            return !self.is_empty();
        }
        (first..=last).any(|n| self.line(n) != 0)
    }

    /// Who wants something of this; it stays wanted.
    pub(crate) fn peek(&self, addr: u64, len: u64, out: &mut Vec<Wants>) {
        for (n, _, bytes) in self.wanted(addr, len) {
            let entries = self.entries(n).filter(|e| e.bytes & bytes != 0);
            out.extend(entries.map(|e| e.wants));
        }
    }

    pub(crate) fn take(&mut self, addr: u64, len: u64, out: &mut Taken) {
        if len == 0 || self.is_empty() {
            return;
        }
        let (first, last) = (addr / 8, addr.saturating_add(len - 1) / 8);
        let pages = first / PAGE..=last / PAGE;
        if (pages.end() - pages.start()) as usize <= self.pages.len() {
            for n in first..=last {
                self.take_cell(n, addr, len, out);
            }
            return;
        }
        let mut list: Vec<u64> = self.pages.keys().copied().collect();
        list.retain(|page| pages.contains(page));
        list.sort_unstable();
        for page in list {
            for n in (page * PAGE).max(first)..=(page * PAGE + PAGE - 1).min(last) {
                self.take_cell(n, addr, len, out);
            }
        }
    }

    #[inline]
    fn take_cell(&mut self, n: u64, addr: u64, len: u64, out: &mut Taken) {
        let Some(slot) = self.slot(n) else { return };
        let line = self.tables[slot];
        if line == 0 {
            return;
        }
        let at = (n * 8).wrapping_sub(addr) as i64;
        let bytes = part(n, addr, len);
        if self.take_line(n, line, bytes, at, out) {
            self.tables[slot] = 0;
            self.count -= 1;
        } else {
            self.change(n, |cell| take(cell, bytes, at, out));
        }
    }

    /// Takes all that is in a line and those that it goes on in, if it is no more than `bytes`, each of them in a
    /// row.
    #[inline]
    fn take_line(&mut self, n: u64, line: u32, bytes: u8, at: i64, out: &mut Taken) -> bool {
        let before = out.len();
        for packed in self.packed(line) {
            let entry = self.unpack(n, packed);
            let (first, len) = runs(entry.bytes).next().unwrap_or((0, 0));
            if entry.bytes & !bytes != 0 || len != u64::from(entry.bytes.count_ones()) {
                out.truncate(before);
                return false;
            }
            let at = (at + first as i64) as u64;
            out.push(Took { at, len, entry });
        }
        self.forget(line);
        true
    }
}
