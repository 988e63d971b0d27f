//! `fcntl` by command.

use crate::Call;
use crate::errno::EINVAL;
use crate::layout::{DELEGATION, F_OWNER_EX, FLOCK, INT, LONG};
use crate::table::Effect::{In, InOut, Out};
use crate::table::Len::Fixed;
use crate::table::{Behaviour, Commands, OUTSIDE, commands};

pub(crate) const FCNTL: Commands = Commands {
    arg: 1,
    select: command,
    known: &[KNOWN],
    otherwise: unknown,
};

fn command(call: &Call) -> u64 {
    call.args[1] & 0xffff_ffff
}

fn unknown(_: &Call) -> Behaviour {
    Behaviour::refused("this command is unknown", EINVAL)
}

commands! { KNOWN;
    0    F_DUPFD:           OUTSIDE, [];
    1    F_GETFD:           OUTSIDE, [];
    2    F_SETFD:           OUTSIDE, [];
    3    F_GETFL:           OUTSIDE, [];
    4    F_SETFL:           OUTSIDE, [];
    5    F_GETLK:           OUTSIDE, [InOut(2, Fixed(FLOCK))];
    6    F_SETLK:           OUTSIDE, [In(2, Fixed(FLOCK))];
    7    F_SETLKW:          OUTSIDE, [In(2, Fixed(FLOCK))];
    8    F_SETOWN:          OUTSIDE, [];
    9    F_GETOWN:          OUTSIDE, [];
    10   F_SETSIG:          OUTSIDE, [];
    11   F_GETSIG:          OUTSIDE, [];
    15   F_SETOWN_EX:       OUTSIDE, [In(2, Fixed(F_OWNER_EX))];
    16   F_GETOWN_EX:       OUTSIDE, [Out(2, Fixed(F_OWNER_EX))];
    17   F_GETOWNER_UIDS:   OUTSIDE, [Out(2, Fixed(2 * INT))];
    36   F_OFD_GETLK:       OUTSIDE, [InOut(2, Fixed(FLOCK))];
    37   F_OFD_SETLK:       OUTSIDE, [In(2, Fixed(FLOCK))];
    38   F_OFD_SETLKW:      OUTSIDE, [In(2, Fixed(FLOCK))];
    1024 F_SETLEASE:        OUTSIDE, [];
    1025 F_GETLEASE:        OUTSIDE, [];
    1026 F_NOTIFY:          OUTSIDE, [];
    1027 F_DUPFD_QUERY:     OUTSIDE, [];
    1028 F_CREATED_QUERY:   OUTSIDE, [];
    1029 F_CANCELLK:        OUTSIDE, [];
    1030 F_DUPFD_CLOEXEC:   OUTSIDE, [];
    1031 F_SETPIPE_SZ:      OUTSIDE, [];
    1032 F_GETPIPE_SZ:      OUTSIDE, [];
    1033 F_ADD_SEALS:       OUTSIDE, [];
    1034 F_GET_SEALS:       OUTSIDE, [];
    1035 F_GET_RW_HINT:     OUTSIDE, [Out(2, Fixed(LONG))];
    1036 F_SET_RW_HINT:     OUTSIDE, [In(2, Fixed(LONG))];
    1037 F_GET_FILE_RW_HINT: OUTSIDE, [Out(2, Fixed(LONG))];
    1038 F_SET_FILE_RW_HINT: OUTSIDE, [In(2, Fixed(LONG))];
    1039 F_GETDELEG:        OUTSIDE, [InOut(2, Fixed(DELEGATION))];
    1040 F_SETDELEG:        OUTSIDE, [In(2, Fixed(DELEGATION))];
}
