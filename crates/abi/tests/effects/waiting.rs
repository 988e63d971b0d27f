//! Waiting, clocks, timers, signals, queues.

use std::time::Duration;

use crate::files::pipe;
use crate::kernel::{Kernel, Suite};

pub(crate) fn run(suite: &mut Suite) {
    polling(suite);
    epoll(suite);
    clocks(suite);
    timers(suite);
    interrupted(suite);
    signals(suite);
    queues(suite);
    futexes(suite);
}

fn polling(suite: &mut Suite) {
    suite.case("poll", |k| {
        let (out, end) = pipe(k, b"x");
        let entry = |fd: u64, events: u64| fd | events << 32 | 0x7777 << 48;
        let fds = k.words(&[entry(out, 1), entry(end, 4)]);
        k.ok("poll", &[fds, 2, 0]);
        // Nothing happened, and yet the kernel clears the events.
        let (out, _end) = pipe(k, b"");
        let fds = k.words(&[entry(out, 1)]);
        k.ok("poll", &[fds, 1, 0]);
        let fds = k.words(&[entry(out, 1)]);
        let timeout = k.words(&[0, 1_000_000]);
        let mask = k.words(&[0]);
        k.ok("ppoll", &[fds, 1, timeout, mask, 8]);
    });
    suite.case("select", |k| {
        let (out, end) = pipe(k, b"");
        let bits = (1u64 << out) | (1u64 << end);
        let (read, write, except) = (k.words(&[bits]), k.words(&[bits]), k.words(&[bits]));
        let timeout = k.words(&[5, 5]);
        k.ok("select", &[60, read, write, except, timeout]);
        let read = k.words(&[1 << out]);
        let timeout = k.words(&[0, 2_000_000]);
        let mask = k.words(&[0]);
        let packed = k.words(&[mask, 8]);
        k.ok("pselect6", &[out + 1, read, 0, 0, timeout, packed]);
    });
}

fn epoll(suite: &mut Suite) {
    suite.case("epoll", |k| {
        let (out, end) = pipe(k, b"x");
        let epoll = k.ok("epoll_create1", &[0]);
        let epoll = k.keep(epoll as i32);
        for (fd, interest) in [(out, 1u32), (end, 4)] {
            let event = k.ints(&[interest, fd as u32, 0x1234]);
            k.ok("epoll_ctl", &[epoll, 1, fd, event]);
        }
        let events = k.buf(12 * 5);
        k.ok("epoll_wait", &[epoll, events, 5, 0]);
        let events = k.buf(12 * 5);
        k.ok("epoll_pwait", &[epoll, events, 5, 0, 0, 8]);
        let (events, timeout) = (k.buf(12 * 5), k.words(&[0, 0]));
        k.ok("epoll_pwait2", &[epoll, events, 5, timeout, 0, 8]);
    });
    suite.case("descriptors for events", |k| {
        let event = k.ok("eventfd2", &[3, 0]);
        let event = k.keep(event as i32);
        let buf = k.buf(20);
        k.ok("read", &[event, buf, 20]);
        let inotify = k.ok("inotify_init1", &[0]);
        let inotify = k.keep(inotify as i32);
        let path = k.text("/tmp");
        k.ok("inotify_add_watch", &[inotify, path, 0x100]);
    });
}

fn clocks(suite: &mut Suite) {
    suite.case("clocks", |k| {
        let (a, b, c) = (k.buf(16), k.buf(16), k.buf(16));
        k.ok("clock_gettime", &[0, a]);
        k.ok("clock_getres", &[1, b]);
        k.ok("clock_getres", &[1, 0]);
        k.fails("clock_gettime", &[99, c], libc::EINVAL);
        let (time, zone) = (k.buf(16), k.buf(8));
        k.ok("gettimeofday", &[time, zone]);
        k.ok("gettimeofday", &[0, 0]);
        let (seconds, ticks) = (k.buf(8), k.buf(32));
        k.ok("time", &[seconds]);
        k.ok("time", &[0]);
        k.ok("times", &[ticks]);
    });
    suite.case("adjtimex", |k| {
        let (a, b) = (k.bytes(&[0; 208]), k.bytes(&[0; 208]));
        k.ok("adjtimex", &[a]);
        k.ok("clock_adjtime", &[0, b]);
    });
    suite.case("sleeping to the end", |k| {
        let (wanted, left) = (k.words(&[0, 1000]), k.buf(16));
        k.ok("nanosleep", &[wanted, left]);
        k.ok("clock_nanosleep", &[1, 0, wanted, left]);
    });
}

fn timers(suite: &mut Suite) {
    suite.case("timers of a process", |k| {
        let (old, new) = (k.buf(32), k.words(&[0, 0, 0, 0]));
        k.ok("getitimer", &[0, old]);
        let old = k.buf(32);
        k.ok("setitimer", &[0, new, old]);
        k.ok("setitimer", &[0, new, 0]);
        // No signal when it expires.
        let event = k.with(64, &[0u64, 1 << 32].map(u64::to_le_bytes).concat());
        let id = k.buf(4);
        k.ok("timer_create", &[1, event, id]);
        let timer = k.int_at(id) as u64;
        let (long, old) = (k.words(&[0, 0, 1000, 0]), k.buf(32));
        k.ok("timer_settime", &[timer, 0, long, old]);
        let now = k.buf(32);
        k.ok("timer_gettime", &[timer, now]);
        k.ok("timer_getoverrun", &[timer]);
        k.ok("timer_delete", &[timer]);
    });
    suite.case("timers with a descriptor", |k| {
        let timer = k.ok("timerfd_create", &[1, 0]);
        let timer = k.keep(timer as i32);
        let (long, old, now) = (k.words(&[0, 0, 1000, 0]), k.buf(32), k.buf(32));
        k.ok("timerfd_settime", &[timer, 0, long, old]);
        k.ok("timerfd_gettime", &[timer, now]);
    });
}

extern "C" fn wake(_: i32) {}

/// Runs something while a signal hits this thread again and again.
fn while_interrupted(run: impl FnOnce()) {
    // SAFETY: the handler does nothing; the structures are zeroed where they are not set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = wake as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        let thread = libc::pthread_self() as usize;
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::SeqCst) {
                    libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR1);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            run();
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
    }
}

fn interrupted(suite: &mut Suite) {
    suite.case("sleeping until a signal", |k| {
        while_interrupted(|| {
            let (long, left) = (k.words(&[1000, 0]), k.buf(16));
            k.fails("nanosleep", &[long, left], libc::EINTR);
            k.fails("nanosleep", &[long, 0], libc::EINTR);
            let left = k.buf(16);
            k.fails("clock_nanosleep", &[1, 0, long, left], libc::EINTR);
        });
    });
    suite.case("waiting until a signal", |k| {
        let (out, _end) = pipe(k, b"");
        while_interrupted(|| {
            let fds = k.words(&[out | 1 << 32 | 0x7777 << 48]);
            k.fails("poll", &[fds, 1, u64::from(u32::MAX)], libc::EINTR);
            let fds = k.words(&[out | 1 << 32 | 0x7777 << 48]);
            let timeout = k.words(&[1000, 0]);
            k.fails("ppoll", &[fds, 1, timeout, 0, 8], libc::EINTR);
            let (read, timeout) = (k.words(&[1 << out]), k.words(&[1000, 0]));
            k.fails("select", &[out + 1, read, 0, 0, timeout], libc::EINTR);
            let (read, timeout) = (k.words(&[1 << out]), k.words(&[1000, 0]));
            k.fails("pselect6", &[out + 1, read, 0, 0, timeout, 0], libc::EINTR);
            let buf = k.buf(10);
            k.fails("read", &[out, buf, 10], libc::EINTR);
        });
    });
}

fn signals(suite: &mut Suite) {
    suite.case("pending signals", |k| {
        let set = k.words(&[1 << (libc::SIGUSR2 - 1)]);
        let old = k.buf(8);
        k.ok("rt_sigprocmask", &[0, set, old, 8]);
        let (info, nothing) = (k.buf(128), k.words(&[0, 0]));
        k.fails("rt_sigtimedwait", &[set, info, nothing, 8], libc::EAGAIN);
        // SAFETY: the signal is blocked.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
        let pending = k.buf(8);
        k.ok("rt_sigpending", &[pending, 8]);
        let info = k.buf(128);
        k.ok("rt_sigtimedwait", &[set, info, nothing, 8]);
        let signals = k.ok("signalfd4", &[u64::MAX, set, 8, 0]);
        k.keep(signals as i32);
    });
    suite.case("handlers and stacks", |k| {
        let old = k.buf(32);
        k.ok("rt_sigaction", &[libc::SIGUSR1 as u64, 0, old, 8]);
        let old = k.buf(24);
        k.ok("sigaltstack", &[0, old]);
    });
}

fn queues(suite: &mut Suite) {
    suite.case("system v messages", |k| {
        let Some(queue) = k.maybe("msgget", &[0, 0o600]) else {
            return;
        };
        let queue = queue as u64;
        let message = k.bytes(b"\x01\0\0\0\0\0\0\0eleven char");
        k.ok("msgsnd", &[queue, message, 11, 0]);
        let buf = k.buf(8 + 30);
        k.ok("msgrcv", &[queue, buf, 30, 0, 0]);
        let stat = k.buf(120);
        k.ok("msgctl", &[queue, 2, stat]);
        for command in [3, 12] {
            let info = k.buf(32);
            k.ok("msgctl", &[0, command, info]);
        }
        k.ok("msgctl", &[queue, 0, 0]);
    });
    suite.case("system v semaphores", |k| {
        let Some(set) = k.maybe("semget", &[0, 3, 0o600]) else {
            return;
        };
        let set = set as u64;
        let stat = k.buf(104);
        k.ok("semctl", &[set, 0, 2, stat]);
        for command in [3, 19] {
            let info = k.buf(40);
            k.ok("semctl", &[0, 0, command, info]);
        }
        k.ok("semctl", &[set, 1, 12, 0]);
        let operation = k.bytes(&[0, 0, 1, 0, 0, 0]);
        k.ok("semop", &[set, operation, 1]);
        k.ok("semctl", &[set, 0, 0, 0]);
    });
    suite.case("system v shared memory", |k| {
        let Some(segment) = k.maybe("shmget", &[0, 4096, 0o600]) else {
            return;
        };
        let segment = segment as u64;
        let stat = k.buf(112);
        k.ok("shmctl", &[segment, 2, stat]);
        let info = k.buf(72);
        k.ok("shmctl", &[0, 3, info]);
        let info = k.buf(48);
        k.ok("shmctl", &[0, 14, info]);
        k.ok("shmctl", &[segment, 0, 0]);
    });
    suite.case("posix messages", |k| {
        let name = k.text("abi-effects");
        let attr = k.words(&[0, 4, 32, 0, 0, 0, 0, 0]);
        let flags = (libc::O_CREAT | libc::O_RDWR) as u64;
        let Some(queue) = k.maybe("mq_open", &[name, flags, 0o600, attr]) else {
            return;
        };
        let queue = k.keep(queue as i32);
        k.ok("mq_unlink", &[name]);
        let message = k.bytes(b"message");
        k.ok("mq_timedsend", &[queue, message, 7, 2, 0]);
        let (buf, priority) = (k.buf(32), k.buf(4));
        k.ok("mq_timedreceive", &[queue, buf, 32, priority, 0]);
        let old = k.buf(64);
        k.ok("mq_getsetattr", &[queue, 0, old]);
    });
    suite.case("keys", keys);
}

fn keys(k: &mut Kernel) {
    const PROCESS_KEYRING: u64 = -2i64 as u64;
    let (kind, name, payload) = (k.text("user"), k.text("abi-effects"), k.bytes(b"secret"));
    let Some(key) = k.maybe("add_key", &[kind, name, payload, 6, PROCESS_KEYRING]) else {
        return;
    };
    let key = key as u64;
    let (a, b) = (k.buf(100), k.buf(100));
    k.ok("keyctl", &[6, key, a, 100]);
    k.ok("keyctl", &[11, key, b, 100]);
    let c = k.buf(100);
    k.ok("keyctl", &[17, key, c, 100]);
    let capabilities = k.buf(10);
    k.maybe("keyctl", &[31, capabilities, 10]);
    k.ok("keyctl", &[3, key]);
}

fn futexes(suite: &mut Suite) {
    suite.case("futex", |k| {
        let word = k.ints(&[0]);
        k.ok("futex", &[word, 1, 1]);
        let timeout = k.words(&[0, 0]);
        k.fails("futex", &[word, 0, 7, timeout], libc::EAGAIN);
        // Adds 5 to the second word.
        let other = k.ints(&[10]);
        let add = 1 << 28 | 5 << 12;
        k.ok("futex", &[word, 5, 0, 0, other, add]);
        let lock = k.ints(&[0]);
        k.ok("futex", &[lock, 6, 0, 0]);
        k.ok("futex", &[lock, 7]);
    });
}
