//! What the program can still find: the pointer map P at the end of a run.
//!
//! A block is reachable if a word that looks like a pointer into it lies in a register, in memory that is no
//! part of the heap, or in a block that is reachable. This is the conservative view: an integer that looks like
//! a pointer hides a leak, but a pointer in disguise is not the only reason for a report.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use guest::Guest;
use rules::eval::Contents;
use rules::heap::{BlockId, Family, Heap};
use rustc_hash::FxHashMap;

/// Blocks are looked up by where they are in steps of this: few begin in one.
const GRAIN_BITS: u32 = 6;
/// So many steps are in one table.
const TABLE_BITS: u32 = 14;
/// A block of more bytes is not looked up so.
const LARGE: u64 = 1 << 26;
/// What is read of the guest's memory at a time; blocks lie close together.
const WINDOW: u64 = 1 << 16;
/// Windows that are kept. Of a larger heap the rest is read block by block.
const MOST_WINDOWS: usize = 4096;
/// Of a program that has a larger mapping, all blocks count as found: it would take too long to search, and what is not searched must
/// not make a leak.
const MOST_SEARCHED: u64 = 64 << 30;

/// Blocks that can be found, by number.
#[derive(Default)]
pub(crate) struct Reachable(Vec<bool>);

impl Reachable {
    /// Some block that there is cannot be found.
    pub(super) fn lacks_some(&self, heap: &Heap) -> bool {
        heap.live().any(|id| !self.contains(id))
    }

    fn contains(&self, block: BlockId) -> bool {
        self.0.get(block.0 as usize).is_some_and(|is| *is)
    }

    /// False if it was there already.
    fn insert(&mut self, block: BlockId) -> bool {
        let n = block.0 as usize;
        if n >= self.0.len() {
            self.0.resize(n + 1, false);
        }
        !std::mem::replace(&mut self.0[n], true)
    }
}

/// The blocks that live, in the order of their addresses.
///
/// Every word that the guest has is looked up, and most are no pointers: what they are compared with must be found
/// without a search.
struct Live {
    blocks: Vec<(u64, u64, BlockId)>,
    /// For each grain of memory, how many blocks begin before its end. There are tables where blocks are, but for those
    /// that reach into very many.
    tables: FxHashMap<u64, Box<[u32]>>,
    large: Vec<u32>,
    /// Nothing is before or behind these.
    first: u64,
    last: u64,
}

impl Live {
    /// Those of allocators that the user has declared, or all others: the former may be parts of the latter.
    fn of(heap: &Heap, step: u64, declared: bool) -> Live {
        let blocks = heap
            .all()
            .filter(|(id, _)| heap.lives(*id, step))
            .filter(|(_, b)| matches!(b.family, Family::Declared(_)) == declared)
            .map(|(id, b)| (b.begin, b.begin.saturating_add(b.size.max(1)), id))
            .collect();
        Live::over(blocks)
    }

    /// From where each begins and ends.
    fn over(mut blocks: Vec<(u64, u64, BlockId)>) -> Live {
        blocks.sort_unstable();
        let mut tables: FxHashMap<u64, Box<[u32]>> = FxHashMap::default();
        let mut large = Vec::new();
        for (n, (begin, end, _)) in blocks.iter().enumerate() {
            if end - begin > LARGE {
                large.push(n as u32);
                continue;
            }
            for table in begin >> (GRAIN_BITS + TABLE_BITS)..=end >> (GRAIN_BITS + TABLE_BITS) {
                tables
                    .entry(table)
                    .or_insert_with(|| grains(&blocks, table));
            }
        }
        Live {
            first: blocks.first().map_or(u64::MAX, |b| b.0),
            last: blocks.iter().map(|b| b.1).max().unwrap_or(0),
            blocks,
            tables,
            large,
        }
    }

    /// The block that a word points into; one past the end still belongs to it.
    #[inline]
    fn at(&self, word: u64) -> Option<usize> {
        if word < self.first || word > self.last {
            return None;
        }
        let inside = |n: usize| (word <= self.blocks[n].1).then_some(n);
        let grain = word >> GRAIN_BITS;
        if let Some(table) = self.tables.get(&(grain >> TABLE_BITS)) {
            let mut before = table[(grain & ((1 << TABLE_BITS) - 1)) as usize] as usize;
            while before > 0 && self.blocks[before - 1].0 > word {
                before -= 1;
            }
            return before.checked_sub(1).and_then(inside);
        }
        let begins_before = |n: &u32| self.blocks[*n as usize].0 <= word;
        let n = self.large.partition_point(begins_before).checked_sub(1)?;
        inside(self.large[n] as usize)
    }
}

/// How many blocks begin before the end of each grain of a table.
fn grains(blocks: &[(u64, u64, BlockId)], table: u64) -> Box<[u32]> {
    let first = table << TABLE_BITS;
    let mut n = blocks.partition_point(|b| b.0 >> GRAIN_BITS < first);
    let all = (first..first + (1 << TABLE_BITS)).map(|grain| {
        while blocks.get(n).is_some_and(|b| b.0 >> GRAIN_BITS <= grain) {
            n += 1;
        }
        n as u32
    });
    all.collect()
}

/// The guest's memory, read in large pieces.
struct Windows<'a> {
    guest: &'a dyn Guest,
    /// Empty where not all is mapped.
    kept: FxHashMap<u64, Vec<u8>>,
    block: Vec<u8>,
}

impl Windows<'_> {
    /// Memory from an address on, as much as is mapped, and not beyond the end of its window.
    fn read(&mut self, at: u64, len: u64) -> &[u8] {
        let (window, from) = (at / WINDOW, (at % WINDOW) as usize);
        let len = len.min(WINDOW - at % WINDOW) as usize;
        if self.kept.len() < MOST_WINDOWS {
            self.kept.entry(window).or_insert_with(|| {
                let mut bytes = vec![0; WINDOW as usize];
                match self.guest.read(window * WINDOW, &mut bytes) == bytes.len() {
                    true => bytes,
                    false => Vec::new(),
                }
            });
        }
        match self.kept.get(&window) {
            Some(bytes) if !bytes.is_empty() => &bytes[from..from + len],
            _ => {
                self.block.resize(len, 0);
                let got = self.guest.read(at, &mut self.block);
                &self.block[..got]
            }
        }
    }
}

/// The guest's memory at the step where it stands.
pub(crate) struct Held<'a> {
    /// Nothing of it if rules do not ask for its contents.
    pub(crate) guest: Option<&'a dyn Guest>,
    pub(crate) reachable: &'a Reachable,
}

impl Contents for Held<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        let got = self.guest?.read(address, &mut word);
        (got == 8).then(|| u64::from_le_bytes(word))
    }

    fn pointed(&self, block: BlockId) -> bool {
        self.reachable.contains(block)
    }
}

/// Where a run stands: what is left in registers that nobody will look at any more is nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Somewhere,
    /// A function returns: of those that it need not keep, its results count.
    Returns,
    /// The program ends, and gives back no more than a number.
    Ends,
}

/// All blocks that can be found from what the guest has; not all once `user` wants an end to it.
pub(crate) fn reachable(
    guest: &mut dyn Guest,
    heap: &Heap,
    step: u64,
    stands: Stands,
    user: &AtomicBool,
) -> Result<Reachable, guest::Error> {
    let live = [false, true].map(|declared| Live::of(heap, step, declared));
    let blocks = blocks_of(heap, &live, step);
    let mappings = guest.mappings()?;
    let threads = guest.threads();
    let mut found = Reachable::default();
    let far = |m: &guest::Mapping| m.protection.write && m.end - m.start > MOST_SEARCHED;
    if mappings.iter().any(far) {
        for (.., id) in live.iter().flat_map(|l| &l.blocks) {
            found.insert(*id);
        }
        return Ok(found);
    }
    let mut todo = Vec::new();
    let mut meet = |word: u64, noted: bool, todo: &mut Vec<(u64, u64)>| {
        for live in &live {
            if let Some(n) = live.at(word) {
                let (begin, end, id) = live.blocks[n];
                if !(noted && word == header_behind(begin, end)) && found.insert(id) {
                    todo.push((begin, end));
                }
            }
        }
    };
    let mut hold = |word: u64, todo: &mut Vec<(u64, u64)>| meet(word, false, todo);
    let current = guest.regs();
    let mut stacks = vec![current.rsp];
    for r in threads.iter().map(|t| &t.regs).chain([&current]) {
        stacks.push(r.rsp);
        let kept = [r.rbx, r.rbp, r.r12, r.r13, r.r14, r.r15];
        kept.into_iter().for_each(|w| hold(w, &mut todo));
        let stands = match (r.rip, r.rsp) == (current.rip, current.rsp) {
            true => stands,
            false => Stands::Somewhere,
        };
        if stands != Stands::Ends {
            let results = [r.rax, r.rdx];
            results.into_iter().for_each(|w| hold(w, &mut todo));
        }
        if stands == Stands::Somewhere {
            let others = [r.rcx, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11];
            others.into_iter().for_each(|w| hold(w, &mut todo));
        }
    }
    let mut buffer = vec![0; 1 << 20];
    for m in mappings.iter().filter(|m| may_hold_pointers(m, &mappings)) {
        // What lies below a stack pointer is over.
        let top = stacks
            .iter()
            .filter(|s| (m.start..m.end).contains(*s))
            .min();
        let is_stack = m.name.as_os_str() == "[stack]";
        let mut at = match top {
            Some(rsp) if is_stack => rsp & !7,
            _ => m.start,
        };
        let notes = notes_of_allocator(m);
        while at < m.end && !user.load(Ordering::Relaxed) {
            let n = (m.end - at).min(buffer.len() as u64) as usize;
            let got = guest.read(at, &mut buffer[..n]);
            for (from, to) in words_outside(&blocks, at, got as u64 / 8) {
                let places = (at + 8 * from..).step_by(8);
                let words = buffer[8 * from as usize..8 * to as usize].chunks_exact(8);
                for (place, word) in places.zip(words) {
                    let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                    meet(word, notes.contains(&place), &mut todo);
                }
            }
            at += n as u64;
        }
    }
    let mut windows = Windows {
        guest,
        kept: FxHashMap::default(),
        block: Vec::new(),
    };
    while let Some((begin, end)) = todo.pop() {
        let mut at = begin.next_multiple_of(8);
        while at < end && !user.load(Ordering::Relaxed) {
            let bytes = windows.read(at, end - at);
            for word in bytes.chunks_exact(8) {
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                meet(word, false, &mut todo);
            }
            at += (end - at).min(WINDOW - at % WINDOW);
        }
    }
    Ok(found)
}

/// What the program could write, or could until it gave that up: what the loader has made read-only lies in front of the
/// variables of the same file.
fn may_hold_pointers(m: &guest::Mapping, all: &[guest::Mapping]) -> bool {
    let p = m.protection;
    let settled = || {
        let behind = all.iter().find(|next| next.start == m.end);
        m.object.1 == 0 || behind.is_some_and(|b| b.protection.write && b.object == m.object)
    };
    p.write || p.read && !p.execute && !m.shared && settled()
}

/// Of a mapping, where the C library's allocator keeps what it knows of free memory: its own variables, and the
/// beginning of a heap that it has set up for threads.
fn notes_of_allocator(m: &guest::Mapping) -> Range<u64> {
    /// Such heaps begin at multiples of this.
    const HEAP: u64 = 64 << 20;
    /// A `heap_info` and a `malloc_state` are smaller.
    const STATE: u64 = 4096;
    let name = m.name.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("libc.so") {
        return m.start..m.end;
    }
    let heap = m.start.is_multiple_of(HEAP) && name.is_empty();
    m.start..if heap { m.start + STATE } else { m.start }
}

/// Where the allocator's next piece of memory has its header. That overlaps the last word of a block that its size was
/// not rounded up to, and looks like a pointer into it or to its end.
fn header_behind(begin: u64, end: u64) -> u64 {
    const HEADER: u64 = 16;
    let size = end.wrapping_sub(begin).saturating_add(8);
    let piece = size.max(32).checked_next_multiple_of(16).unwrap_or(size);
    begin.wrapping_sub(HEADER).wrapping_add(piece)
}

/// Memory of blocks that live, which has to be reached first, and of those that were freed: what is left in it is
/// nobody's.
fn blocks_of(heap: &Heap, live: &[Live], step: u64) -> Vec<(u64, u64)> {
    let mut list: Vec<(u64, u64)> = heap.freed_before(step).collect();
    let live = live.iter().flat_map(|l| &l.blocks);
    list.extend(live.map(|(begin, end, _)| (*begin, *end)));
    list.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in list {
        match out.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => out.push((begin, end)),
        }
    }
    out
}

/// Of so many words from an address on, those that do not begin in one of the ranges: from which number to which.
fn words_outside(
    ranges: &[(u64, u64)],
    at: u64,
    words: u64,
) -> impl Iterator<Item = (u64, u64)> + '_ {
    let mut next = ranges.partition_point(|r| r.1 <= at);
    let mut from = 0;
    // The first word that does not begin before an address.
    let word = move |address: u64| address.saturating_sub(at).div_ceil(8).min(words);
    std::iter::from_fn(move || {
        while from < words {
            let (begin, end) = ranges.get(next).copied().unwrap_or((u64::MAX, u64::MAX));
            next += 1;
            let found = (from, word(begin));
            from = from.max(word(end));
            if found.0 < found.1 {
                return Some(found);
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn next(&mut self, below: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % below
        }
    }

    /// Blocks that do not overlap, around the border of two tables, and a large one far from them.
    fn blocks(r: &mut Random) -> Vec<(u64, u64, BlockId)> {
        let mut at = (7 << (GRAIN_BITS + TABLE_BITS)) - 2000;
        let mut out = Vec::new();
        for n in 0..r.next(80) as u32 {
            let begin = at + r.next(100);
            let end = begin + 1 + [r.next(20), r.next(300), 0][r.next(3) as usize];
            out.push((begin, end, BlockId(n)));
            at = end + r.next(2);
        }
        if r.next(2) == 0 {
            let begin = 1 << 40;
            out.push((begin, begin + LARGE + 1 + r.next(9), BlockId(999)));
        }
        out
    }

    #[test]
    fn words_are_found_as_a_search_of_all_blocks_finds_them() {
        let mut r = Random(3);
        for _ in 0..2000 {
            let live = Live::over(blocks(&mut r));
            for _ in 0..60 {
                let near = live.blocks.get(r.next(81) as usize);
                let word = match near {
                    Some(b) => [b.0, b.1][r.next(2) as usize] + r.next(40) - 20,
                    None => r.next(1 << 41),
                };
                // Of one that ends where another begins, it is the latter.
                let last = live.blocks.iter().rposition(|b| b.0 <= word);
                let expected = last.filter(|n| word <= live.blocks[*n].1);
                assert_eq!(live.at(word), expected, "{word:#x} in {:x?}", live.blocks);
            }
        }
    }

    #[test]
    fn words_outside_are_those_that_begin_in_no_range() {
        let mut r = Random(4);
        for _ in 0..5000 {
            let mut end = 0;
            let ranges: Vec<(u64, u64)> = (0..r.next(12))
                .map(|_| {
                    let begin = end + 1 + r.next(40);
                    end = begin + r.next(30);
                    (begin, end)
                })
                .collect();
            let (at, words) = (r.next(300), r.next(40));
            let found: Vec<u64> = words_outside(&ranges, at, words)
                .flat_map(|(from, to)| from..to)
                .collect();
            let inside = |here: u64| ranges.iter().any(|(a, b)| (*a..*b).contains(&here));
            let expected: Vec<u64> = (0..words).filter(|n| !inside(at + 8 * n)).collect();
            assert_eq!(found, expected, "{at} {words} {ranges:?}");
        }
    }
}
