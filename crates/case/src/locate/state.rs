//! What a search leaves behind, to be resumed or continued after a fix.
//!
//! It is in `RECORDINGS/.locate/SUITE/state.json`, beside the files of the tests. Lines are kept
//! with their text: after a fix they may have moved, and are then found by it.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use locate::faults::{Failing, Recompute};
use locate::rank::Ranked;
use locate::{SearchState, Statement};
use serde::{Deserialize, Serialize};

use super::observe::Observed;
use super::report::Line;
use super::suite::{Expected, Suite};
use crate::Error;
use crate::store::Store;

const FORMAT: u32 = 4;
const FILE: &str = "state.json";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    format: u32,
    fingerprint: u64,
    /// The failing tests that were searched, in order; none if it did not come to that.
    tests: Vec<String>,
    /// All tests that the profile was made from.
    seen: Vec<String>,
    lines: Vec<Line>,
    pub(crate) search: SearchState,
    failing: Vec<Failing>,
    list: Vec<Ranked>,
    shown: BTreeSet<Statement>,
    pub(crate) iteration: u32,
}

/// The folder of a suite, made if need be.
pub(crate) fn folder(store: &Store, suite: &str) -> Result<PathBuf, Error> {
    use std::os::unix::fs::DirBuilderExt;
    let folder = store.path(".locate").join(suite);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|e| Error::Folder(folder.clone(), e))?;
    Ok(folder)
}

/// Two suites with the same do the same: the program is the same, and the tests have the same input.
pub(crate) fn fingerprint(suite: &Suite) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut add = |bytes: &[u8]| bytes.hash(&mut hasher);
    add(&fs::read(&suite.program).unwrap_or_default());
    for t in &suite.tests {
        add(format!("{t:?}").as_bytes());
        let expected = match &t.expected {
            Expected::Output { stdout, .. } => Some(stdout),
            _ => None,
        };
        for content in t.files.values().chain([&t.stdin]).chain(expected) {
            add(&content.bytes().unwrap_or_default());
        }
    }
    hasher.finish()
}

impl State {
    /// Of a search that has not found anything yet.
    pub(crate) fn begun(fingerprint: u64) -> State {
        State {
            format: FORMAT,
            fingerprint,
            tests: Vec::new(),
            seen: Vec::new(),
            lines: Vec::new(),
            search: SearchState::default(),
            failing: Vec::new(),
            list: Vec::new(),
            shown: BTreeSet::new(),
            iteration: 0,
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        fingerprint: u64,
        tests: &[String],
        seen: &[String],
        lines: &[Line],
        search: &SearchState,
        failing: &[Failing],
        list: &[Ranked],
        shown: &BTreeSet<Statement>,
        iteration: u32,
    ) -> State {
        State {
            format: FORMAT,
            fingerprint,
            tests: tests.to_vec(),
            seen: seen.to_vec(),
            lines: lines.to_vec(),
            search: search.clone(),
            failing: failing.to_vec(),
            list: list.to_vec(),
            shown: shown.clone(),
            iteration,
        }
    }

    pub(crate) fn read(folder: &Path, suite: &str) -> Result<State, Error> {
        let path = folder.join(FILE);
        let bad = |why: String| Error::NoState {
            suite: suite.to_owned(),
            why,
        };
        let text = fs::read_to_string(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => bad("there is none".into()),
            _ => bad(e.to_string()),
        })?;
        let state: State = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        if state.format != FORMAT {
            return Err(bad(format!("it has format {}, not {FORMAT}", state.format)));
        }
        Ok(state)
    }

    /// Written to one side and renamed, so that there is never half of it.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(FILE);
        let temporary = folder.join(format!(".{FILE}.{}", std::process::id()));
        let wrong = |e| Error::Folder(path.clone(), e);
        let text = serde_json::to_vec(self).map_err(|e| wrong(e.into()))?;
        fs::write(&temporary, text).map_err(wrong)?;
        fs::rename(&temporary, &path).map_err(wrong)
    }

    /// The search can be resumed: nothing has changed since.
    pub(crate) fn must_fit(&self, suite: &str, fingerprint: u64) -> Result<(), Error> {
        if self.fingerprint == fingerprint {
            return Ok(());
        }
        Err(Error::NoState {
            suite: suite.to_owned(),
            why: "the program or its tests have changed since; start again without --resume, or \
                  go on after a fix with --continue"
                .into(),
        })
    }

    /// What to go on from. If there was time for other tests than now, the order of the search is another, and what
    /// is not complete is begun again.
    pub(crate) fn resumed(&self, tests: &[String], seen: &[String], lines: &[Line]) -> SearchState {
        let numbers: HashMap<(&Path, u32), Statement> = (0..)
            .zip(lines)
            .map(|(n, l)| ((l.file.as_path(), l.line), Statement(n)))
            .collect();
        let number = |s: Statement| {
            let old = self.lines.get(s.0 as usize)?;
            numbers.get(&(old.file.as_path(), old.line)).copied()
        };
        let mut search = self.search.renumbered(&number);
        if self.tests == tests && self.seen == seen {
            return search;
        }
        let old = |name: &String| self.tests.iter().position(|t| t == name);
        let run = |name: &String| {
            let mut run = search.runs.get(old(name)?)?.clone();
            run.begin_again();
            Some(run)
        };
        search.runs = tests.iter().map(|t| run(t).unwrap_or_default()).collect();
        search
    }

    /// Where a line of then is among the lines of now: the nearest with the same text.
    fn moved(&self, s: Statement, now: &[Line]) -> Option<Statement> {
        let old = self.lines.get(s.0 as usize)?;
        let same = |l: &&(usize, &Line)| l.1.file == old.file && l.1.text == old.text;
        now.iter()
            .enumerate()
            .collect::<Vec<_>>()
            .iter()
            .filter(same)
            .min_by_key(|(_, l)| l.line.abs_diff(old.line))
            .map(|(i, _)| Statement(*i as u32))
    }

    pub(crate) fn shown_in(&self, now: &[Line]) -> BTreeSet<Statement> {
        self.shown
            .iter()
            .filter_map(|&s| self.moved(s, now))
            .collect()
    }

    /// The list that was shown last, without what is there no more.
    pub(crate) fn list_in(&self, now: &[Line]) -> Vec<Ranked> {
        let moved = |r: &Ranked| {
            Some(Ranked {
                statement: self.moved(r.statement, now)?,
                ..*r
            })
        };
        self.list.iter().filter_map(moved).collect()
    }

    /// Marks the runs of `search` that need not be searched again as complete, with what is known
    /// of them, and says which those are.
    pub(crate) fn reuse(
        &self,
        recompute: Recompute,
        fixed: &[(String, u32)],
        names: &[String],
        observed: &Observed,
        searched: &[usize],
        search: &mut SearchState,
    ) -> Vec<bool> {
        let now = &observed.lines;
        search.runs.resize_with(names.len(), Default::default);
        // What was mended: what the user says, or lines that are not what they were.
        let fixed: BTreeSet<Statement> = if fixed.is_empty() {
            let is_new = |l: &Line| {
                !self
                    .lines
                    .iter()
                    .any(|o| o.file == l.file && o.text == l.text)
            };
            let lines = now.iter().enumerate().filter(|(_, l)| is_new(l));
            lines.map(|(i, _)| Statement(i as u32)).collect()
        } else {
            let is_fixed = |l: &Line| fixed.iter().any(|(f, n)| l.is(f, *n));
            let lines = now.iter().enumerate().filter(|(_, l)| is_fixed(l));
            lines.map(|(i, _)| Statement(i as u32)).collect()
        };
        let mut reused = vec![false; names.len()];
        for (n, name) in names.iter().enumerate() {
            let Some(old) = self.tests.iter().position(|t| t == name) else {
                continue;
            };
            let again = match recompute {
                Recompute::Minimal => false,
                Recompute::Full => true,
                Recompute::Partial => !observed.executed(searched[n]).is_disjoint(&fixed),
            };
            let Some(run) = self.search.runs.get(old).filter(|r| r.complete && !again) else {
                continue;
            };
            reused[n] = true;
            let state = &mut search.runs[n];
            state.complete = true;
            for ivmp in &run.ivmps {
                if let Some(statement) = self.moved(ivmp.statement, now) {
                    state.ivmps.push(locate::Ivmp {
                        statement,
                        ..ivmp.clone()
                    });
                }
            }
        }
        reused
    }
}
