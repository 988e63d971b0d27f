//! Multiplexed calls with short tables: madvise, futex, seccomp, syslog and the System V controls.

use crate::Call;
use crate::errno::{EINVAL, ENOSYS, EPERM};
use crate::layout::{
    INT, MSGINFO, MSQID_DS, SEMID_DS, SEMINFO, SHM_INFO, SHMID_DS, SHMINFO, TIMESPEC,
};
use crate::plan::Draft;
use crate::table::Effect::{By, In, Late, Out};
use crate::table::Len::{Fixed, RetAtMost};
use crate::table::Num::Int;
use crate::table::When::{self, Always};
use crate::table::{Behaviour, Commands, FUTEX, OUTSIDE, Rule, SPACE, commands, refused};

fn unknown(_: &Call) -> Behaviour {
    Behaviour::refused("this command is unknown", EINVAL)
}

fn first(call: &Call) -> u64 {
    call.args[0] & 0xffff_ffff
}

fn second(call: &Call) -> u64 {
    call.args[1] & 0xffff_ffff
}

fn third(call: &Call) -> u64 {
    call.args[2] & 0xffff_ffff
}

fn fourth(call: &Call) -> u64 {
    call.args[3] & 0xffff_ffff
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

pub(crate) const FUTEX_COMMANDS: Commands = Commands {
    arg: 1,
    select: futex_operation,
    known: &[FUTEX_OPERATIONS],
    otherwise: no_futex,
};

/// The operation without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
fn futex_operation(call: &Call) -> u64 {
    call.args[1] & 0x7f
}

fn no_futex(_: &Call) -> Behaviour {
    Behaviour::refused("this operation is unknown", ENOSYS)
}

// The word at the first address belongs to the kernel in the operations with priority inheritance, and the
// word at the second one is changed by FUTEX_WAKE_OP and by requeueing to such a futex. An operation that
// failed may still have set the bit that says that there are waiters.
commands! { FUTEX_OPERATIONS;
    0  FUTEX_WAIT:            FUTEX, [In(0, Fixed(INT)), In(3, Fixed(TIMESPEC))];
    1  FUTEX_WAKE:            FUTEX, [];
    2  FUTEX_FD:              FUTEX, [];
    3  FUTEX_REQUEUE:         FUTEX, [];
    4  FUTEX_CMP_REQUEUE:     FUTEX, [In(0, Fixed(INT))];
    5  FUTEX_WAKE_OP:         FUTEX, [In(4, Fixed(INT)), Late(4, Fixed(INT), Always)];
    6  FUTEX_LOCK_PI:         FUTEX, [In(0, Fixed(INT)), Late(0, Fixed(INT), Always), In(3, Fixed(TIMESPEC))];
    7  FUTEX_UNLOCK_PI:       FUTEX, [In(0, Fixed(INT)), Late(0, Fixed(INT), Always)];
    8  FUTEX_TRYLOCK_PI:      FUTEX, [In(0, Fixed(INT)), Late(0, Fixed(INT), Always)];
    9  FUTEX_WAIT_BITSET:     FUTEX, [In(0, Fixed(INT)), In(3, Fixed(TIMESPEC))];
    10 FUTEX_WAKE_BITSET:     FUTEX, [];
    11 FUTEX_WAIT_REQUEUE_PI: FUTEX, [In(0, Fixed(INT)), In(3, Fixed(TIMESPEC)), Late(4, Fixed(INT), Always)];
    12 FUTEX_CMP_REQUEUE_PI:  FUTEX, [In(0, Fixed(INT)), Late(4, Fixed(INT), Always)];
    13 FUTEX_LOCK_PI2:        FUTEX, [In(0, Fixed(INT)), Late(0, Fixed(INT), Always), In(3, Fixed(TIMESPEC))];
}

pub(crate) const SECCOMP: Commands = Commands {
    arg: 0,
    select: first,
    known: &[SECCOMP_OPERATIONS],
    otherwise: unknown,
};

const FILTER: Rule = refused(
    "a filter of system calls would interfere with the recorder's own",
    EINVAL,
);

commands! { SECCOMP_OPERATIONS;
    0 SECCOMP_SET_MODE_STRICT:  FILTER,  [];
    1 SECCOMP_SET_MODE_FILTER:  FILTER,  [];
    2 SECCOMP_GET_ACTION_AVAIL: OUTSIDE, [In(2, Fixed(INT))];
    // Three sizes of 2 bytes.
    3 SECCOMP_GET_NOTIF_SIZES:  OUTSIDE, [Out(2, Fixed(6))];
}

pub(crate) const SYSLOG: Commands = Commands {
    arg: 0,
    select: first,
    known: &[SYSLOG_ACTIONS],
    otherwise: unknown,
};

commands! { SYSLOG_ACTIONS;
    0  SYSLOG_ACTION_CLOSE:         OUTSIDE, [];
    1  SYSLOG_ACTION_OPEN:          OUTSIDE, [];
    2  SYSLOG_ACTION_READ:          OUTSIDE, [Out(1, RetAtMost(Int(2)))];
    3  SYSLOG_ACTION_READ_ALL:      OUTSIDE, [Out(1, RetAtMost(Int(2)))];
    4  SYSLOG_ACTION_READ_CLEAR:    OUTSIDE, [Out(1, RetAtMost(Int(2)))];
    5  SYSLOG_ACTION_CLEAR:         OUTSIDE, [];
    6  SYSLOG_ACTION_CONSOLE_OFF:   OUTSIDE, [];
    7  SYSLOG_ACTION_CONSOLE_ON:    OUTSIDE, [];
    8  SYSLOG_ACTION_CONSOLE_LEVEL: OUTSIDE, [];
    9  SYSLOG_ACTION_SIZE_UNREAD:   OUTSIDE, [];
    10 SYSLOG_ACTION_SIZE_BUFFER:   OUTSIDE, [];
}

// The flag IPC_64 is implied on x86-64, and callers may set it or not.
const IPC_64: u64 = 0x100;

fn semctl(call: &Call) -> u64 {
    third(call) & !IPC_64
}

fn shmctl(call: &Call) -> u64 {
    second(call) & !IPC_64
}

pub(crate) const SEMCTL: Commands = Commands {
    arg: 2,
    select: semctl,
    known: &[SEMAPHORES],
    otherwise: unknown,
};

commands! { SEMAPHORES;
    0  IPC_RMID:     OUTSIDE, [];
    1  IPC_SET:      OUTSIDE, [In(3, Fixed(SEMID_DS))];
    2  IPC_STAT:     OUTSIDE, [Out(3, Fixed(SEMID_DS))];
    3  IPC_INFO:     OUTSIDE, [Out(3, Fixed(SEMINFO))];
    11 GETPID:       OUTSIDE, [];
    12 GETVAL:       OUTSIDE, [];
    13 GETALL:       OUTSIDE, [By(get_all)];
    14 GETNCNT:      OUTSIDE, [];
    15 GETZCNT:      OUTSIDE, [];
    16 SETVAL:       OUTSIDE, [];
    17 SETALL:       OUTSIDE, [];
    18 SEM_STAT:     OUTSIDE, [Out(3, Fixed(SEMID_DS))];
    19 SEM_INFO:     OUTSIDE, [Out(3, Fixed(SEMINFO))];
    20 SEM_STAT_ANY: OUTSIDE, [Out(3, Fixed(SEMID_DS))];
}

/// The number of semaphores in a set was said to `semget`, long ago and perhaps by another process. The
/// largest set that the kernel makes by default is planned for; what is not mapped is no part of it, and
/// what is mapped but not written has the same contents in a replay.
fn get_all(draft: &mut Draft<'_>) {
    const SEMMSL: u64 = 32000;
    let array = draft.arg(3);
    let mapped = draft.readable(array, SEMMSL * 2);
    draft.write(When::Success, array, mapped);
}

pub(crate) const SHMCTL: Commands = Commands {
    arg: 1,
    select: shmctl,
    known: &[SEGMENTS],
    otherwise: unknown,
};

commands! { SEGMENTS;
    0  IPC_RMID:     OUTSIDE, [];
    1  IPC_SET:      OUTSIDE, [In(2, Fixed(SHMID_DS))];
    2  IPC_STAT:     OUTSIDE, [Out(2, Fixed(SHMID_DS))];
    3  IPC_INFO:     OUTSIDE, [Out(2, Fixed(SHMINFO))];
    11 SHM_LOCK:     OUTSIDE, [];
    12 SHM_UNLOCK:   OUTSIDE, [];
    13 SHM_STAT:     OUTSIDE, [Out(2, Fixed(SHMID_DS))];
    14 SHM_INFO:     OUTSIDE, [Out(2, Fixed(SHM_INFO))];
    15 SHM_STAT_ANY: OUTSIDE, [Out(2, Fixed(SHMID_DS))];
}

pub(crate) const MSGCTL: Commands = Commands {
    arg: 1,
    select: shmctl,
    known: &[QUEUES],
    otherwise: unknown,
};

commands! { QUEUES;
    0  IPC_RMID:     OUTSIDE, [];
    1  IPC_SET:      OUTSIDE, [In(2, Fixed(MSQID_DS))];
    2  IPC_STAT:     OUTSIDE, [Out(2, Fixed(MSQID_DS))];
    3  IPC_INFO:     OUTSIDE, [Out(2, Fixed(MSGINFO))];
    11 MSG_STAT:     OUTSIDE, [Out(2, Fixed(MSQID_DS))];
    12 MSG_INFO:     OUTSIDE, [Out(2, Fixed(MSGINFO))];
    13 MSG_STAT_ANY: OUTSIDE, [Out(2, Fixed(MSQID_DS))];
}
