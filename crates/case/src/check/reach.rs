//! What the program can still find: the pointer map P at the end of a run.
//!
//! A block is reachable if a word that looks like a pointer into it lies in a register, in memory that is no
//! part of the heap, or in a block that is reachable. This is the conservative view: an integer that looks like
//! a pointer hides a leak, but a pointer in disguise is not the only reason for a report.

use std::sync::atomic::{AtomicBool, Ordering};

use guest::Guest;
use rules::eval::Contents;
use rules::heap::{BlockId, Heap};
use rustc_hash::FxHashMap;

/// Blocks are looked up by where they are in steps of this.
const GRAIN_BITS: u32 = 14;
/// A block of more bytes is not looked up so.
const LARGE: u64 = 1 << 26;
/// What is read of the guest's memory at a time; blocks lie close together.
const WINDOW: u64 = 1 << 16;
/// Windows that are kept. Of a larger heap the rest is read block by block.
const MOST_WINDOWS: usize = 4096;

/// Blocks that can be found, by number.
#[derive(Default)]
pub(crate) struct Reachable(Vec<bool>);

impl Reachable {
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
struct Live {
    blocks: Vec<(u64, u64, BlockId)>,
    /// For each grain of memory, the first and the last block that reach into it, but for those that reach into
    /// very many.
    grains: FxHashMap<u64, (u32, u32)>,
    large: Vec<u32>,
}

impl Live {
    fn of(heap: &Heap, step: u64) -> Live {
        let mut blocks: Vec<(u64, u64, BlockId)> = heap
            .all()
            .filter(|(id, _)| heap.lives(*id, step))
            .map(|(id, b)| (b.begin, b.begin.saturating_add(b.size.max(1)), id))
            .collect();
        blocks.sort_unstable();
        let mut grains: FxHashMap<u64, (u32, u32)> = FxHashMap::default();
        let mut large = Vec::new();
        for (n, (begin, end, _)) in blocks.iter().enumerate() {
            let n = n as u32;
            if end - begin > LARGE {
                large.push(n);
                continue;
            }
            for grain in begin >> GRAIN_BITS..=end >> GRAIN_BITS {
                grains.entry(grain).or_insert((n, n)).1 = n;
            }
        }
        Live {
            blocks,
            grains,
            large,
        }
    }

    /// The block that a word points into; one past the end still belongs to it.
    #[inline]
    fn at(&self, word: u64) -> Option<usize> {
        let inside = |n: usize| (word <= self.blocks[n].1).then_some(n);
        if let Some((first, last)) = self.grains.get(&(word >> GRAIN_BITS)) {
            let first = *first as usize;
            let near = &self.blocks[first..=*last as usize];
            let before = near.partition_point(|b| b.0 <= word);
            if let Some(n) = before.checked_sub(1).and_then(|n| inside(first + n)) {
                return Some(n);
            }
        }
        let begins_before = |n: &u32| self.blocks[*n as usize].0 <= word;
        let n = self.large.partition_point(begins_before).checked_sub(1)?;
        inside(self.large[n] as usize)
    }
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

/// All blocks that can be found from what the guest has; not all once `user` wants an end to it.
pub(crate) fn reachable(
    guest: &mut dyn Guest,
    heap: &Heap,
    step: u64,
    user: &AtomicBool,
) -> Result<Reachable, guest::Error> {
    let live = Live::of(heap, step);
    let freed = freed_ranges(heap, step);
    let mappings = guest.mappings()?;
    let threads = guest.threads();
    let mut found = Reachable::default();
    let mut todo = Vec::new();
    let mut meet = |word: u64, todo: &mut Vec<usize>| {
        if let Some(n) = live.at(word)
            && found.insert(live.blocks[n].2)
        {
            todo.push(n);
        }
    };
    let current = guest.regs();
    let mut stacks = vec![current.rsp];
    for r in threads.iter().map(|t| &t.regs).chain([&current]) {
        stacks.push(r.rsp);
        let words = [
            r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12,
            r.r13, r.r14, r.r15,
        ];
        words.into_iter().for_each(|w| meet(w, &mut todo));
    }
    let inside = |list: &[(u64, u64)], at: u64| {
        let n = list.partition_point(|r| r.0 <= at);
        n > 0 && at < list[n - 1].1
    };
    let mut buffer = vec![0; 1 << 20];
    for m in mappings.iter().filter(|m| m.protection.write) {
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
        while at < m.end && !user.load(Ordering::Relaxed) {
            let n = (m.end - at).min(buffer.len() as u64) as usize;
            let got = guest.read(at, &mut buffer[..n]);
            for (i, word) in buffer[..got].chunks_exact(8).enumerate() {
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                if word < 4096 || live.at(word).is_none() {
                    continue;
                }
                let here = at + 8 * i as u64;
                let in_block = live.at(here).is_some_and(|n| here < live.blocks[n].1);
                if !in_block && !inside(&freed, here) {
                    meet(word, &mut todo);
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
    while let Some(n) = todo.pop() {
        let (begin, end, _) = live.blocks[n];
        let mut at = begin.next_multiple_of(8);
        while at < end && !user.load(Ordering::Relaxed) {
            let bytes = windows.read(at, end - at);
            for word in bytes.chunks_exact(8) {
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                meet(word, &mut todo);
            }
            at += (end - at).min(WINDOW - at % WINDOW);
        }
    }
    Ok(found)
}

/// Memory of blocks that were freed: what is left in it is nobody's.
fn freed_ranges(heap: &Heap, step: u64) -> Vec<(u64, u64)> {
    let mut list: Vec<(u64, u64)> = heap
        .all()
        .filter(|(_, b)| b.freed.is_some_and(|f| f.step < step))
        .map(|(_, b)| (b.begin, b.begin.saturating_add(b.size)))
        .collect();
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
