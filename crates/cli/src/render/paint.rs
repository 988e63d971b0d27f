//! Colours, if any.

use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    pub(crate) fn for_stderr(never: bool) -> Self {
        let unwanted = never
            || std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        Paint {
            on: !unwanted && std::io::stderr().is_terminal(),
        }
    }

    pub(crate) fn plain() -> Self {
        Paint { on: false }
    }

    /// For standard output, where the choice was made for standard error.
    pub(crate) fn for_stdout(self) -> Self {
        Paint {
            on: self.on && std::io::stdout().is_terminal(),
        }
    }

    fn with(self, style: Style, text: &str) -> String {
        if self.on {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn alarm(self, text: &str) -> String {
        self.with(AnsiColor::Red.on_default().bold(), text)
    }

    pub(crate) fn strong(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    /// Line numbers and rules.
    pub(crate) fn rule(self, text: &str) -> String {
        self.with(AnsiColor::Blue.on_default().bold(), text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }
}
