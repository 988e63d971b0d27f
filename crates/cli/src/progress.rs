//! What is shown while a replay runs (the guest's output, and how far it got), and while many runs
//! are made.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::render::say;
use case::{Audience, ChaosAudience, Stream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter replays show no bar.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) struct Terminal {
    begun: Instant,
    wanted: bool,
    bar: RefCell<Option<ProgressBar>>,
}

impl Terminal {
    /// `wanted`: a bar may be shown if standard error is a terminal.
    pub(crate) fn new(wanted: bool) -> Self {
        Terminal {
            begun: Instant::now(),
            wanted: wanted && std::io::stderr().is_terminal(),
            bar: RefCell::default(),
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = self.bar.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }
}

impl Audience for Terminal {
    fn output(&self, stream: Stream, bytes: &[u8]) {
        let write = || {
            // A reader that went away is no concern of the guest's.
            let _ = match stream {
                Stream::Output => {
                    let mut out = std::io::stdout().lock();
                    out.write_all(bytes).and_then(|()| out.flush())
                }
                Stream::Error => std::io::stderr().write_all(bytes),
            };
        };
        match &*self.bar.borrow() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn note(&self, text: &str) {
        self.clear();
        say(&format!("wherefore: note: {text}\n"));
    }

    fn progress(&self, step: u64, of: Option<u64>) {
        let Some(of) = of.filter(|_| self.wanted && self.begun.elapsed() >= PATIENCE) else {
            return;
        };
        let mut bar = self.bar.borrow_mut();
        let bar = bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template(
                "replaying {wide_bar} {percent}% of {human_len} steps, {eta} left",
            )
            .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(Some(of), ProgressDrawTarget::stderr()).with_style(style)
        });
        bar.set_position(step);
    }
}

/// How many runs have been made.
pub(crate) struct Runs {
    wanted: bool,
    bar: RefCell<Option<ProgressBar>>,
}

impl Runs {
    pub(crate) fn new(wanted: bool) -> Self {
        Runs {
            wanted: wanted && std::io::stderr().is_terminal(),
            bar: RefCell::default(),
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = self.bar.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }
}

impl ChaosAudience for Runs {
    fn run_ended(&self, run: u32, of: u32, failed: u32) {
        if !self.wanted {
            return;
        }
        let mut bar = self.bar.borrow_mut();
        let bar = bar.get_or_insert_with(|| {
            let style =
                ProgressStyle::with_template("run {pos} of {len} {wide_bar} {msg}, {eta} left")
                    .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(Some(of.into()), ProgressDrawTarget::stderr())
                .with_style(style)
        });
        bar.set_position(run.into());
        bar.set_message(format!("{failed} failed"));
    }
}
