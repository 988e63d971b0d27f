//! Threads: their stacks, a deadlock, a schedule, many runs.

use case::{ChaosReport, DeadlockReport, Ended, ScheduleReport, ThreadLabel, ThreadReport};

use super::paint::Paint;
use super::{clean, crash, number, phrase, position};

/// `thread 2 "worker"`.
pub(super) fn label(t: &ThreadLabel) -> String {
    match &t.name {
        Some(name) => format!("thread {} \"{}\"", t.number, clean(name)),
        None => format!("thread {}", t.number),
    }
}

/// The other threads of a guest, in a word or in full.
pub(super) fn others(threads: &[ThreadReport], all: bool, paint: Paint) -> String {
    if threads.is_empty() {
        return String::new();
    }
    if all {
        return threads.iter().map(|t| thread(t, paint)).collect();
    }
    let (n, s) = (threads.len(), if threads.len() == 1 { "" } else { "s" });
    paint.faint(&format!(
        "{n} other thread{s}; --all-threads shows {}\n",
        if n == 1 { "it" } else { "them" }
    ))
}

fn thread(t: &ThreadReport, paint: Paint) -> String {
    let waits = match &t.waits {
        Some(w) => format!(" waits {}", clean(&w.text)),
        None => " can run".to_owned(),
    };
    let heading = format!("{}{waits}", label(&t.thread));
    match position::stack(&t.stack, &heading, paint) {
        stack if stack.is_empty() => paint.strong(&heading) + "\n",
        stack => stack,
    }
}

pub(crate) fn deadlock(d: &DeadlockReport, paint: Paint) -> String {
    let mut out = format!(
        "\n{} {}\n",
        paint.alarm("wherefore: deadlock:"),
        paint.strong("no thread can run")
    );
    if !d.cycle.is_empty() {
        let mut names: Vec<String> = d.cycle.iter().map(|n| format!("thread {n}")).collect();
        names.push(names[0].clone());
        out += &format!("  {}\n", names.join(" waits for "));
    }
    for t in &d.threads {
        out += &thread(t, paint);
    }
    if d.handlers.is_empty() {
        return out + &crash::further(&d.recording, d.step);
    }
    out + &format!(
        "only a signal that the program handles ({}) could still wake a thread; it goes on waiting\n",
        d.handlers.join(", ")
    )
}

pub(crate) fn schedule(r: &ScheduleReport) -> String {
    let command: Vec<String> = r.command.iter().map(|w| clean(w)).collect();
    let mut out = format!(
        "# {}: {}\n# Give it back with: wherefore run --schedule FILE -- PROGRAM\n",
        r.recording,
        command.join(" ")
    );
    for t in &r.threads {
        let name = t
            .name
            .as_deref()
            .map_or(String::new(), |n| format!(" \"{}\"", clean(n)));
        let from = t.creator.map_or(String::new(), |c| {
            format!(", created by thread {c} at step {}", number(t.began))
        });
        out += &format!("# thread {}{name}{from}\n", t.number);
    }
    for s in &r.switches {
        let line = format!("at step {} thread {}", s.step, s.to.number);
        let mut why = Vec::new();
        if let Some(from) = &s.from {
            let place = s
                .from_place
                .as_deref()
                .map_or(String::new(), |p| format!(" in {}", clean(p)));
            why.push(format!("{} stops{place}", label(from)));
        }
        if let Some(place) = &s.to_place {
            why.push(format!("{} goes on in {}", label(&s.to), clean(place)));
        }
        out += format!("{line:<32} # {}", why.join("; "))
            .trim_end_matches(" #")
            .trim_end();
        out.push('\n');
    }
    out
}

fn how_ended(ended: &Ended, timed_out: bool) -> String {
    match timed_out {
        true => "took too long and was ended".to_owned(),
        false => phrase(ended),
    }
}

pub(crate) fn chaos(r: &ChaosReport, all_threads: bool, paint: Paint) -> String {
    let mut out = String::new();
    if let Some(f) = &r.failure {
        if let Some(c) = &f.report.crash {
            out += &crash::crash(c, all_threads || f.report.timed_out, paint);
        }
        if let Some(d) = &f.report.deadlock {
            out += &deadlock(d, paint);
        }
        let mut how = how_ended(&f.report.ended, f.report.timed_out);
        if f.other_output {
            how += ", with other output than the first run";
        }
        out += &format!(
            "{} run {} failed: {how} (seed {}); kept as {}\n",
            paint.alarm("wherefore:"),
            f.run,
            f.seed,
            f.report.recording
        );
    }
    let s = if r.runs == 1 { "" } else { "s" };
    out += &format!("wherefore: {} run{s}, {} failed", r.runs, r.failed);
    let endings: Vec<String> = r
        .endings
        .iter()
        .map(|e| {
            let output = if e.other_output {
                " with other output"
            } else {
                ""
            };
            let failed = if e.failed { ", failed" } else { "" };
            let how = how_ended(&e.ended, e.timed_out);
            format!("{} x {how}{output}{failed}", e.runs)
        })
        .collect();
    if !endings.is_empty() {
        out += &format!(" ({})", endings.join("; "));
    }
    if r.interrupted {
        out += "; interrupted";
    }
    out + "\n"
}
