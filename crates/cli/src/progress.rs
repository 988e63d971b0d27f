//! What is shown while a replay runs (the guest's output, and how far it got), while a slice looks back
//! through it, and while many runs are made.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::render::say;
use case::{Audience, ChaosAudience, Stream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows no bar.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) struct Terminal {
    begun: Instant,
    wanted: bool,
    bar: RefCell<Option<(Work, ProgressBar)>>,
}

/// What takes long.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    Replay,
    Walk,
}

impl Work {
    fn style(self) -> ProgressStyle {
        let style = ProgressStyle::with_template(match self {
            Work::Replay => "replaying {wide_bar} {percent}% of {human_len} steps, {eta} left",
            Work::Walk => "looking back {wide_bar} {percent}% of {human_len} steps, {eta} left",
        });
        style.unwrap_or_else(|_| ProgressStyle::default_bar())
    }
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
        if let Some((_, bar)) = self.bar.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }

    fn show(&self, work: Work, done: u64, of: u64) {
        if !self.wanted || self.begun.elapsed() < PATIENCE {
            return;
        }
        if self.bar.borrow().as_ref().is_some_and(|b| b.0 != work) {
            self.clear();
        }
        let mut bar = self.bar.borrow_mut();
        let (_, bar) = bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(of), ProgressDrawTarget::stderr());
            (work, bar.with_style(work.style()))
        });
        bar.set_position(done);
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
            Some((_, bar)) => bar.suspend(write),
            None => write(),
        }
    }

    fn note(&self, text: &str) {
        self.clear();
        say(&format!("wherefore: note: {text}\n"));
    }

    fn progress(&self, step: u64, of: Option<u64>) {
        if let Some(of) = of {
            self.show(Work::Replay, step, of);
        }
    }

    fn walked(&self, steps: u64, of: u64) {
        self.show(Work::Walk, steps, of);
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
