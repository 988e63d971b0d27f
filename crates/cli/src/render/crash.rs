//! The crash report.

use std::time::Duration;

use case::{CrashReport, RecordingName};

use super::paint::Paint;
use super::{number, position, threads};

pub(crate) fn crash(c: &CrashReport, all_threads: bool, paint: Paint) -> String {
    let p = &c.position;
    let mut out = format!(
        "\n{} {}\n",
        paint.alarm(&format!("wherefore: {}:", c.signal.name)),
        paint.strong(&c.signal.meaning)
    );
    if let Some(cause) = &c.cause {
        out += &format!("  {cause}\n");
    }
    // The kernel pretends that the writer sent SIGPIPE to itself.
    if c.cause.is_none()
        && c.signal.name != "SIGPIPE"
        && let Some((name, meaning)) = &c.code
    {
        out += &match c.sent {
            Some(sent) => format!("  {meaning} (process {})\n", sent.by_pid),
            None => format!("  {meaning} ({name})\n"),
        };
    }
    if !c.is_fault {
        // Somebody asked the program to end; a long report would be noise.
        if let Some(frame) = p.stack.frames.first() {
            let place = position::whereabouts(frame);
            let thread = p
                .thread
                .as_ref()
                .map_or(String::new(), |t| format!(" ({})", threads::label(t)));
            out += &format!("  {} {place}{thread}\n", paint.rule("-->"));
        }
        return out + &further(&c.recording, p.step);
    }
    out += &position::source_place(p, paint);
    // Where the kernel was asked to send a signal tells nothing; a failed instruction does.
    if c.sent.is_none() {
        out += &position::instruction(p);
    }
    if let Some(e) = &p.excerpt
        && e.frame > 0
        && c.sent.is_none()
    {
        out += &format!(
            "  died in      {}\n",
            position::whereabouts(&p.stack.frames[0])
        );
    }
    out += &position::stack(&p.stack, &position::heading("backtrace", p), paint);
    out += &threads::others(&p.threads, all_threads, paint);
    out + &further(&c.recording, p.step)
}

pub(super) fn further(recording: &str, step: u64) -> String {
    let mut out = format!(
        "recorded as {recording}, step {}; to look further:\n",
        number(step)
    );
    for (command, what) in [
        (format!("slice {recording}"), "what led to this"),
        (format!("debug {recording}"), "gdb, forwards and backwards"),
        (
            format!("replay {recording} --to {step}"),
            "this moment again",
        ),
    ] {
        out += &format!("  wherefore {command:<32} {what}\n");
    }
    out
}

/// The guest was killed in a way that leaves nothing to look at.
pub(crate) fn timed_out(after: Duration, paint: Paint) -> String {
    format!(
        "{} the program took longer than {} s and was ended\n",
        paint.alarm("wherefore: time limit:"),
        after.as_secs_f64()
    )
}

pub(crate) fn killed(signal: i32, name: &RecordingName, paint: Paint) -> String {
    format!(
        "{} the program was killed from outside; recorded as {name}\n",
        paint.alarm(&format!("wherefore: {}:", case::signal_name(signal)))
    )
}
