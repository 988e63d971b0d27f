//! Listings of recordings.

use std::time::{SystemTime, UNIX_EPOCH};

use case::{Ended, InfoReport, ListReport, Meta, RecordingInfo};

use super::stats::seconds;
use super::{WIDTH, bytes, clean, cut, number, phrase};

pub(crate) fn list(report: &ListReport) -> String {
    let mut rows = vec![["NAME", "WHEN", "ENDED", "STEPS", "SIZE", "COMMAND"].map(str::to_owned)];
    rows.extend(report.recordings.iter().map(row));
    let widths: Vec<usize> = (0..5)
        .map(|i| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for r in rows {
        let mut line = String::new();
        for (i, cell) in r.iter().enumerate() {
            let width = widths.get(i).copied().unwrap_or(0);
            // Numbers stand at the right.
            if i == 3 || i == 4 {
                line += &format!("{cell:>width$}  ");
            } else {
                line += &format!("{cell:<width$}  ");
            }
        }
        out += &cut(
            line.trim_end(),
            WIDTH.max(widths.iter().sum::<usize>() + 40),
        );
        out.push('\n');
    }
    out
}

fn row(r: &RecordingInfo) -> [String; 6] {
    let name = if r.latest {
        format!("{} *", r.name)
    } else {
        r.name.to_string()
    };
    let size = bytes(r.size);
    match &r.meta {
        None => [
            name,
            "?".into(),
            "damaged".into(),
            "?".into(),
            size,
            r.damage.as_deref().map(clean).unwrap_or_default(),
        ],
        Some(m) => [
            name,
            ago(m.started / 1000),
            phrase(&m.ended),
            m.figures.as_ref().map_or("?".into(), |f| number(f.steps)),
            size,
            command(m),
        ],
    }
}

fn command(m: &Meta) -> String {
    let words: Vec<String> = m.args.iter().map(|a| quoted(a)).collect();
    words.join(" ")
}

/// As it could be typed into a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", clean(word).replace('\'', r"'\''"))
    }
}

fn ago(then: u64) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let (count, unit) = match now.saturating_sub(then) {
        0..=1 => return "just now".to_owned(),
        s @ 2..=119 => (s, "s"),
        s @ 120..=7199 => (s / 60, "min"),
        s @ 7200..=172_799 => (s / 3600, "h"),
        s => (s / 86400, "days"),
    };
    format!("{count} {unit} ago")
}

pub(crate) fn info(r: &InfoReport) -> String {
    let m = &r.meta;
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        out += format!("{name:<14} {value}").trim_end();
        out.push('\n');
    };
    line(
        "name",
        if r.latest {
            format!("{} (the latest)", r.name)
        } else {
            r.name.to_string()
        },
    );
    line("folder", clean(&r.folder));
    line("program", clean(&m.program));
    line("command", command(m));
    line("directory", clean(&m.cwd));
    line("environment", format!("{} variables", m.env.len()));
    line(
        "recorded",
        format!(
            "{}, {}, by wherefore {}",
            date(m.started / 1000),
            ago(m.started / 1000),
            clean(&m.wherefore)
        ),
    );
    line(
        "ended",
        match &m.ended {
            Ended::Failed { why } => format!("failed: {}", clean(why)),
            Ended::Aborted => "aborted: wherefore itself was killed".to_owned(),
            Ended::Exited { status } => format!("exited with status {status}"),
            other => phrase(other),
        },
    );
    line("size", bytes(r.size));
    if let Some(f) = &m.figures {
        line("steps", number(f.steps));
        line(
            "system calls",
            format!(
                "{}, of them {} stopped",
                number(f.syscalls),
                number(f.syscall_stops)
            ),
        );
        line("signals", number(f.signals));
        for (i, t) in m.threads.iter().enumerate().filter(|_| m.threads.len() > 1) {
            line(if i == 0 { "threads" } else { "" }, thread(t));
        }
        if m.seed != 0 {
            line("seed", m.seed.to_string());
        }
        line("translated", format!("{} blocks", number(f.blocks)));
        line("events", bytes(f.event_bytes));
    }
    if let Some(c) = &m.cost {
        line(
            "time",
            format!(
                "{} wall, guest {}, tool {}",
                seconds(c.wall),
                seconds(c.guest_user + c.guest_system),
                seconds(c.tool_user + c.tool_system)
            ),
        );
    }
    for (i, note) in m.notes.iter().enumerate() {
        line(if i == 0 { "notes" } else { "" }, clean(note));
    }
    for (i, f) in r.files.iter().enumerate() {
        let shared = if f.shared {
            ", shared with other recordings"
        } else {
            ""
        };
        line(
            if i == 0 { "files" } else { "" },
            format!("{} ({}{shared})", clean(&f.name), bytes(f.size)),
        );
    }
    out
}

fn thread(t: &case::ThreadInfo) -> String {
    let name = t
        .name
        .as_deref()
        .map_or(String::new(), |n| format!(" \"{}\"", clean(n)));
    let from = t.creator.map_or(String::new(), |c| {
        format!(", created by {c} at step {}", number(t.began))
    });
    let to = t
        .ended
        .map_or(String::new(), |e| format!(", ended at {}", number(e)));
    let s = if t.turns == 1 { "" } else { "s" };
    format!(
        "{}{name}: {} steps in {} turn{s}{from}{to}",
        t.number,
        number(t.steps),
        number(t.turns)
    )
}

/// In UTC: the time zone of the reader may not be that of the recording.
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Years begin in March, so that the leap day is the last of them.
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!(
        "{year}-{month:02}-{date:02} {:02}:{:02}:{:02} UTC",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59:59 UTC");
    }

    #[test]
    fn words_are_quoted_as_a_shell_needs_it() {
        for (word, shown) in [
            ("a-b", "a-b"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
