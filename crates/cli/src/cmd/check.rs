//! `wherefore check`.

use std::rc::Rc;

use anyhow::Result;
use case::{Case, CheckRequest, RunRequest};

use super::{as_json, deliver};
use crate::args::CheckArgs;
use crate::exit::Exit;
use crate::progress::Terminal;
use crate::render::{self, Paint, say};

pub(crate) fn check(case: &Case, args: &CheckArgs, paint: Paint) -> Result<Exit> {
    let program = args
        .command
        .split_first()
        .map(|(program, rest)| RunRequest {
            program: program.into(),
            args: rest.to_vec(),
            name: args.name.clone(),
            seed: 0,
            schedule: None,
            chaos: None,
            time_limit: None,
        });
    let request = CheckRequest {
        program,
        recording: args.recording.clone(),
        rules: args.rules.clone(),
        only: args.only.clone(),
        all: args.all,
        no_chains: args.no_chains,
        events: args.events,
        doubt: args.doubt,
    };
    let stuck = move |d: &case::DeadlockReport| say(&render::deadlock(d, paint));
    let terminal = Rc::new(Terminal::new(true));
    let result = case.check(&request, Rc::new(stuck), terminal.clone());
    terminal.clear();
    let report = result?;
    let text = if args.report.json {
        as_json(&report)?
    } else {
        render::check(&report, paint)
    };
    deliver(&text, &args.report)?;
    if args.report.stats {
        say(&render::check_stats(&report.figures));
    }
    Ok(match report.is_fault() {
        true => Exit::FAULT,
        false => Exit::OK,
    })
}
