//! `cargo xtask bench debug`: what commands take in gdb over a recording, beside the same commands in gdb alone.
//!
//! Both run the same script, in which gdb's own Python takes the time of each command: what it costs to start gdb and
//! to read symbols is in neither. Seed 001's figures (Tables VI and VII) were taken on other programs and another
//! machine; they are printed to be compared with, not measured.

use super::{environment, record, show};
use crate::compile::{self, Variant};
use crate::facts::Facts;
use crate::flags::Flags;
use crate::install;
use crate::tool;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Hits of a breakpoint that stop nobody.
const HITS: u64 = 100_000;
/// Statements that are suppressed or switched, around the middle of the run.
const EDITS: u64 = 10;

/// Seed 001's figures: taken from the paper, of its programs on its machine of 2011. Checkpoints are one for each million
/// instructions, and the rollback goes from the end to the beginning.
struct Paper {
    program: &'static str,
    /// Table VI: checkpoints, their space together in kB, and going back in ms.
    checkpoints: u32,
    space: f64,
    rollback: f64,
    /// Table VII, in ms: the run, what a suppressed statement costs with checkpoints, and with recording besides.
    baseline: f64,
    suppress: f64,
    suppress_recording: f64,
}

const PAPER: [Paper; 5] = [
    Paper {
        program: "ncompress",
        checkpoints: 11,
        space: 28547.6,
        rollback: 356.17,
        baseline: 330.0,
        suppress: 3.33,
        suppress_recording: 600.0,
    },
    Paper {
        program: "tidy",
        checkpoints: 3,
        space: 233.4,
        rollback: 4.02,
        baseline: 560.0,
        suppress: 24.0,
        suppress_recording: 130.0,
    },
    Paper {
        program: "bc",
        checkpoints: 2,
        space: 45.1,
        rollback: 0.04,
        baseline: 440.0,
        suppress: 6.67,
        suppress_recording: 230.0,
    },
    Paper {
        program: "ghostscript",
        checkpoints: 4,
        space: 788.9,
        rollback: 12.3,
        baseline: 470.0,
        suppress: 24.8,
        suppress_recording: 350.0,
    },
    Paper {
        program: "tar",
        checkpoints: 5,
        space: 189.6,
        rollback: 0.22,
        baseline: 510.0,
        suppress: 1.85,
        suppress_recording: 90.0,
    },
];

/// What both scripts begin with.
const TOOLS: &str = r#"
import os, time
gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set debuginfod enabled off")

def timed(command):
    begun = time.monotonic()
    gdb.execute(command, to_string=True)
    return time.monotonic() - begun

def figure(name, value):
    print("FIGURE %s %.9f" % (name, value), flush=True)

def parents():
    out = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as f:
                    out[int(name)] = int(f.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    return out

def guests():
    """The processes that hold the guest and its copies."""
    of = parents()
    if OURS:
        roots = {p for p in of if of[p] == os.getppid() and p != os.getpid()}
    else:
        roots = {os.getpid()}
    found = set()
    while True:
        more = {p for p in of if of[p] in roots | found} - found
        if not more:
            return found
        found |= more

def space():
    """Memory of all of them, what they share counted once, and their page tables, in kB."""
    total = 0
    for p in guests():
        for file, name in (("smaps_rollup", "Pss:"), ("status", "VmPTE:")):
            try:
                with open("/proc/%d/%s" % (p, file)) as f:
                    total += sum(int(l.split()[1]) for l in f if l.startswith(name))
            except OSError:
                pass
    return total
"#;

/// One thing that is measured.
struct Task {
    name: &'static str,
    /// The figures that its script prints: name, what is said of it, unit.
    figures: &'static [(&'static str, &'static str, &'static str)],
    script: fn() -> String,
    /// Native gdb can do it too.
    native: bool,
    note: &'static str,
}

const TASKS: [Task; 5] = [
    Task {
        name: "ignored",
        figures: &[("ignored", "100,000 ignored hits", "s")],
        script: || {
            format!(
                "gdb.execute('break tick')\ngdb.execute('ignore $bpnum {HITS}')\nfigure('ignored', timed('continue'))\n"
            )
        },
        native: true,
        note: "",
    },
    Task {
        name: "condition",
        figures: &[("condition", "100,000 hits with a false condition", "s")],
        script: || {
            format!(
                "gdb.execute('break tick if n == {HITS}')\nfigure('condition', timed('continue'))\n"
            )
        },
        native: true,
        note: "",
    },
    Task {
        name: "checkpoint",
        figures: &[
            ("checkpoint", "keep 64 MB", "ms"),
            ("rollback", "return to it", "ms"),
            ("space", "memory for it, 1 MB written since", "kB"),
        ],
        script: checkpoints,
        native: true,
        note: "beside seed 001, Table VI, below",
    },
    Task {
        name: "edits",
        figures: &[
            ("baseline", "the run from its beginning to its end", "ms"),
            (
                "suppress",
                "more if a statement is suppressed (median)",
                "ms",
            ),
            ("switch", "more if a predicate is switched (median)", "ms"),
            ("nth", "find the 25,000th execution of a statement", "ms"),
        ],
        script: edits,
        native: false,
        note: "beside seed 001, Table VII, below",
    },
    Task {
        name: "reverse",
        figures: &[(
            "reverse",
            "reverse-continue to a write 2 million steps ago",
            "s",
        )],
        script: || {
            "gdb.execute('break done')\ngdb.execute('continue')\ngdb.execute('watch marked')\n\
             figure('reverse', timed('reverse-continue'))\n\
             if 'begin' != gdb.selected_frame().name(): print('it stands in', gdb.selected_frame().name())\n"
                .to_owned()
        },
        native: false,
        note: "asked: at most 2 s",
    },
];

fn checkpoints() -> String {
    // gdb numbers checkpoints from 1, as we do.
    "gdb.execute('break begin')\ngdb.execute('continue')\nbefore = space()\n\
     figure('checkpoint', timed('checkpoint') * 1e3)\n\
     gdb.execute('break done')\ngdb.execute('continue')\nfigure('space', space() - before)\n\
     figure('rollback', timed('rollback 1' if OURS else 'restart 1') * 1e3)\n"
        .to_owned()
}

fn edits() -> String {
    format!(
        "gdb.execute('break begin')\ngdb.execute('continue')\ngdb.execute('checkpoint')\n\
         begun = int(gdb.execute('when', to_string=True).split()[1])\ngdb.execute('break done')\n\
         def run(step, edit):\n\
         \x20   gdb.execute('goto %d' % step, to_string=True)\n\
         \x20   return (timed(edit) if edit else 0) + timed('continue')\n\
         places = [begun + 500000 + 1000 * i for i in range({EDITS})]\n\
         run(begun, None)\n\
         figure('baseline', min(run(begun, None) for i in range(3)) * 1e3)\n\
         def more(edit):\n\
         \x20   found = []\n\
         \x20   for step in places:\n\
         \x20       gdb.execute('timeline 0', to_string=True)\n\
         \x20       plain = run(step, None)\n\
         \x20       found.append(run(step, edit) - plain)\n\
         \x20   return sorted(found)[len(found) // 2] * 1e3\n\
         figure('suppress', more('suppress debug.c:%d' % STATEMENT))\n\
         figure('switch', more('switch debug.c:%d' % PREDICATE))\n\
         gdb.execute('timeline 0', to_string=True)\n\
         figure('nth', timed('suppress debug.c:%d {nth}' % STATEMENT) * 1e3)\n",
        nth = HITS / 4,
    )
}

struct Row {
    task: &'static Task,
    figure: usize,
    ours: f64,
    native: Option<f64>,
}

pub(super) fn run(rest: &[String]) -> Result<bool> {
    let flags = Flags::parse(rest, &["--json"])?;
    install::missing_programs();
    let gdb = tool::find_program("gdb").context("gdb is not installed")?;
    let wherefore = tool::wherefore()?;
    let source = Path::new("xtask/bench/debug.c");
    let text = fs::read_to_string(source)?;
    let program = compile::program(source, &Facts::parse(&text)?, Variant::FAST)?;
    let place = tempfile::Builder::new().prefix("bench-").tempdir()?;
    let recordings = place.path().join("recordings");
    let command: [OsString; 1] = [program.clone().into()];
    let steps = record(&command, &wherefore, &recordings, place.path(), "debug")?;
    let (mut rows, mut complete) = (Vec::new(), true);
    for task in TASKS.iter().filter(|t| flags.names(t.name)) {
        eprintln!("{}", task.name);
        let script = |ours: bool| -> Result<PathBuf> {
            let file = place
                .path()
                .join(if ours { "ours.gdb" } else { "native.gdb" });
            let start = if ours { "" } else { "starti\n" };
            let truth = if ours { "True" } else { "False" };
            let (statement, predicate) = (line(&text, "statement")?, line(&text, "predicate")?);
            let body = (task.script)();
            fs::write(
                &file,
                format!(
                    "{start}python\nOURS = {truth}\nSTATEMENT = {statement}\nPREDICATE = {predicate}\n{TOOLS}{body}end\n"
                ),
            )?;
            Ok(file)
        };
        let mut ours = Command::new(&wherefore);
        ours.arg("--recordings").arg(&recordings);
        ours.args(["debug", "--batch", "--gdb-option=-nx", "-x"]);
        ours.arg(script(true)?);
        let ours = figures(ours, place.path(), task)?;
        let mut native = BTreeMap::new();
        if task.native {
            let mut peer = Command::new(&gdb);
            peer.args(["-nx", "-q", "-batch", "-x"]);
            peer.arg(script(false)?).arg(&program);
            native = figures(peer, place.path(), task)?;
        }
        for (figure, (name, ..)) in task.figures.iter().enumerate() {
            if let Some(&value) = ours.get(*name) {
                rows.push(Row {
                    task,
                    figure,
                    ours: value,
                    native: native.get(*name).copied(),
                });
            } else {
                complete = false;
            }
        }
    }
    show(
        &flags,
        "task",
        &rows,
        |rows| report(rows, steps),
        |rows| table(rows, steps),
    )?;
    Ok(complete)
}

/// The line of the program that has a mark.
fn line(text: &str, mark: &str) -> Result<usize> {
    let mark = format!("// MARK: {mark}");
    let at = text.lines().position(|line| line.ends_with(&mark));
    at.map(|n| n + 1).with_context(|| format!("no `{mark}`"))
}

/// Runs a script; what it measured, by name. What it did not measure is said, with what gdb printed.
fn figures(mut command: Command, place: &Path, task: &Task) -> Result<BTreeMap<String, f64>> {
    let output = environment(&mut command, place)
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: BTreeMap<String, f64> = text.lines().filter_map(figure).collect();
    for (name, ..) in task.figures.iter().filter(|f| !figures.contains_key(f.0)) {
        let words = String::from_utf8_lossy(&output.stderr);
        eprintln!("failed: {name} was not measured: {text}{words}");
    }
    Ok(figures)
}

fn figure(line: &str) -> Option<(String, f64)> {
    let (name, value) = line.strip_prefix("FIGURE ")?.split_once(' ')?;
    Some((name.to_owned(), value.parse().ok()?))
}

fn table(rows: &[Row], steps: u64) {
    println!(
        "{:<52} {:>10} {:>10} {:>4} {:>8}",
        "", "ours", "gdb", "", "ratio"
    );
    for row in rows {
        let (_, what, unit) = row.task.figures[row.figure];
        let native = |text: &dyn Fn(f64) -> String| row.native.map_or("-".to_owned(), text);
        println!(
            "{what:<52} {:>10.2} {:>10} {unit:>4} {:>8}",
            row.ours,
            native(&|n| format!("{n:.2}")),
            native(&|n| format!("{:.2}", row.ours / n)),
        );
        if row.figure + 1 == row.task.figures.len() && !row.task.note.is_empty() {
            println!("  {}", row.task.note);
        }
    }
    println!("the recording has {steps} steps");
    let has = |name: &str| rows.iter().any(|row| row.task.name == name);
    if has("checkpoint") {
        println!(
            "\n{:<28} {:>12} {:>14} {:>12}",
            "Table VI of the paper", "checkpoints", "kB for each", "rollback ms"
        );
        for p in &PAPER {
            let each = p.space / f64::from(p.checkpoints);
            let (name, n, back) = (p.program, p.checkpoints, p.rollback);
            println!("{name:<28} {n:>12} {each:>14.1} {back:>12.2}");
        }
        let [space, back] = ["space", "rollback"].map(|name| of(rows, name));
        println!("{:<28} {:>12} {space:>14.1} {back:>12.2}", "wherefore", 1);
    }
    if has("edits") {
        println!(
            "\n{:<28} {:>12} {:>14} {:>12}",
            "Table VII of the paper", "run ms", "suppress ms", "%"
        );
        let line = |name: &str, run: f64, more: f64| {
            println!(
                "{name:<28} {run:>12.2} {more:>14.2} {:>12.2}",
                more / run * 100.0
            );
        };
        for p in &PAPER {
            line(p.program, p.baseline, p.suppress);
            line("  recording for slices", p.baseline, p.suppress_recording);
        }
        let [run, suppress, switch] = ["baseline", "suppress", "switch"].map(|name| of(rows, name));
        line("wherefore, suppress", run, suppress);
        line("wherefore, switch", run, switch);
    }
}

/// What we measured, by its name.
fn of(rows: &[Row], figure: &str) -> f64 {
    let found = rows
        .iter()
        .find(|row| row.task.figures[row.figure].0 == figure);
    found.map_or(f64::NAN, |row| row.ours)
}

fn paper() -> Value {
    let rows = PAPER.iter().map(|p| {
        json!({
            "program": p.program,
            "checkpoints": p.checkpoints,
            "space_kB": p.space,
            "rollback_ms": p.rollback,
            "baseline_ms": p.baseline,
            "suppress_ms": p.suppress,
            "suppress_recording_ms": p.suppress_recording,
        })
    });
    rows.collect()
}

fn report(rows: &[Row], steps: u64) -> Value {
    let list: Vec<Value> = rows
        .iter()
        .map(|row| {
            let (name, what, unit) = row.task.figures[row.figure];
            json!({
                "figure": name,
                "what": what,
                "unit": unit,
                "wherefore": row.ours,
                "gdb": row.native,
                "ratio": row.native.map(|n| row.ours / n),
                "note": row.task.note,
            })
        })
        .collect();
    json!({ "steps": steps, "rows": list, "paper": paper() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        assert_eq!(
            figure("FIGURE space 12.5"),
            Some(("space".to_owned(), 12.5))
        );
        assert_eq!(figure("Breakpoint 1 at 0x1149"), None);
    }

    #[test]
    fn the_program_has_its_marks() {
        let text = include_str!("../../bench/debug.c");
        assert!(line(text, "statement").is_ok() && line(text, "predicate").is_ok());
    }
}
