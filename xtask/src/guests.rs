//! `cargo xtask guests`: every guest, at -O0 and -O2, dynamic and static, run in three ways.

use crate::case::{Case, Fill, Plan};
use crate::compile::{self, Variant};
use crate::facts::Facts;
use crate::flags::Flags;
use crate::scene::Scene;
use crate::tally::Tally;
use crate::tool;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn run(args: &[String]) -> Result<bool> {
    let flags = Flags::parse(args, &[])?;
    let mut tally = Tally::default();
    suite(&flags, &mut tally)?;
    Ok(tally.report())
}

pub(crate) fn suite(flags: &Flags, tally: &mut Tally) -> Result<()> {
    let wherefore = tool::wherefore()?;
    let plans = plans(flags)?;
    tally.run(&plans, |case| Scene::new(case, &wherefore)?.check());
    Ok(())
}

fn plans(flags: &Flags) -> Result<Vec<Plan>> {
    let mut plans = Vec::new();
    for source in sources()? {
        for variant in Variant::ALL {
            let name = name(&source, variant);
            if flags.selects(&name) {
                plans.extend(plan(&source, name, variant));
            }
        }
    }
    Ok(plans)
}

fn name(source: &Path, variant: Variant) -> String {
    let source = source
        .strip_prefix("guests")
        .unwrap_or(source)
        .with_extension("");
    format!("{} {}", source.display(), variant.name())
}

/// Every `guests/<topic>/<behaviour>.c` or `.cpp`, in a fixed order.
fn sources() -> Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    for topic in fs::read_dir("guests")? {
        let topic = topic?.path();
        if !topic.is_dir() {
            continue;
        }
        for source in fs::read_dir(topic)? {
            let source = source?.path();
            if source
                .extension()
                .is_some_and(|extension| extension == "c" || extension == "cpp")
            {
                sources.push(source);
            }
        }
    }
    sources.sort();
    Ok(sources)
}

/// `None` where the guest does not come in this variant.
pub(crate) fn plan(source: &Path, name: String, variant: Variant) -> Option<Plan> {
    let facts = match fs::read_to_string(source)
        .map_err(Into::into)
        .and_then(|text| Facts::parse(&text))
    {
        Ok(facts) => facts,
        Err(error) => {
            return Some(Plan::Broken {
                name,
                reason: format!("{error:#}"),
            });
        }
    };
    if facts.dynamic_only && variant.is_static {
        return None;
    }
    if let Some(feature) = facts.needs.iter().find(|feature| !processor_has(feature)) {
        return Some(Plan::Skip {
            name,
            reason: format!("this processor lacks {feature}"),
        });
    }
    Some(match case(source, name.clone(), &facts, variant) {
        Ok(case) => Plan::Run(case),
        Err(error) => Plan::Broken {
            name,
            reason: format!("{error:#}"),
        },
    })
}

fn case(source: &Path, name: String, facts: &Facts, variant: Variant) -> Result<Case> {
    let program = compile::program(source, facts, variant)?;
    let plugins: Vec<PathBuf> = facts
        .plugins
        .iter()
        .map(|plugin| compile::plugin(plugin, variant))
        .collect::<Result<_>>()?;
    let files = facts.files.clone();
    let fill: Fill = Arc::new(move |work| {
        for (name, bytes) in &files {
            fs::write(work.join(name), bytes)?;
        }
        for plugin in &plugins {
            fs::copy(
                plugin,
                work.join(plugin.file_name().context("a plug-in has a name")?),
            )?;
        }
        Ok(())
    });
    Ok(Case {
        name,
        program,
        args: facts.args.clone(),
        env: facts.env.clone(),
        input: facts.input.clone(),
        fill,
        ending: facts.ending,
        hangs: facts.hangs,
        nondeterministic: facts.nondeterministic,
        children: facts.children.clone(),
        limit: Duration::from_secs(60),
    })
}

fn processor_has(feature: &str) -> bool {
    let facts = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = facts
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == feature)
}
