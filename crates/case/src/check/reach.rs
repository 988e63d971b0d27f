//! What the program can still find: the pointer map P at the end of a run.
//!
//! A block is reachable if a word that looks like a pointer into it lies in a register, in memory that is no
//! part of the heap, or in a block that is reachable. This is the conservative view: an integer that looks like
//! a pointer hides a leak, but a pointer in disguise is not the only reason for a report.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use guest::Replay;
use rules::eval::Contents;
use rules::heap::{BlockId, Heap};

/// The guest's memory at the step where it stands.
pub(crate) struct Held<'a> {
    pub(crate) replay: &'a Replay,
    pub(crate) reachable: HashSet<BlockId>,
}

impl Contents for Held<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        (self.replay.read(address, &mut word) == 8).then(|| u64::from_le_bytes(word))
    }

    fn pointed(&self, block: BlockId) -> bool {
        self.reachable.contains(&block)
    }
}

/// All blocks that can be found from what the guest has; not all once `user` wants an end to it.
pub(crate) fn reachable(
    replay: &mut Replay,
    heap: &Heap,
    step: u64,
    user: &AtomicBool,
) -> Result<HashSet<BlockId>, guest::Error> {
    let mut live: Vec<(u64, u64, BlockId)> = heap
        .all()
        .filter(|(id, _)| heap.lives(*id, step))
        .map(|(id, b)| (b.begin, b.begin.saturating_add(b.size.max(1)), id))
        .collect();
    live.sort_unstable();
    let freed = freed_ranges(heap, step);
    let mappings = replay.mappings()?;
    let threads = replay.threads();
    let mut found = HashSet::new();
    let mut todo = Vec::new();
    let block_at = |word: u64| {
        let n = live.partition_point(|b| b.0 <= word).checked_sub(1)?;
        // One past the end still belongs to it.
        (word <= live[n].1).then_some(n)
    };
    let mut meet = |word: u64, todo: &mut Vec<usize>| {
        if let Some(n) = block_at(word)
            && found.insert(live[n].2)
        {
            todo.push(n);
        }
    };
    let current = replay.regs();
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
            let got = replay.read(at, &mut buffer[..n]);
            for (i, word) in buffer[..got].chunks_exact(8).enumerate() {
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                if word < 4096 || block_at(word).is_none() {
                    continue;
                }
                let here = at + 8 * i as u64;
                let in_block = block_at(here).is_some_and(|n| here < live[n].1);
                if !in_block && !inside(&freed, here) {
                    meet(word, &mut todo);
                }
            }
            at += n as u64;
        }
    }
    while let Some(n) = todo.pop() {
        let (begin, end, _) = live[n];
        let mut at = begin.next_multiple_of(8);
        while at < end && !user.load(Ordering::Relaxed) {
            let n = (end - at).min(buffer.len() as u64) as usize;
            let got = replay.read(at, &mut buffer[..n]);
            for word in buffer[..got].chunks_exact(8) {
                meet(
                    u64::from_le_bytes(word.try_into().expect("eight bytes")),
                    &mut todo,
                );
            }
            at += n as u64;
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
