//! `madvise` and `process_madvise` by advice.

use crate::Call;
use crate::errno::{EINVAL, EPERM};
use crate::table::{Behaviour, Commands, OUTSIDE, SPACE, commands, refused};

fn third(call: &Call) -> u64 {
    call.args[2] & 0xffff_ffff
}

fn fourth(call: &Call) -> u64 {
    call.args[3] & 0xffff_ffff
}

fn unknown(_: &Call) -> Behaviour {
    Behaviour::refused("this advice is unknown", EINVAL)
}

pub(crate) const MADVISE: Commands = Commands {
    arg: 2,
    select: third,
    known: &[ADVICE],
    otherwise: unknown,
};

commands! { ADVICE;
    0   MADV_NORMAL:         SPACE, [];
    1   MADV_RANDOM:         SPACE, [];
    2   MADV_SEQUENTIAL:     SPACE, [];
    3   MADV_WILLNEED:       SPACE, [];
    4   MADV_DONTNEED:       SPACE, [];
    // Allocators fall back to MADV_DONTNEED, as on kernels from before it existed.
    8   MADV_FREE:           refused("the memory would lose its contents at a time of the kernel's choosing", EINVAL), [];
    9   MADV_REMOVE:         SPACE, [];
    10  MADV_DONTFORK:       SPACE, [];
    11  MADV_DOFORK:         SPACE, [];
    12  MADV_MERGEABLE:      SPACE, [];
    13  MADV_UNMERGEABLE:    SPACE, [];
    14  MADV_HUGEPAGE:       SPACE, [];
    15  MADV_NOHUGEPAGE:     SPACE, [];
    16  MADV_DONTDUMP:       SPACE, [];
    17  MADV_DODUMP:         SPACE, [];
    18  MADV_WIPEONFORK:     SPACE, [];
    19  MADV_KEEPONFORK:     SPACE, [];
    20  MADV_COLD:           SPACE, [];
    21  MADV_PAGEOUT:        SPACE, [];
    22  MADV_POPULATE_READ:  SPACE, [];
    23  MADV_POPULATE_WRITE: SPACE, [];
    24  MADV_DONTNEED_LOCKED: SPACE, [];
    25  MADV_COLLAPSE:       SPACE, [];
    100 MADV_HWPOISON:       refused("it destroys memory of the machine", EPERM), [];
    101 MADV_SOFT_OFFLINE:   refused("it takes memory from the machine", EPERM), [];
    102 MADV_GUARD_INSTALL:  SPACE, [];
    103 MADV_GUARD_REMOVE:   SPACE, [];
}

/// Advice to another process is harmless unless it changes contents.
pub(crate) const PROCESS_MADVISE: Commands = Commands {
    arg: 3,
    select: fourth,
    known: &[FOREIGN_ADVICE],
    otherwise: foreign,
};

fn foreign(_: &Call) -> Behaviour {
    Behaviour::refused(
        "it could change another process's memory behind the recording",
        EINVAL,
    )
}

commands! { FOREIGN_ADVICE;
    3  MADV_WILLNEED: OUTSIDE, [];
    20 MADV_COLD:     OUTSIDE, [];
    21 MADV_PAGEOUT:  OUTSIDE, [];
    25 MADV_COLLAPSE: OUTSIDE, [];
}
