//! `--switch`, `--suppress`, `--set` and `--move`: a run with changes, and what they change.

use std::rc::Rc;

use anyhow::Result;
use case::{Alteration, Audience, Case, Stream};

use super::json;
use crate::args::{Changing, Telling};
use crate::exit::Exit;
use crate::render::{self, say};

impl Changing {
    pub(crate) fn any(&self) -> bool {
        !self.list().is_empty()
    }

    fn list(&self) -> Vec<Alteration> {
        let lists = [&self.switch, &self.suppress, &self.set, &self.moved];
        lists.into_iter().flatten().cloned().collect()
    }
}

/// For a run whose output was seen already, and is to be compared only.
pub(super) struct Silent;

impl Audience for Silent {
    fn output(&self, _: Stream, _: &[u8]) {}

    fn progress(&self, _: u64, _: Option<u64>) {}

    fn note(&self, _: &str) {}
}

/// Ends as the changed run did.
pub(super) fn change(
    case: &Case,
    recording: Option<&str>,
    changing: &Changing,
    telling: &Telling,
    audience: Rc<dyn Audience>,
) -> Result<Exit> {
    let report = case.try_edits(recording, &changing.list(), audience)?;
    if telling.json {
        json(&report, telling)?;
    } else if !telling.quiet {
        say(&render::tried(&report));
    }
    Ok(Exit::of(&report.after))
}
