//! Detectors in a debugger: rules that are switched on and off.
//!
//! What a rule finds in a recording is the same every time, so a rule that is switched on is asked about the
//! whole recording at once, in a replay of its own. Where it found something, the guest stops when it goes on.

use std::rc::Rc;

use rules::{SHIPPED, compile};

use super::Session;
use super::slices::Nobody;
use crate::Error;
use crate::check;
use crate::replay::Audience;

/// A rule, and what it found if it is on.
#[derive(Clone, Debug)]
pub struct Detector {
    pub name: String,
    /// What it looks for.
    pub about: String,
    pub on: bool,
    /// Steps before which something happens, and what.
    pub faults: Vec<(u64, String)>,
}

impl Session {
    /// All rules that there are.
    pub fn detectors(&self) -> Vec<Detector> {
        let rules = SHIPPED.iter().flat_map(|f| compile(f.text).0.rules);
        let one = |rule: rules::term::Checked| {
            let found = self.detectors.get(&rule.name);
            Detector {
                on: found.is_some(),
                faults: found.cloned().unwrap_or_default(),
                name: rule.name,
                about: rule.about,
            }
        };
        rules.map(one).collect()
    }

    /// Switches a rule on; says what it found.
    pub fn detector_on(&mut self, rule: &str) -> Result<Vec<(u64, String)>, Error> {
        if let Some(known) = self.detectors.get(rule) {
            return Ok(known.clone());
        }
        let (rule_name, name) = (rule.to_owned(), self.name.clone());
        let (folder, meta) = (self.store.path(&self.name), self.meta.clone());
        // On a thread of its own: the guest of this session belongs to this one.
        let worker = std::thread::spawn(move || {
            let nobody: Rc<dyn Audience> = Rc::new(Nobody);
            check::found_by(&rule_name, &name, &folder, &meta, &nobody)
        });
        let Ok(found) = worker.join() else {
            return Err(Error::Request("looking for faults has failed".to_owned()));
        };
        let faults: Vec<(u64, String)> = found?
            .into_iter()
            .map(|f| (f.step, format!("{}: {}", f.class, f.message)))
            .collect();
        self.marks.extend(faults.iter().map(|(step, _)| *step));
        self.detectors.insert(rule.to_owned(), faults.clone());
        Ok(faults)
    }

    pub fn detector_off(&mut self, rule: &str) -> Result<(), Error> {
        let Some(faults) = self.detectors.remove(rule) else {
            let why = format!("the detector `{rule}` is not on");
            return Err(Error::Request(why));
        };
        for (step, _) in faults {
            if self.fault_at(step).is_none() {
                self.marks.remove(&step);
            }
        }
        Ok(())
    }

    /// What a detector that is on says about a step.
    pub fn fault_at(&self, step: u64) -> Option<&str> {
        let mut all = self.detectors.values().flatten();
        let here = all.find(|(at, _)| *at == step);
        here.map(|(_, what)| what.as_str())
    }
}
