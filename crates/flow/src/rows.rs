//! Which ways through superblocks are read as one.
//!
//! Where a program goes the same way again and again, it does so in rows of records. What is the same for all
//! rows of a kind need be found out once: who wrote a register in a row that reads it later, which branch of it decides
//! about what. So ways that often follow each other become one ([`Codes::join`]), and
//! [`crate::links`] reads their records as one.
//!
//! Which these are is told by samples of the tape. A row grows at its end, by a way that has followed it
//! often; so each beginning of a row is a row too, and whoever reads the tape takes the longest.
//!
//! [`Codes::join`]: crate::codes::Codes::join

use rustc_hash::FxHashMap;

use crate::roll::Roll;

/// Chunks that are looked at, spread over all of them.
const SAMPLES: usize = 16;
/// Two ways become one where they come so often, or once in so many records.
const OFTEN: usize = 8;
const RARELY: usize = 4096;
/// Ways that are more than one: each is some work, and room for its instructions.
const MANY: usize = 1024;

impl Roll {
    /// Finds ways that are worth reading as one; how many. What walks find stays the same, and takes less time where they go by
    /// links.
    pub fn join(&mut self) -> usize {
        let mut tape: Vec<Vec<u32>> = Vec::new();
        let all = self.chunks.len();
        for n in 0..all.min(SAMPLES) {
            self.rows(n * all / all.min(SAMPLES), &mut tape);
        }
        let records: usize = tape.iter().map(Vec::len).sum();
        let often = OFTEN.max(records / RARELY);
        let mut times: FxHashMap<(u32, u32), usize> = FxHashMap::default();
        let mut made = 0;
        for shapes in &tape {
            let mut row = None;
            for &shape in shapes {
                let longer = row.and_then(|row| self.codes.joined(row, shape));
                if let (Some(row), None) = (row, longer)
                    && made < MANY
                {
                    let times = times.entry((row, shape)).or_default();
                    *times += 1;
                    if *times == often && self.codes.join(row, shape).is_some() {
                        made += 1;
                    }
                }
                row = longer.or(Some(shape));
            }
        }
        made
    }

    /// The shapes of the records of a chunk that are not parted by an event.
    fn rows(&self, chunk: usize, out: &mut Vec<Vec<u32>>) {
        let chunk = &self.chunks[chunk];
        let records = chunk.records.get();
        let mut events = chunk.events.iter().map(|e| e.0 as usize).peekable();
        let (mut at, mut row) = (0, Vec::new());
        while let Some(head) = records.get(at..).and_then(|b| b.first_chunk()) {
            if events.next_if(|e| *e <= at).is_some() {
                out.push(std::mem::take(&mut row));
                continue;
            }
            let shape = u32::from_le_bytes(*head);
            row.push(shape);
            at += self.codes.way(shape).record_len as usize;
        }
        out.push(row);
    }
}
