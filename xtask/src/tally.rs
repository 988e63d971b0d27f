//! Runs plans two at a time and counts what came out.

use crate::case::Plan;
use crate::scene::Complaints;
use anyhow::Result;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: usize,
    failed: Vec<(String, Complaints)>,
    skipped: Vec<(String, String)>,
}

impl Tally {
    pub(crate) fn pass(&mut self, count: usize) {
        self.passed += count;
    }

    pub(crate) fn fail(&mut self, name: &str, complaints: Complaints) {
        println!("FAILED {name}");
        for complaint in &complaints {
            println!("       {complaint}");
        }
        self.failed.push((name.to_owned(), complaints));
    }

    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        self.skipped.push((name.to_owned(), reason.to_owned()));
    }

    pub(crate) fn record(&mut self, name: &str, result: Result<Complaints>) {
        match result {
            Ok(complaints) if complaints.is_empty() => self.pass(1),
            Ok(complaints) => self.fail(name, complaints),
            Err(error) => self.fail(name, vec![format!("{error:#}")]),
        }
    }

    /// Applies `check` to every case; two workers, because a case is mostly one busy process.
    pub(crate) fn run(
        &mut self,
        plans: &[Plan],
        check: impl Fn(&crate::case::Case) -> Result<Complaints> + Sync,
    ) {
        let next = AtomicUsize::new(0);
        let this = Mutex::new(self);
        let locked = || {
            this.lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match plan {
                            Plan::Run(case) => {
                                let result = check(case);
                                locked().record(&case.name, result);
                            }
                            Plan::Skip { name, reason } => locked().skip(name, reason),
                            Plan::Broken { name, reason } => {
                                locked().fail(name, vec![reason.clone()])
                            }
                        }
                    }
                });
            }
        });
    }

    /// Prints the skips by reason, the failures by name and, alone on the last line, the counts.
    pub(crate) fn report(&self) -> bool {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, reason) in &self.skipped {
            reasons.entry(reason).or_default().push(name);
        }
        for (reason, names) in reasons {
            println!("skipped, {reason}: {}", names.join(", "));
        }
        for (name, _) in &self.failed {
            println!("failed: {name}");
        }
        let nothing = self.passed + self.failed.len() + self.skipped.len() == 0;
        if nothing {
            println!("nothing was run: no case has a name like that");
        }
        println!(
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed.len(),
            self.skipped.len()
        );
        self.failed.is_empty() && !nothing
    }
}
