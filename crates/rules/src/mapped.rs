//! When memory was mapped last.
//!
//! What is left in a freed block is nobody's. But a large block is given back to the system with its memory, and what is
//! mapped at the same address later, as the stack of a thread, is somebody's.

use std::collections::BTreeMap;

/// Stretches of addresses that do not overlap, and the step at which each was mapped.
#[derive(Default)]
pub(crate) struct Mapped(BTreeMap<u64, (u64, u64)>);

impl Mapped {
    /// Memory is mapped, at a step that none before was later than.
    pub(crate) fn add(&mut self, begin: u64, end: u64, step: u64) {
        if begin >= end {
            return;
        }
        while let Some((first, (last, before))) = self.latest(begin, end) {
            self.0.remove(&first);
            if first < begin {
                self.0.insert(first, (begin, before));
            }
            if last > end {
                self.0.insert(end, (last, before));
            }
        }
        self.0.insert(begin, (end, step));
    }

    /// Some of this memory was mapped after one step and before another.
    pub(crate) fn is_between(&self, (begin, end): (u64, u64), after: u64, before: u64) -> bool {
        let list = self.0.range(..end).rev();
        let mut list = list.take_while(|(_, (last, _))| *last > begin);
        list.any(|(_, (_, step))| (after..before).contains(step))
    }

    /// The last stretch that has some of these addresses.
    fn latest(&self, begin: u64, end: u64) -> Option<(u64, (u64, u64))> {
        let (first, found) = self.0.range(..end).next_back()?;
        (found.0 > begin).then_some((*first, *found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mapping_of_each_address_counts() {
        let mut state = 5u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let (mut mapped, mut plain) = (Mapped::default(), [None; 64]);
            for step in 1..20 {
                let begin = random(64);
                let end = (begin + random(20)).min(64);
                mapped.add(begin, end, step);
                plain[begin as usize..end as usize].fill(Some(step));
            }
            for _ in 0..50 {
                let begin = random(64);
                let end = (begin + 1 + random(10)).min(64);
                let (after, before) = (random(20), random(25));
                let mut steps = plain[begin as usize..end as usize].iter().flatten();
                assert_eq!(
                    mapped.is_between((begin, end), after, before),
                    steps.any(|s| (after..before).contains(s))
                );
            }
        }
    }
}
