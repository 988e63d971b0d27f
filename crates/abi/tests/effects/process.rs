//! Processes, limits, scheduling, the machine.

use crate::kernel::Suite;

/// A child that has ended with status 3 and waits to be collected.
fn child() -> u64 {
    // SAFETY: the child calls nothing but _exit.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(3),
            pid => pid as u64,
        }
    }
}

pub(crate) fn run(suite: &mut Suite) {
    waiting(suite);
    identity(suite);
    scheduling(suite);
    options(suite);
    machine(suite);
    memory(suite);
    starting(suite);
}

fn waiting(suite: &mut Suite) {
    suite.case("wait4", |k| {
        let (status, usage) = (k.buf(4), k.buf(144));
        k.ok("wait4", &[child(), status, 0, usage]);
        let (status, usage) = (k.buf(4), k.buf(144));
        k.fails("wait4", &[1 << 22, status, 1, usage], libc::ECHILD);
        k.ok("wait4", &[child(), 0, 0, 0]);
    });
    suite.case("waitid", |k| {
        const P_PID: u64 = 1;
        const WEXITED: u64 = 4;
        let (info, usage) = (k.buf(128), k.buf(144));
        k.ok("waitid", &[P_PID, child(), info, WEXITED, usage]);
        let info = k.buf(128);
        k.fails("waitid", &[P_PID, 1 << 22, info, WEXITED, 0], libc::ECHILD);
    });
    suite.case("waitid with nothing to tell", |k| {
        // SAFETY: the child calls nothing but pause.
        let pid = unsafe {
            match libc::fork() {
                0 => loop {
                    libc::pause();
                },
                pid => pid as u64,
            }
        };
        let (info, usage) = (k.buf(128), k.buf(144));
        k.ok("waitid", &[1, pid, info, 4 | 1, 0]);
        let status = k.buf(4);
        k.ok("wait4", &[pid, status, 1, usage]);
        k.ok("kill", &[pid, 9]);
        k.ok("wait4", &[pid, status, 0, 0]);
    });
}

fn identity(suite: &mut Suite) {
    suite.case("users and groups", |k| {
        for name in ["getresuid", "getresgid"] {
            let (a, b, c) = (k.buf(4), k.buf(4), k.buf(4));
            k.ok(name, &[a, b, c]);
        }
        let groups = k.buf(4 * 64);
        k.ok("getgroups", &[0, groups]);
        k.ok("getgroups", &[64, groups]);
        for name in [
            "getpid", "gettid", "getuid", "getppid", "getpgrp", "geteuid", "getgid",
        ] {
            k.ok(name, &[]);
        }
    });
    suite.case("capabilities", |k| {
        let (header, data) = (k.ints(&[0x2008_0522, 0]), k.buf(24));
        k.ok("capget", &[header, data]);
        let (header, data) = (k.ints(&[0x1998_0330, 0]), k.buf(12));
        k.ok("capget", &[header, data]);
        let (header, data) = (k.ints(&[1, 0]), k.buf(24));
        k.fails("capget", &[header, data], libc::EINVAL);
    });
    suite.case("limits and usage", |k| {
        let (a, b, c) = (k.buf(16), k.buf(16), k.buf(144));
        k.ok("getrlimit", &[7, a]);
        k.ok("prlimit64", &[0, 7, 0, b]);
        k.ok("prlimit64", &[0, 7, 0, 0]);
        k.ok("getrusage", &[0, c]);
        k.fails("getrlimit", &[99, a], libc::EINVAL);
    });
    suite.case("robust list", |k| {
        let (head, len) = (k.buf(8), k.buf(8));
        k.ok("get_robust_list", &[0, head, len]);
    });
    suite.case("security modules", |k| {
        let (ids, size) = (k.buf(8 * 20), k.ints(&[160]));
        k.maybe("lsm_list_modules", &[ids, size, 0]);
        let (ids, size) = (k.buf(4), k.ints(&[4]));
        k.maybe_fails("lsm_list_modules", &[ids, size, 0], libc::E2BIG);
        let (attributes, size) = (k.buf(400), k.ints(&[400]));
        k.maybe("lsm_get_self_attr", &[100, attributes, size, 0]);
    });
}

fn scheduling(suite: &mut Suite) {
    suite.case("scheduling", |k| {
        let mask = k.buf(128);
        k.ok("sched_getaffinity", &[0, 128, mask]);
        let parameter = k.buf(4);
        k.ok("sched_getparam", &[0, parameter]);
        let interval = k.buf(16);
        k.ok("sched_rr_get_interval", &[0, interval]);
        for size in [48, 56, 100] {
            let attributes = k.buf(size);
            k.ok("sched_getattr", &[0, attributes, size as u64, 0]);
        }
        let mut huge = [0u8; 200];
        huge[0] = 200;
        huge[199] = 1;
        let attributes = k.bytes(&huge);
        k.fails("sched_setattr", &[0, attributes, 0], libc::E2BIG);
        let (processor, node) = (k.buf(4), k.buf(4));
        k.ok("getcpu", &[processor, node, 0]);
        let processor = k.buf(4);
        k.ok("getcpu", &[processor, 0, 0]);
        k.ok("sched_yield", &[]);
        k.ok("getpriority", &[0, 0]);
    });
}

fn options(suite: &mut Suite) {
    suite.case("prctl", |k| {
        for option in [2, 25, 37] {
            let value = k.buf(4);
            k.ok("prctl", &[option, value, 0, 0, 0]);
        }
        let name = k.buf(16);
        k.ok("prctl", &[16, name, 0, 0, 0]);
        let address = k.buf(8);
        k.maybe("prctl", &[40, address, 0, 0, 0]);
        let vector = k.buf(40);
        k.maybe("prctl", &[0x4155_5856, vector, 40, 0, 0]);
        let vector = k.buf(1000);
        k.maybe("prctl", &[0x4155_5856, vector, 1000, 0, 0]);
        k.ok("prctl", &[3, 0, 0, 0, 0]);
        let cookie = k.buf(8);
        k.maybe("prctl", &[62, 0, 0, 0, cookie]);
    });
    suite.case("arch_prctl", |k| {
        for option in [0x1003, 0x1004, 0x1021, 0x1022, 0x4001, 0x4003, 0x5005] {
            let value = k.buf(8);
            k.maybe("arch_prctl", &[option, value]);
        }
    });
    suite.case("seccomp", |k| {
        let action = k.ints(&[0x7fff_0000]);
        k.maybe("seccomp", &[2, 0, action]);
        let sizes = k.buf(6);
        k.maybe("seccomp", &[3, 0, sizes]);
    });
}

fn machine(suite: &mut Suite) {
    suite.case("the machine", |k| {
        let (name, info) = (k.buf(390), k.buf(112));
        k.ok("uname", &[name]);
        k.ok("sysinfo", &[info]);
        let log = k.buf(500);
        k.maybe("syslog", &[3, log, 500]);
        k.maybe("syslog", &[10, 0, 0]);
        k.ok("membarrier", &[0, 0, 0]);
    });
}

fn memory(suite: &mut Suite) {
    suite.case("pages", |k| {
        const PAGE: usize = 4096;
        // SAFETY: a fresh anonymous mapping, which is leaked.
        let pages = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
            libc::mmap(std::ptr::null_mut(), 3 * PAGE, protection, flags, -1, 0) as u64
        };
        let residency = k.buf(3);
        k.ok("mincore", &[pages, 2 * PAGE as u64 + 1, residency]);
        let (addresses, status) = (k.words(&[pages, pages + PAGE as u64]), k.buf(8));
        k.maybe("move_pages", &[0, 2, addresses, 0, status, 0]);
        let (mode, nodes) = (k.buf(4), k.buf(136));
        k.maybe("get_mempolicy", &[mode, nodes, 1025, 0, 0]);
        k.ok("madvise", &[pages, PAGE as u64, 4]);
        k.ok("mprotect", &[pages, PAGE as u64, 1]);
        k.ok("munmap", &[pages, 3 * PAGE as u64]);
    });
}

fn starting(suite: &mut Suite) {
    const SET_BOTH: u64 = 0x110_0000;
    const PIDFD: u64 = 0x1000;
    const SIGCHLD: u64 = 17;
    suite.case("clone", |k| {
        let (parent, child) = (k.buf(4), k.buf(4));
        let pid = k.ok("clone", &[SET_BOTH | SIGCHLD, 0, parent, child, 0]);
        k.ok("wait4", &[pid as u64, 0, 0, 0]);
        let (fd, child) = (k.buf(4), k.buf(4));
        let pid = k.ok("clone", &[PIDFD | SIGCHLD, 0, fd, child, 0]);
        k.ok("wait4", &[pid as u64, 0, 0, 0]);
        let fd = k.int_at(fd);
        k.keep(fd);
    });
    suite.case("clone3", |k| {
        let (fd, parent, child) = (k.buf(4), k.buf(4), k.buf(4));
        let args = k.words(&[SET_BOTH | PIDFD, fd, child, parent, SIGCHLD, 0, 0, 0]);
        let pid = k.ok("clone3", &[args, 64]);
        k.ok("wait4", &[pid as u64, 0, 0, 0]);
        let fd = k.int_at(fd);
        k.keep(fd);
    });
}
