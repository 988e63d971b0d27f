//! The sizes of the C structures that cross the system call boundary on x86-64, each under the name the
//! kernel's headers give it.
//!
//! They are spelled out instead of taken from a C binding so that this crate stays data without
//! dependencies; the tests compare them with a C library's idea wherever it has one.

pub(crate) const INT: u32 = 4;
pub(crate) const LONG: u32 = 8;

pub(crate) const IOVEC: u64 = 16;
pub(crate) const IOV_MAX: u64 = 1024;
/// The most bytes that one call transfers (`INT_MAX` rounded down to a page).
pub(crate) const MAX_RW_COUNT: u64 = 0x7fff_f000;
pub(crate) const PATH_MAX: u64 = 4096;
/// The longest single argument of `execve`.
pub(crate) const MAX_ARG_STRLEN: u64 = 131_072;

pub(crate) const STAT: u32 = 144;
pub(crate) const STATX: u32 = 256;
pub(crate) const STATFS: u32 = 120;
pub(crate) const USTAT: u32 = 32;
pub(crate) const FLOCK: u32 = 32;
pub(crate) const F_OWNER_EX: u32 = 8;
pub(crate) const DELEGATION: u32 = 16;
pub(crate) const CACHESTAT_RANGE: u32 = 16;
pub(crate) const CACHESTAT: u32 = 40;

pub(crate) const TIMESPEC: u32 = 16;
pub(crate) const TIMEVAL: u32 = 16;
pub(crate) const TIMEZONE: u32 = 8;
pub(crate) const UTIMBUF: u32 = 16;
pub(crate) const ITIMERVAL: u32 = 32;
pub(crate) const ITIMERSPEC: u32 = 32;
pub(crate) const TIMEX: u32 = 208;
pub(crate) const TMS: u32 = 32;

pub(crate) const RLIMIT: u32 = 16;
pub(crate) const RUSAGE: u32 = 144;
pub(crate) const SYSINFO: u32 = 112;
pub(crate) const NEW_UTSNAME: u32 = 390;
pub(crate) const SCHED_PARAM: u32 = 4;
pub(crate) const CAP_USER_HEADER: u32 = 8;
pub(crate) const CAP_USER_DATA: u64 = 12;
/// The part of a `siginfo_t` that `waitid` fills, up to and including `si_status`.
pub(crate) const WAITID_INFO: u32 = 28;

pub(crate) const SIGSET: u32 = 8;
pub(crate) const SIGACTION: u32 = 32;
pub(crate) const SIGALTSTACK: u32 = 24;
pub(crate) const SIGINFO: u32 = 128;
pub(crate) const SIGEVENT: u32 = 64;

pub(crate) const POLLFD: u32 = 8;
/// Packed on x86-64.
pub(crate) const EPOLL_EVENT: u32 = 12;

pub(crate) const MSGHDR: u32 = 56;
pub(crate) const MMSGHDR: u64 = 64;

pub(crate) const SEMBUF: u32 = 6;
pub(crate) const SEMID_DS: u32 = 104;
pub(crate) const SEMINFO: u32 = 40;
pub(crate) const SHMID_DS: u32 = 112;
pub(crate) const SHMINFO: u32 = 72;
pub(crate) const SHM_INFO: u32 = 48;
pub(crate) const MSQID_DS: u32 = 120;
pub(crate) const MSGINFO: u32 = 32;
pub(crate) const MQ_ATTR: u32 = 64;
pub(crate) const FUTEX_WAITV: u32 = 24;
pub(crate) const KEYCTL_PKEY_PARAMS: u32 = 40;
pub(crate) const KEYCTL_PKEY_QUERY: u32 = 56;

pub(crate) const IF_DQBLK: u32 = 72;
pub(crate) const IF_NEXTDQBLK: u32 = 72;
pub(crate) const IF_DQINFO: u32 = 24;
pub(crate) const FS_DISK_QUOTA: u32 = 112;
pub(crate) const FS_QUOTA_STAT: u32 = 80;
pub(crate) const FS_QUOTA_STATV: u32 = 160;

/// The kernel's `struct termios`, which is smaller than the C library's.
pub(crate) const TERMIOS: u32 = 36;
pub(crate) const TERMIOS2: u32 = 44;
pub(crate) const TERMIO: u32 = 18;
pub(crate) const TERMIOX: u32 = 16;
pub(crate) const WINSIZE: u32 = 8;
pub(crate) const SERIAL_STRUCT: u32 = 72;
pub(crate) const SERIAL_ICOUNTER_STRUCT: u32 = 80;
pub(crate) const SERIAL_RS485: u32 = 32;
pub(crate) const SERIAL_ISO7816: u32 = 40;
pub(crate) const IFREQ: u32 = 40;
pub(crate) const RTENTRY: u32 = 120;
pub(crate) const ARPREQ: u32 = 68;
pub(crate) const HD_GEOMETRY: u32 = 16;
pub(crate) const LOOP_INFO: u32 = 168;
pub(crate) const LOOP_INFO64: u32 = 232;
pub(crate) const LOOP_CONFIG: u32 = 304;

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! same_size {
        ($($ours:ident = $theirs:ty),* $(,)?) => {
            $(assert_eq!($ours as usize, size_of::<$theirs>(), stringify!($ours));)*
        };
    }

    #[test]
    fn sizes_agree_with_the_c_library() {
        same_size! {
            INT = libc::c_int, LONG = libc::c_long, IOVEC = libc::iovec, STAT = libc::stat,
            STATX = libc::statx, STATFS = libc::statfs, FLOCK = libc::flock,
            TIMESPEC = libc::timespec, TIMEVAL = libc::timeval,
            UTIMBUF = libc::utimbuf, ITIMERVAL = libc::itimerval, ITIMERSPEC = libc::itimerspec,
            TIMEX = libc::timex, TMS = libc::tms, RLIMIT = libc::rlimit64, RUSAGE = libc::rusage,
            SYSINFO = libc::sysinfo, NEW_UTSNAME = libc::utsname, SCHED_PARAM = libc::sched_param,
            SIGALTSTACK = libc::stack_t, SIGINFO = libc::siginfo_t, SIGEVENT = libc::sigevent,
            POLLFD = libc::pollfd, EPOLL_EVENT = libc::epoll_event, MSGHDR = libc::msghdr,
            MMSGHDR = libc::mmsghdr, SEMBUF = libc::sembuf, SEMID_DS = libc::semid_ds,
            SEMINFO = libc::seminfo, SHMID_DS = libc::shmid_ds, MSQID_DS = libc::msqid_ds,
            MSGINFO = libc::msginfo, MQ_ATTR = libc::mq_attr, IF_DQBLK = libc::dqblk,
            TERMIOS2 = libc::termios2, WINSIZE = libc::winsize, IFREQ = libc::ifreq,
            RTENTRY = libc::rtentry, ARPREQ = libc::arpreq,
        }
    }
}
