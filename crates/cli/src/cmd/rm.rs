//! `wherefore rm`.

use anyhow::Result;
use case::Case;

use super::print;
use crate::args::RemoveArgs;
use crate::exit::Exit;

pub(crate) fn rm(case: &Case, args: &RemoveArgs) -> Result<Exit> {
    let names = (!args.all).then_some(args.names.as_slice());
    for name in case.remove(names)?.removed {
        print(&format!("removed {name}\n"))?;
    }
    Ok(Exit::OK)
}
