//! Ranking statements.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Statement;

/// A formula for how much a statement is tied to failure, from which tests execute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Formula {
    Tarantula,
    Ochiai,
    Dstar,
    Op2,
}

/// How many failing and passing tests there are, or execute a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub failed: u32,
    pub passed: u32,
}

impl Formula {
    pub fn apply(self, of: Counts, all: Counts) -> f64 {
        let (f, p) = (f64::from(of.failed), f64::from(of.passed));
        let (all_f, all_p) = (f64::from(all.failed), f64::from(all.passed));
        let share = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
        match self {
            Formula::Tarantula => {
                let (f, p) = (share(f, all_f), share(p, all_p));
                share(f, f + p)
            }
            Formula::Ochiai => share(f, (all_f * (f + p)).sqrt()),
            Formula::Dstar => {
                let rest = p + (all_f - f);
                if rest == 0.0 { f64::MAX } else { f * f / rest }
            }
            Formula::Op2 => f - p / (all_p + 1.0),
        }
    }
}

/// A statement and what speaks against it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    pub statement: Statement,
    /// Failing runs that have an interesting value mapping pair here.
    pub suspiciousness: u32,
    /// What the formula gives.
    pub coverage: f64,
    /// How late in the runs the evidence is, from 0 to 1: a late change leaves more of the run as it was.
    pub late: f64,
    /// All that are tied have the rank of the last of them: so many must be looked at.
    pub rank: usize,
}

/// What replacements say against a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weight {
    pub runs: u32,
    /// Where the evidence is, added up over the runs as parts of their length.
    pub late: f64,
}

/// Ranks by the number of failing runs with evidence, ties by coverage, and what is tied then by how late the evidence
/// is: of two changes that mend a run, the one after which less of the run is left says more. Statements that no failing
/// run executes are left out: none of them can be to blame.
pub fn rank(
    counts: &BTreeMap<Statement, Counts>,
    all: Counts,
    evidence: &BTreeMap<Statement, Weight>,
    formula: Formula,
) -> Vec<Ranked> {
    let of = |(&statement, &c): (&Statement, &Counts)| {
        let weight = evidence.get(&statement).copied().unwrap_or_default();
        Ranked {
            statement,
            suspiciousness: weight.runs,
            coverage: formula.apply(c, all),
            late: weight.late / f64::from(weight.runs.max(1)),
            rank: 0,
        }
    };
    let executed = counts.iter().filter(|(_, c)| c.failed > 0);
    let mut list: Vec<Ranked> = executed.map(of).collect();
    let tied = |a: &Ranked, b: &Ranked| {
        a.suspiciousness == b.suspiciousness
            && (a.coverage - b.coverage).abs() < 1e-12
            && (a.late - b.late).abs() < 1e-12
    };
    list.sort_by(|a, b| {
        b.suspiciousness
            .cmp(&a.suspiciousness)
            .then(b.coverage.total_cmp(&a.coverage))
            .then(b.late.total_cmp(&a.late))
            .then(a.statement.cmp(&b.statement))
    });
    let mut begin = 0;
    for i in 0..list.len() {
        if i + 1 == list.len() || !tied(&list[i], &list[i + 1]) {
            for r in &mut list[begin..=i] {
                r.rank = i + 1;
            }
            begin = i + 1;
        }
    }
    list
}

/// Share of the statements that need not be looked at before the one of rank `rank` is found.
pub fn score(statements: usize, rank: usize) -> f64 {
    if statements == 0 {
        return 0.0;
    }
    100.0 * (statements.saturating_sub(rank)) as f64 / statements as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(u32, u32, u32)]) -> BTreeMap<Statement, Counts> {
        list.iter()
            .map(|&(s, failed, passed)| (Statement(s), Counts { failed, passed }))
            .collect()
    }

    #[test]
    fn ties_have_the_last_rank() {
        let all = Counts {
            failed: 2,
            passed: 2,
        };
        let counts = counts(&[(1, 2, 2), (2, 2, 2), (3, 2, 0), (4, 0, 2), (5, 1, 1)]);
        let weight = |late| Weight { runs: 2, late };
        let evidence = BTreeMap::from([(Statement(1), weight(1.0)), (Statement(2), weight(1.0))]);
        let got: Vec<(u32, usize)> = rank(&counts, all, &evidence, Formula::Tarantula)
            .iter()
            .map(|r| (r.statement.0, r.rank))
            .collect();
        assert_eq!(got, [(1, 2), (2, 2), (3, 3), (5, 4)]);
        let evidence = BTreeMap::from([(Statement(1), weight(0.5)), (Statement(2), weight(1.0))]);
        let got: Vec<(u32, usize)> = rank(&counts, all, &evidence, Formula::Tarantula)
            .iter()
            .map(|r| (r.statement.0, r.rank))
            .collect();
        assert_eq!(got, [(2, 1), (1, 2), (3, 3), (5, 4)]);
    }

    #[test]
    fn formulas() {
        let all = Counts {
            failed: 4,
            passed: 6,
        };
        let of = Counts {
            failed: 4,
            passed: 3,
        };
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(Formula::Tarantula.apply(of, all), 1.0 / 1.5);
        near(Formula::Ochiai.apply(of, all), 4.0 / 28f64.sqrt());
        near(Formula::Dstar.apply(of, all), 16.0 / 3.0);
        near(Formula::Op2.apply(of, all), 4.0 - 3.0 / 7.0);
    }

    #[test]
    fn scores() {
        assert!((score(100, 1) - 99.0).abs() < 1e-9);
        assert!((score(5, 5) - 0.0).abs() < 1e-9);
    }
}
