//! Determinism: however a replay is cut into pieces, it ends the same.

use crate::chance::{Chance, amount};
use crate::scene::{DYNAMIC, Output, Program, STATIC};
use guest::{Halt, Until};

const GUESTS: [&str; 20] = [
    "basic/floats.c",
    "basic/sorting.c",
    "basic/strings.c",
    "basic/streams.c",
    "code/atomics.c",
    "code/bit_tricks.c",
    "code/flag_chains.c",
    "code/indirect_calls.c",
    "code/overlapping.c",
    "code/rep_strings.c",
    "code/self_modifying_ahead.c",
    "code/x87.c",
    "control/computed_goto.c",
    "control/longjmp.c",
    "kernel/clocks.c",
    "kernel/files.c",
    "kernel/pipes.c",
    "memory/protect.c",
    "signal/edit_context.c",
    "signal/timer_busy.c",
];

#[track_caller]
fn check(name: &str, flags: &[&str], seed: u64) {
    let recorded = Program::guest(name, flags).record();
    let mut chance = Chance::new(seed);
    for run in 0..amount("ENGINE_REPLAYS", 3) {
        let output = Output::default();
        let mut replay = recorded.replay_to(&output);
        for _ in 0..12 {
            let step = replay.step().expect("a step") + chance.scaled(24);
            if step < recorded.steps {
                let halt = replay.run(&Until::step(step));
                let halt = halt.unwrap_or_else(|e| panic!("{name}, run {run}, to {step}: {e}"));
                assert_eq!(halt, Halt::Step, "{name}, run {run}, to {step}");
                assert_eq!(replay.step().expect("a step"), step, "{name}, run {run}");
            }
        }
        let halt = replay.run(&Until::end());
        let halt = halt.unwrap_or_else(|e| panic!("{name}, run {run}: {e}"));
        assert_eq!(halt, Halt::Ended(recorded.end), "{name}, run {run}");
        assert_eq!(
            replay.step().expect("a step"),
            recorded.steps,
            "{name}, run {run}"
        );
        assert_eq!(*output.borrow(), recorded.stdout, "{name}, run {run}");
    }
}

#[test]
fn static_programs() {
    for (n, name) in GUESTS.iter().enumerate().filter(|(n, _)| n % 2 == 0) {
        check(name, STATIC, n as u64);
    }
}

#[test]
fn dynamic_programs() {
    for (n, name) in GUESTS.iter().enumerate().filter(|(n, _)| n % 2 == 1) {
        check(name, DYNAMIC, n as u64);
    }
}
