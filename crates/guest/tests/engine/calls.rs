//! Looking at a stopped guest and calling its functions.

use crate::scene::{Output, Program, STATIC, same, state, to_step, visible, word_at};
use guest::{Error, Halt, StopAt, Until};

const TEXT: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
long counter = 5;
double scaled;
__attribute__((noinline)) long sum(long a, long b, long c, long d, long e, long f)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;
}
__attribute__((noinline)) long count(long n)
{
    for (long i = 0; i < n; i++) { counter++; scaled = counter * 1.5; }
    return counter;
}
__attribute__((noinline)) long asks(void) { return getppid(); }
__attribute__((noinline)) long crashes(void) { return *(volatile long *)8; }
__attribute__((noinline)) long red_zone(long a)
{
    volatile long x[4] = {a, a + 1, a + 2, a + 3};
    return sum(x[0], x[1], x[2], x[3], 1, 2) + x[3];
}
int main(void)
{
    printf("%ld\n", red_zone(3));
    printf("%ld %.1f\n", count(10), scaled);
    if (counter < 0) return (int)(asks() + crashes());
    return 0;
}
"#;

#[test]
fn functions() {
    let program = Program::c(TEXT, STATIC);
    let recorded = program.record();
    let output = Output::default();
    let mut replay = recorded.replay_to(&output);
    let until = Until {
        stops: vec![StopAt {
            pc: program.at("count"),
            nth: 1,
        }],
        ..Until::default()
    };
    assert_eq!(replay.run(&until).expect("the replay runs"), Halt::Stop(0));
    let before = state(&mut replay);
    let sum = replay
        .call(program.at("sum"), &[1, 2, 3, 4, 5, 6])
        .expect("a call");
    assert_eq!(sum, 1 + 4 + 9 + 16 + 25 + 36);
    let after = state(&mut replay);
    assert_eq!((after.step, after.regs), (before.step, before.regs));
    // What makes a system call or faults leaves everything as it was, the stack included.
    for name in ["asks", "crashes"] {
        let now = state(&mut replay);
        let error = replay.call(program.at(name), &[]);
        assert!(matches!(error, Err(Error::Request(_))), "{name}: {error:?}");
        same(&state(&mut replay), &now, name);
    }
    assert!(replay.call(0x10, &[]).is_err());
    // Memory is the function's to change; at every step of it a call can be made.
    assert_eq!(replay.call(program.at("count"), &[3]).expect("a call"), 8);
    assert_eq!(word_at(&replay, program.at("counter")), 8);
    replay
        .write(program.at("counter"), &5u64.to_le_bytes())
        .expect("writing");
    for step in before.step..before.step + 40 {
        to_step(&mut replay, step);
        let regs = replay.regs();
        let vectors = replay.vector_state().expect("vector state");
        assert_eq!(
            replay
                .call(program.at("sum"), &[1, 1, 1, 1, 1, 1])
                .expect("a call"),
            21
        );
        assert_eq!(visible(&replay.regs()), visible(&regs), "at {step}");
        assert_eq!(replay.vector_state().expect("vector state"), vectors);
    }
    let halt = replay.run(&Until::end()).expect("the replay runs");
    assert_eq!(halt, Halt::Ended(recorded.end));
    assert_eq!(*output.borrow(), recorded.stdout);
    assert_eq!(replay.step().expect("a step"), recorded.steps);
}

#[test]
fn registers_and_memory_can_be_changed() {
    let program = Program::c(TEXT, STATIC);
    let recorded = program.record();
    let output = Output::default();
    let mut replay = recorded.replay_to(&output);
    let until = Until {
        stops: vec![StopAt {
            pc: program.at("count"),
            nth: 1,
        }],
        ..Until::default()
    };
    assert_eq!(replay.run(&until).expect("the replay runs"), Halt::Stop(0));
    let mut regs = replay.regs();
    assert_eq!((regs.gs_base, regs.rdi), (0, 10));
    regs.gs_base = 0x1234;
    regs.cs = 0;
    regs.eflags = u64::MAX;
    regs.rdi = 9;
    replay.set_regs(&regs).expect("setting registers");
    assert_eq!((replay.regs().gs_base, replay.regs().cs), (0, 0x33));
    assert_eq!(replay.regs().eflags & 0x100, 0, "no trap flag");
    regs.eflags = 0x202;
    replay.set_regs(&regs).expect("setting registers");
    let mut vectors = replay.vector_state().expect("vector state");
    vectors[160..168].fill(0x77);
    replay
        .set_vector_state(&vectors)
        .expect("setting vector state");
    assert_eq!(
        replay.vector_state().expect("vector state")[160..168],
        [0x77; 8]
    );
    replay
        .write(program.at("counter"), &6u64.to_le_bytes())
        .expect("writing");
    assert!(replay.write(8, &[1]).is_err());
    let halt = replay.run(&Until::end()).expect("the replay runs");
    assert_eq!(halt, Halt::Ended(recorded.end));
    // One more to begin with, one less counted: the same end.
    assert_eq!(*output.borrow(), recorded.stdout);
}

#[test]
fn the_engine_is_not_to_be_seen() {
    let program = Program::c(TEXT, STATIC);
    let mut replay = program.record().replay();
    to_step(&mut replay, 500);
    let maps = replay.mappings().expect("mappings");
    let of = |name: &str| maps.iter().filter(|m| m.name.ends_with(name)).count();
    assert_eq!(of("[stack]") + of("[heap]"), 1, "{maps:x?}");
    assert!(maps.iter().all(|m| !m.shared), "{maps:x?}");
    for m in &maps {
        let mut byte = [0];
        assert!(
            !m.protection.read || replay.read(m.start, &mut byte) == 1,
            "{m:x?}"
        );
    }
    let mut byte = [0];
    assert_eq!(replay.read(0x7000_0000, &mut byte), 0);
    assert!(replay.write(0x7000_0000, &byte).is_err());
    let known: Vec<_> = replay.names().values().collect();
    assert!(known.iter().any(|n| **n == program.path), "{known:?}");
}
