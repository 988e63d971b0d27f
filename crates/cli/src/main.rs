//! The command line: one file per verb in `cmd`, what they print in `render`.
//!
//! Standard output belongs to the guest (or, for `ls` and `info`, to the listing); everything the
//! tool has to say goes to standard error, so that `wherefore run` can stand in a pipe where the
//! program stood.

#![forbid(unsafe_code)]

mod args;
mod cmd;
mod exit;
mod progress;
mod render;

use clap::Parser;

fn main() {
    let args = args::Args::parse();
    let exit = cmd::dispatch(&args).unwrap_or_else(|e| exit::failure(&e));
    exit.leave()
}
