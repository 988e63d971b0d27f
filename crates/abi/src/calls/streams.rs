//! Calls on open descriptors: reading, writing, moving data between them, duplicating and closing.

use crate::Blocking::{ByFd, May, Never};
use crate::commands::fcntl::FCNTL;
use crate::commands::ioctl::IOCTL;
use crate::layout::{CACHESTAT, CACHESTAT_RANGE, INT, LONG};
use crate::table::Effect::{Gather, In, Late, Out, Scatter, Text};
use crate::table::Len::{Fixed, Ret};
use crate::table::Num::Size;
use crate::table::When::Always;
use crate::table::{OUTSIDE, Rule, calls};

calls! {
    0   read/3:              OUTSIDE, ByFd(0), [Out(1, Ret(Size(2)))];
    1   write/3:             OUTSIDE, ByFd(0), [In(1, Ret(Size(2)))];
    3   close/1:             OUTSIDE, Never,   [];
    8   lseek/3:             OUTSIDE, Never,   [];
    16  ioctl/3:             Rule::Commands(&IOCTL), ByFd(0), [];
    17  pread64/4:           OUTSIDE, ByFd(0), [Out(1, Ret(Size(2)))];
    18  pwrite64/4:          OUTSIDE, ByFd(0), [In(1, Ret(Size(2)))];
    19  readv/3:             OUTSIDE, ByFd(0), [Scatter(1, Size(2))];
    20  writev/3:            OUTSIDE, ByFd(0), [Gather(1, Size(2))];
    22  pipe/1:              OUTSIDE, Never,   [Out(0, Fixed(2 * INT))];
    32  dup/1:               OUTSIDE, Never,   [];
    33  dup2/2:              OUTSIDE, Never,   [];
    40  sendfile/4:          OUTSIDE, May,     [In(2, Fixed(LONG)), Late(2, Fixed(LONG), Always)];
    72  fcntl/3:             Rule::Commands(&FCNTL), May, [];
    73  flock/2:             OUTSIDE, May,     [];
    74  fsync/1:             OUTSIDE, Never,   [];
    75  fdatasync/1:         OUTSIDE, Never,   [];
    77  ftruncate/2:         OUTSIDE, Never,   [];
    187 readahead/3:         OUTSIDE, Never,   [];
    221 fadvise64/4:         OUTSIDE, Never,   [];
    275 splice/6:            OUTSIDE, May,     [In(1, Fixed(LONG)), In(3, Fixed(LONG)), Late(1, Fixed(LONG), Always), Late(3, Fixed(LONG), Always)];
    276 tee/4:               OUTSIDE, May,     [];
    277 sync_file_range/4:   OUTSIDE, Never,   [];
    // Which way the data goes depends on the end of the pipe; as a superset, both.
    278 vmsplice/4:          OUTSIDE, ByFd(0), [Gather(1, Size(2)), Scatter(1, Size(2))];
    285 fallocate/4:         OUTSIDE, Never,   [];
    292 dup3/3:              OUTSIDE, Never,   [];
    293 pipe2/2:             OUTSIDE, Never,   [Out(0, Fixed(2 * INT))];
    295 preadv/5:            OUTSIDE, ByFd(0), [Scatter(1, Size(2))];
    296 pwritev/5:           OUTSIDE, ByFd(0), [Gather(1, Size(2))];
    306 syncfs/1:            OUTSIDE, Never,   [];
    319 memfd_create/2:      OUTSIDE, Never,   [Text(0)];
    326 copy_file_range/6:   OUTSIDE, May,     [In(1, Fixed(LONG)), In(3, Fixed(LONG)), Late(1, Fixed(LONG), Always), Late(3, Fixed(LONG), Always)];
    327 preadv2/6:           OUTSIDE, ByFd(0), [Scatter(1, Size(2))];
    328 pwritev2/6:          OUTSIDE, ByFd(0), [Gather(1, Size(2))];
    436 close_range/3:       OUTSIDE, Never,   [];
    438 pidfd_getfd/3:       OUTSIDE, Never,   [];
    451 cachestat/4:         OUTSIDE, Never,   [In(1, Fixed(CACHESTAT_RANGE)), Out(2, Fixed(CACHESTAT))];
}
