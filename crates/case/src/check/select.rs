//! Which rules are asked, and what can be said about a rule file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rules::fold::{Class, decide, is_quiet};
use rules::term::{Checked, Pair};
use rules::{SHIPPED, Severity, compile};
use serde::Serialize;

use crate::Error;

/// Rules that passed.
pub(crate) struct Chosen {
    pub(crate) rules: Arc<Vec<Checked>>,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn choose(files: &[PathBuf], only: &[String]) -> Result<Chosen, Error> {
    let mut out = Chosen {
        rules: Arc::default(),
        pairs: Vec::new(),
        notes: Vec::new(),
    };
    let mut all: Vec<(Checked, bool)> = Vec::new();
    for file in files {
        let text = read(file)?;
        let shown = file.display().to_string();
        let (rules, wrong) = compile(&text);
        let list: Vec<String> = wrong.iter().map(|d| d.render(&shown, &text)).collect();
        if wrong.iter().any(|d| d.severity == Severity::Error) {
            return Err(Error::Rules {
                file: file.clone(),
                wrong: list,
            });
        }
        out.notes.extend(list);
        all.extend(rules.rules.into_iter().map(|r| (r, true)));
        out.pairs.extend(rules.pairs);
    }
    for file in SHIPPED {
        let (rules, _) = compile(file.text);
        for rule in rules.rules {
            // A rule of the user's takes the place of a shipped one.
            if all.iter().all(|(r, _)| r.name != rule.name) {
                all.push((rule, file.usual));
            }
        }
    }
    for name in only {
        if all.iter().all(|(r, _)| r.name != *name) {
            let known: Vec<&str> = all.iter().map(|(r, _)| r.name.as_str()).collect();
            let known = known.join(", ");
            return Err(Error::Request(format!(
                "there is no rule `{name}`; there are {known}"
            )));
        }
    }
    let wanted = |(rule, usual): &(Checked, bool)| match only {
        [] => *usual,
        _ => only.contains(&rule.name),
    };
    all.retain(wanted);
    out.rules = Arc::new(all.into_iter().map(|(r, _)| r).collect());
    Ok(out)
}

fn read(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|e| {
        let why = match e.kind() {
            std::io::ErrorKind::InvalidData => "it is no text".to_owned(),
            _ => e.to_string(),
        };
        Error::Request(format!(
            "cannot read the rules in {}: {why}",
            file.display()
        ))
    })
}

#[derive(Clone, Debug, Default)]
pub struct RulesRequest {
    /// A file, or the name of a shipped one; all shipped ones if absent.
    pub file: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
pub struct RulesReport {
    pub files: Vec<RuleFile>,
}

#[derive(Clone, Debug, Serialize)]
pub struct RuleFile {
    pub name: String,
    /// Asked unless others are.
    pub usual: bool,
    pub text: String,
    /// What is wrong with it, with the lines in question.
    pub wrong: Vec<String>,
    pub errors: usize,
    pub rules: Vec<RuleReport>,
    pub allocators: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct RuleReport {
    pub name: String,
    pub about: String,
    pub source: String,
    /// For accesses of each class: `never`, `always`, or `asked`. Empty for other points.
    pub classes: Vec<(String, String)>,
    /// What has to be followed for it.
    pub trackers: Vec<String>,
    /// The condition can only be decided with the guest at hand.
    pub needs_guest: bool,
}

/// What rule files say, and what becomes of it.
pub(crate) fn rules(request: &RulesRequest) -> Result<RulesReport, Error> {
    let files = match &request.file {
        None => SHIPPED
            .iter()
            .map(|s| file(s.name, s.text, s.usual))
            .collect(),
        Some(path) => {
            let shipped = SHIPPED
                .iter()
                .find(|s| Path::new(s.name) == path && !path.exists());
            vec![match shipped {
                Some(s) => file(s.name, s.text, s.usual),
                None => file(&path.display().to_string(), &read(path)?, true),
            }]
        }
    };
    Ok(RulesReport { files })
}

fn file(name: &str, text: &str, usual: bool) -> RuleFile {
    let (rules, wrong) = compile(text);
    RuleFile {
        name: name.to_owned(),
        usual,
        text: text.to_owned(),
        errors: wrong
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .count(),
        wrong: wrong.iter().map(|d| d.render(name, text)).collect(),
        rules: rules.rules.iter().map(describe).collect(),
        allocators: rules
            .pairs
            .iter()
            .map(|p| format!("{} / {}", p.allocate, p.release))
            .collect(),
    }
}

fn describe(rule: &Checked) -> RuleReport {
    let mut classes = Vec::new();
    if rule.is_deref() {
        for (class, name) in Class::ALL {
            let told = match decide(rule, class) {
                Some(true) => "always",
                Some(false) => "never",
                None => "asked",
            };
            // Uninitialised memory is a class of its own, and only for rules that ask about it.
            if rule.asks_written() == (class == Class::Unwritten) {
                classes.push((name.to_owned(), told.to_owned()));
            }
        }
    }
    let mut trackers = vec!["allocations".to_owned()];
    if rule.is_deref() && !rule.asks_written() {
        trackers.push("pointers".to_owned());
        trackers.push(
            if is_quiet(rule) {
                "bounds"
            } else {
                "every access"
            }
            .to_owned(),
        );
    }
    if rule.asks_written() {
        trackers.push("unwritten memory".to_owned());
    }
    for pattern in rule.functions() {
        trackers.push(format!("calls of {}", pattern.text));
    }
    trackers.dedup();
    RuleReport {
        name: rule.name.clone(),
        about: rule.about.clone(),
        source: rule.source.clone(),
        classes,
        trackers,
        needs_guest: rule.asks_memory(),
    }
}
