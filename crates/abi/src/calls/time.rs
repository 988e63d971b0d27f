//! Calls about clocks, timers and sleeping.

use crate::Blocking::{May, Never};
use crate::layout::{
    INT, ITIMERSPEC, ITIMERVAL, LONG, SIGEVENT, TIMESPEC, TIMEVAL, TIMEX, TIMEZONE, TMS,
};
use crate::table::Effect::{In, InOut, Late, Opt, Out};
use crate::table::Len::Fixed;
use crate::table::When::Interrupted;
use crate::table::{OUTSIDE, calls};

calls! {
    // The remaining time is written only when a signal ended the sleep.
    35  nanosleep/2:       OUTSIDE, May,   [In(0, Fixed(TIMESPEC)), Late(1, Fixed(TIMESPEC), Interrupted)];
    36  getitimer/2:       OUTSIDE, Never, [Out(1, Fixed(ITIMERVAL))];
    37  alarm/1:           OUTSIDE, Never, [];
    38  setitimer/3:       OUTSIDE, Never, [In(1, Fixed(ITIMERVAL)), Opt(2, Fixed(ITIMERVAL))];
    96  gettimeofday/2:    OUTSIDE, Never, [Opt(0, Fixed(TIMEVAL)), Opt(1, Fixed(TIMEZONE))];
    100 times/1:           OUTSIDE, Never, [Opt(0, Fixed(TMS))];
    159 adjtimex/1:        OUTSIDE, Never, [InOut(0, Fixed(TIMEX))];
    164 settimeofday/2:    OUTSIDE, Never, [In(0, Fixed(TIMEVAL)), In(1, Fixed(TIMEZONE))];
    201 time/1:            OUTSIDE, Never, [Opt(0, Fixed(LONG))];
    222 timer_create/3:    OUTSIDE, Never, [In(1, Fixed(SIGEVENT)), Out(2, Fixed(INT))];
    223 timer_settime/4:   OUTSIDE, Never, [In(2, Fixed(ITIMERSPEC)), Opt(3, Fixed(ITIMERSPEC))];
    224 timer_gettime/2:   OUTSIDE, Never, [Out(1, Fixed(ITIMERSPEC))];
    225 timer_getoverrun/1: OUTSIDE, Never, [];
    226 timer_delete/1:    OUTSIDE, Never, [];
    227 clock_settime/2:   OUTSIDE, Never, [In(1, Fixed(TIMESPEC))];
    228 clock_gettime/2:   OUTSIDE, Never, [Out(1, Fixed(TIMESPEC))];
    229 clock_getres/2:    OUTSIDE, Never, [Opt(1, Fixed(TIMESPEC))];
    230 clock_nanosleep/4: OUTSIDE, May,   [In(2, Fixed(TIMESPEC)), Late(3, Fixed(TIMESPEC), Interrupted)];
    305 clock_adjtime/2:   OUTSIDE, Never, [InOut(1, Fixed(TIMEX))];
}
