//! Going back: after a return everything is as it was, and goes on as it did.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::chance::{Chance, amount};
use crate::scene::{
    DYNAMIC, FREE, Output, Program, Recording, STATIC, State, same, state, to_step,
};
use crate::steps::{BRANCHES, SIGNALS};
use guest::{CheckpointId, Halt, Until};

/// The states at these steps in one replay straight through, and its last step.
#[track_caller]
fn straight(recorded: &Recording, steps: &[u64]) -> BTreeMap<u64, State> {
    let mut replay = recorded.replay();
    let visit = |&step: &u64| {
        to_step(&mut replay, step);
        (step, state(&mut replay))
    };
    steps.iter().map(visit).collect()
}

/// A random walk over checkpoints finds at every step what a straight replay has there, and the
/// output comes out once, in order.
#[track_caller]
fn check(program: &Program, moves: u64, seed: u64) {
    let recorded = program.record();
    let mut chance = Chance::new(seed);
    let mut steps: Vec<u64> = (0..40).map(|_| chance.below(recorded.steps)).collect();
    steps.extend([0, 1, recorded.steps - 1]);
    steps.sort_unstable();
    steps.dedup();
    let known = straight(&recorded, &steps);
    let output = Output::default();
    let mut replay = recorded.replay_to(&output);
    let first = replay.checkpoint().expect("a checkpoint");
    let mut kept: Vec<(CheckpointId, u64)> = vec![(first, 0)];
    for n in 0..moves {
        match chance.below(5) {
            0 => {
                let here = replay.step().expect("a step");
                if here < recorded.steps {
                    kept.push((replay.checkpoint().expect("a checkpoint"), here));
                }
            }
            1 => {
                let (id, step) = kept[chance.below(kept.len() as u64) as usize];
                replay.restore(id).expect("going back");
                assert_eq!(replay.step().expect("a step"), step, "move {n}");
                if let Some(there) = known.get(&step) {
                    same(
                        &state(&mut replay),
                        there,
                        &format!("move {n}: back at {step}"),
                    );
                }
            }
            2 if chance.one_in(4) => {
                let halt = replay.run(&Until::end()).expect("the replay runs");
                assert_eq!(halt, Halt::Ended(recorded.end), "move {n}");
                assert_eq!(replay.step().expect("a step"), recorded.steps, "move {n}");
            }
            2 if kept.len() > 6 => {
                let (id, _) = kept.remove(1 + chance.below(kept.len() as u64 - 1) as usize);
                replay.forget(id).expect("giving it up");
            }
            _ => {
                let step = steps[chance.below(steps.len() as u64) as usize];
                assert_eq!(
                    replay.goto(step).expect("going there"),
                    Halt::Step,
                    "move {n}"
                );
                same(
                    &state(&mut replay),
                    &known[&step],
                    &format!("move {n}: at {step}"),
                );
            }
        }
    }
    let halt = replay.run(&Until::end()).expect("the replay runs");
    assert_eq!(halt, Halt::Ended(recorded.end));
    assert_eq!(*output.borrow(), recorded.stdout, "what was shown");
}

fn moves() -> u64 {
    amount("ENGINE_MOVES", 60)
}

#[test]
fn bare_code() {
    check(&Program::asm(BRANCHES), moves(), 1);
    check(&Program::asm(SIGNALS), moves(), 2);
}

#[test]
fn code_that_changes() {
    for name in ["code/self_modifying.c", "code/jit.c", "code/regenerated.c"] {
        check(&Program::guest(name, DYNAMIC), moves(), 3);
    }
}

/// What is settled at the end is not yet at the beginning.
#[test]
fn slots_that_are_settled() {
    let flags = ["-O2", "-Wl,-z,now", "-Wl,-z,relro"];
    check(&Program::guest("code/settled_slots.c", &flags), moves(), 8);
    let once = r#"
#include <ctype.h>
#include <stdint.h>
#include <sys/mman.h>
__asm__("by_jump: jmp *toupper@GOTPCREL(%rip)");
int by_jump(int c);
int (*volatile call)(int) = by_jump;
static int twice(int c) { return 2 * c; }
int main(void)
{
    int (**slot)(int);
    __asm__("lea toupper@GOTPCREL(%%rip), %0" : "=r"(slot));
    void *page = (void *)((uintptr_t)slot & ~(uintptr_t)4095);
    int (*settled)(int) = *slot;
    unsigned sum = 0;
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    *slot = twice;
    for (int i = 0; i < 50000; i++)
        sum = sum * 3 + call(i % 128);
    *slot = settled;
    mprotect(page, 4096, PROT_READ);
    for (int i = 0; i < 50000; i++)
        sum = sum * 3 + call(i % 128);
    return sum & 63;
}
"#;
    let flags = ["-O2", "-no-pie", "-Wl,-z,now", "-Wl,-z,relro"];
    let program = Program::c(once, &flags);
    let recorded = program.record();
    let part = |n: u64| recorded.steps / 8 * n;
    let known = straight(&recorded, &[part(3), part(7)]);
    let mut replay = recorded.replay();
    to_step(&mut replay, part(2));
    let before = replay.checkpoint().expect("a checkpoint");
    to_step(&mut replay, part(6));
    // The code of the stop is made now, and once more without it.
    let stop = guest::StopAt {
        pc: program.at("by_jump"),
        nth: 2,
    };
    let until = Until {
        stops: vec![stop],
        ..Until::default()
    };
    assert_eq!(replay.run(&until).expect("the replay runs"), Halt::Stop(0));
    to_step(&mut replay, part(7));
    same(&state(&mut replay), &known[&part(7)], "settled");
    replay.restore(before).expect("going back");
    to_step(&mut replay, part(3));
    same(&state(&mut replay), &known[&part(3)], "not yet settled");
}

#[test]
fn address_spaces_that_change() {
    for name in [
        "memory/brk.c",
        "memory/mmap.c",
        "memory/mremap.c",
        "memory/malloc_churn.c",
    ] {
        check(&Program::guest(name, STATIC), moves(), 4);
    }
}

#[test]
fn signals() {
    for name in [
        "signal/nested.c",
        "signal/segv_mprotect.c",
        "signal/masked.c",
    ] {
        check(&Program::guest(name, STATIC), moves(), 5);
    }
}

#[test]
fn back_and_forth_between_threads() {
    check(&Program::guest("threads/mutex.c", DYNAMIC), moves(), 7);
}

#[test]
fn a_new_image() {
    check(&Program::guest("kernel/exec_self.c", DYNAMIC), moves(), 6);
}

/// Printed, not asserted: what one costs with 64 MB of memory in use.
#[test]
fn cost_with_64_megabytes() {
    let text = "
static char memory[64 << 20];
void _start(void) {
    for (long i = 0; i < sizeof memory; i += 64) memory[i] = (char)i;
    for (long i = 0; i < sizeof memory; i += 4096) memory[i]++;
    __asm__ volatile(\"syscall\" : : \"a\"(231), \"D\"(0));
}";
    let recorded = Program::c(text, FREE).record();
    let mut replay = recorded.replay();
    to_step(&mut replay, recorded.steps - 1000);
    let begun = Instant::now();
    let id = replay.checkpoint().expect("a checkpoint");
    let taken = begun.elapsed();
    let begun = Instant::now();
    replay.restore(id).expect("going back");
    println!(
        "64 MB: taken in {taken:?}, returned to in {:?}",
        begun.elapsed()
    );
    let halt = replay.run(&Until::end()).expect("the replay runs");
    assert_eq!(halt, Halt::Ended(recorded.end));
}
