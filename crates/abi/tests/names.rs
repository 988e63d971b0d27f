//! The table against the kernel's own list of numbers, and the parts of it against each other.

use std::fs;
use std::io::Write as _;

use abi::{Call, Class, Memory, Plan, Range, Simple};

const HEADER: &str = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";

/// The calls that are younger than many installed headers.
const YOUNG: &[(u64, &str)] = &[
    (335, "uretprobe"),
    (336, "uprobe"),
    (451, "cachestat"),
    (452, "fchmodat2"),
    (453, "map_shadow_stack"),
    (454, "futex_wake"),
    (455, "futex_wait"),
    (456, "futex_requeue"),
    (457, "statmount"),
    (458, "listmount"),
    (459, "lsm_get_self_attr"),
    (460, "lsm_set_self_attr"),
    (461, "lsm_list_modules"),
    (462, "mseal"),
    (463, "setxattrat"),
    (464, "getxattrat"),
    (465, "listxattrat"),
    (466, "removexattrat"),
    (467, "open_tree_attr"),
    (468, "file_getattr"),
    (469, "file_setattr"),
    (470, "listns"),
];

/// All numbers that name a call.
fn numbers() -> impl Iterator<Item = u64> {
    (0..1024).filter(|nr| abi::name(*nr).is_some())
}

#[test]
fn every_number_of_the_header_has_its_name() {
    let Ok(text) = fs::read_to_string(HEADER) else {
        // Straight to the terminal, since the test runner keeps the output of a test that passes.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: there is no {HEADER} to compare with"
        );
        return;
    };
    let mut listed = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some("#define"), Some(name), Some(nr)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (Some(name), Ok(nr)) = (name.strip_prefix("__NR_"), nr.parse::<u64>()) else {
            continue;
        };
        assert_eq!(abi::name(nr), Some(name), "call number {nr}");
        assert_eq!(abi::number(name), Some(nr), "call {name}");
        listed.push(nr);
    }
    assert!(
        listed.len() >= 360,
        "only {} numbers found in {HEADER}",
        listed.len()
    );
    for nr in numbers() {
        let young = YOUNG.iter().any(|(young, _)| *young == nr);
        assert!(young || listed.contains(&nr), "{nr} is in no list");
    }
}

#[test]
fn young_calls_have_their_names() {
    for (nr, name) in YOUNG {
        assert_eq!(abi::name(*nr), Some(*name));
    }
}

#[test]
fn numbers_without_a_call_are_refused() {
    for nr in [337, 400, 423, 471, 512, 0x4000_0000, u64::MAX] {
        let call = Call { nr, args: [0; 6] };
        assert!(
            matches!(abi::class(&call), Class::Refused { errno: 38, .. }),
            "{nr}"
        );
        assert!(Plan::before(&call, &Flat).is_err(), "{nr}");
        assert_eq!(abi::simple(nr), Simple::None, "{nr}");
    }
}

/// A guest whose whole memory is readable and holds zeros.
struct Flat;

impl Memory for Flat {
    fn read(&self, _: u64, buf: &mut [u8]) -> usize {
        buf.fill(0);
        buf.len()
    }
}

/// What `simple` says, spelled out as ranges.
fn simply(simple: Simple, call: &Call, ret: i64) -> Vec<Range> {
    let range = |arg: u8, len: u64| Range {
        addr: call.args[usize::from(arg)],
        len,
    };
    let mut ranges = match simple {
        Simple::FixedAt { arg, len, .. } if ret >= 0 => vec![range(arg, len.into())],
        Simple::ReturnedAt { arg, bound } => {
            let most = call.args[usize::from(bound)];
            vec![range(arg, most.min(ret.max(0) as u64))]
        }
        _ => vec![],
    };
    ranges.retain(|range| range.addr != 0 && range.len != 0);
    ranges
}

#[test]
fn simple_agrees_with_the_plan() {
    let mut simple_ones = 0;
    for nr in numbers() {
        let simple = abi::simple(nr);
        if simple == Simple::None {
            continue;
        }
        simple_ones += 1;
        let pointers = [0x10000, 0x20000, 0x30000, 0x40000, 0x50000, 0x60000];
        let sizes = |at: usize| {
            let mut args = pointers;
            args[at] = 4096;
            args
        };
        for args in [
            pointers,
            [0; 6],
            sizes(0),
            sizes(1),
            sizes(2),
            sizes(3),
            sizes(4),
        ] {
            let call = Call { nr, args };
            assert_eq!(
                abi::class(&call),
                Class::Outside,
                "{}",
                abi::describe(&call, None)
            );
            let plan = Plan::before(&call, &Flat).expect("an Outside call is not refused");
            // A result larger than the room that the arguments leave cannot come from the kernel, so
            // a size argument of zero goes with the results that it allows.
            let results: &[i64] = if args == [0; 6] {
                &[-11, -4, 0]
            } else {
                &[-11, -4, 0, 1, 100]
            };
            for ret in results {
                assert_eq!(
                    plan.writes(*ret, &Flat),
                    simply(simple, &call, *ret),
                    "{}",
                    abi::describe(&call, Some(*ret))
                );
            }
        }
    }
    assert!(simple_ones > 150, "only {simple_ones} calls are simple");
}

#[test]
fn frequent_calls_are_simple() {
    let check = |name: &str, simple: Simple| {
        let nr = abi::number(name).expect(name);
        assert_eq!(abi::simple(nr), simple, "{name}");
    };
    let fixed = |arg, len| Simple::FixedAt {
        arg,
        len,
        nullable: false,
    };
    let returned = |arg, bound| Simple::ReturnedAt { arg, bound };
    check("read", returned(1, 2));
    check("pread64", returned(1, 2));
    check("getdents64", returned(1, 2));
    check("getcwd", returned(0, 1));
    check("readlink", returned(1, 2));
    check("getrandom", returned(0, 1));
    check("getxattr", returned(2, 3));
    check("listxattr", returned(1, 2));
    check("sched_getaffinity", returned(2, 1));
    check("write", Simple::NoWrites);
    check("writev", Simple::NoWrites);
    check("close", Simple::NoWrites);
    check("openat", Simple::NoWrites);
    check("lseek", Simple::NoWrites);
    check("getpid", Simple::NoWrites);
    check("fstat", fixed(1, 144));
    check("newfstatat", fixed(2, 144));
    check("statx", fixed(4, 256));
    check("clock_gettime", fixed(1, 16));
    check(
        "time",
        Simple::FixedAt {
            arg: 0,
            len: 8,
            nullable: true,
        },
    );
    // Each of these writes in more than one place, or on more results.
    for name in [
        "gettimeofday",
        "poll",
        "readv",
        "recvfrom",
        "ioctl",
        "mmap",
        "futex",
    ] {
        check(name, Simple::None);
    }
}
