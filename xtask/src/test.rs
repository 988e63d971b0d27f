//! `cargo xtask test`: all that must hold before a change lands, in the order of how fast it fails.

use crate::flags::Flags;
use crate::tally::Tally;
use crate::{alarms, determinism, foreign, guests, install, locate, tidy, tool};
use anyhow::Result;

/// Replays per program here; `cargo xtask determinism` does the hundred.
const REPLAYS: u32 = 5;

pub(crate) fn run(args: &[String]) -> Result<bool> {
    let flags = Flags::parse(args, &[])?;
    // Unit tests too need some of them, such as debuggers.
    install::missing_programs();
    let mut tally = Tally::default();
    step(&mut tally, "cargo fmt", &["fmt", "--all", "--check"])?;
    step(
        &mut tally,
        "cargo clippy",
        &[
            "clippy",
            "--quiet",
            "--release",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    )?;
    tally.record("tidy", tidy::complaints());
    unit_tests(&mut tally)?;
    println!("guests");
    guests::suite(&flags, &mut tally)?;
    println!("faults put into guests");
    locate::suite(&mut tally)?;
    println!("foreign programs");
    foreign::suite(&flags, &mut tally)?;
    println!("foreign programs without a fault");
    alarms::suite(&flags, &mut tally)?;
    println!("determinism, {REPLAYS} replays");
    determinism::suite(
        &Flags {
            runs: Some(REPLAYS),
            ..Flags::default()
        },
        &mut tally,
    )?;
    Ok(tally.report())
}

fn step(tally: &mut Tally, name: &str, args: &[&str]) -> Result<()> {
    println!("{name}");
    if tool::cargo().args(args).status()?.success() {
        tally.pass(1);
    } else {
        tally.fail(name, vec!["see above".to_owned()]);
    }
    Ok(())
}

/// Adds up cargo's own counts; a test that is marked as ignored is a skip.
fn unit_tests(tally: &mut Tally) -> Result<()> {
    println!("cargo test");
    let output = tool::cargo()
        .args([
            "test",
            "--workspace",
            "--release",
            "--no-fail-fast",
            "--quiet",
        ])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut failed, mut ignored) = (0, 0);
    for line in text.lines().filter(|line| line.starts_with("test result:")) {
        tally.pass(count(line, "passed"));
        failed += count(line, "failed");
        ignored += count(line, "ignored");
    }
    if !output.status.success() {
        print!("{text}");
        tally.fail(
            "cargo test",
            vec![format!("{failed} tests failed, or did not build")],
        );
    }
    for _ in 0..ignored {
        tally.skip("a unit test", "it is marked as ignored");
    }
    Ok(())
}

/// The number before `word` in cargo's summary line.
fn count(line: &str, word: &str) -> usize {
    let mut before = 0;
    for item in line.split([' ', ';', '.']) {
        if item == word {
            return before;
        }
        if let Ok(number) = item.parse() {
            before = number;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_off_the_summary() {
        let line = "test result: ok. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(
            (
                count(line, "passed"),
                count(line, "failed"),
                count(line, "ignored")
            ),
            (12, 3, 1)
        );
    }
}
