//! The verbs.

mod change;
mod chaos;
mod check;
mod debug;
mod info;
mod locate;
mod ls;
mod replay;
mod rm;
mod rules;
mod run;
mod schedule;
mod serve;
mod slice;
mod value;

use std::io::Write;

use anyhow::{Context, Result};
use case::Case;
use serde::Serialize;

use crate::args::{Args, Reporting, Telling, Verb};
use crate::exit::Exit;
use crate::render::{Paint, say};

pub(crate) fn dispatch(args: &Args) -> Result<Exit> {
    let folder = args
        .recordings
        .clone()
        .or_else(case::default_folder)
        .context("there is no place for recordings: set HOME or use --recordings")?;
    let case = Case::new(folder.clone());
    let paint = Paint::for_stderr(args.no_color);
    match &args.verb {
        Verb::Run(a) => run::run(&case, a, paint),
        Verb::Replay(a) => replay::replay(&case, a, paint),
        Verb::Debug(a) => debug::debug(&case, &folder, a),
        Verb::Serve(a) => serve::serve(&case, a),
        Verb::Locate(a) => locate::locate(&case, a, paint),
        Verb::Check(a) => check::check(&case, a, paint),
        Verb::Rules(a) => rules::rules(&case, a),
        Verb::Slice(a) => slice::slice(&case, a, paint),
        Verb::Where(a) => value::history(&case, a, paint),
        Verb::Value(a) => value::value(&case, a),
        Verb::Source(a) => value::source(&case, a, paint),
        Verb::Ls(a) => ls::ls(&case, a),
        Verb::Schedule(a) => schedule::schedule(&case, a),
        Verb::Info(a) => info::info(&case, a),
        Verb::Rm(a) => rm::rm(&case, a),
    }
}

/// Puts a report where the options say.
fn deliver(text: &str, to: &Reporting) -> Result<()> {
    match &to.output {
        Some(file) => std::fs::write(file, text)
            .with_context(|| format!("cannot write the report to {}", file.display())),
        None => {
            say(text);
            Ok(())
        }
    }
}

/// A report as JSON.
fn as_json(report: &impl Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}

/// Writes a report as JSON to where the options say.
fn json(report: &impl Serialize, telling: &Telling) -> Result<()> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    match &telling.output {
        Some(file) => std::fs::write(file, text)
            .with_context(|| format!("cannot write the report to {}", file.display())),
        None => {
            say(&text);
            Ok(())
        }
    }
}

/// Prints a listing; a reader that went away is an error like others, told apart in `exit`.
fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
