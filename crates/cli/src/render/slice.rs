//! Slices as text and as a page.

use std::fmt::Write;

use case::{Dependence, Instance, SliceFigures, SliceReport, SourcePlace, Statement};

use super::{Paint, clean, number};

/// Dependences shown of one statement.
const MOST_EDGES: usize = 8;

pub(crate) fn slice(report: &SliceReport, paint: Paint) -> String {
    let mut out = String::new();
    let statements = report.statements.len();
    let _ = writeln!(
        out,
        "{} at {} (step {})",
        paint.strong(&format!("slice of {}", report.about.join(", "))),
        instance(&report.at),
        number(report.at.step),
    );
    let _ = writeln!(
        out,
        "{} statements, {} instructions of {}, {} dependences",
        number(statements as u64),
        number(report.figures.instructions),
        number(report.figures.steps),
        number(report.figures.dependences),
    );
    let mut file = None;
    for s in &report.statements {
        if s.place.line.is_some() && file.as_ref() != Some(&s.place.file) {
            file = Some(s.place.file.clone());
            let name = s.place.file.as_ref().map(|f| f.display().to_string());
            let _ = writeln!(out, "\n{}", paint.strong(&name.unwrap_or_default()));
        }
        statement(&mut out, s, paint);
    }
    out
}

fn statement(out: &mut String, s: &Statement, paint: Paint) {
    let line = match s.place.line {
        Some(n) => format!("{n:>6}"),
        None => format!("{:>6}", place(&s.place)),
    };
    let text = clean(s.text.as_deref().unwrap_or(""));
    let times = if s.times == 1 {
        format!("once, at step {}", number(s.last))
    } else {
        format!("{} times, last at step {}", number(s.times), number(s.last))
    };
    let _ = writeln!(out, "{line}  {text:<50} {}", paint.faint(&times));
    for e in s.edges.iter().take(MOST_EDGES) {
        let _ = writeln!(out, "          {}", paint.faint(&edge(e)));
    }
    if s.edges.len() > MOST_EDGES {
        let more = format!("... and {} more", s.edges.len() - MOST_EDGES);
        let _ = writeln!(out, "          {}", paint.faint(&more));
    }
}

pub(crate) fn edge(e: &Dependence) -> String {
    let why = match e.what.as_str() {
        "" => e.kind.to_owned(),
        what => format!("{} {what}", e.kind),
    };
    let times = if e.times > 1 {
        format!(", {} times", number(e.times))
    } else {
        String::new()
    };
    // Optimised code may do some of a statement's work before it comes to it for the first time.
    let from = match e.nth {
        0 => String::new(),
        nth => format!("#{nth} "),
    };
    format!("{from}-> {} ({why}){times}", instance(&e.to))
}

pub(crate) fn place(p: &SourcePlace) -> String {
    match (&p.file, p.line) {
        (Some(file), Some(line)) => {
            let name = file.file_name().unwrap_or(file.as_os_str());
            format!("{}:{line}", name.to_string_lossy())
        }
        _ => {
            let code = p.code.clone().unwrap_or_default();
            match &p.function {
                Some(f) => format!("{f} ({code})"),
                None => code,
            }
        }
    }
}

pub(crate) fn instance(i: &Instance) -> String {
    match i.nth {
        0 => place(&i.place),
        n => format!("{} #{n}", place(&i.place)),
    }
}

pub(crate) fn slice_stats(f: &SliceFigures) -> String {
    format!(
        "replayed with the tape on in {:.3} s ({} bytes of tape, {:.2} per instruction); sliced in {:.3} s, {} window{}\n",
        f.replay_seconds,
        number(f.tape_bytes as u64),
        f.tape_bytes as f64 / f.steps.max(1) as f64,
        f.slice_seconds,
        f.windows,
        if f.windows == 1 { "" } else { "s" },
    )
}
