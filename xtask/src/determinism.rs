//! `cargo xtask determinism`: the same recording, replayed many times, is the same run every time.

use crate::case::Plan;
use crate::compile::Variant;
use crate::flags::Flags;
use crate::scene::Scene;
use crate::tally::Tally;
use crate::{foreign, guests, install, tool};
use anyhow::Result;
use std::path::PathBuf;

/// Those where something comes from outside: time, randomness, signals, children, addresses; and all
/// that have threads.
const GUESTS: [&str; 47] = [
    "basic/big_output.c",
    "basic/floats.c",
    "code/jit.c",
    "code/machine_facts.c",
    "code/plugin.c",
    "code/red_zone.c",
    "control/exceptions.cpp",
    "crash/smashed_return.c",
    "kernel/clocks.c",
    "kernel/epoll.c",
    "kernel/fork_pipe.c",
    "kernel/identity.c",
    "kernel/many_calls.c",
    "kernel/proc_self.c",
    "kernel/tcp_loopback.c",
    "memory/malloc_churn.c",
    "signal/altstack_overflow.c",
    "signal/registers_kept.c",
    "signal/restart_read.c",
    "signal/timer_position.c",
    "threads/atomics.c",
    "threads/barrier.c",
    "threads/cancellation.c",
    "threads/crash.c",
    "threads/deadlock.c",
    "threads/exec.c",
    "threads/exit_others_blocked.c",
    "threads/family.c",
    "threads/fork.c",
    "threads/futexes.c",
    "threads/lost_wakeup.c",
    "threads/many.c",
    "threads/mutex.c",
    "threads/names.c",
    "threads/openmp.c",
    "threads/orderings.c",
    "threads/priority_inheritance.c",
    "threads/producer_consumer.c",
    "threads/racy_counter.c",
    "threads/robust.c",
    "threads/rwlock.c",
    "threads/semaphore.c",
    "threads/signals.c",
    "threads/spin.c",
    "threads/standard.cpp",
    "threads/timeouts.c",
    "threads/tls.c",
];
const FOREIGN: [&str; 16] = [
    "sort by column",
    "perl",
    "python clock",
    "sqlite3 file",
    "bash builtins",
    "xz -T2",
    "sort --parallel",
    "zstd -T4",
    "pigz",
    "b3sum",
    "ripgrep",
    "python threading",
    "python futures",
    "python locks",
    "sqlite threads",
    "node workers",
];

pub(crate) fn run(args: &[String]) -> Result<bool> {
    let flags = Flags::parse(args, &["--runs"])?;
    let mut tally = Tally::default();
    suite(&flags, &mut tally)?;
    Ok(tally.report())
}

pub(crate) fn suite(flags: &Flags, tally: &mut Tally) -> Result<()> {
    install::missing_programs();
    let runs = flags.runs.unwrap_or(100);
    let wherefore = tool::wherefore()?;
    let mut plans: Vec<Plan> = GUESTS
        .iter()
        .filter_map(|guest| {
            let name = format!("{guest} replayed {runs} times");
            let source = PathBuf::from("guests").join(guest);
            flags
                .selects(&name)
                .then(|| guests::plan(&source, name, Variant::FAST))
                .flatten()
        })
        .collect();
    plans.extend(foreign::named(&FOREIGN, flags));
    tally.run(&plans, |case| Scene::new(case, &wherefore)?.repeat(runs));
    Ok(())
}
