//! What was typed after a verb: switches, settings with a number, and words that select.

use anyhow::{Context, Result, bail};

#[derive(Debug, Default)]
pub(crate) struct Flags {
    pub(crate) json: bool,
    /// Only ours is measured, not what others take for the same.
    pub(crate) alone: bool,
    pub(crate) runs: Option<u32>,
    pub(crate) words: Vec<String>,
}

impl Flags {
    pub(crate) fn parse(args: &[String], allowed: &[&str]) -> Result<Flags> {
        let mut flags = Flags::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg.starts_with("--") && !allowed.contains(&arg.as_str()) {
                bail!("no option `{arg}` here; there is {}", allowed.join(", "));
            }
            match arg.as_str() {
                "--json" => flags.json = true,
                "--alone" => flags.alone = true,
                "--runs" => {
                    let count = args.next().context("--runs needs a number")?;
                    flags.runs = Some(count.parse().context("--runs needs a number")?);
                }
                word => flags.words.push(word.to_owned()),
            }
        }
        Ok(flags)
    }

    /// One of several that were named, or all if none was: a workload is named by a part of its name.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    /// A case is selected when its name contains every word given; `-O2` is such a word.
    pub(crate) fn selects(&self, name: &str) -> bool {
        self.words.iter().all(|word| name.contains(word.as_str()))
    }
}
