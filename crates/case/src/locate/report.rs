//! What `locate` has to say.

use std::collections::BTreeMap;
use std::path::PathBuf;

use locate::rank::{Formula, Ranked, score};
use locate::{Statement, Tally, When};
use serde::{Deserialize, Serialize};

use super::observe::Observed;
use super::{Facts, Method, Suite, TestEnd};

/// A source line: what is ranked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub file: PathBuf,
    pub line: u32,
    pub function: Option<String>,
    pub text: Option<String>,
}

impl Line {
    /// `replace.c:117`
    pub(crate) fn short(&self) -> String {
        let name = self.file.file_name().unwrap_or(self.file.as_os_str());
        format!("{}:{}", name.to_string_lossy(), self.line)
    }

    /// The line that a user means by FILE:LINE.
    pub(crate) fn is(&self, file: &str, line: u32) -> bool {
        self.line == line && self.file.ends_with(file)
    }
}

/// One test, run natively.
#[derive(Clone, Debug, Serialize)]
pub struct TestReport {
    pub name: String,
    pub passed: bool,
    pub why: Option<String>,
    pub end: TestEnd,
    pub seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct LocateReport {
    pub suite: String,
    pub program: PathBuf,
    pub method: &'static str,
    pub tests: Vec<TestReport>,
    /// Lines that failing tests execute: those that are ranked.
    pub statements: usize,
    pub ranking: Vec<RankedLine>,
    /// Absent if only coverage was asked for.
    pub search: Option<SearchReport>,
    pub truth: Vec<TruthReport>,
    pub notes: Vec<String>,
    pub seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct RankedLine {
    pub rank: usize,
    #[serde(flatten)]
    pub line: Line,
    /// Failing runs that a replacement at this line mends.
    pub suspiciousness: u32,
    /// What the formula that breaks ties gives.
    pub coverage: f64,
    /// The rank by Tarantula alone.
    pub tarantula_rank: usize,
    /// Failing and passing tests that execute it.
    pub failed: u32,
    pub passed: u32,
    pub evidence: Vec<Evidence>,
}

/// A replacement that mends a failing run, in the user's terms.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    pub test: String,
    pub recording: String,
    pub pc: u64,
    pub instruction: String,
    /// The change is that a call is left out.
    pub is_call: bool,
    /// Which execution of the instruction, from 1.
    pub nth: u32,
    pub when: When,
    pub step: u64,
    /// Empty if a branch is made to go the other way or a call is left out.
    pub values: Vec<ValueChange>,
    /// The command that shows it on the recording of the test.
    pub command: Vec<String>,
    /// The option that makes the change in any run of the test.
    pub change: Vec<String>,
    /// How to run the program with it.
    pub run: Rerun,
}

/// `wherefore run` with a change, as in the test.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rerun {
    /// Where the test has its files, if it has any.
    pub folder: Option<PathBuf>,
    pub env: BTreeMap<String, String>,
    pub command: Vec<String>,
    /// Absent if it is empty.
    pub stdin: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ValueChange {
    /// A variable, or a register if no variable is known.
    pub name: String,
    pub is_variable: bool,
    pub was: String,
    pub with: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct SearchReport {
    /// Nothing was left to try.
    pub complete: bool,
    /// Failing tests that were searched, in this order.
    pub searched: Vec<String>,
    /// Those of them whose results are from an earlier search.
    pub reused: Vec<String>,
    /// Instructions that these tests execute, in the middle of the list.
    pub steps: u64,
    pub tally: Tally,
    /// Replacements that the full search would try.
    pub full: u64,
    pub seconds: f64,
    pub per_second: f64,
    pub workers: usize,
    /// Values that instructions work on, and those left out because they are addresses.
    pub operands: usize,
    pub pointers: Pointers,
    /// Sets of values that had no room in the profile.
    pub overflowed: u64,
    /// Executions that were not looked at because there are too many.
    pub dropped: u64,
    /// Faults mended before.
    pub iteration: u32,
}

/// Values that are addresses, by how that is known.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pointers {
    pub all: usize,
    /// The variable has a pointer type.
    pub by_type: usize,
    /// Memory is accessed through it.
    pub by_use: usize,
    /// It was computed from an address, or comes from where nothing is known and memory is there.
    pub by_origin: usize,
}

/// How the line that is at fault came out.
#[derive(Clone, Debug, Serialize)]
pub struct TruthReport {
    pub file: String,
    pub line: u32,
    /// Absent if no failing test executes it.
    pub rank: Option<usize>,
    /// Percentage of the lines that need not be looked at.
    pub score: f64,
    pub tarantula_rank: Option<usize>,
    pub tarantula_score: f64,
    pub ochiai_rank: Option<usize>,
    pub ochiai_score: f64,
}

impl LocateReport {
    pub(crate) fn new(suite: &Suite, tests: &[TestReport], method: Method) -> Self {
        LocateReport {
            suite: suite.name.clone(),
            program: suite.program.clone(),
            method: match method {
                Method::Replacement(_) => "value replacement",
                Method::Coverage(formula) => name_of(formula),
            },
            tests: tests.to_vec(),
            statements: 0,
            ranking: Vec::new(),
            search: None,
            truth: Vec::new(),
            notes: Vec::new(),
            seconds: 0.0,
        }
    }

    pub(crate) fn rank(
        &mut self,
        observed: &Observed,
        list: &[Ranked],
        facts: &Facts,
        truth: &[(String, u32)],
    ) {
        let none = BTreeMap::new();
        let tarantula = facts.rank(&none, Formula::Tarantula);
        let ochiai = facts.rank(&none, Formula::Ochiai);
        let of =
            |list: &[Ranked], s: Statement| list.iter().find(|r| r.statement == s).map(|r| r.rank);
        self.statements = tarantula.len();
        self.ranking = list
            .iter()
            .map(|r| {
                let counts = facts.counts.get(&r.statement).copied().unwrap_or_default();
                RankedLine {
                    rank: r.rank,
                    line: observed.lines[r.statement.0 as usize].clone(),
                    suspiciousness: r.suspiciousness,
                    coverage: r.coverage,
                    tarantula_rank: of(&tarantula, r.statement).unwrap_or(0),
                    failed: counts.failed,
                    passed: counts.passed,
                    evidence: Vec::new(),
                }
            })
            .collect();
        let total = self.statements;
        for (file, line) in truth {
            let at = observed.lines.iter().position(|l| l.is(file, *line));
            let rank_in = |list: &[Ranked]| at.and_then(|i| of(list, Statement(i as u32)));
            let scored = |rank: Option<usize>| rank.map_or(0.0, |r| score(total, r));
            let (rank, t, o) = (rank_in(list), rank_in(&tarantula), rank_in(&ochiai));
            self.truth.push(TruthReport {
                file: file.clone(),
                line: *line,
                rank,
                score: scored(rank),
                tarantula_rank: t,
                tarantula_score: scored(t),
                ochiai_rank: o,
                ochiai_score: scored(o),
            });
        }
    }
}

pub(crate) fn name_of(formula: Formula) -> &'static str {
    match formula {
        Formula::Tarantula => "tarantula",
        Formula::Ochiai => "ochiai",
        Formula::Dstar => "dstar",
        Formula::Op2 => "op2",
    }
}
