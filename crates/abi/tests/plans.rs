//! Plans for what a test process cannot easily bring about: results that only a tracer sees, children,
//! hostile arguments; and the classes.

use abi::{Blocking, Call, Class, Memory, Plan, Range};

/// A guest whose memory is a few words at a few places, surrounded by nothing.
struct Words(&'static [(u64, &'static [u64])]);

impl Memory for Words {
    fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        for (base, words) in self.0 {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let Some(offset) = addr
                .checked_sub(*base)
                .filter(|at| *at < bytes.len() as u64)
            else {
                continue;
            };
            let found = &bytes[offset as usize..];
            let len = found.len().min(buf.len());
            buf[..len].copy_from_slice(&found[..len]);
            return len;
        }
        0
    }
}

fn call(name: &str, args: &[u64]) -> Call {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    Call {
        nr: abi::number(name).expect("a call"),
        args: six,
    }
}

#[track_caller]
fn check(
    name: &str,
    args: &[u64],
    ret: i64,
    mem: &Words,
    writes: &[(u64, u64)],
    reads: &[(u64, u64)],
) {
    let plan = Plan::before(&call(name, args), mem).expect("a plan");
    let pairs = |ranges: Vec<Range>| -> Vec<(u64, u64)> {
        ranges.iter().map(|range| (range.addr, range.len)).collect()
    };
    assert_eq!(pairs(plan.writes(ret, mem)), writes, "writes");
    assert_eq!(pairs(plan.reads(ret, mem)), reads, "reads");
}

#[test]
fn results_that_only_a_tracer_sees() {
    let mem = &Words(&[(0x1000, &[5, 0]), (0x2000, &[0, 0]), (0x3000, &[0, 0])]);
    // ERESTART_RESTARTBLOCK is EINTR in the making.
    check(
        "nanosleep",
        &[0x1000, 0x2000],
        -516,
        mem,
        &[(0x2000, 16)],
        &[(0x1000, 16)],
    );
    check(
        "nanosleep",
        &[0x1000, 0x2000],
        -4,
        mem,
        &[(0x2000, 16)],
        &[(0x1000, 16)],
    );
    check("nanosleep", &[0x1000, 0x2000], 0, mem, &[], &[(0x1000, 16)]);
    check(
        "clock_nanosleep",
        &[0, 0, 0x1000, 0x2000],
        -516,
        mem,
        &[(0x2000, 16)],
        &[(0x1000, 16)],
    );
    check("read", &[0, 0x2000, 16], -512, mem, &[], &[]);
    // The sets stay as they were, the time does not.
    let reads = &[(0x2000, 8), (0x1000, 16)];
    check(
        "select",
        &[10, 0x2000, 0, 0, 0x1000],
        -514,
        mem,
        &[(0x1000, 16)],
        reads,
    );
}

#[test]
fn parent_and_child_see_different_writes() {
    const FLAGS: u64 = 0x110_0000;
    let mem = &Words(&[]);
    let args = &[FLAGS, 0, 0x2000, 0x3000, 0];
    check("clone", args, 1234, mem, &[(0x2000, 4)], &[]);
    check("clone", args, 0, mem, &[(0x3000, 4)], &[]);
    check("clone", args, -11, mem, &[], &[]);
    const ARGS: &[u64] = &[FLAGS | 0x1000, 0x4000, 0x3000, 0x2000, 17, 0, 0, 0];
    let mem = &Words(&[(0x1000, ARGS)]);
    check(
        "clone3",
        &[0x1000, 64],
        1234,
        mem,
        &[(0x4000, 4), (0x2000, 4)],
        &[(0x1000, 64)],
    );
    check(
        "clone3",
        &[0x1000, 64],
        0,
        mem,
        &[(0x3000, 4)],
        &[(0x1000, 64)],
    );
}

#[test]
fn programs_read_their_arguments() {
    const TEXT: u64 = u64::from_le_bytes(*b"/bin/ls\0");
    let mem = &Words(&[
        (0x1000, &[TEXT]),
        (0x2000, &[0x1000, 0x1004, 0]),
        (0x3000, &[0]),
    ]);
    let reads = &[
        (0x1000, 8),
        (0x1000, 8),
        (0x1004, 4),
        (0x2000, 24),
        (0x3000, 8),
    ];
    check("execve", &[0x1000, 0x2000, 0x3000], 0, mem, &[], reads);
}

#[test]
fn partial_writes_are_read_in_part() {
    let mem = &Words(&[(0x1000, &[0x5000, 10, 0x6000, 10])]);
    check(
        "writev",
        &[1, 0x1000, 2],
        13,
        mem,
        &[],
        &[(0x1000, 32), (0x5000, 10), (0x6000, 3)],
    );
    check(
        "readv",
        &[1, 0x1000, 2],
        13,
        mem,
        &[(0x5000, 10), (0x6000, 3)],
        &[(0x1000, 32)],
    );
    check("write", &[1, 0x5000, 10], 4, mem, &[], &[(0x5000, 4)]);
}

#[test]
fn hostile_arguments_do_not_overflow() {
    let mem = &Words(&[(0x1000, &[u64::MAX, u64::MAX])]);
    for nr in 0..480 {
        for arg in [
            0,
            1,
            0x1000,
            0x7fff_ffff,
            u64::from(u32::MAX),
            1 << 63,
            u64::MAX,
        ] {
            let Ok(plan) = Plan::before(&Call { nr, args: [arg; 6] }, mem) else {
                continue;
            };
            for ret in [i64::MIN, -4096, -514, -14, -1, 0, 1, i64::MAX] {
                for range in plan
                    .writes(ret, mem)
                    .into_iter()
                    .chain(plan.reads(ret, mem))
                {
                    assert!(range.len > 0);
                }
            }
        }
    }
}

#[test]
fn classes() {
    let class = |name: &str, args: &[u64]| abi::class(&call(name, args));
    let refused = |name: &str, args: &[u64]| matches!(class(name, args), Class::Refused { .. });
    for name in [
        "read",
        "write",
        "wait4",
        "memfd_create",
        "poll",
        "kill",
        "getrandom",
        "nanosleep",
    ] {
        assert_eq!(class(name, &[]), Class::Outside, "{name}");
    }
    for name in [
        "mmap",
        "munmap",
        "mprotect",
        "brk",
        "mremap",
        "mlock",
        "pkey_alloc",
        "mseal",
    ] {
        assert_eq!(class(name, &[]), Class::AddressSpace, "{name}");
    }
    for name in [
        "rt_sigaction",
        "rt_sigprocmask",
        "sigaltstack",
        "set_tid_address",
        "rt_sigreturn",
    ] {
        assert_eq!(class(name, &[]), Class::GuestState, "{name}");
    }
    for name in [
        "fork",
        "vfork",
        "clone",
        "clone3",
        "execve",
        "execveat",
        "exit",
        "exit_group",
    ] {
        assert_eq!(class(name, &[]), Class::Process, "{name}");
    }
    for name in [
        "futex",
        "futex_waitv",
        "futex_wait",
        "futex_wake",
        "futex_requeue",
    ] {
        assert_eq!(class(name, &[]), Class::Futex, "{name}");
    }
    assert_eq!(class("restart_syscall", &[]), Class::Restart);
    for name in [
        "ptrace",
        "bpf",
        "perf_event_open",
        "io_uring_setup",
        "io_uring_enter",
        "userfaultfd",
        "rseq",
        "io_setup",
        "modify_ldt",
        "set_thread_area",
        "iopl",
        "process_vm_writev",
        "memfd_secret",
        "map_shadow_stack",
        "remap_file_pages",
    ] {
        assert!(refused(name, &[]), "{name}");
    }
    assert_eq!(class("madvise", &[0, 0, 4]), Class::AddressSpace);
    assert!(refused("madvise", &[0, 0, 8]));
    assert_eq!(class("arch_prctl", &[0x1002]), Class::GuestState);
    assert_eq!(class("arch_prctl", &[0x1003]), Class::Outside);
    assert_eq!(class("prctl", &[16]), Class::Outside);
    assert!(refused("prctl", &[22]) && refused("prctl", &[26]) && refused("prctl", &[12345]));
    assert_eq!(class("setrlimit", &[3]), Class::GuestState);
    assert_eq!(class("setrlimit", &[7]), Class::Outside);
    assert_eq!(class("prlimit64", &[0, 3, 0x1000]), Class::GuestState);
    assert_eq!(class("prlimit64", &[0, 3, 0]), Class::Outside);
    assert_eq!(class("ioctl", &[0, 0x5413]), Class::Outside);
    // The upper half of the command is not the kernel's business.
    assert_eq!(class("ioctl", &[0, 0xdead_0000_5413]), Class::Outside);
    // EVIOCGNAME(64), by its encoding; a command of a graphics driver, not.
    assert_eq!(class("ioctl", &[0, 0x8040_4506]), Class::Outside);
    assert!(refused("ioctl", &[0, 0xc040_6400]));
    assert!(refused("getsockopt", &[0, 6, 35]));
}

#[test]
fn blocking() {
    let blocking = |name: &str| abi::may_block(abi::number(name).expect("a call"));
    assert_eq!(blocking("read"), Blocking::ByFd(0));
    assert_eq!(blocking("accept4"), Blocking::ByFd(0));
    for name in [
        "poll",
        "nanosleep",
        "futex",
        "wait4",
        "flock",
        "openat",
        "epoll_wait",
        "msgrcv",
    ] {
        assert_eq!(blocking(name), Blocking::May, "{name}");
    }
    for name in ["getpid", "stat", "mmap", "clock_gettime", "close"] {
        assert_eq!(blocking(name), Blocking::Never, "{name}");
    }
}

/// What a call followed: where each pointer lies, where it leads, how many bytes, and whether it wrote there.
#[track_caller]
fn follows(name: &str, args: &[u64], ret: i64, mem: &Words, expected: &[(u64, u64, u64, bool)]) {
    let call = call(name, args);
    assert!(abi::follows_pointers(call.nr), "{name}");
    let plan = Plan::before(&call, mem).expect("a plan");
    let found = plan.followed(ret, mem);
    let found: Vec<_> = found
        .iter()
        .map(|f| (f.at, f.range.addr, f.range.len, f.write))
        .collect();
    assert_eq!(found, expected, "{name}");
}

#[test]
fn lists_are_followed_as_far_as_the_result_says() {
    let mem = &Words(&[(0x1000, &[0x5000, 10, 0x6000, 20, 0x7000, 30])]);
    let list = [3, 0x1000, 3];
    let (first, second) = ((0x1000, 0x5000, 10, true), (0x1010, 0x6000, 7, true));
    follows("readv", &list, 17, mem, &[first, second]);
    follows("preadv2", &list, 4, mem, &[(0x1000, 0x5000, 4, true)]);
    follows("readv", &list, -14, mem, &[]);
    let all = [
        (0x1000, 0x5000, 10, false),
        (0x1010, 0x6000, 20, false),
        (0x1020, 0x7000, 30, false),
    ];
    follows("writev", &list, 60, mem, &all);
    follows("pwritev", &list, 0, mem, &[]);
    // Either way.
    follows("vmsplice", &list, 10, mem, &all[..1]);
    follows(
        "process_vm_readv",
        &[1, 0x1000, 3, 0x2000, 1, 0],
        10,
        mem,
        &[first],
    );
}

#[test]
fn frequent_calls_follow_nothing() {
    let names = [
        "read",
        "write",
        "openat",
        "newfstatat",
        "fcntl",
        "lseek",
        "close",
        "mmap",
    ];
    for name in names {
        assert!(!abi::follows_pointers(call(name, &[]).nr), "{name}");
    }
}

#[test]
fn messages_are_followed_to_their_parts() {
    // A name of 20 bytes, one part of 100, and 40 bytes of control data, of which 24 came.
    const HEADER: &[u64] = &[0x5000, 20, 0x2000, 1, 0x6000, 24, 0];
    let mem = &Words(&[(0x1000, HEADER), (0x2000, &[0x7000, 100])]);
    let sent = [
        (0x1000, 0x5000, 20, false),
        (0x1020, 0x6000, 24, false),
        (0x1010, 0x2000, 16, false),
        (0x2000, 0x7000, 50, false),
    ];
    follows("sendmsg", &[3, 0x1000, 0], 50, mem, &sent);
    let received = [
        (0x1010, 0x2000, 16, false),
        (0x2000, 0x7000, 50, true),
        (0x1000, 0x5000, 20, true),
        (0x1020, 0x6000, 24, true),
    ];
    follows("recvmsg", &[3, 0x1000, 0], 50, mem, &received);
    follows("recvmsg", &[3, 0x1000, 0], -11, mem, &[]);
}

#[test]
fn messages_that_were_not_sent_are_not_followed() {
    // Two messages, of which 5 and 9 bytes would have been sent.
    const HEADERS: &[u64] = &[0, 0, 0x2000, 1, 0, 0, 0, 5, 0, 0, 0x3000, 1, 0, 0, 0, 9];
    let mem = &Words(&[
        (0x1000, HEADERS),
        (0x2000, &[0x5000, 10]),
        (0x3000, &[0x6000, 10]),
    ]);
    let first = [(0x1010, 0x2000, 16, false), (0x2000, 0x5000, 5, false)];
    let second = [(0x1050, 0x3000, 16, false), (0x3000, 0x6000, 9, false)];
    follows("sendmmsg", &[3, 0x1000, 2, 0], 1, mem, &first);
    follows(
        "sendmmsg",
        &[3, 0x1000, 2, 0],
        2,
        mem,
        &[first, second].concat(),
    );
}

/// What a call read where its arguments point: the argument and how many bytes.
#[track_caller]
fn reads(name: &str, args: &[u64], ret: i64, expected: &[(usize, u64)]) {
    let mut found = Vec::new();
    abi::read_by_arguments(&call(name, args), ret, &mut |arg, len| {
        found.push((arg, len))
    });
    assert_eq!(found, expected, "{name}");
}

#[test]
fn arguments_are_read_as_far_as_is_certain() {
    reads("write", &[1, 0x1000, 100], 60, &[(1, 60)]);
    reads("write", &[1, 0x1000, 100], -4, &[]);
    reads(
        "sendto",
        &[3, 0x1000, 9, 0, 0x2000, 16],
        9,
        &[(1, 9), (4, 16)],
    );
    reads("sendto", &[3, 0x1000, 9, 0, 0, 16], 9, &[(1, 9)]);
    let connect = [3, 0x1000, 16];
    reads("connect", &connect, 0, &[(1, 16)]);
    reads("connect", &connect, -111, &[(1, 16)]);
    // A bad descriptor is seen first.
    reads("connect", &connect, -9, &[]);
    reads("poll", &[0x1000, 3, 0], 1, &[(0, 24)]);
    reads("nanosleep", &[0x1000, 0], -516, &[(0, 16)]);
    reads("writev", &[1, 0x1000, 2], 5, &[(1, 32)]);
    reads("recvmsg", &[3, 0x1000, 0], 5, &[(1, 56)]);
    reads("epoll_ctl", &[3, 2, 4, 0x1000], 0, &[]);
    reads("setsockopt", &[3, 1, 2, 0x1000, 8], 0, &[(3, 1)]);
    reads("fcntl", &[3, 6, 0x1000], 0, &[(2, 32)]);
}
