use super::*;

fn threads(ids: &[u32]) -> Vec<ThreadId> {
    ids.iter().copied().map(ThreadId).collect()
}

/// The turns of a guest whose threads 0 to 3 never wait: (step, thread) of each.
fn turns(schedule: &Schedule, n: usize) -> Vec<(u64, u32)> {
    let mut policy = Policy::new(schedule);
    let (mut step, mut here, mut notes) = (1000, ThreadId(0), Vec::new());
    let mut out = Vec::new();
    for _ in 0..n {
        step = policy.until(step);
        here = policy.choose(
            step,
            &threads(&[0, 1, 2, 3]),
            here,
            Why::Quantum,
            &mut notes,
        );
        out.push((step, here.0));
    }
    out
}

#[test]
fn the_same_seed_is_the_same_schedule() {
    let chaos = Some(Chaos {
        from: 1000,
        to: 1_000_000,
    });
    for chaos in [None, chaos] {
        for seed in 0..20 {
            let schedule = Schedule {
                seed,
                chaos,
                lines: Vec::new(),
            };
            assert_eq!(turns(&schedule, 50), turns(&schedule, 50));
        }
    }
}

#[test]
fn other_seeds_are_other_schedules() {
    let of = |seed| {
        let schedule = Schedule {
            seed,
            ..Schedule::default()
        };
        turns(&schedule, 50)
    };
    assert_ne!(of(1), of(2));
}

#[test]
fn without_a_seed_threads_take_turns() {
    let order: Vec<u32> = turns(&Schedule::default(), 6)
        .into_iter()
        .map(|(_, t)| t)
        .collect();
    assert_eq!(order, [1, 2, 3, 0, 1, 2]);
}

#[test]
fn an_adversary_starves_nobody_for_ever() {
    for seed in 0..50 {
        let schedule = Schedule {
            seed,
            chaos: Some(Chaos { from: 0, to: 1 }),
            lines: Vec::new(),
        };
        let seen = turns(&schedule, 200);
        for thread in 0..4 {
            assert!(
                seen.iter().any(|(_, t)| *t == thread),
                "seed {seed}, thread {thread}"
            );
        }
    }
}

#[test]
fn lines_are_followed_and_then_the_rule() {
    let line = |number, step, thread| Line {
        number,
        step,
        thread: ThreadId(thread),
    };
    let schedule = Schedule {
        lines: vec![line(1, 2000, 2), line(2, 2500, 9), line(3, 3000, 1)],
        ..Schedule::default()
    };
    let mut policy = Policy::new(&schedule);
    let ready = threads(&[0, 1, 2]);
    let mut notes = Vec::new();
    assert_eq!(policy.until(100), 2000);
    let mut at = |step, here, why| {
        policy
            .choose(step, &ready, ThreadId(here), why, &mut notes)
            .0
    };
    assert_eq!(at(2000, 0, Why::Quantum), 2);
    // A yield that the list does not know of changes nothing.
    assert_eq!(at(2100, 2, Why::Yield), 2);
    // There is no thread 9: a note, and the turn stays.
    assert_eq!(at(2500, 2, Why::Quantum), 2);
    assert_eq!(at(3000, 2, Why::Quantum), 1);
    assert_eq!(at(3001, 1, Why::Yield), 2);
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("line 2"), "{notes:?}");
}
