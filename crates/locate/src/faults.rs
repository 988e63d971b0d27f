//! Several faults at once.
//!
//! Failing runs may fail for different reasons, and then no statement has evidence in all of them.
//! The user is shown one ranked list at a time, mends what it leads to, and asks for the next.
//! There are three ways to make the next list: *minimal*, the list there was; *full*, everything
//! searched again; *partial*, only those failing runs searched again that execute the statement
//! that was mended.
//!
//! For the partial way there is one list for each statement that failing runs execute, made from
//! the evidence of those runs alone: for a faulty statement, that is where it stands out most. The
//! first list shown is the one with the highest suspiciousness at its front; each later one is the
//! one whose front differs most from what was shown before.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::Statement;
use crate::rank::{Counts, Formula, Ranked, Weight, rank};

/// Statements that must differ for a list to be a new one.
pub const DIFFERENT: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recompute {
    Minimal,
    Full,
    Partial,
}

/// What is known of one failing run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failing {
    pub executed: BTreeSet<Statement>,
    /// Statements with evidence, and how late in the run that is.
    pub mended_at: BTreeMap<Statement, f64>,
}

/// The list from those failing runs that `considered` names.
pub fn list(
    failing: &[Failing],
    considered: &dyn Fn(&Failing) -> bool,
    passed: &BTreeMap<Statement, u32>,
    all_passed: u32,
    formula: Formula,
) -> Vec<Ranked> {
    let runs: Vec<&Failing> = failing.iter().filter(|f| considered(f)).collect();
    let mut counts: BTreeMap<Statement, Counts> = BTreeMap::new();
    for run in &runs {
        for &s in &run.executed {
            counts.entry(s).or_default().failed += 1;
        }
    }
    let evidence = weigh(runs.iter().copied());
    for (s, c) in &mut counts {
        c.passed = passed.get(s).copied().unwrap_or(0);
    }
    let all = Counts {
        failed: runs.len() as u32,
        passed: all_passed,
    };
    rank(&counts, all, &evidence, formula)
}

/// The evidence of several runs.
pub fn weigh<'a>(runs: impl Iterator<Item = &'a Failing>) -> BTreeMap<Statement, Weight> {
    let mut out: BTreeMap<Statement, Weight> = BTreeMap::new();
    for (&s, late) in runs.flat_map(|r| &r.mended_at) {
        let weight = out.entry(s).or_default();
        weight.runs += 1;
        weight.late += late;
    }
    out
}

/// One list for each statement that a failing run executes. Lists of statements that the same runs
/// execute are the same; each is given once.
pub fn lists(
    failing: &[Failing],
    passed: &BTreeMap<Statement, u32>,
    all_passed: u32,
    formula: Formula,
) -> Vec<Vec<Ranked>> {
    let mut groups: BTreeSet<Vec<usize>> = BTreeSet::new();
    let statements: BTreeSet<Statement> = failing
        .iter()
        .flat_map(|f| f.executed.iter().copied())
        .collect();
    for s in statements {
        let runs = failing.iter().enumerate();
        groups.insert(
            runs.filter(|(_, f)| f.executed.contains(&s))
                .map(|(i, _)| i)
                .collect(),
        );
    }
    groups
        .iter()
        .map(|group| {
            let chosen: Vec<Failing> = group.iter().map(|&i| failing[i].clone()).collect();
            list(&chosen, &|_| true, passed, all_passed, formula)
        })
        .collect()
}

/// The list to show first: the highest suspiciousness at its front, ties broken further down.
pub fn first(lists: &[Vec<Ranked>]) -> Option<usize> {
    let front = |l: &Vec<Ranked>| -> Vec<u32> { l.iter().map(|r| r.suspiciousness).collect() };
    (0..lists.len()).max_by(|&a, &b| {
        let order = front(&lists[a]).cmp(&front(&lists[b]));
        order.then(b.cmp(&a))
    })
}

/// The list to show next: the first that has [`DIFFERENT`] statements not among the fronts of those
/// shown before, when all are read in parallel. `shown` has the fronts.
pub fn next(lists: &[Vec<Ranked>], shown: &BTreeSet<Statement>) -> Option<usize> {
    let longest = lists.iter().map(Vec::len).max()?;
    let mut different = vec![0usize; lists.len()];
    for depth in 0..longest {
        for (i, l) in lists.iter().enumerate() {
            let Some(r) = l.get(depth) else { continue };
            if r.suspiciousness > 0 && !shown.contains(&r.statement) {
                different[i] += 1;
                if different[i] == DIFFERENT {
                    return Some(i);
                }
            }
        }
    }
    (0..lists.len()).max_by_key(|&i| (different[i], std::cmp::Reverse(i)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(executed: &[u32], mended_at: &[u32]) -> Failing {
        Failing {
            executed: executed.iter().map(|&s| Statement(s)).collect(),
            mended_at: mended_at.iter().map(|&s| (Statement(s), 0.0)).collect(),
        }
    }

    /// The example of the thesis: two runs fail because of statement 2, one because of 4.
    #[test]
    fn the_abstract_example() {
        let passed = BTreeMap::new();
        let runs = [
            run(&[1, 2, 5], &[2, 5]),
            run(&[1, 2, 3, 5], &[2, 3]),
            run(&[1, 2, 4, 5], &[2, 4, 5]),
        ];
        let all = lists(&runs, &passed, 0, Formula::Tarantula);
        let best = first(&all).expect("there are lists");
        assert_eq!(all[best][0].statement, Statement(2));
        assert_eq!(all[best][0].suspiciousness, 3);
        // Statement 2 is mended; the third run still fails and is searched again.
        let left = [run(&[1, 2, 4, 5], &[4])];
        let all = lists(&left, &passed, 0, Formula::Tarantula);
        let shown = BTreeSet::from([Statement(2)]);
        let best = next(&all, &shown).expect("there are lists");
        assert_eq!(all[best][0].statement, Statement(4));
    }
}
