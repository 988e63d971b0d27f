//! The report of `locate` as one page that needs nothing else.

use std::fmt::Write;

use case::LocateReport;

use super::locate::{ordinal, shell, what};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:62em;padding:0 1em;\
color:#222;background:#fff}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2em .6em;\
border-bottom:1px solid #ddd;vertical-align:top}code{font:13px monospace}tr.hit{background:#fff4e0}\
.n{text-align:right}details{margin:.2em 0}.bad{color:#b00}@media(prefers-color-scheme:dark){body{color:#ddd;\
background:#181818}td,th{border-color:#444}tr.hit{background:#3a2e14}.bad{color:#f77}}";

pub(crate) fn page(report: &LocateReport) -> String {
    let mut out = String::new();
    let title = format!("{}: where is the fault?", report.suite);
    let _ = write!(
        out,
        "<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>{t}</title><style>{STYLE}</style><h1>{t}</h1>",
        t = escape(&title)
    );
    let failed = report.tests.iter().filter(|t| !t.passed).count();
    let _ = write!(
        out,
        "<p>{} of {} tests of <code>{}</code> fail. {} lines that they execute, by {}.</p>",
        failed,
        report.tests.len(),
        escape(&report.program.display().to_string()),
        report.statements,
        escape(report.method)
    );
    out.push_str(
        "<table><tr><th class=n>rank<th class=n>mends<th class=n>tarantula<th>line<th>source",
    );
    for r in &report.ranking {
        let hit = if r.suspiciousness > 0 {
            " class=hit"
        } else {
            ""
        };
        let file = r.line.file.file_name().unwrap_or(r.line.file.as_os_str());
        let _ = write!(
            out,
            "<tr{hit}><td class=n>{}<td class=n>{}<td class=n>{}<td><code>{}:{}</code><td><code>{}</code>",
            r.rank,
            r.suspiciousness,
            r.tarantula_rank,
            escape(&file.to_string_lossy()),
            r.line.line,
            escape(r.line.text.as_deref().unwrap_or_default())
        );
        for e in &r.evidence {
            let _ = write!(
                out,
                "<details><summary>{} time in {}: {}</summary><code>{}</code></details>",
                ordinal(e.nth),
                escape(&e.test),
                escape(&what(e)),
                escape(&shell(&e.command))
            );
        }
    }
    out.push_str("</table><h2>Tests</h2><table>");
    for t in &report.tests {
        let class = if t.passed { "" } else { " class=bad" };
        let _ = write!(
            out,
            "<tr><td{class}>{}<td>{}<td>{}",
            if t.passed { "pass" } else { "fail" },
            escape(&t.name),
            escape(t.why.as_deref().unwrap_or_default())
        );
    }
    out.push_str("</table>");
    if let Some(s) = &report.search {
        let _ = write!(
            out,
            "<p>{} replacements of {} that the full search would try, {:.1} s on {} CPUs{}; {} of {} values \
             are addresses and were left alone.</p>",
            s.tally.tried,
            s.full,
            s.seconds,
            s.workers,
            if s.complete { "" } else { ", not finished" },
            s.pointers.all,
            s.operands
        );
    }
    for note in &report.notes {
        let _ = write!(out, "<p>Note: {}</p>", escape(note));
    }
    out.push_str("</html>\n");
    out
}

fn escape(text: &str) -> String {
    let mut out = String::new();
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
