//! Reports as text for people. At most 100 columns, colours only on a terminal.

mod check;
mod crash;
mod html;
mod list;
mod locate;
mod page;
mod paint;
mod position;
mod slice;
mod stats;
mod threads;
mod value;

use std::io::Write;

pub(crate) use check::{check, check_stats, explain, rules};
pub(crate) use crash::{crash, killed, timed_out};
pub(crate) use html::page;
pub(crate) use list::{info, list};
pub(crate) use locate::{located, tests};
pub(crate) use page::slice_page;
pub(crate) use paint::Paint;
pub(crate) use position::position;
pub(crate) use slice::{edge, instance, place, slice, slice_stats};
pub(crate) use stats::stats;
pub(crate) use threads::{chaos, deadlock, schedule};
pub(crate) use value::{history, source, value, values};

use case::{Ended, RecordingName};

pub(crate) const WIDTH: usize = 100;

/// Prints on standard error. If that is gone, there is nobody to tell.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// How a recording ended, as a phrase.
pub(crate) fn phrase(ended: &Ended) -> String {
    match ended {
        Ended::Running { pid, .. } => format!("running (pid {pid})"),
        Ended::Exited { status } => format!("exit {status}"),
        Ended::Killed { signal } => case::signal_name(*signal),
        Ended::Deadlocked => "deadlock".to_owned(),
        Ended::Failed { .. } => "failed".to_owned(),
        Ended::Aborted => "aborted".to_owned(),
    }
}

pub(crate) fn ended(name: &RecordingName, ended: &Ended) -> String {
    let how = match ended {
        Ended::Exited { status } => format!("exited with status {status}"),
        Ended::Killed { signal } => format!("died of {}", case::signal_name(*signal)),
        Ended::Deadlocked => "was ended in a deadlock".to_owned(),
        other => phrase(other),
    };
    format!("wherefore: {name}: the program {how}\n")
}

/// What became of a run with changes.
pub(crate) fn tried(r: &case::TryReport) -> String {
    let how = |e: &Ended| match e {
        Ended::Exited { status } => format!("exits with status {status}"),
        Ended::Killed { signal } => format!("dies of {}", case::signal_name(*signal)),
        Ended::Deadlocked => "ends in a deadlock".to_owned(),
        other => phrase(other),
    };
    let output = match (r.as_expected, r.output_changed) {
        (Some(true), _) => "its output is as expected",
        (Some(false), true) => "its output is another, but not the expected one",
        (_, true) => "its output is another",
        (_, false) => "its output is the same",
    };
    let end = match r.status_changed {
        true => format!("it {}, not as before: it {}", how(&r.after), how(&r.before)),
        false => format!("it {} as before", how(&r.after)),
    };
    let failure = match (r.failure_gone, r.failure_new) {
        (true, _) => "; the failure is gone",
        (_, true) => "; that is a new failure",
        _ => "",
    };
    let mut out = format!(
        "wherefore: {}: with {}, {output}; {end}{failure}\n",
        r.recording,
        r.edits.join(", ")
    );
    if let Some(left) = &r.left {
        out.push_str(&format!("wherefore: it left the recording at {left}\n"));
    }
    out
}

pub(crate) fn interrupted(step: u64, name: &RecordingName) -> String {
    format!(
        "wherefore: interrupted at step {} of {name}\n",
        number(step)
    )
}

/// With commas between the thousands.
pub(crate) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Text of foreign origin, made harmless for a terminal: tabs widened, control characters shown.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\t' => {
                let width = 8 - out.chars().count() % 8;
                out.extend(std::iter::repeat_n(' ', width));
            }
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// At most `width` characters, with an ellipsis if some are missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(width.saturating_sub(1)).collect();
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1234567, "1,234,567"),
        ] {
            assert_eq!(number(n), text);
        }
    }

    #[test]
    fn sizes_are_short() {
        for (n, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (3 << 20, "3.0 MiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn foreign_text_is_harmless() {
        assert_eq!(clean("a\tb\x1b[2J"), "a       b\u{fffd}[2J");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
