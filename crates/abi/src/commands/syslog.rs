//! `syslog` by action.

use crate::Call;
use crate::errno::EINVAL;
use crate::table::Effect::Out;
use crate::table::Len::RetAtMost;
use crate::table::Num::Int;
use crate::table::{Behaviour, Commands, OUTSIDE, commands};

fn first(call: &Call) -> u64 {
    call.args[0] & 0xffff_ffff
}

fn unknown(_: &Call) -> Behaviour {
    Behaviour::refused("this action is unknown", EINVAL)
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
