//! Stops at the n-th execution of an address, and at system calls.

use std::collections::BTreeSet;

use crate::chance::{Chance, amount};
use crate::oracle::{Seen, trace};
use crate::scene::{Program, STATIC, same, state, to_step};
use crate::steps::{BRANCHES, SIGNALS};
use guest::{Halt, Replay, StopAt, Syscalls, Until};

/// Where counting leads: the arrival (by index) at the n-th `pc` after arrival `from`.
fn nth(seen: &[Seen], from: usize, s: StopAt) -> Option<usize> {
    let mut later = (from + 1..seen.len()).filter(|&i| seen[i].regs.rip == s.pc);
    later.nth(s.nth as usize - 1)
}

/// Random sets of stops from random places lead where counting in a single-stepped run leads.
#[track_caller]
fn check(program: &Program, tries: u64) {
    let recorded = program.record();
    let mut replay = recorded.replay();
    let seen = trace(program, &replay);
    let start = replay.checkpoint().expect("a checkpoint");
    let mut chance = Chance::new(7);
    for round in 0..tries {
        replay.restore(start).expect("going back");
        let mut from = chance.below(seen.len() as u64 - 1) as usize;
        // Of two arrivals with the same number a run to a step ends at the first.
        from = seen.partition_point(|s| s.step < seen[from].step);
        to_step(&mut replay, seen[from].step);
        // A chain of runs from there, so that what one leaves behind shows in the next.
        for link in 0..1 + chance.below(4) {
            let stops: Vec<StopAt> = (0..1 + chance.below(4))
                .map(|_| StopAt {
                    pc: match chance.below(6) {
                        0 => seen[from].regs.rip,
                        _ => seen[chance.below(seen.len() as u64) as usize].regs.rip,
                    },
                    nth: 1 + chance.scaled(10),
                })
                .collect();
            let first = stops.iter().filter_map(|&s| nth(&seen, from, s)).min();
            let goal = match (chance.below(3), first) {
                (0, _) => Some(seen[from].step + chance.below(300)),
                // The last superblocks before a goal are run in another way.
                (1, Some(i)) => Some(seen[i].step + 1 + chance.below(70)),
                _ => None,
            };
            let until = Until {
                step: goal,
                stops: stops.clone(),
                ..Until::default()
            };
            let expected = match (first, goal) {
                (Some(i), Some(g)) if seen[i].step >= g => None,
                (e, _) => e,
            };
            let begun = seen[from].step;
            let what = || format!("round {round}.{link}, from {begun} with {stops:x?}, {goal:?}");
            let halt = replay
                .run(&until)
                .unwrap_or_else(|e| panic!("{}: {e}", what()));
            let (step, pc) = (replay.step().expect("a step"), replay.regs().rip);
            let arrivals = |to: usize| -> Vec<u64> {
                let passed = |pc| seen[from + 1..to].iter().filter(move |s| s.regs.rip == pc);
                stops.iter().map(|s| passed(s.pc).count() as u64).collect()
            };
            match (halt, expected) {
                (Halt::Stop(i), Some(at)) => {
                    assert_eq!(replay.passed(), arrivals(at + 1), "{}", what());
                    assert_eq!((step, pc), (seen[at].step, seen[at].regs.rip), "{}", what());
                    assert_eq!(stops[i].pc, pc, "{}", what());
                    from = at;
                }
                (Halt::Step, None) if goal == Some(step) => {
                    let to = from.max(seen.partition_point(|s| s.step < step));
                    assert_eq!(replay.passed(), arrivals(to.max(from + 1)), "{}", what());
                    from = to;
                    assert_eq!(pc, seen[from].regs.rip, "{}", what());
                }
                (Halt::Ended(_), None) if goal.is_none_or(|g| g > step - 1) => break,
                (halt, _) => panic!(
                    "{}: {halt:?} at {step}, not {:?}",
                    what(),
                    expected.map(|i| seen[i].step)
                ),
            }
        }
    }
}

#[test]
fn in_branches_and_string_instructions() {
    check(&Program::asm(BRANCHES), amount("ENGINE_STOPS", 150));
}

#[test]
fn in_handlers() {
    check(&Program::asm(SIGNALS), amount("ENGINE_STOPS", 150));
}

#[test]
fn in_a_library_program() {
    check(
        &Program::guest("basic/hello.c", STATIC),
        amount("ENGINE_STOPS", 100),
    );
}

/// Stopping at every execution of an address finds all of them, for every address.
#[test]
fn every_execution_of_every_address() {
    // The superblock that begins at `third` comes back to it without a jump there.
    let program = Program::asm(
        "
.globl _start
_start:
    mov ebx, 40
first:
    nop
    dec ebx
    jz out
third:
    lea rax, [rbx + 1]
    test al, 3
    jz fourth
    jmp first
fourth:
    mov ecx, 3
inner:
    dec ecx
    jnz inner
    call leaf
    jrcxz fifth
    nop
fifth:
    jmp first
leaf:
    ret
out:
    mov edi, ebx
    mov eax, 231
    syscall
",
    );
    let recorded = program.record();
    let seen = trace(&program, &recorded.replay());
    let places: BTreeSet<u64> = seen.iter().map(|s| s.regs.rip).collect();
    for &pc in &places {
        let expected: Vec<u64> = seen
            .iter()
            .skip(1)
            .filter(|s| s.regs.rip == pc)
            .map(|s| s.step)
            .collect();
        let mut replay = recorded.replay();
        let until = Until {
            stops: vec![StopAt { pc, nth: 1 }],
            ..Until::default()
        };
        let mut found = Vec::new();
        while replay.run(&until).expect("the replay runs") == Halt::Stop(0) {
            found.push(replay.step().expect("a step"));
        }
        assert_eq!(found, expected, "at {pc:#x}");
        // However near a goal is that lies beyond.
        if expected.len() > 8 {
            let mut replay = recorded.replay();
            let start = replay.checkpoint().expect("a checkpoint");
            for beyond in 1..70 {
                replay.restore(start).expect("going back");
                let until = Until {
                    step: Some(expected[7] + beyond),
                    stops: vec![StopAt { pc, nth: 8 }],
                    ..Until::default()
                };
                let halt = replay.run(&until).expect("the replay runs");
                assert_eq!(halt, Halt::Stop(0), "at {pc:#x}, {beyond} before a goal");
                let step = replay.step().expect("a step");
                assert_eq!(step, expected[7], "at {pc:#x}, {beyond} before a goal");
            }
        }
        // And all at once, in one run, by the last.
        if let Some(&last) = expected.last() {
            let until = Until {
                stops: vec![StopAt {
                    pc,
                    nth: expected.len() as u64,
                }],
                ..Until::default()
            };
            let mut replay = recorded.replay();
            assert_eq!(replay.run(&until).expect("the replay runs"), Halt::Stop(0));
            assert_eq!(replay.step().expect("a step"), last, "at {pc:#x}");
        }
    }
}

#[test]
fn the_millionth_time() {
    let program = Program::asm(
        "
.globl _start
_start:
    mov ebx, 2000000
top:
    lea rax, [rbx + rbx * 2]
    call leaf
jump:
    jmp bottom
    nop
bottom:
    dec ebx
    jnz top
    mov edi, ebx
    mov eax, 231
    syscall
leaf:
    ret
",
    );
    let recorded = program.record();
    assert_eq!(recorded.steps, 1 + 2_000_000 * 6 + 3);
    let mut replay = recorded.replay();
    for (symbol, offset) in [("top", 0), ("leaf", 2), ("jump", 3), ("bottom", 4)] {
        let from = replay.step().expect("a step");
        let until = Until {
            stops: vec![StopAt {
                pc: program.at(symbol),
                nth: 400_000,
            }],
            ..Until::default()
        };
        assert_eq!(replay.run(&until).expect("the replay runs"), Halt::Stop(0));
        // Rounds done when standing at the first address counted, whatever the offset before.
        let done = replay.step().expect("a step") - 1 - offset;
        assert_eq!(done % 6, 0, "{symbol}");
        assert_eq!(replay.regs().rip, program.at(symbol));
        assert_eq!(2_000_000 - replay.regs().rbx, done / 6, "{symbol}");
        let before = if from == 0 { 0 } else { (from - 1) / 6 };
        assert!(
            (done / 6 + 1 - before).abs_diff(400_000) <= 1,
            "{symbol}: {done} from {from}"
        );
    }
}

/// All system calls, and those of one number, stop the guest where single-stepping sees them.
#[track_caller]
fn check_calls(program: &Program, number: u64) {
    let recorded = program.record();
    let mut replay = recorded.replay();
    let seen = trace(program, &replay);
    let is_call = |s: &&Seen| {
        let mut code = [0; 2];
        replay.read(s.regs.rip, &mut code) == 2 && code == [0x0f, 0x05]
    };
    let called = seen.iter().filter(is_call).map(|s| (s.step, s.regs.rax));
    let expected: Vec<(u64, u64)> = called.collect();
    let any = Until {
        syscalls: Syscalls::Any,
        ..Until::default()
    };
    let calls = |r: &mut Replay, until: &Until| {
        let mut out = Vec::new();
        while let Halt::Syscall { nr } = r.run(until).expect("the replay runs") {
            assert_eq!(r.regs().rax, nr);
            out.push((r.step().expect("a step"), nr));
        }
        out
    };
    assert_eq!(calls(&mut replay, &any), expected);
    let mut replay = recorded.replay();
    let one = Until {
        syscalls: Syscalls::Numbers(vec![number]),
        ..Until::default()
    };
    let some: Vec<_> = expected.iter().copied().filter(|c| c.1 == number).collect();
    assert!(!some.is_empty());
    assert_eq!(calls(&mut replay, &one), some);
    // Standing before a call is a state like any other: a run to that step has the same.
    let mut stopped = recorded.replay();
    assert_eq!(
        stopped.run(&one).expect("the replay runs"),
        Halt::Syscall { nr: number }
    );
    let mut stepped = recorded.replay();
    to_step(&mut stepped, some[0].0);
    same(&state(&mut stopped), &state(&mut stepped), "before a call");
}

#[test]
fn system_calls() {
    check_calls(&Program::guest("basic/hello.c", STATIC), 1);
    // Nothing comes between the beginning and the first call.
    check_calls(&Program::asm(SIGNALS), 13);
}
