//! The effects in the tables, against the running kernel. See `kernel` for how.

mod files;
mod kernel;
mod net;
mod process;
mod terminal;
mod waiting;

use std::io::Write as _;

use abi::{Call, Memory, Plan};
use kernel::{Own, Suite};

#[test]
fn plans_cover_what_the_kernel_writes() {
    let mut suite = Suite::default();
    files::run(&mut suite);
    net::run(&mut suite);
    process::run(&mut suite);
    terminal::run(&mut suite);
    waiting::run(&mut suite);
    println!(
        "planned and changed bytes where they differ:\n{}",
        suite.slack
    );
    // Straight to the terminal, since the test runner keeps the output of a test that passes.
    let mut terminal = std::io::stderr().lock();
    for skip in &suite.skips {
        let _ = writeln!(terminal, "SKIPPED {skip}: this kernel lacks or forbids it");
    }
    let (calls, names, skips) = (suite.checked, suite.calls.len(), suite.skips.len());
    let _ = writeln!(
        terminal,
        "{calls} calls of {names} names were tried, {skips} skipped"
    );
    assert!(
        suite.complaints.is_empty(),
        "\n{}\n",
        suite.complaints.join("\n")
    );
    assert!(
        suite.calls.len() >= 80,
        "only {} names were tried",
        suite.calls.len()
    );
}

/// A structure that starts on the last page that is mapped and would end on the next: the kernel may have
/// written its beginning, and nothing else can be logged.
#[test]
fn a_fault_is_cut_to_what_is_readable() {
    const PAGE: u64 = 4096;
    const ROOM: u64 = 100;
    // SAFETY: a fresh mapping of two pages, of which the second is given back.
    let page = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let pages = libc::mmap(
            std::ptr::null_mut(),
            2 * PAGE as usize,
            protection,
            flags,
            -1,
            0,
        );
        libc::munmap(pages.add(PAGE as usize), PAGE as usize);
        pages as u64
    };
    let at = page + PAGE - ROOM;
    let nr = abi::number("fstat").expect("a call");
    let call = Call {
        nr,
        args: [0, at, 0, 0, 0, 0],
    };
    let plan = Plan::before(&call, &Own).expect("a plan");
    // SAFETY: the kernel checks the address, and fails.
    let ret = unsafe { libc::syscall(nr as i64, 0, at) };
    assert_eq!(ret, -1);
    let ranges = plan.writes(-i64::from(libc::EFAULT), &Own);
    let mut contents = [0; PAGE as usize];
    assert_eq!(Own.read(page, &mut contents), PAGE as usize);
    let outside = &contents[..(PAGE - ROOM) as usize];
    assert!(outside.iter().all(|byte| *byte == 0));
    assert_eq!(
        ranges,
        [abi::Range {
            addr: at,
            len: ROOM
        }]
    );
}
