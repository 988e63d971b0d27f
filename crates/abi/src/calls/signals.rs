//! Calls about signals.
//!
//! Handlers and masks live in the kernel and act back on the guest, so a replay sets them too. Sending is
//! of class Outside: the recording says when each signal arrives.

use crate::Blocking::{May, Never};
use crate::layout::{SIGACTION, SIGALTSTACK, SIGINFO, SIGSET, TIMESPEC};
use crate::table::Effect::{In, Late, Opt, Out};
use crate::table::Len::{Arg, Fixed};
use crate::table::Num::Size;
use crate::table::When::Above;
use crate::table::{OUTSIDE, RESTART, STATE, calls};

calls! {
    13  rt_sigaction/4:      STATE,   Never, [In(1, Fixed(SIGACTION)), Opt(2, Fixed(SIGACTION))];
    14  rt_sigprocmask/4:    STATE,   Never, [In(1, Fixed(SIGSET)), Opt(2, Fixed(SIGSET))];
    15  rt_sigreturn/0:      STATE,   Never, [];
    34  pause/0:             OUTSIDE, May,   [];
    62  kill/2:              OUTSIDE, Never, [];
    127 rt_sigpending/2:     OUTSIDE, Never, [Out(0, Arg(Size(1)))];
    128 rt_sigtimedwait/4:   OUTSIDE, May,   [In(0, Arg(Size(3))), Late(1, Fixed(SIGINFO), Above(0)), In(2, Fixed(TIMESPEC))];
    129 rt_sigqueueinfo/3:   OUTSIDE, Never, [In(2, Fixed(SIGINFO))];
    130 rt_sigsuspend/2:     OUTSIDE, May,   [In(0, Arg(Size(1)))];
    131 sigaltstack/2:       STATE,   Never, [In(0, Fixed(SIGALTSTACK)), Opt(1, Fixed(SIGALTSTACK))];
    200 tkill/2:             OUTSIDE, Never, [];
    219 restart_syscall/0:   RESTART, May,   [];
    234 tgkill/3:            OUTSIDE, Never, [];
    297 rt_tgsigqueueinfo/4: OUTSIDE, Never, [In(3, Fixed(SIGINFO))];
    424 pidfd_send_signal/4: OUTSIDE, Never, [In(2, Fixed(SIGINFO))];
}
