//! `futex` by operation.

use crate::Call;
use crate::errno::ENOSYS;
use crate::layout::{INT, TIMESPEC};
use crate::table::Effect::{In, Late};
use crate::table::Len::Fixed;
use crate::table::When::Always;
use crate::table::{Behaviour, Commands, FUTEX, commands};

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
