//! A slice as one page for a browser: the source with the statements of the slice in it, and the
//! dependences of each under a click.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::PathBuf;

use case::{SliceReport, SourcePlace, Statement};

use super::{edge, instance, number, place};

const STYLE: &str = "
:root { color-scheme: light dark; --hit: #fff3bf; --faint: #868e96; --link: #1864ab; }
@media (prefers-color-scheme: dark) { :root { --hit: #5c4b12; --link: #74c0fc; } }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; }
pre, code, .line { font: 13px/1.45 ui-monospace, monospace; }
.line { white-space: pre; display: block; }
.line > .n { color: var(--faint); display: inline-block; width: 4.5em; text-align: right; padding-right: 1em; user-select: none; }
details.line { white-space: normal; }
details.line > summary { white-space: pre; background: var(--hit); list-style: none; cursor: pointer; }
details.line > summary > .n { color: var(--faint); display: inline-block; width: 4.5em; text-align: right; padding-right: 1em; }
details.line ul { margin: .2em 0 .6em 6em; padding: 0; list-style: none; }
:target > summary { outline: 2px solid var(--link); }
.times { color: var(--faint); padding-left: 2em; }
a { color: var(--link); }
.gap { color: var(--faint); padding-left: 4em; }
";

/// Lines of source around a statement of the slice that are shown.
const AROUND: u32 = 3;

pub(crate) fn slice_page(report: &SliceReport) -> String {
    let mut files: BTreeMap<&PathBuf, BTreeMap<u32, &Statement>> = BTreeMap::new();
    let mut ids: HashMap<&SourcePlace, String> = HashMap::new();
    let mut rest = Vec::new();
    for (n, s) in report.statements.iter().enumerate() {
        ids.insert(&s.place, format!("s{n}"));
        match (&s.place.file, s.place.line) {
            (Some(file), Some(line)) => {
                files.entry(file).or_default().insert(line, s);
            }
            _ => rest.push(s),
        }
    }
    let title = format!("Slice of {}", escape(&report.about.join(", ")));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    let _ = writeln!(
        out,
        "<p>At {} (step {}) of <code>{}</code>: {} statements, {} instructions of {}, {} dependences. Click a line to see what it depends on.</p>",
        escape(&instance(&report.at)),
        number(report.at.step),
        escape(&report.recording.to_string()),
        number(report.statements.len() as u64),
        number(report.figures.instructions),
        number(report.figures.steps),
        number(report.figures.dependences),
    );
    for (file, lines) in &files {
        let _ = writeln!(
            out,
            "<h2><code>{}</code></h2>",
            escape(&file.to_string_lossy())
        );
        let text = std::fs::read(file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let source: Vec<&str> = text.lines().collect();
        let mut shown = 0;
        for (&line, s) in lines {
            let first = line.saturating_sub(AROUND).max(shown + 1);
            if first > shown + 1 && shown > 0 {
                out.push_str("<div class=\"gap\">⋮</div>\n");
            }
            for n in first..line {
                plain(&mut out, n, &source);
            }
            statement(&mut out, s, &ids, source.get(line as usize - 1).copied());
            shown = line;
            let next = lines.range(line + 1..).next().map_or(u32::MAX, |(n, _)| *n);
            for n in line + 1..next.min(line + 1 + AROUND) {
                plain(&mut out, n, &source);
                shown = n;
            }
        }
    }
    if !rest.is_empty() {
        out.push_str("<h2>Without source</h2>\n");
        for s in rest {
            statement(&mut out, s, &ids, Some(&place(&s.place)));
        }
    }
    out.push_str(
        "<script>addEventListener('hashchange',()=>{const d=document.querySelector(location.hash);if(d)d.open=true})</script>\n</body></html>\n",
    );
    out
}

fn plain(out: &mut String, n: u32, source: &[&str]) {
    if let Some(text) = source.get(n as usize - 1) {
        let _ = writeln!(
            out,
            "<span class=\"line\"><span class=\"n\">{n}</span>{}</span>",
            escape(text)
        );
    }
}

fn statement(
    out: &mut String,
    s: &Statement,
    ids: &HashMap<&SourcePlace, String>,
    text: Option<&str>,
) {
    let line = s.place.line.map_or(String::new(), |n| n.to_string());
    let text = text.or(s.text.as_deref()).unwrap_or("");
    let _ = writeln!(
        out,
        "<details class=\"line\" id=\"{}\"><summary><span class=\"n\">{line}</span>{}<span class=\"times\">{}×</span></summary><ul>",
        ids.get(&s.place).map_or("", String::as_str),
        escape(text),
        number(s.times),
    );
    for e in &s.edges {
        let words = escape(&edge(e));
        let _ = match ids.get(&e.to.place) {
            Some(id) => writeln!(out, "<li><a href=\"#{id}\">{words}</a></li>"),
            None => writeln!(out, "<li>{words}</li>"),
        };
    }
    out.push_str("</ul></details>\n");
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
