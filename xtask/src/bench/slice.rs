//! `cargo xtask bench slice`: how long a slice takes, by the length of the run.
//!
//! The program sorts and builds a tree for as many rounds as it is told, and ends with twenty statements that ask
//! for what came of it. Each of them is sliced by a `wherefore slice` of its own, as a user would; so the replay,
//! which happens once for each of them, is given apart from the slice.

use super::{environment, record, show};
use crate::compile::{self, Variant};
use crate::facts::Facts;
use crate::flags::Flags;
use crate::install;
use crate::tool;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Length {
    name: &'static str,
    /// Of the program.
    rounds: u32,
    /// Every how manieth statement is sliced.
    stride: usize,
    /// Memory that it may take.
    gigabytes: u64,
    /// A slice that takes longer, with its replay, is given up.
    limit: Duration,
}

const LENGTHS: [Length; 4] = [
    Length {
        name: "1 million",
        rounds: 5,
        stride: 1,
        gigabytes: 1,
        limit: Duration::from_secs(20),
    },
    Length {
        name: "10 million",
        rounds: 69,
        stride: 1,
        gigabytes: 1,
        limit: Duration::from_secs(30),
    },
    Length {
        name: "100 million",
        rounds: 829,
        stride: 1,
        gigabytes: 3,
        limit: Duration::from_secs(60),
    },
    // The replay alone takes long.
    Length {
        name: "1 billion",
        rounds: 8546,
        stride: 7,
        gigabytes: 12,
        limit: Duration::from_secs(300),
    },
];
/// After so many slices that were given up, the rest of a length is not tried.
const GIVEN_UP: usize = 2;
const TARGET_SIZE: &str = "100 million";
const TARGET_SECONDS: f64 = 1.0;

struct Row {
    name: &'static str,
    steps: u64,
    tape_bytes: u64,
    slices: Vec<Slice>,
    given_up: usize,
    limit: Duration,
}

struct Slice {
    replay: f64,
    slice: f64,
    instructions: f64,
    /// Most memory that the tool had at any time, in bytes; the guest's is its own.
    peak: u64,
}

pub(super) fn run(rest: &[String]) -> Result<bool> {
    let flags = Flags::parse(rest, &["--json"])?;
    install::missing_programs();
    let wherefore = tool::wherefore()?;
    let source = Path::new("xtask/bench/slice.c");
    let text = fs::read_to_string(source)?;
    let program = compile::program(source, &Facts::parse(&text)?, Variant::FAST)?;
    let place = tempfile::Builder::new().prefix("bench-").tempdir()?;
    let mut rows = Vec::new();
    for length in LENGTHS.iter().filter(|l| flags.names(l.name)) {
        let &Length {
            name, gigabytes, ..
        } = length;
        if available()? < gigabytes << 30 {
            eprintln!("skipped, it may take {gigabytes} GB of memory: {name}");
            continue;
        }
        eprintln!("{name}");
        let recordings = place.path().join("recordings");
        let command: [OsString; 2] = [program.clone().into(), length.rounds.to_string().into()];
        let mut row = Row {
            name,
            steps: record(&command, &wherefore, &recordings, place.path(), name)?,
            tape_bytes: 0,
            slices: Vec::new(),
            given_up: 0,
            limit: length.limit,
        };
        for line in statements(&text)?.step_by(length.stride) {
            let at = format!("slice.c:{line}");
            let done = slice(&wherefore, &recordings, place.path(), &at, length.limit)?;
            let Some((report, peak)) = done else {
                eprintln!("given up after {:?}: the slice at {at}", length.limit);
                row.given_up += 1;
                if row.given_up == GIVEN_UP {
                    break;
                }
                continue;
            };
            let figures = &report["figures"];
            let figure = |name: &str| figures[name].as_f64().context("a figure is missing");
            row.tape_bytes = figure("tape_bytes")? as u64;
            row.slices.push(Slice {
                replay: figure("replay_seconds")?,
                slice: figure("slice_seconds")?,
                instructions: figure("instructions")?,
                peak,
            });
        }
        fs::remove_dir_all(&recordings)?;
        rows.push(row);
    }
    show(&flags, "length", &rows, report, table)?;
    Ok(true)
}

/// The lines of the program's last statements.
fn statements(text: &str) -> Result<RangeInclusive<usize>> {
    let line = |mark: &str| {
        let at = text.lines().position(|line| line.ends_with(mark));
        at.map(|n| n + 1).with_context(|| format!("no `{mark}`"))
    };
    Ok(line("// MARK: first")?..=line("// MARK: last")?)
}

/// The report and the peak of the memory, or nothing if it takes too long.
fn slice(
    wherefore: &Path,
    recordings: &Path,
    place: &Path,
    at: &str,
    limit: Duration,
) -> Result<Option<(Value, u64)>> {
    let report: PathBuf = place.join("slice.json");
    let mut command = Command::new(wherefore);
    command
        .args(["slice", "--json", "--at", at, "-o"])
        .arg(&report)
        .arg("--recordings")
        .arg(recordings);
    let mut child = environment(&mut command, place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let peak = peak(&mut child, limit)?;
    let Some(status) = child.try_wait()? else {
        child.kill()?;
        child.wait()?;
        return Ok(None);
    };
    if !status.success() {
        let mut words = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            stderr.read_to_string(&mut words)?;
        }
        bail!("the slice at {at}: {status}: {}", words.trim_end());
    }
    let value = serde_json::from_slice(&fs::read(&report)?)?;
    fs::remove_file(&report)?;
    Ok(Some((value, peak)))
}

/// Waits for the end, or until the time is up. The kernel tells the peak of a process only while it is there, but it never falls, so the last
/// answer is the right one but for the last moment.
fn peak(child: &mut Child, limit: Duration) -> Result<u64> {
    let begun = Instant::now();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait()?.is_none() && begun.elapsed() < limit {
        peak = peak.max(kilobytes(&status, "VmHWM:").unwrap_or(0) << 10);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(peak)
}

fn available() -> Result<u64> {
    let kilobytes = kilobytes("/proc/meminfo", "MemAvailable:");
    Ok(kilobytes.context("the kernel does not tell how much memory there is")? << 10)
}

fn kilobytes(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Least, average and most; not a number if there is none.
fn spread(slices: &[Slice], pick: impl Fn(&Slice) -> f64) -> [f64; 3] {
    let values: Vec<f64> = slices.iter().map(pick).collect();
    [
        values.iter().copied().fold(f64::NAN, f64::min),
        values.iter().sum::<f64>() / values.len() as f64,
        values.iter().copied().fold(f64::NAN, f64::max),
    ]
}

fn peak_of(row: &Row) -> u64 {
    row.slices.iter().map(|s| s.peak).max().unwrap_or(0)
}

fn table(rows: &[Row]) {
    println!(
        "{:<12} {:>13} {:>6}   {:>7} {:>7} {:>7}   {:>7} {:>7} {:>7}   {:>9} {:>8} {:>8}",
        "", "", "", "replay", "", "", "slice", "", "", "slice", "tape", "peak"
    );
    println!(
        "{:<12} {:>13} {:>6}   {:>7} {:>7} {:>7}   {:>7} {:>7} {:>7}   {:>9} {:>8} {:>8}",
        "length",
        "steps",
        "slices",
        "min s",
        "avg s",
        "max s",
        "min s",
        "avg s",
        "max s",
        "avg insns",
        "MB",
        "MB"
    );
    for row in rows {
        let [a, b, c] = spread(&row.slices, |s| s.replay);
        let [d, e, f] = spread(&row.slices, |s| s.slice);
        println!(
            "{:<12} {:>13} {:>6}   {a:>7.3} {b:>7.3} {c:>7.3}   {d:>7.3} {e:>7.3} {f:>7.3}   {:>9.2e} {:>8.1} {:>8.1}",
            row.name,
            row.steps,
            row.slices.len(),
            spread(&row.slices, |s| s.instructions)[1],
            row.tape_bytes as f64 / 1e6,
            peak_of(row) as f64 / 1e6,
        );
    }
    for row in rows.iter().filter(|row| row.given_up > 0) {
        println!(
            "{}: {} took over {:?} and were given up; after {GIVEN_UP} the rest is not tried",
            row.name, row.given_up, row.limit
        );
    }
    println!("target: a slice of a run of {TARGET_SIZE} in {TARGET_SECONDS} s");
}

fn report(rows: &[Row]) -> Value {
    let spread = |slices: &[Slice], pick: &dyn Fn(&Slice) -> f64| {
        let [min, average, max] = spread(slices, pick);
        json!({ "min": min, "average": average, "max": max })
    };
    let list: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "length": row.name,
                "steps": row.steps,
                "slices": row.slices.len(),
                "given_up": row.given_up,
                "limit_seconds": row.limit.as_secs(),
                "replay_seconds": spread(&row.slices, &|s| s.replay),
                "slice_seconds": spread(&row.slices, &|s| s.slice),
                "instructions": spread(&row.slices, &|s| s.instructions),
                "tape_bytes": row.tape_bytes,
                "peak_bytes": peak_of(row),
            })
        })
        .collect();
    json!({
        "rows": list,
        "slice_seconds_target": { "length": TARGET_SIZE, "seconds": TARGET_SECONDS },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_statements() {
        let lines = statements(include_str!("../../bench/slice.c")).expect("both marks");
        assert_eq!(lines.count(), 20);
    }
}
