//! The report of `locate`.

use std::fmt::Write;

use case::{Evidence, LocateReport, RankedLine, SearchReport, TestReport, When};

use super::{Paint, WIDTH, clean, cut, number};

/// Failing tests that are listed one by one.
const LISTED: usize = 12;

/// Which tests pass and which fail.
pub(crate) fn tests(tests: &[TestReport], paint: Paint) -> String {
    let failed: Vec<&TestReport> = tests.iter().filter(|t| !t.passed).collect();
    let mut out = format!(
        "wherefore: {} of {} tests fail\n",
        failed.len(),
        tests.len()
    );
    for t in failed.iter().take(LISTED) {
        let why = t.why.as_deref().unwrap_or_default();
        let line = format!("  {:<12} {}", clean(&t.name), clean(why));
        let _ = writeln!(out, "{}", paint.faint(&cut(&line, WIDTH)));
    }
    if failed.len() > LISTED {
        let _ = writeln!(out, "  and {} more", failed.len() - LISTED);
    }
    if failed.len() == tests.len() {
        // Most often not the program's fault.
        out += "  none passes; each runs in a folder of its own, with the `files` that the suite names\n";
    }
    out
}

pub(crate) fn located(report: &LocateReport, top: usize, paint: Paint) -> String {
    let mut out = String::new();
    if report.tests.iter().all(|t| t.passed) {
        return "all tests pass\n".to_owned();
    }
    let _ = writeln!(
        out,
        "{} lines that failing tests execute, by {}",
        number(report.statements as u64),
        report.method
    );
    let searched = report.search.as_ref().map(|s| s.searched.len());
    let _ = writeln!(
        out,
        "\n{:>5} {:>7} {:>9}  line",
        "rank",
        if searched.is_some() { "mends" } else { "score" },
        "tarantula"
    );
    for r in report.ranking.iter().take(top) {
        row(&mut out, r, searched, paint);
    }
    if report.ranking.len() > top {
        let _ = writeln!(
            out,
            "      and {} more; --top N shows them",
            report.ranking.len() - top
        );
    }
    let shown = report
        .ranking
        .iter()
        .take(top)
        .filter(|r| !r.evidence.is_empty());
    for (i, r) in shown.enumerate() {
        if i == 0 {
            out.push_str("\nevidence\n");
        }
        if i >= 5 {
            break;
        }
        evidence(&mut out, r, searched.unwrap_or(0), paint);
    }
    if let Some(search) = &report.search {
        figures(&mut out, search);
    }
    for t in &report.truth {
        let place = |rank: Option<usize>, score: f64| match rank {
            Some(rank) => format!("rank {rank}, score {score:.1} %"),
            None => "not executed by a failing test".to_owned(),
        };
        let _ = writeln!(
            out,
            "{}:{}: {} (tarantula: {}; ochiai: {})",
            clean(&t.file),
            t.line,
            place(t.rank, t.score),
            place(t.tarantula_rank, t.tarantula_score),
            place(t.ochiai_rank, t.ochiai_score),
        );
    }
    for note in &report.notes {
        let _ = writeln!(out, "note: {}", clean(note));
    }
    out
}

fn row(out: &mut String, r: &RankedLine, searched: Option<usize>, paint: Paint) {
    let score = match searched {
        Some(n) => format!("{}/{n}", r.suspiciousness),
        None => format!("{:.3}", r.coverage),
    };
    let name = r.line.file.file_name().unwrap_or(r.line.file.as_os_str());
    let place = format!("{}:{}", clean(&name.to_string_lossy()), r.line.line);
    let text = clean(r.line.text.as_deref().unwrap_or_default());
    let line = format!(
        "{:>5} {score:>7} {:>9}  {place:<18} {text}",
        r.rank, r.tarantula_rank
    );
    let line = cut(&line, WIDTH);
    let _ = writeln!(
        out,
        "{}",
        if r.suspiciousness > 0 {
            paint.strong(&line)
        } else {
            line
        }
    );
}

fn evidence(out: &mut String, r: &RankedLine, searched: usize, paint: Paint) {
    let name = r.line.file.file_name().unwrap_or(r.line.file.as_os_str());
    let place = format!("{}:{}", clean(&name.to_string_lossy()), r.line.line);
    for e in r.evidence.iter().take(1) {
        let _ = writeln!(
            out,
            "  at {place}, {} time in {}: {}",
            ordinal(e.nth),
            clean(&e.test),
            what(e)
        );
        let mended = r.suspiciousness;
        let _ = writeln!(
            out,
            "    a change here mends {mended} of {searched} failing tests"
        );
        let _ = writeln!(out, "    {}", paint.faint(&shell(&e.command)));
        let _ = writeln!(out, "    {}", paint.faint(&again(&e.run)));
    }
}

/// What is changed, in words.
pub(crate) fn what(e: &Evidence) -> String {
    if e.is_call {
        return "leaving this call out mends the output".to_owned();
    }
    if e.values.is_empty() {
        return "taking the other branch here mends the output".to_owned();
    }
    let side = match e.when {
        When::Before => "was",
        When::After => "became",
    };
    let one = |v: &case::ValueChange| {
        let name = if v.is_variable {
            format!("`{}`", clean(&v.name))
        } else {
            format!("{} in `{}`", v.name, clean(&e.instruction))
        };
        format!("{name} {side} {}; with {}", v.was, v.with)
    };
    let list: Vec<String> = e.values.iter().map(one).collect();
    list.join(", ") + " the output is right"
}

/// A line for the shell that runs the program with the change.
pub(crate) fn again(run: &case::Rerun) -> String {
    let mut out = String::new();
    let word = |w: &str| shell(&[w.to_owned()]);
    if let Some(folder) = &run.folder {
        let _ = write!(out, "cd {} && ", word(&folder.to_string_lossy()));
    }
    for (name, value) in &run.env {
        let _ = write!(out, "{name}={} ", word(value));
    }
    out += &shell(&run.command);
    if let Some(stdin) = &run.stdin {
        let _ = write!(out, " < {}", word(&stdin.to_string_lossy()));
    }
    out
}

pub(crate) fn ordinal(n: u32) -> String {
    let ending = match (n % 100, n % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

/// As it can be pasted into a shell.
pub(crate) fn shell(command: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:+,@%".contains(c);
    let quote = |w: &String| {
        if !w.is_empty() && w.chars().all(plain) {
            w.clone()
        } else {
            format!("'{}'", w.replace('\'', "'\\''"))
        }
    };
    command.iter().map(quote).collect::<Vec<_>>().join(" ")
}

fn figures(out: &mut String, s: &SearchReport) {
    let t = &s.tally;
    let share = 100.0 * t.tried as f64 / (s.full.max(1)) as f64;
    let _ = writeln!(
        out,
        "\n{} replacements in {} failing runs, {:.1} % of the full search, in {:.1} s ({:.0}/s on {} CPUs){}",
        number(t.tried),
        s.searched.len(),
        share.min(100.0),
        s.seconds,
        s.per_second,
        s.workers,
        if s.complete {
            ""
        } else {
            "; not finished: --resume goes on"
        },
    );
    let _ = writeln!(
        out,
        "{} mended it, {} did not, {} crashed, {} ran too long, {} printed too much, {} could not be tried",
        number(t.mended),
        number(t.wrong),
        number(t.crashed),
        number(t.steps + t.time),
        number(t.output),
        number(t.failed),
    );
    let p = &s.pointers;
    let _ = writeln!(
        out,
        "{} of {} values are addresses and were left alone ({} by type, {} by use, {} by origin)",
        number(p.all as u64),
        number(s.operands as u64),
        number(p.by_type as u64),
        number(p.by_use as u64),
        number(p.by_origin as u64),
    );
    if !s.reused.is_empty() {
        let _ = writeln!(
            out,
            "{} runs did not have to be searched again",
            s.reused.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let command = ["wherefore", "--set", "0x1#3:[0x2]:4=5"].map(str::to_owned);
        assert_eq!(shell(&command), "wherefore --set '0x1#3:[0x2]:4=5'");
    }

    #[test]
    fn ordinals() {
        let got: Vec<String> = [1, 2, 3, 4, 11, 12, 21, 112].map(ordinal).to_vec();
        assert_eq!(
            got,
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "21st", "112th"]
        );
    }
}
