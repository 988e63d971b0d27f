//! `cargo xtask bench threads`: what threads cost under control, beside one core natively and helgrind.
//!
//! wherefore runs one thread at a time, so what it is held against is the program on one core (`taskset -c 0`).

use super::{Cost, geometric_mean, ratio, show, time, worst};
use crate::compile::{self, Variant};
use crate::facts::Facts;
use crate::flags::Flags;
use crate::install;
use crate::tool;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Name, source, and whether its threads mostly compute; the mean is over those.
const PROGRAMS: [(&str, &str, bool); 5] = [
    ("matrix, 4 threads", "matrix.c", true),
    ("sort, 8 threads", "sort.c", true),
    ("locks and atomics", "counters.c", true),
    ("OpenMP, 4 threads", "mandelbrot.c", true),
    ("queue, many turns", "queue.c", false),
];

struct Row {
    name: &'static str,
    computes: bool,
    native: Cost,
    ours: Cost,
    helgrind: Option<Cost>,
}

pub(super) fn run(rest: &[String]) -> Result<bool> {
    let flags = Flags::parse(rest, &["--json", "--runs"])?;
    install::missing_programs();
    let wherefore = tool::wherefore()?;
    let taskset = tool::find_program("taskset").context("taskset (util-linux) is not installed")?;
    let valgrind = tool::find_program("valgrind");
    if valgrind.is_none() {
        eprintln!("skipped, valgrind is not installed: helgrind");
    }
    let place = tempfile::Builder::new().prefix("bench-").tempdir()?;
    let mut rows = Vec::new();
    for (name, source, computes) in PROGRAMS.into_iter().filter(|p| flags.names(p.0)) {
        eprintln!("{name}");
        let source = Path::new("xtask/bench/threads").join(source);
        let facts = Facts::parse(&fs::read_to_string(&source)?)?;
        let program: OsString = compile::program(&source, &facts, Variant::FAST)?.into();
        let recordings = place.path().join("recordings");
        let native: [OsString; 4] = [
            taskset.clone().into(),
            "-c".into(),
            "0".into(),
            program.clone(),
        ];
        let ours: [OsString; 7] = [
            wherefore.clone().into(),
            "run".into(),
            "--quiet".into(),
            "--recordings".into(),
            recordings.clone().into(),
            "--".into(),
            program.clone(),
        ];
        let mut row = Row {
            name,
            computes,
            native: Cost::UNKNOWN,
            ours: Cost::UNKNOWN,
            helgrind: valgrind.as_ref().map(|_| Cost::UNKNOWN),
        };
        for round in 0..flags.runs.unwrap_or(3) {
            row.native = row.native.least(time(&native, place.path(), name)?);
            row.ours = row.ours.least(time(&ours, place.path(), name)?);
            fs::remove_dir_all(&recordings)?;
            // It is slow, and one run of it is precise enough.
            if let (0, Some(valgrind), Some(cost)) = (round, &valgrind, &mut row.helgrind) {
                let peer: [OsString; 4] = [
                    valgrind.clone().into(),
                    "--tool=helgrind".into(),
                    "-q".into(),
                    program.clone(),
                ];
                *cost = cost.least(time(&peer, place.path(), name)?);
            }
        }
        rows.push(row);
    }
    show(&flags, "workload", &rows, report, table)?;
    Ok(true)
}

fn ours(rows: &[Row]) -> Vec<f64> {
    let computing = rows.iter().filter(|row| row.computes);
    computing
        .map(|row| ratio(row.ours.cpu, row.native.cpu))
        .collect()
}

fn table(rows: &[Row]) {
    println!(
        "{:<20} {:>9} {:>9} {:>9}   {:>7} {:>9} {:>7}",
        "", "one core", "ours", "helgrind", "ours", "helgrind", "ours"
    );
    println!(
        "{:<20} {:>9} {:>9} {:>9}   {:>7} {:>9} {:>7}",
        "workload", "CPU s", "CPU s", "CPU s", "CPU x", "CPU x", "wall x"
    );
    for row in rows {
        let peer = |text: &dyn Fn(Cost) -> String| row.helgrind.map_or("-".to_owned(), text);
        println!(
            "{:<20} {:>9.3} {:>9.3} {:>9}   {:>7.2} {:>9} {:>7.2}",
            row.name,
            row.native.cpu,
            row.ours.cpu,
            peer(&|cost| format!("{:.3}", cost.cpu)),
            ratio(row.ours.cpu, row.native.cpu),
            peer(&|cost| format!("{:.2}", ratio(cost.cpu, row.native.cpu))),
            ratio(row.ours.wall, row.native.wall),
        );
    }
    let ours = ours(rows);
    println!(
        "threads that compute: {:.2} on average, {:.2} at worst",
        geometric_mean(&ours),
        worst(&ours)
    );
}

fn report(rows: &[Row]) -> Value {
    let cost = |cost: Cost| json!({ "cpu_seconds": cost.cpu, "wall_seconds": cost.wall });
    let list: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "workload": row.name,
                "in_mean": row.computes,
                "native_one_core": cost(row.native),
                "wherefore": cost(row.ours),
                "helgrind": row.helgrind.map(cost),
                "cpu_ratio": ratio(row.ours.cpu, row.native.cpu),
                "wall_ratio": ratio(row.ours.wall, row.native.wall),
                "helgrind_cpu_ratio": row.helgrind.map(|cost| ratio(cost.cpu, row.native.cpu)),
            })
        })
        .collect();
    let ours = ours(rows);
    json!({
        "rows": list,
        "cpu_ratio_geometric_mean": geometric_mean(&ours),
        "cpu_ratio_worst": worst(&ours),
    })
}
