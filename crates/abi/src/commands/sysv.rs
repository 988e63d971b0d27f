//! `semctl`, `shmctl` and `msgctl` by command.

use crate::Call;
use crate::errno::EINVAL;
use crate::layout::{MSGINFO, MSQID_DS, SEMID_DS, SEMINFO, SHM_INFO, SHMID_DS, SHMINFO};
use crate::plan::Draft;
use crate::table::Effect::{By, In, Out};
use crate::table::Len::Fixed;
use crate::table::When;
use crate::table::{Behaviour, Commands, OUTSIDE, commands};

fn unknown(_: &Call) -> Behaviour {
    Behaviour::refused("this command is unknown", EINVAL)
}

// The flag IPC_64 is implied on x86-64, and callers may set it or not.
const IPC_64: u64 = 0x100;

fn third(call: &Call) -> u64 {
    (call.args[2] & 0xffff_ffff) & !IPC_64
}

fn second(call: &Call) -> u64 {
    (call.args[1] & 0xffff_ffff) & !IPC_64
}

pub(crate) const SEMCTL: Commands = Commands {
    arg: 2,
    select: third,
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
    select: second,
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
    select: second,
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
