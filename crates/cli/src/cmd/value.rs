//! `wherefore value`, `wherefore where`, `wherefore source`.

use std::rc::Rc;

use anyhow::Result;
use case::{Case, ValueRequest, ValuesRequest};

use super::{as_json, deliver};
use crate::args::{Expression, SourceArgs, ValueArgs, WhereArgs};
use crate::exit::Exit;
use crate::progress::Terminal;
use crate::render::{self, Paint};

/// The recording, and the expression.
fn words(what: &Expression) -> (Option<String>, String) {
    match what.words.as_slice() {
        [recording, expression] => (Some(recording.clone()), expression.clone()),
        words => (None, words[0].clone()),
    }
}

fn request(what: &Expression, most: usize) -> ValueRequest {
    let (recording, expression) = words(what);
    ValueRequest {
        recording,
        expression,
        at: what.at.clone(),
        most,
    }
}

pub(crate) fn value(case: &Case, args: &ValueArgs) -> Result<Exit> {
    let terminal = Rc::new(Terminal::new(true));
    if args.every || !args.and.is_empty() {
        return values(case, args, &terminal);
    }
    let result = case.value(&request(&args.what, 0), terminal.clone());
    terminal.clear();
    let report = result?;
    let text = if args.report.json {
        as_json(&report)?
    } else {
        render::value(&report)
    };
    deliver(&text, &args.report)?;
    Ok(Exit::OK)
}

/// Several expressions, or several times.
fn values(case: &Case, args: &ValueArgs, terminal: &Rc<Terminal>) -> Result<Exit> {
    let (recording, first) = words(&args.what);
    let request = ValuesRequest {
        recording,
        expressions: [&[first], args.and.as_slice()].concat(),
        at: args.what.at.clone(),
        every: args.every.then_some(args.number),
    };
    let result = case.values(&request, terminal.clone());
    terminal.clear();
    let report = result?;
    let text = if args.report.json {
        as_json(&report)?
    } else {
        render::values(&report)
    };
    deliver(&text, &args.report)?;
    Ok(Exit::OK)
}

pub(crate) fn history(case: &Case, args: &WhereArgs, paint: Paint) -> Result<Exit> {
    let terminal = Rc::new(Terminal::new(true));
    let result = case.history(&request(&args.what, args.number), terminal.clone());
    terminal.clear();
    let report = result?;
    let text = if args.report.json {
        as_json(&report)?
    } else {
        render::history(&report, paint)
    };
    deliver(&text, &args.report)?;
    Ok(Exit::OK)
}

pub(crate) fn source(case: &Case, args: &SourceArgs, paint: Paint) -> Result<Exit> {
    let terminal = Rc::new(Terminal::new(true));
    let result = case.source(args.recording.as_deref(), terminal.clone());
    terminal.clear();
    let report = result?;
    let text = if args.report.json {
        as_json(&report)?
    } else {
        render::source(&report, paint)
    };
    deliver(&text, &args.report)?;
    Ok(Exit::OK)
}
