//! `wherefore schedule`.

use anyhow::{Context, Result};
use case::Case;

use super::print;
use crate::args::ScheduleArgs;
use crate::exit::Exit;
use crate::render;

pub(crate) fn schedule(case: &Case, args: &ScheduleArgs) -> Result<Exit> {
    let report = case.schedule(args.recording.as_deref())?;
    let text = if args.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        render::schedule(&report)
    };
    match &args.output {
        Some(file) => std::fs::write(file, text)
            .with_context(|| format!("cannot write the schedule to {}", file.display()))?,
        None => print(&text)?,
    }
    Ok(Exit::OK)
}
