//! Calls on names: opening, status, directories, links, attributes, mounts.

use crate::Blocking::{May, Never};
use crate::layout::{INT, LONG, STAT, STATFS, STATX, TIMESPEC, TIMEVAL, USTAT, UTIMBUF};
use crate::plan::{Draft, Limit, Pointer};
use crate::table::Effect::{By, In, Out, Reads, Text};
use crate::table::Len::{Arg, Fixed, Ret, RetAtMost, RetItems};
use crate::table::Num::{Int, Size, Uint};
use crate::table::{OUTSIDE, When, calls};

calls! {
    // Opening a FIFO waits for the other end.
    2   open/3:              OUTSIDE, May,   [Text(0)];
    4   stat/2:              OUTSIDE, Never, [Text(0), Out(1, Fixed(STAT))];
    5   fstat/2:             OUTSIDE, Never, [Out(1, Fixed(STAT))];
    6   lstat/2:             OUTSIDE, Never, [Text(0), Out(1, Fixed(STAT))];
    21  access/2:            OUTSIDE, Never, [Text(0)];
    76  truncate/2:          OUTSIDE, Never, [Text(0)];
    78  getdents/3:          OUTSIDE, Never, [Out(1, Ret(Uint(2)))];
    79  getcwd/2:            OUTSIDE, Never, [Out(0, Ret(Size(1)))];
    80  chdir/1:             OUTSIDE, Never, [Text(0)];
    81  fchdir/1:            OUTSIDE, Never, [];
    82  rename/2:            OUTSIDE, Never, [Text(0), Text(1)];
    83  mkdir/2:             OUTSIDE, Never, [Text(0)];
    84  rmdir/1:             OUTSIDE, Never, [Text(0)];
    85  creat/2:             OUTSIDE, May,   [Text(0)];
    86  link/2:              OUTSIDE, Never, [Text(0), Text(1)];
    87  unlink/1:            OUTSIDE, Never, [Text(0)];
    88  symlink/2:           OUTSIDE, Never, [Text(0), Text(1)];
    89  readlink/3:          OUTSIDE, Never, [Text(0), Out(1, Ret(Int(2)))];
    90  chmod/2:             OUTSIDE, Never, [Text(0)];
    91  fchmod/2:            OUTSIDE, Never, [];
    92  chown/3:             OUTSIDE, Never, [Text(0)];
    93  fchown/3:            OUTSIDE, Never, [];
    94  lchown/3:            OUTSIDE, Never, [Text(0)];
    95  umask/1:             OUTSIDE, Never, [];
    132 utime/2:             OUTSIDE, Never, [Text(0), In(1, Fixed(UTIMBUF))];
    133 mknod/3:             OUTSIDE, Never, [Text(0)];
    136 ustat/2:             OUTSIDE, Never, [Out(1, Fixed(USTAT))];
    137 statfs/2:            OUTSIDE, Never, [Text(0), Out(1, Fixed(STATFS))];
    138 fstatfs/2:           OUTSIDE, Never, [Out(1, Fixed(STATFS))];
    139 sysfs/3:             OUTSIDE, Never, [By(sysfs)];
    155 pivot_root/2:        OUTSIDE, Never, [Text(0), Text(1)];
    161 chroot/1:            OUTSIDE, Never, [Text(0)];
    162 sync/0:              OUTSIDE, Never, [];
    165 mount/5:             OUTSIDE, Never, [Text(0), Text(1), Text(2), Text(4)];
    166 umount2/2:           OUTSIDE, Never, [Text(0)];
    188 setxattr/5:          OUTSIDE, Never, [Text(0), Text(1), In(2, Arg(Size(3)))];
    189 lsetxattr/5:         OUTSIDE, Never, [Text(0), Text(1), In(2, Arg(Size(3)))];
    190 fsetxattr/5:         OUTSIDE, Never, [Text(1), In(2, Arg(Size(3)))];
    191 getxattr/4:          OUTSIDE, Never, [Text(0), Text(1), Out(2, RetAtMost(Size(3)))];
    192 lgetxattr/4:         OUTSIDE, Never, [Text(0), Text(1), Out(2, RetAtMost(Size(3)))];
    193 fgetxattr/4:         OUTSIDE, Never, [Text(1), Out(2, RetAtMost(Size(3)))];
    194 listxattr/3:         OUTSIDE, Never, [Text(0), Out(1, RetAtMost(Size(2)))];
    195 llistxattr/3:        OUTSIDE, Never, [Text(0), Out(1, RetAtMost(Size(2)))];
    196 flistxattr/3:        OUTSIDE, Never, [Out(1, RetAtMost(Size(2)))];
    197 removexattr/2:       OUTSIDE, Never, [Text(0), Text(1)];
    198 lremovexattr/2:      OUTSIDE, Never, [Text(0), Text(1)];
    199 fremovexattr/2:      OUTSIDE, Never, [Text(1)];
    212 lookup_dcookie/3:    OUTSIDE, Never, [Out(1, Ret(Size(2)))];
    217 getdents64/3:        OUTSIDE, Never, [Out(1, Ret(Uint(2)))];
    235 utimes/2:            OUTSIDE, Never, [Text(0), In(1, Fixed(2 * TIMEVAL))];
    257 openat/4:            OUTSIDE, May,   [Text(1)];
    258 mkdirat/3:           OUTSIDE, Never, [Text(1)];
    259 mknodat/4:           OUTSIDE, Never, [Text(1)];
    260 fchownat/5:          OUTSIDE, Never, [Text(1)];
    261 futimesat/3:         OUTSIDE, Never, [Text(1), In(2, Fixed(2 * TIMEVAL))];
    262 newfstatat/4:        OUTSIDE, Never, [Text(1), Out(2, Fixed(STAT))];
    263 unlinkat/3:          OUTSIDE, Never, [Text(1)];
    264 renameat/4:          OUTSIDE, Never, [Text(1), Text(3)];
    265 linkat/5:            OUTSIDE, Never, [Text(1), Text(3)];
    266 symlinkat/3:         OUTSIDE, Never, [Text(0), Text(2)];
    267 readlinkat/4:        OUTSIDE, Never, [Text(1), Out(2, Ret(Int(3)))];
    268 fchmodat/3:          OUTSIDE, Never, [Text(1)];
    269 faccessat/3:         OUTSIDE, Never, [Text(1)];
    280 utimensat/4:         OUTSIDE, Never, [Text(1), In(2, Fixed(2 * TIMESPEC))];
    303 name_to_handle_at/5: OUTSIDE, Never, [Text(1), By(name_to_handle_at)];
    304 open_by_handle_at/3: OUTSIDE, May,   [Reads(open_by_handle_at)];
    316 renameat2/5:         OUTSIDE, Never, [Text(1), Text(3)];
    332 statx/5:             OUTSIDE, Never, [Text(1), Out(4, Fixed(STATX))];
    428 open_tree/3:         OUTSIDE, Never, [Text(1)];
    429 move_mount/5:        OUTSIDE, Never, [Text(1), Text(3)];
    430 fsopen/2:            OUTSIDE, Never, [Text(0)];
    431 fsconfig/5:          OUTSIDE, Never, [Text(2), Reads(fsconfig)];
    432 fsmount/3:           OUTSIDE, Never, [];
    433 fspick/3:            OUTSIDE, Never, [Text(1)];
    437 openat2/4:           OUTSIDE, May,   [Text(1), In(2, Arg(Size(3)))];
    439 faccessat2/4:        OUTSIDE, Never, [Text(1)];
    442 mount_setattr/5:     OUTSIDE, Never, [Text(1), In(3, Arg(Size(4)))];
    452 fchmodat2/4:         OUTSIDE, Never, [Text(1)];
    457 statmount/4:         OUTSIDE, Never, [Reads(mount_id_request), By(statmount)];
    458 listmount/4:         OUTSIDE, Never, [Reads(mount_id_request), Out(1, RetItems(LONG, Size(2)))];
    463 setxattrat/6:        OUTSIDE, Never, [Text(1), Text(3), Reads(setxattrat)];
    464 getxattrat/6:        OUTSIDE, Never, [Text(1), Text(3), By(getxattrat)];
    465 listxattrat/5:       OUTSIDE, Never, [Text(1), Out(3, RetAtMost(Size(4)))];
    466 removexattrat/4:     OUTSIDE, Never, [Text(1), Text(3)];
    467 open_tree_attr/5:    OUTSIDE, Never, [Text(1), In(3, Arg(Size(4)))];
    468 file_getattr/5:      OUTSIDE, Never, [Text(1), Out(2, Arg(Size(3)))];
    469 file_setattr/5:      OUTSIDE, Never, [Text(1), In(2, Arg(Size(3)))];
    470 listns/4:            OUTSIDE, Never, [Reads(mount_id_request), Out(1, RetItems(LONG, Size(2)))];
}

/// `sysfs(2, index, buffer)` writes the name of a file system, of a length that only the name itself tells.
fn sysfs(draft: &mut Draft<'_>) {
    const NAME_OF_INDEX: u32 = 2;
    const INDEX_OF_NAME: u32 = 1;
    match draft.int(0) {
        INDEX_OF_NAME => draft.read_text(draft.arg(1)),
        NAME_OF_INDEX => draft.write_up_to(When::Success, draft.arg(2), 256, Limit::Text),
        _ => {}
    }
}

/// `struct file_handle` starts with the room after its header and its type; on `EOVERFLOW` the kernel
/// writes the room that it would have needed, and the mount in any case.
fn name_to_handle_at(draft: &mut Draft<'_>) {
    const HEADER: u64 = 8;
    const AT_HANDLE_MNT_ID_UNIQUE: u32 = 1;
    let (handle, mount) = (draft.arg(2), draft.arg(3));
    let mount_len = if draft.int(4) & AT_HANDLE_MNT_ID_UNIQUE != 0 {
        LONG
    } else {
        INT
    };
    let room = draft.u32(handle).unwrap_or(0);
    draft.read(handle, 4);
    draft.write(When::Always, handle, HEADER);
    draft.write(When::Always, mount, mount_len.into());
    let bytes = handle.wrapping_add(HEADER);
    let limit = Limit::Told {
        at: handle,
        width: 4,
    };
    draft.write_up_to(When::Success, bytes, room.into(), limit);
}

fn open_by_handle_at(draft: &mut Draft<'_>) {
    let handle = draft.arg(1);
    let bytes = draft.u32(handle).unwrap_or(0);
    draft.read(handle, 8 + u64::from(bytes));
}

/// The value of `fsconfig` is a string, a blob or a path, by command.
fn fsconfig(draft: &mut Draft<'_>) {
    const SET_STRING: u32 = 1;
    const SET_BINARY: u32 = 2;
    const SET_PATH: u32 = 3;
    const SET_PATH_EMPTY: u32 = 4;
    let value = draft.arg(3);
    match draft.int(1) {
        SET_STRING | SET_PATH | SET_PATH_EMPTY => draft.read_text(value),
        SET_BINARY => draft.read(value, draft.int(4).into()),
        _ => {}
    }
}

/// `struct mnt_id_req` and `struct ns_id_req` start with their own size.
fn mount_id_request(draft: &mut Draft<'_>) {
    let request = draft.arg(0);
    let size = draft.u32(request).unwrap_or(0);
    draft.read(request, size.into());
}

/// `struct statmount` starts with the size of what the kernel filled in, strings included.
fn statmount(draft: &mut Draft<'_>) {
    let (buffer, room) = (draft.arg(1), draft.arg(2));
    let limit = Limit::Told {
        at: buffer,
        width: 4,
    };
    draft.write_up_to(When::Success, buffer, room, limit);
}

/// `struct xattr_args` holds a pointer to the value, its size and flags.
fn xattr_args(draft: &mut Draft<'_>) -> Option<(Pointer, u64)> {
    let (args, size) = (draft.arg(4), draft.arg(5));
    draft.read(args, size);
    Some((
        draft.pointer(args)?,
        draft.u32(args.wrapping_add(8))?.into(),
    ))
}

fn setxattrat(draft: &mut Draft<'_>) {
    if let Some((value, size)) = xattr_args(draft) {
        draft.read(value, size);
    }
}

fn getxattrat(draft: &mut Draft<'_>) {
    if let Some((value, size)) = xattr_args(draft) {
        draft.write_up_to(When::Success, value, size, Limit::Returned { unit: 1 });
    }
}
