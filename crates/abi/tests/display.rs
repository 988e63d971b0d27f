//! What people read: names of errors and signals, calls in one line, refusals.

use abi::signal::Action;
use abi::{Call, Memory, Plan, describe, errno, signal};

#[track_caller]
fn check(name: &str, args: [u64; 6], ret: Option<i64>, expected: &str) {
    let nr = abi::number(name).expect("a call");
    assert_eq!(describe(&Call { nr, args }, ret), expected);
}

#[test]
fn calls_in_one_line() {
    let cwd = (-100i64) as u64;
    check(
        "openat",
        [cwd, 0x7ffe_0010, 0x80000, 0o666, 0, 0],
        Some(3),
        "openat(AT_FDCWD, 0x7ffe0010, 0x80000, 438) = 3",
    );
    check(
        "read",
        [3, 0x10, 4096, 9, 9, 9],
        Some(-11),
        "read(3, 0x10, 4096) = -EAGAIN",
    );
    check(
        "read",
        [3, 0x10, 4096, 9, 9, 9],
        Some(-512),
        "read(3, 0x10, 4096) = -ERESTARTSYS",
    );
    check("time", [0; 6], None, "time(NULL)");
    check("getpid", [7; 6], Some(42), "getpid() = 42");
    check(
        "ioctl",
        [1, 0x5413, 0x7ffe_0010, 0, 0, 0],
        Some(0),
        "ioctl(1, TIOCGWINSZ, 0x7ffe0010) = 0",
    );
    check(
        "close",
        [0xffff_ffff, 0, 0, 0, 0, 0],
        Some(-9),
        "close(-1) = -EBADF",
    );
    check(
        "brk",
        [0, 0, 0, 0, 0, 0],
        Some(0x55aa_0000_1000),
        "brk(0) = 0x55aa00001000",
    );
    let unknown = Call {
        nr: 9999,
        args: [1, 2, 3, 4, 5, 6],
    };
    assert_eq!(
        describe(&unknown, Some(-38)),
        "syscall_9999(1, 2, 3, 4, 5, 6) = -ENOSYS"
    );
}

#[test]
fn refusals_name_the_call_and_the_error() {
    struct Nothing;
    impl Memory for Nothing {
        fn read(&self, _: u64, _: &mut [u8]) -> usize {
            0
        }
    }
    let refusal = |name: &str, args: [u64; 6]| {
        let nr = abi::number(name).expect("a call");
        Plan::before(&Call { nr, args }, &Nothing)
            .expect_err("a refusal")
            .to_string()
    };
    assert_eq!(
        refusal("bpf", [0; 6]),
        "bpf is refused under recording (programs in the kernel and maps shared with them are not \
         recorded); the guest gets EPERM"
    );
    assert_eq!(
        refusal("madvise", [0, 0, 8, 0, 0, 0]),
        "madvise MADV_FREE is refused under recording (the memory would lose its contents at a time of \
         the kernel's choosing); the guest gets EINVAL"
    );
    assert_eq!(
        refusal("ioctl", [0, 0xc020_ae01, 0, 0, 0, 0]),
        "ioctl 0xc020ae01 is refused under recording (what this command does to guest memory is \
         unknown); the guest gets ENOTTY"
    );
}

#[test]
fn error_names() {
    assert_eq!(errno::name(2), Some("ENOENT"));
    assert_eq!(errno::name(133), Some("EHWPOISON"));
    assert_eq!(errno::name(41), None);
    assert_eq!(errno::number("EAGAIN"), Some(11));
    assert_eq!(errno::of(-14), Some(errno::EFAULT));
    assert_eq!(errno::of(0x7fff_ffff_f000), None);
    assert!(errno::interrupted(-516) && errno::interrupted(-4) && !errno::interrupted(-11));
}

#[test]
fn error_numbers_agree_with_the_c_library() {
    for number in 1..=133 {
        // SAFETY: strerror returns a string that lives until the thread calls it again.
        let text = unsafe { std::ffi::CStr::from_ptr(libc::strerror(number)) };
        let known = !text.to_string_lossy().starts_with("Unknown error");
        assert_eq!(errno::name(number).is_some(), known, "error {number}");
    }
    let pairs = [
        (libc::EPERM, "EPERM"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EOVERFLOW, "EOVERFLOW"),
        (libc::ENOTSOCK, "ENOTSOCK"),
        (libc::ETIMEDOUT, "ETIMEDOUT"),
        (libc::EKEYREJECTED, "EKEYREJECTED"),
    ];
    for (number, name) in pairs {
        assert_eq!(errno::name(number), Some(name));
    }
}

#[test]
fn signals() {
    let standard = [
        (libc::SIGHUP, "SIGHUP", Action::Terminate),
        (libc::SIGABRT, "SIGABRT", Action::Core),
        (libc::SIGBUS, "SIGBUS", Action::Core),
        (libc::SIGSEGV, "SIGSEGV", Action::Core),
        (libc::SIGPIPE, "SIGPIPE", Action::Terminate),
        (libc::SIGSTKFLT, "SIGSTKFLT", Action::Terminate),
        (libc::SIGCHLD, "SIGCHLD", Action::Ignore),
        (libc::SIGCONT, "SIGCONT", Action::Continue),
        (libc::SIGTTOU, "SIGTTOU", Action::Stop),
        (libc::SIGWINCH, "SIGWINCH", Action::Ignore),
        (libc::SIGSYS, "SIGSYS", Action::Core),
    ];
    for (number, name, action) in standard {
        assert_eq!(signal::name(number).as_deref(), Some(name));
        assert_eq!(signal::number(name), Some(number));
        assert_eq!(signal::default_action(number), Some(action));
    }
    assert_eq!(signal::name(34).as_deref(), Some("SIGRT_2"));
    assert_eq!(signal::number("RT_2"), Some(34));
    assert_eq!(signal::name(0), None);
    assert_eq!(signal::name(65), None);
    let mapping = signal::code(libc::SIGSEGV, 1).expect("a code");
    assert_eq!(
        (mapping.name, mapping.meaning),
        ("SEGV_MAPERR", "address not mapped")
    );
    assert_eq!(
        signal::code(libc::SIGCHLD, 1).map(|code| code.name),
        Some("CLD_EXITED")
    );
    assert_eq!(
        signal::code(libc::SIGUSR1, -6).map(|code| code.name),
        Some("SI_TKILL")
    );
    assert_eq!(signal::code(libc::SIGUSR1, 77), None);
}
