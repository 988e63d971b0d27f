//! `wherefore replay`.

use std::rc::Rc;

use anyhow::Result;
use case::{Case, Ended, ReplayEnd, ReplayRequest};

use super::json;
use crate::args::ReplayArgs;
use crate::exit::Exit;
use crate::progress::Terminal;
use crate::render::{self, Paint, say};

const SIGINT: i32 = 2;

pub(crate) fn replay(case: &Case, args: &ReplayArgs, paint: Paint) -> Result<Exit> {
    let telling = &args.telling;
    if args.changing.any() {
        if args.to.is_some() {
            anyhow::bail!(case::Error::Request(
                "--switch, --suppress and --set run to the end: leave --to out".to_owned()
            ));
        }
        let terminal = Rc::new(Terminal::new(!telling.quiet));
        return super::change::change(
            case,
            args.recording.as_deref(),
            &args.changing,
            telling,
            terminal,
        );
    }
    let terminal = Rc::new(Terminal::new(!telling.quiet));
    let request = ReplayRequest {
        recording: args.recording.clone(),
        to: args.to,
    };
    let result = case.replay(&request, terminal.clone());
    terminal.clear();
    let report = result?;
    let exit = match &report.end {
        // The step that was asked for is the one at which the guest ended.
        ReplayEnd::Ended(_) if args.to.is_some() => Exit::OK,
        ReplayEnd::Ended(ended) => Exit::of(ended),
        ReplayEnd::Stopped(_) => Exit::OK,
        ReplayEnd::Interrupted { .. } => Exit::Signal(SIGINT),
    };
    if telling.json {
        json(&report, telling)?;
        return Ok(exit);
    }
    if !telling.quiet {
        match (&report.end, &report.crash) {
            (ReplayEnd::Stopped(position), _) => {
                let all = args.all_threads;
                say(&render::position(position, &report.recording, all, paint));
            }
            (_, Some(crash)) => say(&render::crash(crash, args.all_threads, paint)),
            (ReplayEnd::Ended(Ended::Deadlocked), None) => {
                if let Some(deadlock) = &report.deadlock {
                    say(&render::deadlock(deadlock, paint));
                }
            }
            (ReplayEnd::Ended(Ended::Killed { signal }), None) => {
                say(&render::killed(*signal, &report.recording, paint));
            }
            (ReplayEnd::Ended(ended), None) if args.to.is_some() => {
                say(&render::ended(&report.recording, ended));
            }
            (ReplayEnd::Interrupted { step }, _) => {
                say(&render::interrupted(*step, &report.recording));
            }
            _ => {}
        }
    }
    if telling.verbose
        && args.to.is_none()
        && let ReplayEnd::Ended(ended) = &report.end
    {
        say(&render::ended(&report.recording, ended));
    }
    if telling.stats || telling.verbose {
        say(&render::stats(&report.figures, &report.cost));
    }
    Ok(exit)
}
