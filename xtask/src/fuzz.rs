//! `cargo xtask fuzz TARGET`: looks for input that makes the tool panic, with libFuzzer.
//!
//! The targets are in `fuzz/`. Coverage comes from an LLVM pass that the stable compiler has too, so that neither
//! another toolchain nor another tool is needed. What was learnt is kept under `target/`, and so is input that
//! fails, to be run again by naming its file.

use crate::tool;
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;

const TARGETS: [&str; 3] = ["recording", "rules", "image"];

const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table";

pub(crate) fn run(rest: &[String]) -> Result<bool> {
    let mut seconds = 60;
    let (mut target, mut input) = (None, None);
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match (word.as_str(), &target) {
            ("--seconds", _) => {
                seconds = rest
                    .next()
                    .and_then(|n| n.parse::<u32>().ok())
                    .context("--seconds needs a number")?;
            }
            (_, None) => target = Some(word.as_str()),
            _ if input.is_none() => input = Some(word),
            _ => bail!("usage: cargo xtask fuzz TARGET [--seconds N] [INPUT]"),
        }
    }
    let Some(target) = target.filter(|t| TARGETS.contains(t)) else {
        bail!("the targets of fuzz are {}", TARGETS.join(", "));
    };
    let built = tool::target().join("fuzz");
    // Without --target the flags would go to build scripts too, which have no libFuzzer to link.
    let status = tool::cargo()
        .args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--target", "x86_64-unknown-linux-gnu", "--bin", target])
        .env("CARGO_TARGET_DIR", &built)
        .env("RUSTFLAGS", COVERAGE)
        .status()
        .context("cargo builds the target")?;
    if !status.success() {
        return Ok(false);
    }
    let corpus = built.join("corpus").join(target);
    fs::create_dir_all(&corpus)?;
    let mut fuzz = Command::new(built.join("x86_64-unknown-linux-gnu/release").join(target));
    match input {
        Some(input) => fuzz.arg(input),
        None => fuzz
            .arg(&corpus)
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", built.display()))
            // Long input from the start: a change takes more than the first few bytes.
            .args(["-len_control=0", "-timeout=60"]),
    };
    Ok(fuzz.status().context("the target runs")?.success())
}
