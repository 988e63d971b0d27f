//! `wherefore run`.

use std::rc::Rc;

use anyhow::Result;
use case::{Case, Ended, RunRequest};

use super::json;
use crate::args::RunArgs;
use crate::exit::Exit;
use crate::render::{self, Paint, say};

pub(crate) fn run(case: &Case, args: &RunArgs, paint: Paint) -> Result<Exit> {
    let (program, rest) = args.command.split_first().expect("clap asks for a program");
    let request = RunRequest {
        program: program.into(),
        args: rest.to_vec(),
        name: args.name.clone(),
        seed: args.seed,
        schedule: args.schedule.clone(),
        chaos: None,
        time_limit: args.timeout,
    };
    if args.changing.any() && args.chaos.is_some() {
        anyhow::bail!(case::Error::Request(
            "--switch, --suppress and --set change one run: leave --chaos out".to_owned()
        ));
    }
    if let Some(runs) = args.chaos {
        return super::chaos::chaos(case, args, request, runs, paint);
    }
    let telling = &args.telling;
    let quiet = telling.quiet || telling.json;
    let stuck = move |d: &case::DeadlockReport| {
        if !quiet {
            say(&render::deadlock(d, paint));
        }
    };
    let report = case.run(&request, Rc::new(stuck))?;
    let exit = Exit::of(&report.ended);
    if args.changing.any() {
        let name = report.recording.0;
        let silent = Rc::new(super::change::Silent);
        return super::change::change(case, Some(&name), &args.changing, telling, silent);
    }
    if telling.json {
        json(&report, telling)?;
        return Ok(exit);
    }
    if !telling.quiet {
        for note in &report.notes {
            say(&format!("wherefore: note: {note}\n"));
        }
        if let Some(deadlock) = &report.deadlock {
            say(&render::deadlock(deadlock, paint));
        }
        if report.timed_out {
            let after = args.timeout.unwrap_or_default();
            say(&render::timed_out(after, paint));
        }
        match (&report.crash, &report.ended) {
            (Some(crash), _) => say(&render::crash(
                crash,
                args.all_threads || report.timed_out,
                paint,
            )),
            (None, Ended::Killed { signal }) => {
                say(&render::killed(*signal, &report.recording, paint));
            }
            _ => {}
        }
    }
    if telling.verbose {
        say(&render::ended(&report.recording, &report.ended));
    }
    if telling.stats || telling.verbose {
        say(&render::stats(&report.figures, &report.cost));
    }
    Ok(exit)
}
