//! Calls on the address space.
//!
//! Most of them a replay carries out again. The ones that only advise, ask or place memory on a machine are
//! of class Outside: the guest sees nothing of them but their result.

use crate::Blocking::Never;
use crate::commands::madvise::{MADVISE, PROCESS_MADVISE};
use crate::errno::{ENOSYS, EOPNOTSUPP};
use crate::layout::{INT, LONG};
use crate::plan::Draft;
use crate::table::Effect::{By, In, Late, Opt, Reads, Scatter};
use crate::table::Len::{Fixed, Items};
use crate::table::Num::Size;
use crate::table::When::{self, Always};
use crate::table::{OUTSIDE, Rule, SPACE, calls, refused};

calls! {
    9   mmap/6:              SPACE,   Never, [];
    10  mprotect/3:          SPACE,   Never, [];
    11  munmap/2:            SPACE,   Never, [];
    12  brk/1:               SPACE,   Never, [];
    25  mremap/5:            SPACE,   Never, [];
    26  msync/3:             OUTSIDE, Never, [];
    27  mincore/3:           OUTSIDE, Never, [By(mincore)];
    28  madvise/3:           Rule::Commands(&MADVISE), Never, [];
    // Locking changes no bytes, but a later madvise(MADV_DONTNEED) fails on locked memory.
    149 mlock/2:             SPACE,   Never, [];
    150 munlock/2:           SPACE,   Never, [];
    151 mlockall/1:          SPACE,   Never, [];
    152 munlockall/0:        SPACE,   Never, [];
    216 remap_file_pages/5:  refused("it rearranges a shared file mapping that a replay does not have", ENOSYS), Never, [];
    237 mbind/6:             OUTSIDE, Never, [Reads(mbind_nodes)];
    238 set_mempolicy/3:     OUTSIDE, Never, [Reads(set_mempolicy_nodes)];
    239 get_mempolicy/5:     OUTSIDE, Never, [Opt(0, Fixed(INT)), By(get_mempolicy_nodes)];
    256 migrate_pages/4:     OUTSIDE, Never, [Reads(migrate_pages_nodes)];
    279 move_pages/6:        OUTSIDE, Never, [In(2, Items(Size(1), LONG)), In(3, Items(Size(1), INT)), Late(4, Items(Size(1), INT), Always)];
    310 process_vm_readv/6:  OUTSIDE, Never, [Scatter(1, Size(2)), In(3, Items(Size(4), 16))];
    311 process_vm_writev/6: refused("it would write another process's memory behind the recording", ENOSYS), Never, [];
    323 userfaultfd/1:       refused("page faults would be answered by another thread", ENOSYS), Never, [];
    324 membarrier/3:        OUTSIDE, Never, [];
    325 mlock2/3:            SPACE,   Never, [];
    329 pkey_mprotect/4:     SPACE,   Never, [];
    330 pkey_alloc/2:        SPACE,   Never, [];
    331 pkey_free/1:         SPACE,   Never, [];
    440 process_madvise/5:   Rule::Commands(&PROCESS_MADVISE), Never, [];
    447 memfd_secret/1:      refused("a tracer cannot read secret memory", ENOSYS), Never, [];
    448 process_mrelease/2:  OUTSIDE, Never, [];
    450 set_mempolicy_home_node/4: OUTSIDE, Never, [];
    453 map_shadow_stack/3:  refused("shadow stacks are not recorded", EOPNOTSUPP), Never, [];
    462 mseal/3:             SPACE,   Never, [];
}

/// One byte per page.
fn mincore(draft: &mut Draft<'_>) {
    const PAGE: u64 = 4096;
    let pages = draft.arg(1).div_ceil(PAGE);
    draft.write(When::Success, draft.arg(2), pages);
}

/// A node mask has `max - 1` bits, in whole words.
fn node_mask_bytes(max: u64) -> u64 {
    /// No machine has more nodes; a longer mask is refused by the kernel.
    const MOST_BITS: u64 = 4096 * 8;
    max.saturating_sub(1).min(MOST_BITS).div_ceil(64) * 8
}

fn mbind_nodes(draft: &mut Draft<'_>) {
    draft.read(draft.arg(3), node_mask_bytes(draft.arg(4)));
}

fn set_mempolicy_nodes(draft: &mut Draft<'_>) {
    draft.read(draft.arg(1), node_mask_bytes(draft.arg(2)));
}

fn get_mempolicy_nodes(draft: &mut Draft<'_>) {
    draft.write(When::Success, draft.arg(1), node_mask_bytes(draft.arg(2)));
}

fn migrate_pages_nodes(draft: &mut Draft<'_>) {
    let bytes = node_mask_bytes(draft.arg(1));
    draft.read(draft.arg(2), bytes);
    draft.read(draft.arg(3), bytes);
}
