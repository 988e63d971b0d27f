//! Random code: the same machine state natively, recorded, replayed, and replayed with the tape on.
//!
//! A program is a few hundred random sequences. After each, all registers, the flags, the vector
//! registers and a checksum of the memory that the sequences use go to a buffer, which is written
//! out at the end; the first difference names the sequence.
//!
//! `ENGINE_SEQUENCES` sets how many sequences are tried, `ENGINE_SEED` where to begin.

mod generate;

use crate::chance::{Chance, amount};
use crate::scene::{BARE, BARE_PIE, Output, Program, Recording};
use crate::tape::Plain;
use generate::{Generator, RECORD};
use guest::{Halt, Until};

const SEQUENCES: usize = 250;

#[track_caller]
fn same(seed: u64, what: &str, text: &Generator, native: &[u8], other: &[u8]) {
    if native == other {
        return;
    }
    let at = native.iter().zip(other).position(|(a, b)| a != b);
    let at = at.unwrap_or(native.len().min(other.len()));
    let (sequence, offset) = (at / RECORD, at % RECORD / 8 * 8);
    let field = match offset {
        0..128 => generate::WIDE[offset / 8].to_owned(),
        128 => "flags".to_owned(),
        136 => "checksum of memory".to_owned(),
        _ => format!("ymm{} byte {}", (offset - 144) / 32, (offset - 144) % 32),
    };
    let start = sequence * RECORD + offset;
    let word = |b: &[u8]| {
        b.get(start..start + 8)
            .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
    };
    panic!(
        "seed {seed}, sequence {sequence}: {field} is {:x?} natively and {:x?} {what} ({} and {} bytes)\n{}",
        word(native),
        word(other),
        native.len(),
        other.len(),
        text.sequences.get(sequence).map_or("", String::as_str),
    );
}

#[track_caller]
fn check(seed: u64, pie: bool) {
    let text = Generator::program(&mut Chance::new(seed), SEQUENCES, !pie);
    let program = Program::of(&text.text(), "S", if pie { BARE_PIE } else { BARE });
    let native = program.native();
    assert_eq!(
        native.end,
        guest::End::Exited(0),
        "seed {seed}: the native run"
    );
    let recorded = program.record();
    assert_eq!(recorded.end, native.end, "seed {seed}: recorded");
    same(seed, "recorded", &text, &native.stdout, &recorded.stdout);
    let output = Output::default();
    let mut replay = recorded.replay_to(&output);
    // By pieces, so that the sequences are cut at other places than in the recording.
    let mut chance = Chance::new(!seed);
    for _ in 0..40 {
        let step = replay.step().expect("a step") + chance.below(recorded.steps / 20);
        if step < recorded.steps {
            let halt = replay.run(&Until::step(step)).expect("the replay runs");
            assert_eq!(halt, Halt::Step, "seed {seed}: to step {step}");
        }
    }
    let halt = replay.run(&Until::end()).expect("the replay runs");
    assert_eq!(halt, Halt::Ended(native.end), "seed {seed}: replayed");
    same(seed, "replayed", &text, &native.stdout, &output.borrow());
    assert_eq!(
        replay.step().expect("a step"),
        recorded.steps,
        "seed {seed}"
    );
    taped(seed, &text, &recorded, &native.stdout);
    // Kept only when something failed.
    let _ = std::fs::remove_dir_all(program.path.parent().expect("its own folder"));
}

/// The same with the tape on, which must not change anything, and which must be right wherever the run is cut.
#[track_caller]
fn taped(seed: u64, text: &Generator, recorded: &Recording, native: &[u8]) {
    let output = Output::default();
    let mut replay = recorded.replay_to(&output);
    let plain = Plain::default();
    let told = plain.told.clone();
    replay.tape(Box::new(plain)).expect("a tape");
    let mut chance = Chance::new(seed);
    let mut stops = Vec::new();
    loop {
        let step = replay.step().expect("a step") + 1 + chance.below(recorded.steps / 50);
        if step >= recorded.steps {
            break;
        }
        let halt = replay.run(&Until::step(step)).expect("the replay runs");
        assert_eq!(halt, Halt::Step, "seed {seed}: to step {step}");
        stops.push((step, replay.regs()));
    }
    let halt = replay.run(&Until::end()).expect("the replay runs");
    assert_eq!(halt, Halt::Ended(recorded.end), "seed {seed}: taped");
    same(seed, "taped", text, native, &output.borrow());
    drop(replay.end_tape().expect("the listener"));
    let told = told.lock().expect("a lock");
    assert_eq!(
        told.len() as u64,
        recorded.steps,
        "seed {seed}: on the tape"
    );
    for (step, regs) in stops {
        told[step as usize].is_true_before(&regs, &format!("step {step}, seed {seed}"));
    }
}

fn range(part: u64, parts: u64) -> impl Iterator<Item = u64> {
    let programs = amount("ENGINE_SEQUENCES", 20_000).div_ceil(SEQUENCES as u64);
    let first = amount("ENGINE_SEED", 0);
    (first..first + programs).filter(move |s| s % parts == part)
}

#[test]
fn random_code_at_fixed_addresses() {
    range(0, 2).for_each(|seed| check(seed, false));
}

#[test]
fn random_code_moved() {
    range(1, 2).for_each(|seed| check(seed, true));
}
