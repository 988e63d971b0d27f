//! `cargo xtask bench check [--json] [--runs N] [--alone] [NAME]`: what looking for faults costs, recording included, with
//! all rules that are asked by default. Beside it Memcheck, also with the origins of unwritten values, and, for
//! programs whose source is ours, AddressSanitizer, which has to be compiled in. `--alone` leaves the peers out.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::workloads::{self, Workload};
use super::{Cost, geometric_mean, left_out, measure_each, ratio, show, time, time_of, worst};
use crate::flags::Flags;
use crate::install;
use crate::tool;

/// What is asked of us on average, against native: CPU time and wall time.
const GOAL: (f64, f64) = (6.0, 4.0);

const PEERS: [&str; 3] = ["memcheck", "origins", "asan"];

struct Row {
    name: &'static str,
    start_only: bool,
    native: Cost,
    ours: Cost,
    /// In the order of [`PEERS`].
    peers: [Option<Cost>; 3],
}

impl Row {
    fn cpu(&self, cost: Cost) -> f64 {
        ratio(cost.cpu, self.native.cpu)
    }

    fn wall(&self, cost: Cost) -> f64 {
        ratio(cost.wall, self.native.wall)
    }
}

pub(super) fn run(args: &[String]) -> Result<bool> {
    let flags = Flags::parse(args, &["--json", "--runs", "--alone"])?;
    install::missing_programs();
    let wherefore = tool::wherefore()?;
    let place = tempfile::Builder::new().prefix("bench-").tempdir()?;
    let (workloads, absent) = workloads::all(place.path())?;
    let runs = flags.runs.unwrap_or(2);
    let (rows, failed) = measure_each(&flags, &workloads, |workload| {
        measure(workload, &wherefore, place.path(), (runs, flags.alone))
    });
    left_out(&absent, &failed);
    show(&flags, "workload", &rows, report, table)?;
    Ok(failed.is_empty())
}

fn measure(
    workload: &Workload,
    wherefore: &Path,
    place: &Path,
    (runs, alone): (u32, bool),
) -> Result<Row> {
    let recordings = place.join("recordings");
    let program = workload.command();
    let mut ours: Vec<OsString> = vec![wherefore.into(), "check".into(), "--all".into()];
    ours.extend([
        "--recordings".into(),
        recordings.clone().into(),
        "--".into(),
    ]);
    ours.extend(program.iter().cloned());
    let memcheck = |more: &[&str]| {
        let valgrind = tool::find_program("valgrind").filter(|_| !alone)?;
        let mut command: Vec<OsString> = vec![valgrind.into(), "-q".into()];
        command.extend(more.iter().map(OsString::from));
        command.extend(program.iter().cloned());
        Some(command)
    };
    let sanitised = match alone {
        true => None,
        false => workload.sanitised()?.map(|p| vec![p.into_os_string()]),
    };
    let peers = [memcheck(&[]), memcheck(&["--track-origins=yes"]), sanitised];
    let mut row = Row {
        name: workload.name,
        start_only: workload.start_only,
        native: Cost::UNKNOWN,
        ours: Cost::UNKNOWN,
        peers: [0, 1, 2].map(|n| peers[n].as_ref().map(|_: &Vec<OsString>| Cost::UNKNOWN)),
    };
    // What the program reads is in the system's caches from here on, for the first measured run as for the others.
    time(&program, place, workload.name)?;
    for _ in 0..runs {
        row.native = row.native.least(time(&program, place, workload.name)?);
        fs::create_dir_all(&recordings)?;
        // Status 1 says that a fault was found, and is no failure.
        let cost = time_of(&ours, place, workload.name, &[0, 1])?;
        row.ours = row.ours.least(cost);
        fs::remove_dir_all(&recordings)?;
        for (peer, cost) in peers.iter().zip(&mut row.peers) {
            if let (Some(peer), Some(cost)) = (peer, cost) {
                // The sanitiser too ends with 1 when it has found a leak.
                *cost = cost.least(time_of(peer, place, workload.name, &[0, 1])?);
            }
        }
    }
    Ok(row)
}

/// Ratios over the rows that do more than start.
fn ratios(rows: &[Row], pick: impl Fn(&Row) -> Option<f64>) -> Vec<f64> {
    let rows = rows.iter().filter(|row| !row.start_only);
    rows.filter_map(pick).collect()
}

/// Rows on which Memcheck needs less CPU time than we do.
fn behind(rows: &[Row]) -> Vec<&'static str> {
    let rows = rows
        .iter()
        .filter(|r| r.peers[0].is_some_and(|m| m.cpu < r.ours.cpu));
    rows.map(|r| r.name).collect()
}

fn table(rows: &[Row]) {
    println!(
        "{:<20} {:>9} {:>9}  {:>8} {:>8} {:>8} {:>8}  {:>8} {:>8}",
        "", "native", "ours", "ours", PEERS[0], PEERS[1], PEERS[2], "ours", PEERS[0]
    );
    println!(
        "{:<20} {:>9} {:>9}  {:>8} {:>8} {:>8} {:>8}  {:>8} {:>8}",
        "workload", "CPU s", "CPU s", "CPU x", "CPU x", "CPU x", "CPU x", "wall x", "wall x"
    );
    let number = |n: Option<f64>| n.map_or("-".to_owned(), |n| format!("{n:.1}"));
    for row in rows {
        let cpu = row.peers.map(|p| number(p.map(|cost| row.cpu(cost))));
        println!(
            "{:<20} {:>9.3} {:>9.3}  {:>8.1} {:>8} {:>8} {:>8}  {:>8.1} {:>8}",
            row.name,
            row.native.cpu,
            row.ours.cpu,
            row.cpu(row.ours),
            cpu[0],
            cpu[1],
            cpu[2],
            row.wall(row.ours),
            number(row.peers[0].map(|cost| row.wall(cost))),
        );
    }
    for (name, fold) in [
        ("geometric mean", geometric_mean as fn(&[f64]) -> f64),
        ("worst", worst),
    ] {
        let over = |values: Vec<f64>| number((!values.is_empty()).then(|| fold(&values)));
        let peer = |n: usize| over(ratios(rows, |r| r.peers[n].map(|c| r.cpu(c))));
        println!(
            "{name:<40}  {:>8} {:>8} {:>8} {:>8}  {:>8} {:>8}",
            over(ratios(rows, |r| Some(r.cpu(r.ours)))),
            peer(0),
            peer(1),
            peer(2),
            over(ratios(rows, |r| Some(r.wall(r.ours)))),
            over(ratios(rows, |r| r.peers[0].map(|c| r.wall(c)))),
        );
    }
    println!(
        "asked of us: at most {:.0}x CPU time and {:.0}x wall time in the mean, and less CPU time than Memcheck in each row",
        GOAL.0, GOAL.1
    );
    match behind(rows)[..] {
        [] => {}
        ref names => println!("Memcheck needs less in: {}", names.join(", ")),
    }
}

fn report(rows: &[Row]) -> Value {
    let cost = |cost: Cost| json!({ "cpu_seconds": cost.cpu, "wall_seconds": cost.wall });
    let mean = |pick: &dyn Fn(&Row) -> Option<f64>| geometric_mean(&ratios(rows, pick));
    let list = rows.iter().map(|row| {
        json!({
            "workload": row.name,
            "in_mean": !row.start_only,
            "native": cost(row.native),
            "wherefore": cost(row.ours),
            "memcheck": row.peers[0].map(cost),
            "memcheck_origins": row.peers[1].map(cost),
            "address_sanitizer": row.peers[2].map(cost),
            "cpu_ratio": row.cpu(row.ours),
            "wall_ratio": row.wall(row.ours),
            "memcheck_cpu_ratio": row.peers[0].map(|c| row.cpu(c)),
        })
    });
    json!({
        "rows": list.collect::<Vec<Value>>(),
        "cpu_ratio_geometric_mean": mean(&|r| Some(r.cpu(r.ours))),
        "wall_ratio_geometric_mean": mean(&|r| Some(r.wall(r.ours))),
        "memcheck_cpu_ratio_geometric_mean": mean(&|r| r.peers[0].map(|c| r.cpu(c))),
        "goal": { "cpu_ratio": GOAL.0, "wall_ratio": GOAL.1 },
        "memcheck_needs_less": behind(rows),
    })
}
