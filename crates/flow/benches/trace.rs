//! What the tape of a program costs, and what a reader that keeps the last writer of everything takes for it.
//!
//! `trace PROGRAM ARGS...` records the program, replays it with the tape on, and prints one line of JSON. Nothing
//! is asserted about time. `cargo xtask bench trace` makes a table of it. That the reader is right is for the tests.

use std::ffi::OsString;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use flow::{Codes, Roll};
use guest::{Launch, Recorder, Replay, Until};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// How often the replay and the pass are timed; the least counts, because interference only ever adds.
const ROUNDS: usize = 2;

fn main() {
    let mut words = std::env::args_os()
        .skip(1)
        // Cargo says so to every benchmark.
        .filter(|word| word != "--bench");
    let Some(program) = words.next() else {
        println!("trace PROGRAM ARGS...; see `cargo xtask bench trace`");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let steps = record(folder.path(), Path::new(&program), words.collect());
    let (mut cpu, mut wall, mut kept) = (f64::INFINITY, f64::INFINITY, None);
    for _ in 0..ROUNDS {
        // Two of them may be more than fits in memory.
        kept = None;
        let (before, begun) = (children(), Instant::now());
        let roll = replay(folder.path());
        wall = wall.min(begun.elapsed().as_secs_f64());
        cpu = cpu.min(children() - before);
        kept.replace(roll);
    }
    let roll = kept.expect("at least one round");
    let mut pass = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let writers = roll.last_writers(u64::MAX);
        pass = pass.min(begun.elapsed().as_secs_f64());
        black_box(&writers);
    }
    let file = folder.path().join("tape");
    roll.save(&file).expect("the tape can be saved");
    let compressed = std::fs::metadata(&file).expect("the file").len();
    println!(
        "{{\"steps\":{steps},\"guest_cpu_seconds\":{cpu},\"wall_seconds\":{wall},\"tape_bytes\":{},\
         \"compressed_bytes\":{compressed},\"last_writer_seconds\":{pass},\"peak_bytes\":{}}}",
        roll.bytes(),
        peak()
    );
}

/// Most memory that this process had at any time; the guest's is its own.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let words = line.expect("a peak").trim().trim_end_matches(" kB");
    words.parse::<u64>().expect("a number") << 10
}

fn record(folder: &Path, program: &Path, args: Vec<OsString>) -> u64 {
    let launch = Launch::new(program, args).expect("the program is there");
    let done = Recorder::start(&launch, folder)
        .and_then(Recorder::run)
        .expect("the guest runs");
    done.stats.steps
}

/// The guest is gone when this returns, so that the kernel has charged all of it to us.
fn replay(folder: &Path) -> Roll {
    let mut replay = Replay::open(folder, Box::new(|_, _| ())).expect("the recording opens");
    replay
        .tape(Box::new(Roll::new(Codes::default())))
        .expect("a tape");
    replay.run(&Until::end()).expect("the replay runs");
    let roll = replay.end_tape().expect("the end of the tape");
    *roll.into_any().downcast().expect("the roll that was given")
}

/// CPU time of the children that have ended.
fn children() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel knows");
    let total = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    total as f64 / 1e6
}
