//! Values, their histories, and the lines that ran.

use std::fmt::Write;

use case::{HistoryReport, SourceReport, ValueReport, ValuesReport};

use super::{Paint, clean, instance, number};

pub(crate) fn value(r: &ValueReport) -> String {
    format!("{} = {}\n", r.expression, clean(&r.value))
}

/// A line for each moment.
pub(crate) fn values(r: &ValuesReport) -> String {
    let mut out = String::new();
    for m in &r.moments {
        let shown = m.values.iter().map(|v| match (&v.value, &v.problem) {
            (Some(value), _) => format!("{} = {}", v.expression, clean(value)),
            // What else there is to say of it takes several lines.
            (None, why) => {
                let why = why.as_ref().and_then(|w| w.lines().next());
                format!("{}: {}", v.expression, clean(why.unwrap_or("")))
            }
        });
        let shown = shown.collect::<Vec<_>>().join(", ");
        let at = format!("{} (step {})", instance(&m.at), number(m.at.step));
        let _ = writeln!(out, "{at:<40} {shown}");
    }
    if r.more {
        out.push_str("and more; -n N shows so many\n");
    }
    if r.moments.is_empty() {
        out.push_str("never reached\n");
    }
    out
}

pub(crate) fn history(r: &HistoryReport, paint: Paint) -> String {
    let mut out = format!(
        "{} at {} (step {})\n",
        paint.strong(&format!("{} = {}", r.now.expression, clean(&r.now.value))),
        instance(&r.now.at),
        number(r.now.at.step),
    );
    for w in &r.writes {
        let inside = match w.inside.as_ref().and_then(|p| p.function.as_ref()) {
            Some(f) => format!(", in {f}"),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "  {:<24} {} {}",
            w.value,
            instance(&w.by),
            paint.faint(&format!("step {}{inside}", number(w.by.step))),
        );
        if let Some(text) = &w.text {
            let _ = writeln!(out, "  {:<24}   {}", "", clean(text));
        }
    }
    if r.writes.is_empty() {
        out.push_str("  nothing has written it before: it has its initial value\n");
    }
    if r.more {
        out.push_str("  ... (more with -n)\n");
    }
    out
}

pub(crate) fn source(r: &SourceReport, paint: Paint) -> String {
    let mut out = String::new();
    for (file, lines) in &r.files {
        let _ = writeln!(out, "{}", paint.strong(&file.display().to_string()));
        for l in lines {
            let text = clean(l.text.as_deref().unwrap_or(""));
            let _ = writeln!(out, "{:>14} {:>6}  {text}", number(l.times), l.line);
        }
    }
    if r.files.is_empty() {
        out.push_str("no line of the program's own source ran; is it built with -g?\n");
    }
    out
}
