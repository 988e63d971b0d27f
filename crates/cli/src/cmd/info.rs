//! `wherefore info`.

use anyhow::Result;
use case::Case;

use super::print;
use crate::args::InfoArgs;
use crate::exit::Exit;
use crate::render;

pub(crate) fn info(case: &Case, args: &InfoArgs) -> Result<Exit> {
    let report = case.info(args.recording.as_deref())?;
    if args.json {
        print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    } else {
        print(&render::info(&report))?;
    }
    Ok(Exit::OK)
}
