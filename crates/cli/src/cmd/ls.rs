//! `wherefore ls`.

use anyhow::Result;
use case::Case;

use super::print;
use crate::args::ListArgs;
use crate::exit::Exit;
use crate::render;

pub(crate) fn ls(case: &Case, args: &ListArgs) -> Result<Exit> {
    let report = case.list()?;
    if args.json {
        print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    } else {
        print(&render::list(&report))?;
    }
    Ok(Exit::OK)
}
