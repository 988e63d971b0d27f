//! `quotactl` and `quotactl_fd` by command. The command is packed with the kind of quota in one argument,
//! which is the first of the one call and the second of the other; the data is the fourth of both.

use crate::Call;
use crate::errno::EINVAL;
use crate::layout::{
    FS_DISK_QUOTA, FS_QUOTA_STAT, FS_QUOTA_STATV, IF_DQBLK, IF_DQINFO, IF_NEXTDQBLK, INT,
};
use crate::table::Effect::{In, InOut, Out, Text};
use crate::table::Len::Fixed;
use crate::table::{Behaviour, Commands, OUTSIDE, commands};

pub(crate) const QUOTACTL: Commands = Commands {
    arg: 0,
    select: first,
    known: &[KNOWN],
    otherwise: unknown,
};

pub(crate) const QUOTACTL_FD: Commands = Commands {
    arg: 1,
    select: second,
    known: &[KNOWN],
    otherwise: unknown,
};

const KIND_BITS: u32 = 8;

fn first(call: &Call) -> u64 {
    (call.args[0] & 0xffff_ffff) >> KIND_BITS
}

fn second(call: &Call) -> u64 {
    (call.args[1] & 0xffff_ffff) >> KIND_BITS
}

fn unknown(_: &Call) -> Behaviour {
    Behaviour::refused("this command is unknown", EINVAL)
}

commands! { KNOWN;
    0x800001 Q_SYNC:          OUTSIDE, [];
    0x800002 Q_QUOTAON:       OUTSIDE, [Text(3)];
    0x800003 Q_QUOTAOFF:      OUTSIDE, [];
    0x800004 Q_GETFMT:        OUTSIDE, [Out(3, Fixed(INT))];
    0x800005 Q_GETINFO:       OUTSIDE, [Out(3, Fixed(IF_DQINFO))];
    0x800006 Q_SETINFO:       OUTSIDE, [In(3, Fixed(IF_DQINFO))];
    0x800007 Q_GETQUOTA:      OUTSIDE, [Out(3, Fixed(IF_DQBLK))];
    0x800008 Q_SETQUOTA:      OUTSIDE, [In(3, Fixed(IF_DQBLK))];
    0x800009 Q_GETNEXTQUOTA:  OUTSIDE, [Out(3, Fixed(IF_NEXTDQBLK))];
    0x5801   Q_XQUOTAON:      OUTSIDE, [In(3, Fixed(INT))];
    0x5802   Q_XQUOTAOFF:     OUTSIDE, [In(3, Fixed(INT))];
    0x5803   Q_XGETQUOTA:     OUTSIDE, [Out(3, Fixed(FS_DISK_QUOTA))];
    0x5804   Q_XSETQLIM:      OUTSIDE, [In(3, Fixed(FS_DISK_QUOTA))];
    0x5805   Q_XGETQSTAT:     OUTSIDE, [Out(3, Fixed(FS_QUOTA_STAT))];
    0x5806   Q_XQUOTARM:      OUTSIDE, [In(3, Fixed(INT))];
    0x5807   Q_XQUOTASYNC:    OUTSIDE, [];
    0x5808   Q_XGETQSTATV:    OUTSIDE, [InOut(3, Fixed(FS_QUOTA_STATV))];
    0x5809   Q_XGETNEXTQUOTA: OUTSIDE, [Out(3, Fixed(FS_DISK_QUOTA))];
}
