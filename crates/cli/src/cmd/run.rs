//! `wherefore run`.

use anyhow::Result;
use case::{Case, Ended, RunRequest};

use super::json;
use crate::args::RunArgs;
use crate::exit::Exit;
use crate::render::{self, Paint, say};

pub(crate) fn run(case: &Case, args: &RunArgs, paint: Paint) -> Result<Exit> {
    let (program, rest) = args.command.split_first().expect("clap asks for a program");
    let report = case.run(&RunRequest {
        program: program.into(),
        args: rest.to_vec(),
        name: args.name.clone(),
    })?;
    let telling = &args.telling;
    let exit = Exit::of(&report.ended);
    if telling.json {
        json(&report, telling)?;
        return Ok(exit);
    }
    if !telling.quiet {
        for note in &report.notes {
            say(&format!("wherefore: note: {note}\n"));
        }
        match (&report.crash, &report.ended) {
            (Some(crash), _) => say(&render::crash(crash, paint)),
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
