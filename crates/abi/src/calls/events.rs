//! Calls that wait for descriptors, and the descriptors made for waiting.

use crate::Blocking::{May, Never};
use crate::errno::ENOSYS;
use crate::layout::{EPOLL_EVENT, ITIMERSPEC, POLLFD, SIGSET, TIMESPEC, TIMEVAL};
use crate::plan::Draft;
use crate::table::Effect::{By, In, Late, Opt, Out, Part, Reads, Text};
use crate::table::Len::{Arg, Fixed, Items, RetItems};
use crate::table::Num::{Int, Size, Uint};
use crate::table::When::{self, Always};
use crate::table::{OUTSIDE, Rule, calls, refused};

/// The kernel fills buffers and a ring in guest memory while the guest runs.
const AIO: Rule = refused(
    "the kernel would write guest memory at its own time",
    ENOSYS,
);

calls! {
    7   poll/3:              OUTSIDE, May,   [In(0, Items(Uint(1), POLLFD)), Late(0, Items(Uint(1), POLLFD), Always)];
    23  select/5:            OUTSIDE, May,   [By(fd_sets), In(4, Fixed(TIMEVAL)), Late(4, Fixed(TIMEVAL), Always)];
    206 io_setup/2:          AIO,     Never, [];
    207 io_destroy/1:        AIO,     Never, [];
    208 io_getevents/5:      AIO,     May,   [];
    209 io_submit/3:         AIO,     Never, [];
    210 io_cancel/3:         AIO,     Never, [];
    213 epoll_create/1:      OUTSIDE, Never, [];
    // Never implemented on x86-64; the kernel answers ENOSYS.
    214 epoll_ctl_old/4:     OUTSIDE, Never, [];
    215 epoll_wait_old/4:    OUTSIDE, Never, [];
    232 epoll_wait/4:        OUTSIDE, May,   [Out(1, RetItems(EPOLL_EVENT, Int(2)))];
    // Removing a descriptor takes no event.
    233 epoll_ctl/4:         OUTSIDE, Never, [Part(3, Fixed(EPOLL_EVENT), 0)];
    253 inotify_init/0:      OUTSIDE, Never, [];
    254 inotify_add_watch/3: OUTSIDE, Never, [Text(1)];
    255 inotify_rm_watch/2:  OUTSIDE, Never, [];
    270 pselect6/6:          OUTSIDE, May,   [By(fd_sets), In(4, Fixed(TIMESPEC)), Late(4, Fixed(TIMESPEC), Always), Reads(packed_mask)];
    271 ppoll/5:             OUTSIDE, May,   [In(0, Items(Uint(1), POLLFD)), Late(0, Items(Uint(1), POLLFD), Always),
                                              In(2, Fixed(TIMESPEC)), Late(2, Fixed(TIMESPEC), Always), In(3, Arg(Size(4)))];
    281 epoll_pwait/6:       OUTSIDE, May,   [Out(1, RetItems(EPOLL_EVENT, Int(2))), In(4, Arg(Size(5)))];
    282 signalfd/3:          OUTSIDE, Never, [In(1, Arg(Size(2)))];
    283 timerfd_create/2:    OUTSIDE, Never, [];
    284 eventfd/1:           OUTSIDE, Never, [];
    286 timerfd_settime/4:   OUTSIDE, Never, [In(2, Fixed(ITIMERSPEC)), Opt(3, Fixed(ITIMERSPEC))];
    287 timerfd_gettime/2:   OUTSIDE, Never, [Out(1, Fixed(ITIMERSPEC))];
    289 signalfd4/4:         OUTSIDE, Never, [In(1, Arg(Size(2)))];
    290 eventfd2/2:          OUTSIDE, Never, [];
    291 epoll_create1/1:     OUTSIDE, Never, [];
    294 inotify_init1/1:     OUTSIDE, Never, [];
    300 fanotify_init/2:     OUTSIDE, Never, [];
    301 fanotify_mark/5:     OUTSIDE, Never, [Text(4)];
    333 io_pgetevents/6:     AIO,     May,   [];
    425 io_uring_setup/2:    AIO,     Never, [];
    426 io_uring_enter/6:    AIO,     May,   [];
    427 io_uring_register/4: AIO,     Never, [];
    441 epoll_pwait2/6:      OUTSIDE, May,   [Out(1, RetItems(EPOLL_EVENT, Int(2))), In(3, Fixed(TIMESPEC)), In(4, Arg(Size(5)))];
}

/// The three sets of `select` are bit strings in whole words, written only when the call succeeds.
fn fd_sets(draft: &mut Draft<'_>) {
    let bits = u64::try_from(draft.int(0) as i32).unwrap_or(0);
    let bytes = bits.div_ceil(64) * 8;
    for arg in 1..=3 {
        draft.read(draft.arg(arg), bytes);
        draft.write(When::Success, draft.arg(arg), bytes);
    }
}

/// The sixth argument of `pselect6` points at a pointer to the mask, and its size.
fn packed_mask(draft: &mut Draft<'_>) {
    let pair = draft.arg(5);
    draft.read(pair, 16);
    if let Some(mask) = draft.pointer(pair).filter(|_| pair != 0) {
        draft.read(mask, SIGSET.into());
    }
}
