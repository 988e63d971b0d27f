//! `wherefore run --chaos`.

use anyhow::Result;
use case::{Case, ChaosRequest, RunRequest};

use super::json;
use crate::args::RunArgs;
use crate::exit::Exit;
use crate::progress::Runs;
use crate::render::{self, Paint, say};

const SIGINT: i32 = 2;

pub(crate) fn chaos(
    case: &Case,
    args: &RunArgs,
    run: RunRequest,
    runs: u32,
    paint: Paint,
) -> Result<Exit> {
    let telling = &args.telling;
    let bar = Runs::new(!telling.quiet && !telling.json);
    let request = ChaosRequest {
        run,
        runs,
        keep_going: args.keep_going,
        expect: args.expect.clone(),
        same_output: args.same_output,
    };
    let result = case.chaos(&request, &bar);
    bar.clear();
    let report = result?;
    if telling.json {
        json(&report, telling)?;
    } else if !telling.quiet {
        say(&render::chaos(&report, args.all_threads, paint));
    }
    Ok(match (&report.failure, report.interrupted) {
        (Some(_), _) => Exit::FAULT,
        (None, true) => Exit::Signal(SIGINT),
        (None, false) => Exit::OK,
    })
}
