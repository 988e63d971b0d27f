//! `cargo xtask foreign`: programs we did not write, run in three ways.
//!
//! Every case finds the same small corpus in its directory: lists, text, a tree of files, and scripts.

mod cases;
mod corpus;
mod languages;
mod threads;

use crate::case::{Case, Children, Fill, Plan};
use crate::flags::Flags;
use crate::install;
use crate::process::Input;
use crate::scene::Scene;
use crate::tally::Tally;
use crate::tool;
use anyhow::Result;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn run(args: &[String]) -> Result<bool> {
    let flags = Flags::parse(args, &[])?;
    let mut tally = Tally::default();
    suite(&flags, &mut tally)?;
    Ok(tally.report())
}

pub(crate) fn suite(flags: &Flags, tally: &mut Tally) -> Result<()> {
    install::missing_programs();
    let wherefore = tool::wherefore()?;
    let plans = plans(flags);
    tally.run(&plans, |case| Scene::new(case, &wherefore)?.check());
    Ok(())
}

pub(crate) fn plans(flags: &Flags) -> Vec<Plan> {
    cases::all()
        .into_iter()
        .chain(languages::all())
        .chain(threads::all())
        .filter(|sketch| flags.selects(&sketch.full_name()))
        .map(Sketch::plan)
        .collect()
}

/// Those of these names.
pub(crate) fn named(names: &[&str], flags: &Flags) -> Vec<Plan> {
    let wanted = |plan: &Plan| {
        let (Plan::Run(Case { name, .. }) | Plan::Skip { name, .. } | Plan::Broken { name, .. }) =
            plan;
        let name = name.strip_prefix("foreign ").unwrap_or(name);
        names.contains(&name)
    };
    plans(flags).into_iter().filter(wanted).collect()
}

/// A case as the table states it, before its program has been looked for.
#[derive(Debug)]
struct Sketch {
    name: &'static str,
    program: &'static str,
    args: Vec<&'static str>,
    input: &'static str,
    files: Vec<(&'static str, String)>,
    env: Vec<(&'static str, &'static str)>,
    children: Children,
    nondeterministic: bool,
    repository: bool,
}

fn sketch(name: &'static str, program: &'static str, args: &[&'static str]) -> Sketch {
    Sketch {
        name,
        program,
        args: args.to_vec(),
        input: "",
        files: Vec::new(),
        env: Vec::new(),
        children: Children::Silent,
        nondeterministic: false,
        repository: false,
    }
}

impl Sketch {
    fn file(mut self, name: &'static str, text: impl Into<String>) -> Sketch {
        self.files.push((name, text.into()));
        self
    }

    fn input(mut self, text: &'static str) -> Sketch {
        self.input = text;
        self
    }

    fn env(mut self, name: &'static str, value: &'static str) -> Sketch {
        self.env.push((name, value));
        self
    }

    /// Children share the standard streams.
    fn children(mut self) -> Sketch {
        self.children = Children::Unknown;
        self
    }

    fn nondeterministic(mut self) -> Sketch {
        self.nondeterministic = true;
        self
    }

    /// A git repository with some history in `repo`.
    fn repository(mut self) -> Sketch {
        self.repository = true;
        self
    }

    fn full_name(&self) -> String {
        format!("foreign {}", self.name)
    }

    fn plan(self) -> Plan {
        let name = self.full_name();
        let Some(program) = tool::find_program(self.program) else {
            return Plan::Skip {
                name,
                reason: format!("{} is not installed", self.program),
            };
        };
        let (files, repository) = (self.files, self.repository);
        let fill: Fill = Arc::new(move |work| {
            corpus::fill(work)?;
            for (name, text) in &files {
                fs::write(work.join(name), text)?;
            }
            if repository {
                corpus::repository(&work.join("repo"))
            } else {
                Ok(())
            }
        });
        Plan::Run(Case {
            name,
            program,
            args: self.args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: self
                .env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            input: if self.input.is_empty() {
                Input::Nothing
            } else {
                Input::Pipe(self.input.into())
            },
            fill,
            ending: None,
            hangs: false,
            nondeterministic: self.nondeterministic,
            children: self.children,
            limit: Duration::from_secs(120),
        })
    }
}
