//! Faults that rules found, and rule files.

use std::fmt::Write;

use case::{
    AbstractEvent, BlockReport, Chain, CheckFigures, CheckReport, EventKind, Fault, FrameList,
    LeakedBlocks, RulesReport, Site, Unfinished,
};

use super::position::{excerpt, stack, whereabouts};
use super::{Paint, clean, number, place};

pub(crate) fn check(report: &CheckReport, paint: Paint) -> String {
    let mut out = String::new();
    for note in &report.notes {
        // What is said of a rule file is a text of several lines, with the file in it.
        match note.ends_with('\n') {
            true => out += note,
            false => {
                let _ = writeln!(out, "wherefore: note: {note}");
            }
        }
    }
    for event in &report.events {
        abstract_event(&mut out, event);
    }
    for fault in &report.faults {
        one(&mut out, fault, report, paint);
        out.push('\n');
    }
    if let Some(u) = &report.unfinished {
        unfinished(&mut out, u, report);
    }
    if let Some(first) = report.faults.first() {
        let _ = writeln!(
            out,
            "to look further: wherefore debug {} --to {}\n",
            report.recording, first.step
        );
    }
    if report.faults.is_empty() {
        let _ = writeln!(
            out,
            "wherefore: {}: {} rules found no fault in {} steps",
            report.recording,
            report.rules.len(),
            number(report.figures.steps)
        );
        match &report.crash {
            Some(crash) => out += &super::crash(crash, false, paint),
            None if matches!(report.ended, case::Ended::Exited { .. }) => {}
            None => out += &super::ended(&report.recording, &report.ended),
        }
    }
    for fault in &report.faults {
        let _ = writeln!(out, "SUMMARY: wherefore: {} {}", fault.rule, summary(fault));
    }
    out
}

/// Why there is not more in it.
fn unfinished(out: &mut String, u: &Unfinished, report: &CheckReport) {
    let _ = writeln!(
        out,
        "wherefore: note: this report is not complete: {}",
        u.why
    );
    let briefly = report.faults.iter().filter(|f| f.brief).count();
    if briefly > 0 {
        let _ = writeln!(out, "  faults told in brief: {briefly}");
    }
    if u.undecided > 0 {
        let _ = writeln!(out, "  places that may be faults: {}", u.undecided);
    }
    if u.interrupted {
        let _ = writeln!(
            out,
            "  all of it: wherefore check --all {}",
            report.recording
        );
    }
    out.push('\n');
}

fn abstract_event(out: &mut String, e: &AbstractEvent) {
    let what = match &e.what {
        EventKind::Malloc {
            block,
            size,
            begin,
            by,
        } => format!("malloc  block {block}, {size} bytes at {begin:#x}, by {by}"),
        EventKind::Free { block, by } => format!("free    block {block}, by {by}"),
        EventKind::Read { block, index, size } => {
            format!("read    block {block} at {index}, {size} bytes")
        }
        EventKind::Write { block, index, size } => {
            format!("write   block {block} at {index}, {size} bytes")
        }
        EventKind::Call { function, .. } => format!("call    {function}"),
        EventKind::Ret { function, value } => format!("ret     {function}: {value:#x}"),
    };
    let place = e.place.as_ref().map(|p| format!("  {p}"));
    let _ = writeln!(
        out,
        "{:>12}  {what}{}",
        number(e.step),
        place.unwrap_or_default()
    );
}

/// Where, in the user's own terms.
fn summary(f: &Fault) -> String {
    let site = f.leaks.first().map_or(&f.at, |l| &l.allocated);
    let frames = &site.stack.frames;
    let users = frames.iter().find(|f| f.is_users());
    let own = users.or(frames.iter().find(|f| f.own));
    match own
        .or(frames.iter().find(|f| !f.is_systems()))
        .or(frames.first())
    {
        Some(frame) => whereabouts(frame),
        None => format!("at step {}", f.step),
    }
}

fn one(out: &mut String, f: &Fault, report: &CheckReport, paint: Paint) {
    let _ = writeln!(
        out,
        "{}: {}",
        paint.alarm(&f.class),
        paint.strong(&clean(&f.message))
    );
    let _ = writeln!(
        out,
        "  rule {}, at step {} of {}; nothing of it has happened there yet",
        f.rule,
        number(f.step),
        report.recording
    );
    if f.leaks.is_empty() {
        site(out, &f.at, "backtrace", paint);
    }
    if let Some(b) = &f.block {
        block(out, b, paint);
    }
    for l in &f.leaks {
        leak(out, l, paint);
    }
    let further = f.further_leaks;
    if further.blocks > 0 {
        let _ = writeln!(
            out,
            "\nand {} bytes in {} blocks more, of the same sizes; it was not looked up where they were allocated",
            number(further.bytes),
            number(further.blocks)
        );
    }
    for e in &f.events {
        let title = format!("{} at step {}", clean(&e.what), number(e.at.step));
        out.push('\n');
        brief(out, &e.at.stack, &title, paint);
    }
    for c in &f.chains {
        chain(out, c, paint);
    }
}

fn site(out: &mut String, s: &Site, title: &str, paint: Paint) {
    if let Some(e) = &s.excerpt {
        *out += &excerpt(e, &s.stack.frames[e.frame], paint);
    }
    *out += &stack(&s.stack, title, paint);
}

fn block(out: &mut String, b: &BlockReport, paint: Paint) {
    let what = match &b.variable {
        Some(name) => format!("the {} variable {}", b.by, clean(name)),
        None => "a block".to_owned(),
    };
    let subject = match b.unwritten {
        true => "what was never written is",
        false => "the address is",
    };
    let _ = writeln!(
        out,
        "\n{} {} {what} of {} byte{} [{:#x}, {:#x}){}",
        paint.strong(subject),
        b.relation,
        b.size,
        if b.size == 1 { "" } else { "s" },
        b.begin,
        b.begin + b.size,
        match b.beyond {
            0 => String::new(),
            1 => "; the last byte is past its end".to_owned(),
            n => format!("; the last {} bytes are past its end", number(n)),
        }
    );
    if let Some(s) = &b.allocated {
        let step = number(s.step);
        let title = match &b.variable {
            Some(_) => format!("pointed to at step {step}"),
            None => format!("allocated by {} at step {step}", b.by),
        };
        brief(out, &s.stack, &title, paint);
    }
    if let (Some(by), Some(freed)) = (&b.freed_by, &b.freed) {
        let verb = if b.variable.is_some() {
            "ended"
        } else {
            "freed"
        };
        let title = format!("{verb} by {by} at step {}", number(freed.step));
        brief(out, &freed.stack, &title, paint);
    }
}

fn leak(out: &mut String, l: &LeakedBlocks, paint: Paint) {
    let s = if l.blocks == 1 { "" } else { "s" };
    let title = format!(
        "{} byte{} in {} block{s}, allocated by {}",
        l.bytes,
        if l.bytes == 1 { "" } else { "s" },
        l.blocks,
        l.by
    );
    brief(out, &l.allocated.stack, &title, paint);
}

fn brief(out: &mut String, list: &FrameList, title: &str, paint: Paint) {
    if list.frames.is_empty() {
        let _ = writeln!(out, "{}", paint.strong(title));
    }
    *out += &stack(list, title, paint);
}

fn chain(out: &mut String, c: &Chain, paint: Paint) {
    let s = if c.instructions == 1 { "" } else { "s" };
    let _ = writeln!(
        out,
        "\n{} of {}: {} instruction{s}",
        paint.strong("value propagation chain"),
        c.name,
        c.instructions
    );
    let _ = writeln!(out, "  {}", c.origin);
    let middle = c.hops.len() / 2;
    for (i, h) in c.hops.iter().enumerate() {
        if c.left_out > 0 && i == middle {
            let _ = writeln!(out, "  ... {} more", c.left_out);
        }
        let text = clean(h.text.as_deref().unwrap_or(""));
        let target = match &h.variable {
            Some(v) => format!("{} = {:#x}", clean(v), h.value),
            None => format!("{:#x}", h.value),
        };
        let _ = writeln!(
            out,
            "  -> {:<18} {text:<44} {}",
            place(&h.place),
            paint.faint(&target)
        );
    }
}

pub(crate) fn check_stats(f: &CheckFigures) -> String {
    let d = &f.detours;
    format!(
        "watched {} steps and {} allocations in {:.3} s; reported in {:.3} s\n\
         not in machine code: {} steps; records: {} seldom met, {} with calls, {} odd, {} that read something \
         unwritten, {} left in their middle, {} with returns\n",
        number(f.steps),
        number(f.blocks),
        f.watch_seconds,
        f.report_seconds,
        number(d.steps),
        number(d.cold),
        number(d.calls),
        number(d.odd),
        number(d.unwritten),
        number(d.left),
        number(d.returns),
    )
}

/// The list of shipped rules.
pub(crate) fn rules(report: &RulesReport) -> String {
    let mut out = String::new();
    for file in &report.files {
        let when = if file.usual {
            ""
        } else {
            " (only when asked for with --only)"
        };
        let _ = writeln!(out, "{}{when}", file.name);
        for r in &file.rules {
            let _ = writeln!(out, "  {:<20} {}", r.name, r.about.replace('\n', " "));
        }
    }
    out
}

/// What is made of rules.
pub(crate) fn explain(report: &RulesReport) -> String {
    let mut out = String::new();
    for file in &report.files {
        for a in &file.allocators {
            let _ = writeln!(
                out,
                "allocator {a}\n  calls of both are followed; their insides are not looked at\n"
            );
        }
        for r in &file.rules {
            let _ = writeln!(out, "{}", r.source);
            let _ = writeln!(out, "  trackers    {}", r.trackers.join(", "));
            for (class, what) in &r.classes {
                let _ = writeln!(out, "  {class:<11} {what}");
            }
            if r.needs_guest {
                let _ = writeln!(
                    out,
                    "  the guest is taken to each such point, since the condition needs its memory"
                );
            }
            out.push('\n');
        }
    }
    out
}
