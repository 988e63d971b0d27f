//! `wherefore slice`.

use std::rc::Rc;

use anyhow::Result;
use case::{About, Case, SliceRequest};

use super::{as_json, deliver};
use crate::args::SliceArgs;
use crate::exit::Exit;
use crate::progress::Terminal;
use crate::render::{self, Paint, say};

pub(crate) fn slice(case: &Case, args: &SliceArgs, paint: Paint) -> Result<Exit> {
    let about = match (&args.var, args.addr, &args.reg) {
        (Some(v), ..) => About::Variable(v.clone()),
        (_, Some(addr), _) => About::Memory {
            addr,
            len: args.len,
        },
        (.., Some(r)) => About::Register(r.clone()),
        _ => About::Everything,
    };
    let request = SliceRequest {
        recording: args.recording.clone(),
        at: args.at.clone(),
        about,
        data_only: args.data_only,
        relevant: args.relevant,
        prune: args.prune.clone(),
        window: args.window.clone(),
        library: args.library,
    };
    let terminal = Rc::new(Terminal::new(true));
    let result = case.slice(&request, terminal.clone());
    terminal.clear();
    let report = result?;
    let text = if args.report.json {
        as_json(&report)?
    } else if args.html {
        render::slice_page(&report)
    } else {
        render::slice(&report, paint)
    };
    deliver(&text, &args.report)?;
    if args.report.stats {
        say(&render::slice_stats(&report.figures));
    }
    Ok(Exit::OK)
}
