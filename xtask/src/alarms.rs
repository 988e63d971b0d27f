//! `cargo xtask alarms`: correct programs of others under all rules of memory. Whatever is said there is wrong.
//!
//! Leaks are left out: these programs do have some.

use crate::case::Plan;
use crate::flags::Flags;
use crate::scene::Scene;
use crate::tally::Tally;
use crate::{foreign, install, tool};
use anyhow::Result;

const FOREIGN: [&str; 39] = [
    "ls -lR",
    "sort by column",
    "awk sums",
    "sed script",
    "grep -r",
    "tar create",
    "diff -u",
    "find",
    "wc",
    "bc",
    "jq",
    "gzip",
    "bzip2",
    "perl",
    "lua",
    "luajit",
    "bash builtins",
    "sqlite3",
    "git log",
    "make",
    "gcc",
    "busybox sort",
    "python json",
    "python unittest",
    "python threading",
    "sort --parallel",
    "pigz",
    "zstd -T4",
    "cc1",
    "as",
    "objdump",
    "readelf",
    "bison",
    "lua features",
    "perl features",
    "php",
    "python doctest",
    "sqlite3 features",
    "tclsh",
];

pub(crate) fn run(args: &[String]) -> Result<bool> {
    let flags = Flags::parse(args, &[])?;
    let mut tally = Tally::default();
    suite(&flags, &mut tally)?;
    Ok(tally.report())
}

pub(crate) fn suite(flags: &Flags, tally: &mut Tally) -> Result<()> {
    install::missing_programs();
    let wherefore = tool::wherefore()?;
    let plans: Vec<Plan> = foreign::named(&FOREIGN, flags);
    tally.run(&plans, |case| Scene::new(case, &wherefore)?.alarms());
    Ok(())
}
