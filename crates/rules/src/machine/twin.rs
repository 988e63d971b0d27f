//! Two machines on one tape: one with machine code, one that does all operations one by one.
//!
//! Random code in made-up states (`tests.rs`) does not come in the order in which programs do things: calls that
//! nest, blocks that are freed and handed out again, code that is made while it runs. So the machines can also be
//! held against each other on whole programs. Registers, blocks and suspects are compared after each piece of
//! tape, which says about where they part; memory at the end, because there is much of it.

use super::*;

impl Machine {
    /// From here on another machine does the same without machine code.
    pub fn doubt(&mut self) -> io::Result<()> {
        let source = std::mem::take(&mut self.codebase);
        let mut twin = Machine::made(
            self.rules.clone(),
            self.pairs.clone(),
            self.codebase.clone(),
            None,
            self.accesses.is_some(),
        )?;
        twin.code = None;
        twin.stack = self.stack;
        self.twin = Some(Box::new(Twin {
            source,
            plain: twin,
            differs: None,
        }));
        Ok(())
    }

    /// How the two came to differ, if there are two: none if they do not.
    pub fn doubts(&self) -> Option<Result<(), String>> {
        let twin = self.twin.as_ref()?;
        let memory = || {
            let at = self.memory.differs(&twin.plain.memory)?;
            let cells = (self.memory.cell(at), twin.plain.memory.cell(at));
            Some(format!("memory at {at:#x} is {cells:?}"))
        };
        Some(match twin.differs.clone().or_else(memory) {
            Some(how) => Err(how),
            None => Ok(()),
        })
    }

    /// The codebase changes while the tape is heard, and each machine looks at it when it meets code for the first
    /// time. For each piece of tape both are given the codebase as it is before that.
    pub(super) fn agree(&mut self) {
        if let Some(twin) = &self.twin {
            let is = twin.source.lock().expect("nobody panics while holding it");
            let mut ours = self.codebase.lock().expect("as above");
            *ours = is.clone();
        }
    }

    /// Lets the other machine hear what this one has heard.
    pub(super) fn compare(&mut self, tape: Part<'_>) {
        let Some(mut twin) = self.twin.take() else {
            return;
        };
        twin.plain.hear(tape);
        if twin.differs.is_none() {
            let how = self.difference(&twin.plain);
            twin.differs = how.map(|how| format!("before step {}, {how}", self.step));
        }
        self.twin = Some(twin);
    }

    fn difference(&self, plain: &Machine) -> Option<String> {
        if self.step != plain.step {
            return Some(format!("the other is at step {}", plain.step));
        }
        let (a, b) = (&self.now.registers, &plain.now.registers);
        if (a.rsp, a.rbp, a.slot) != (b.rsp, b.rbp, b.slot) {
            return Some("the stack is elsewhere".to_owned());
        }
        let unit = (0..usize::from(plan::ZERO)).find(|u| a.units[*u] != b.units[*u]);
        if let Some(u) = unit {
            return Some(format!("unit {u} is {:?}", (a.units[u], b.units[u])));
        }
        if **self.heap.all_bounds() != **plain.heap.all_bounds() {
            return Some("other blocks were made or freed".to_owned());
        }
        let found = |m: &Machine| format!("{:?}", m.suspects);
        (found(self) != found(plain)).then(|| "the rules found something else".to_owned())
    }
}

/// The machine beside the one at hand.
pub(super) struct Twin {
    source: Arc<Mutex<Codebase>>,
    pub(super) plain: Machine,
    differs: Option<String>,
}
