//! Calls that are made over and over.
//!
//! A program that looks for strings in a large table spends its time waiting for memory, and so does whoever follows it: what
//! is known of a string is as far from the caches as the string. But the tape tells what comes. Where records of a call come
//! at the distances at which they came before, as in a loop, the next one is found by that, and what is known of what it points
//! to is asked for while there is still something else to do. It costs next to nothing where that is of no use.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use crate::shadow::MASK;

/// Records of calls that are told apart.
const PLACES: usize = 32;
/// A record further away is not in the caches yet, and to wait for it would take as long as what is gained.
const FAR: usize = 1024;
/// Pointers are above this. To ask for what is not there takes as long as to fetch what is.
const LOWEST: u64 = 1 << 20;

#[derive(Clone, Copy, Default)]
struct Place {
    shape: u32,
    /// Where such a record was last, and how far it was from the one before, and that one from its own, if these are not
    /// the same.
    at: usize,
    apart: [usize; 2],
}

#[derive(Clone, Default)]
pub(crate) struct Recent([Place; PLACES]);

impl Recent {
    /// A call is made at the end of a record. Asks for cells that are likely to be wanted by the next one like it: those of
    /// the values of which there is a bit.
    ///
    /// # Safety
    ///
    /// From where records begin, which is before `end`, as much can be read as the longest one has. From `cells` on there is
    /// one for each address below the mask.
    pub(crate) unsafe fn look_ahead(
        &mut self,
        record: *const u8,
        values: u32,
        end: *const u8,
        cells: *const u64,
    ) {
        // SAFETY: as the caller says.
        let shape = unsafe { record.cast::<u32>().read_unaligned() };
        let place = &mut self.0[shape as usize % PLACES];
        let at = record as usize;
        let apart = at.wrapping_sub(place.at);
        if place.shape != shape || apart == 0 || apart > FAR {
            let apart = [0; 2];
            *place = Place { shape, at, apart };
            return;
        }
        place.at = at;
        if apart != place.apart[0] {
            place.apart = [apart, place.apart[0]];
        }
        for apart in place.apart.into_iter().filter(|n| *n != 0) {
            let next = record.wrapping_add(apart);
            if next >= end {
                continue;
            }
            // SAFETY: it is before the end, so that all of a record can be read from there on, also if none begins
            // there. Cells are only asked for.
            unsafe {
                if next.cast::<u32>().read_unaligned() != shape {
                    continue;
                }
                let mut left = values;
                while left != 0 {
                    let n = left.trailing_zeros() as usize;
                    left &= left - 1;
                    let value = next.add(4 + 8 * n).cast::<u64>().read_unaligned();
                    if (LOWEST..1 << 47).contains(&value) {
                        let cell = cells.byte_add((value & MASK & !7) as usize);
                        _mm_prefetch::<_MM_HINT_T0>(cell.cast());
                    }
                }
            }
            return;
        }
    }
}
