//! `wherefore locate`.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use case::{
    Case, Compare, Formula, LocateAudience, LocateRequest, Method, Recompute, Reduction, Searching,
    Suite, TestReport,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::print;
use crate::args::{FaultsArg, LocateArgs, MethodArg, RecomputeArg, TiesArg};
use crate::exit::Exit;
use crate::render::{self, Paint, say};

pub(crate) fn locate(case: &Case, args: &LocateArgs, paint: Paint) -> Result<Exit> {
    let Some(suite) = suite(args)? else {
        say(
            "wherefore: nothing to test: give a suite, or --fail, --pass or --pairs with -- PROGRAM\n",
        );
        return Ok(Exit::Status(2));
    };
    let request = request(args, suite);
    let stop = Arc::new(AtomicBool::new(false));
    case::on_interrupt(&stop);
    let terminal = Terminal::new(args.quiet, paint);
    let result = case.locate(&request, &terminal, &stop);
    terminal.clear();
    let report = result?;
    if let Some(file) = &args.html {
        std::fs::write(file, render::page(&report))
            .with_context(|| format!("cannot write the page to {}", file.display()))?;
    }
    let text = if args.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        let paint = if args.output.is_some() {
            Paint::plain()
        } else {
            paint.for_stdout()
        };
        render::located(&report, args.top, paint)
    };
    match &args.output {
        Some(file) => std::fs::write(file, text)
            .with_context(|| format!("cannot write the report to {}", file.display()))?,
        None => print(&text)?,
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(Exit::Signal(2));
    }
    let failed = report.tests.iter().any(|t| !t.passed);
    Ok(Exit::Status(i32::from(failed)))
}

fn suite(args: &LocateArgs) -> Result<Option<Suite>> {
    if let Some(path) = &args.suite {
        return Ok(Some(Suite::read(path)?));
    }
    let Some(program) = &args.program else {
        return Ok(None);
    };
    let program = std::path::absolute(program).unwrap_or_else(|_| program.clone());
    if let Some(pairs) = &args.pairs {
        return Ok(Some(Suite::import(pairs, program)?));
    }
    if args.fail.is_empty() && args.pass.is_empty() {
        return Ok(None);
    }
    let suite = Suite::inline(
        program,
        &args.fail,
        &args.expect,
        &args.pass,
        &Compare::Exact,
    )?;
    Ok(Some(suite))
}

fn request(args: &LocateArgs, suite: Suite) -> LocateRequest {
    let ties = match args.ties {
        TiesArg::Tarantula => Formula::Tarantula,
        TiesArg::Ochiai => Formula::Ochiai,
        TiesArg::Dstar => Formula::Dstar,
        TiesArg::Op2 => Formula::Op2,
    };
    LocateRequest {
        suite,
        method: match args.method {
            MethodArg::Replacement => Method::Replacement(ties),
            MethodArg::Tarantula => Method::Coverage(Formula::Tarantula),
            MethodArg::Ochiai => Method::Coverage(Formula::Ochiai),
            MethodArg::Dstar => Method::Coverage(Formula::Dstar),
            MethodArg::Op2 => Method::Coverage(Formula::Op2),
        },
        reduction: Reduction {
            spanning: !args.full && !args.no_spanning,
            working_set: !args.full && !args.no_working_set,
            one_each: !args.full && !args.no_one_each,
        },
        fork: !args.no_fork,
        workers: args.workers,
        budget: args.budget,
        runs: if args.full || args.faults == FaultsArg::Many {
            0
        } else {
            args.runs
        },
        instances: if args.full { 0 } else { args.instances },
        several: (args.faults == FaultsArg::Many).then_some(match args.recompute {
            RecomputeArg::Minimal => Recompute::Minimal,
            RecomputeArg::Full => Recompute::Full,
            RecomputeArg::Partial => Recompute::Partial,
        }),
        resume: args.resume,
        proceed: args.proceed,
        fixed: args.fixed.clone(),
        truth: args.truth.clone(),
        explain: args.top.max(10),
    }
}

/// Shows the tests, and a bar while the search goes on.
struct Terminal {
    quiet: bool,
    paint: Paint,
    bar: Mutex<Option<ProgressBar>>,
}

impl Terminal {
    fn new(quiet: bool, paint: Paint) -> Self {
        Terminal {
            quiet,
            paint,
            bar: Mutex::new(None),
        }
    }

    fn clear(&self) {
        if let Ok(mut bar) = self.bar.lock()
            && let Some(bar) = bar.take()
        {
            bar.finish_and_clear();
        }
    }

    fn show(&self, template: &str, at: usize, of: usize, message: String) {
        if self.quiet || !std::io::stderr().is_terminal() {
            return;
        }
        let Ok(mut bar) = self.bar.lock() else {
            return;
        };
        let bar = bar.get_or_insert_with(|| {
            ProgressBar::with_draw_target(Some(of as u64), ProgressDrawTarget::stderr())
        });
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_length(of as u64);
        bar.set_position(at as u64);
        bar.set_message(message);
    }
}

impl LocateAudience for Terminal {
    fn tests(&self, tests: &[TestReport]) {
        if !self.quiet {
            say(&render::tests(tests, self.paint));
        }
    }

    fn observing(&self, done: usize, of: usize) {
        self.show(
            "recording the tests {wide_bar} {pos}/{len}",
            done,
            of,
            String::new(),
        );
    }

    fn searching(&self, at: &Searching) {
        let left = (at.trials - at.done.min(at.trials)) as f64 / at.per_second.max(1.0);
        let leading: Vec<String> = at
            .leading
            .iter()
            .map(|(line, n)| format!("{line} ({n})"))
            .collect();
        let message = format!(
            "run {}/{} round {}, {:.0}/s, {left:.0} s left in it; {}",
            at.run + 1,
            at.runs,
            at.round + 1,
            at.per_second,
            leading.join(" ")
        );
        self.show("{bar:20} {msg}", at.done, at.trials, message);
    }
}
