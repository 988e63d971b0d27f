//! Where the guest has memory, as far as its cells are concerned.
//!
//! Memory whose addresses differ only in their upper bits has the same cells ([`Shadow::place_of`]). What is known of
//! one would be believed of the other, and alarms would be false. So it is looked at where memory is, and the machine
//! stops listening before a guest has such memory at two places.

use jit::Shadow;

/// Memory is told apart by the gigabyte.
const GRAIN: u32 = 30;
const GRAINS: usize = 1 << (Shadow::BITS - GRAIN);
const UNUSED: u32 = u32::MAX;

/// For each grain of cells, the upper bits of the memory that it is about.
pub(super) struct Spread(Box<[u32]>);

impl Default for Spread {
    fn default() -> Spread {
        Spread(vec![UNUSED; GRAINS].into())
    }
}

impl Spread {
    /// There is memory from `address` on. False if other memory has its cells.
    pub(super) fn take(&mut self, address: u64, len: u64) -> bool {
        let last = address.saturating_add(len.saturating_sub(1));
        // What is that long covers cells twice. Accesses that are found together do not know of borders.
        let upper = address >> Shadow::BITS;
        if last >> Shadow::BITS != upper {
            return false;
        }
        let grain = |at: u64| (Shadow::place_of(at) >> GRAIN) as usize;
        self.0[grain(address)..=grain(last)].iter_mut().all(|g| {
            let known = std::mem::replace(g, upper as u32);
            known == UNUSED || known == upper as u32
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_with_the_same_cells_is_noticed() {
        let mut s = Spread::default();
        let (program, stack, low) = (0x5555_5555_4000, 0x7fff_ffff_0000, 0x40_0000);
        for at in [program, stack, low, program, 0xc0_0000_0000] {
            assert!(s.take(at, 0x1000), "{at:#x}");
        }
        let far = 1 << Shadow::BITS;
        for at in [program, stack, low] {
            assert!(!s.take(at ^ far, 0x1000), "{at:#x}");
        }
        assert!(!Spread::default().take(far - 0x1000, 0x2000));
        assert!(!Spread::default().take(0, 2 * far));
    }
}
