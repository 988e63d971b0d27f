//! The repository's own commands: test it, measure it, keep it tidy.
//!
//! One file per verb. The verbs share the modules below them: a `Case` is a program with its surroundings,
//! `scene` runs it natively, recorded and replayed, and `tally` counts what came out.
#![forbid(unsafe_code)]

mod alarms;
mod bench;
mod case;
mod compile;
mod determinism;
mod facts;
mod flags;
mod foreign;
mod fuzz;
mod gallery;
mod guests;
mod install;
mod locate;
mod process;
mod scene;
mod tally;
mod test;
mod tidy;
mod tool;

use anyhow::{Result, bail};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <verb>

  test                              everything below but gallery, fuzz and bench: what README.md tells you to run
  guests [FILTER]                   guests/: native against recorded against replayed
  foreign [FILTER]                  the same for programs that Debian provides
  determinism [--runs N]            some guests and foreign programs, replayed N times (100)
  alarms [FILTER]                   correct foreign programs, in which no rule of memory may find a fault
  locate [single|many] [--json] [FILTER]
                                    faults put into guests/locate/: how they rank, in tables
  locate short                      the part of that which `test` runs
  gallery [NAME]                    bugs that shipped in other people's programs, downloaded and built
  fuzz TARGET [--seconds N] [INPUT] damaged recordings, rules files and programs, with libFuzzer
  tidy                              layers, file lengths, forbidden words
  bench checkpoints [--json]        what checkpoints cost, and going to any step with them
  bench locate [--json] [FILTER]    replacements per second, time per fault, share of the full search
  bench check [--json] [--runs N] [FILTER]
                                    what looking for faults costs, beside Memcheck and AddressSanitizer
  bench debug [--json] [FILTER]     stops, checkpoints and going back, beside gdb
  bench slice [--json] [FILTER]     slices by the length of the run
  bench trace [--json] [FILTER]     what writing and reading the tape costs, beside lackey and gdb
  bench engine [--json] [--runs N] [FILTER]
                                    CPU and wall time against native and `valgrind --tool=none`
  bench threads [--json] [--runs N] [FILTER]
                                    threads: CPU against native on one core and helgrind

WHEREFORE=path uses that binary instead of building this one.";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool> {
    process::forbid_core_dumps()?;
    std::env::set_current_dir(tool::root())?;
    let mut args = std::env::args().skip(1);
    let verb = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    match verb.as_str() {
        "test" => test::run(&rest),
        "guests" => guests::run(&rest),
        "foreign" => foreign::run(&rest),
        "alarms" => alarms::run(&rest),
        "locate" => locate::run(&rest),
        "determinism" => determinism::run(&rest),
        "fuzz" => fuzz::run(&rest),
        "gallery" => gallery::run(&rest),
        "tidy" => tidy::run(),
        "bench" => bench::run(&rest),
        "" | "help" | "-h" | "--help" => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => bail!("no verb `{verb}`\n\n{USAGE}"),
    }
}
