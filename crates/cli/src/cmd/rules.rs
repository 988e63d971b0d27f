//! `wherefore rules`.

use anyhow::Result;
use case::{Case, RulesRequest};

use super::{as_json, print};
use crate::args::RulesArgs;
use crate::exit::Exit;
use crate::render::{self, say};

pub(crate) fn rules(case: &Case, args: &RulesArgs) -> Result<Exit> {
    let file = args
        .explain
        .as_ref()
        .or(args.check.as_ref())
        .or(args.show.as_ref());
    let report = case.rules(&RulesRequest {
        file: file.cloned(),
    })?;
    let errors: usize = report.files.iter().map(|f| f.errors).sum();
    if args.json {
        print(&as_json(&report)?)?;
    } else {
        for text in report.files.iter().flat_map(|f| &f.wrong) {
            say(text);
        }
        print(&match (&args.explain, &args.check, &args.show) {
            (Some(_), ..) => render::explain(&report),
            (_, Some(_), _) => String::new(),
            (_, _, Some(_)) => report.files.iter().map(|f| f.text.as_str()).collect(),
            _ => render::rules(&report),
        })?;
    }
    Ok(if errors == 0 { Exit::OK } else { Exit::REQUEST })
}
