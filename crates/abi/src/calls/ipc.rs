//! Calls between processes and threads: futexes, System V and POSIX queues, semaphores, shared memory, keys.
//!
//! Attaching and detaching System V shared memory changes the address space. What another process writes
//! there reaches the guest without a system call: that is for the recorder to find.

use crate::Blocking::{May, Never};
use crate::commands::futex::FUTEX_COMMANDS;
use crate::commands::keyctl::KEYCTL;
use crate::commands::sysv::{MSGCTL, SEMCTL, SHMCTL};
use crate::layout::{FUTEX_WAITV, INT, MQ_ATTR, SEMBUF, SIGEVENT, TIMESPEC};
use crate::plan::{Draft, Limit};
use crate::table::Effect::{By, In, Opt, Out, Reads, Text};
use crate::table::Len::{Arg, Fixed, Items, Ret};
use crate::table::Num::{Int, Size};
use crate::table::When::Success;
use crate::table::{FUTEX, OUTSIDE, Rule, SPACE, calls};

calls! {
    29  shmget/3:          OUTSIDE, Never, [];
    30  shmat/3:           SPACE,   Never, [];
    31  shmctl/3:          Rule::Commands(&SHMCTL), Never, [];
    64  semget/3:          OUTSIDE, Never, [];
    65  semop/3:           OUTSIDE, May,   [In(1, Items(Int(2), SEMBUF))];
    66  semctl/4:          Rule::Commands(&SEMCTL), Never, [];
    67  shmdt/1:           SPACE,   Never, [];
    68  msgget/2:          OUTSIDE, Never, [];
    69  msgsnd/4:          OUTSIDE, May,   [Reads(msgsnd)];
    70  msgrcv/5:          OUTSIDE, May,   [By(msgrcv)];
    71  msgctl/3:          Rule::Commands(&MSGCTL), Never, [];
    202 futex/6:           Rule::Commands(&FUTEX_COMMANDS), May, [];
    220 semtimedop/4:      OUTSIDE, May,   [In(1, Items(Int(2), SEMBUF)), In(3, Fixed(TIMESPEC))];
    240 mq_open/4:         OUTSIDE, Never, [Text(0), In(3, Fixed(MQ_ATTR))];
    241 mq_unlink/1:       OUTSIDE, Never, [Text(0)];
    242 mq_timedsend/5:    OUTSIDE, May,   [In(1, Arg(Size(2))), In(4, Fixed(TIMESPEC))];
    243 mq_timedreceive/5: OUTSIDE, May,   [Out(1, Ret(Size(2))), Opt(3, Fixed(INT)), In(4, Fixed(TIMESPEC))];
    244 mq_notify/2:       OUTSIDE, Never, [In(1, Fixed(SIGEVENT))];
    245 mq_getsetattr/3:   OUTSIDE, Never, [In(1, Fixed(MQ_ATTR)), Opt(2, Fixed(MQ_ATTR))];
    248 add_key/5:         OUTSIDE, Never, [Text(0), Text(1), In(2, Arg(Size(3)))];
    249 request_key/4:     OUTSIDE, Never, [Text(0), Text(1), Text(2)];
    250 keyctl/5:          Rule::Commands(&KEYCTL), Never, [];
    449 futex_waitv/5:     FUTEX,   May,   [In(0, Items(Int(1), FUTEX_WAITV)), In(3, Fixed(TIMESPEC))];
    454 futex_wake/4:      FUTEX,   Never, [];
    455 futex_wait/6:      FUTEX,   May,   [In(0, Fixed(INT)), In(4, Fixed(TIMESPEC))];
    456 futex_requeue/4:   FUTEX,   Never, [In(0, Fixed(2 * FUTEX_WAITV))];
}

/// `struct msgbuf` is a type of 8 bytes and the text, whose size alone is counted.
const MESSAGE_TYPE: u64 = 8;

fn msgsnd(draft: &mut Draft<'_>) {
    draft.read(draft.arg(1), draft.arg(2).saturating_add(MESSAGE_TYPE));
}

fn msgrcv(draft: &mut Draft<'_>) {
    let (message, room) = (draft.arg(1), draft.arg(2));
    draft.write(Success, message, MESSAGE_TYPE);
    let text = message.wrapping_add(MESSAGE_TYPE);
    draft.write_up_to(Success, text, room, Limit::Returned { unit: 1 });
}
