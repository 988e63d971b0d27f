//! `cargo xtask bench engine`: what running under control costs, beside what native and Valgrind cost.
//!
//! CPU time is user plus system of the whole tree, tracer included: the difference of what the kernel has charged to
//! our waited-for children before and after. The three are measured in turn, round by round, so that a machine that
//! slows down slows all of them down, and the least of each is kept, because interference only ever adds. Of ours, the
//! guest's own share is shown beside the whole: the rest is the tracer's, which is over when the code is translated.

mod check;
mod debug;
mod slice;
mod threads;
mod trace;
mod workloads;

use crate::flags::Flags;
use crate::install;
use crate::tool;
use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use workloads::Workload;

#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu: f64,
    wall: f64,
}

impl Cost {
    const UNKNOWN: Cost = Cost {
        cpu: f64::INFINITY,
        wall: f64::INFINITY,
    };

    fn least(self, other: Cost) -> Cost {
        Cost {
            cpu: self.cpu.min(other.cpu),
            wall: self.wall.min(other.wall),
        }
    }
}

#[derive(Debug)]
struct Row {
    name: &'static str,
    /// Start-up time alone: too short for its ratio to say anything about translated code.
    start_only: bool,
    native: Cost,
    ours: Cost,
    /// What of our CPU time is the guest's own; the rest is the tracer's, most of it translating.
    guest_cpu: f64,
    valgrind: Option<Cost>,
}

pub(crate) fn run(args: &[String]) -> Result<bool> {
    let (what, rest) = args
        .split_first()
        .map_or(("", args), |(what, rest)| (what.as_str(), rest));
    match what {
        "engine" => {}
        "check" => return check::run(rest),
        "debug" => return debug::run(rest),
        "slice" => return slice::run(rest),
        "threads" => return threads::run(rest),
        "trace" => return trace::run(rest),
        "checkpoints" => {
            let bench = [
                "bench",
                "--quiet",
                "--package",
                "guest",
                "--bench",
                "checkpoints",
                "--",
            ];
            return Ok(tool::cargo().args(bench).args(rest).status()?.success());
        }
        "locate" => return crate::locate::bench(rest),
        _ => bail!(
            "there are `bench engine`, `check`, `debug`, `threads`, `checkpoints`, `trace`, `slice` and `locate`"
        ),
    }
    let flags = Flags::parse(rest, &["--json", "--runs"])?;
    install::missing_programs();
    let wherefore = tool::wherefore()?;
    let place = tempfile::Builder::new().prefix("bench-").tempdir()?;
    let (workloads, absent) = workloads::all(place.path())?;
    let runs = flags.runs.unwrap_or(3);
    let (rows, failed) = measure_each(&flags, &workloads, |workload| {
        measure(workload, &wherefore, place.path(), runs)
    });
    left_out(&absent, &failed);
    show(&flags, "workload", &rows, report, table)?;
    Ok(failed.is_empty())
}

/// Measures the workloads that are asked for; what is wrong with one of them does not cost the others.
fn measure_each<'a, R>(
    flags: &Flags,
    workloads: impl IntoIterator<Item = &'a Workload>,
    measure: impl Fn(&Workload) -> Result<R>,
) -> (Vec<R>, Vec<String>) {
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for workload in workloads.into_iter().filter(|w| flags.names(w.name)) {
        eprintln!("{}", workload.name);
        match measure(workload) {
            Ok(row) => rows.push(row),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    (rows, failed)
}

/// Says what could not be run, and what was and failed.
fn left_out(absent: &[(&str, String)], failed: &[String]) {
    for (name, reason) in absent {
        eprintln!("skipped, {reason}: {name}");
    }
    for reason in failed {
        eprintln!("failed: {reason}");
    }
}

/// Prints what was measured, as data if that is asked for.
fn show<R>(
    flags: &Flags,
    what: &str,
    rows: &[R],
    report: impl Fn(&[R]) -> Value,
    table: impl Fn(&[R]),
) -> Result<()> {
    if rows.is_empty() {
        bail!("nothing was measured; is there a {what} of that name?");
    }
    if flags.json {
        println!("{}", serde_json::to_string_pretty(&report(rows))?);
    } else {
        table(rows);
    }
    Ok(())
}

fn measure(workload: &Workload, wherefore: &Path, place: &Path, runs: u32) -> Result<Row> {
    let recordings = place.join("recordings");
    let program = workload.command();
    let mut ours: Vec<OsString> = vec![wherefore.into(), "run".into(), "--quiet".into()];
    ours.extend([
        "--stats".into(),
        "--json".into(),
        "--recordings".into(),
        recordings.clone().into(),
        "--".into(),
    ]);
    ours.extend(program.iter().cloned());
    let peer = tool::find_program("valgrind").map(|valgrind| {
        let mut command: Vec<OsString> = vec![valgrind.into(), "--tool=none".into(), "-q".into()];
        command.extend(program.iter().cloned());
        command
    });
    let mut row = Row {
        name: workload.name,
        start_only: workload.start_only,
        native: Cost::UNKNOWN,
        ours: Cost::UNKNOWN,
        guest_cpu: f64::INFINITY,
        valgrind: peer.as_ref().map(|_| Cost::UNKNOWN),
    };
    for _ in 0..runs {
        row.native = row.native.least(time(&program, place, workload.name)?);
        fs::create_dir_all(&recordings)?;
        let (cost, report) = run_timed(&ours, place, workload.name, &[0])?;
        row.ours = row.ours.least(cost);
        row.guest_cpu = row.guest_cpu.min(guest_cpu(&report)?);
        fs::remove_dir_all(&recordings)?;
        if let (Some(peer), Some(cost)) = (&peer, &mut row.valgrind) {
            *cost = cost.least(time(peer, place, workload.name)?);
        }
    }
    Ok(row)
}

/// The guest's CPU time in the report of a run.
fn guest_cpu(report: &[u8]) -> Result<f64> {
    let report: Value = serde_json::from_slice(report).context("the report of a run")?;
    let part = |name: &str| {
        let microseconds = report["cost"][name].as_f64();
        microseconds.with_context(|| format!("a report without {name}"))
    };
    Ok((part("guest_user")? + part("guest_system")?) / 1e6)
}

/// Where and with what environment everything runs, so that all do the same.
fn environment<'a>(command: &'a mut Command, place: &Path) -> &'a mut Command {
    command.current_dir(place).env_clear().envs([
        ("PATH", tool::PATH),
        ("LC_ALL", "C"),
        ("PYTHONHASHSEED", "0"),
    ])
}

/// Records a program as the latest of `recordings`; returns its steps.
fn record(
    program: &[OsString],
    wherefore: &Path,
    recordings: &Path,
    place: &Path,
    name: &str,
) -> Result<u64> {
    let words = ["run", "--quiet", "--recordings"].map(OsString::from);
    let mut command: Vec<OsString> = vec![wherefore.into()];
    command.extend(words);
    command.extend([recordings.into(), "--".into()]);
    command.extend(program.iter().cloned());
    time(&command, place, name)?;
    let meta: Value = serde_json::from_slice(&fs::read(recordings.join("latest/meta.json"))?)?;
    let steps = meta["figures"]["steps"].as_u64();
    steps.context("the recording does not say how many steps it has")
}

fn time(command: &[OsString], place: &Path, name: &str) -> Result<Cost> {
    time_of(command, place, name, &[0])
}

/// The same of a command that may end with one of these statuses.
fn time_of(command: &[OsString], place: &Path, name: &str, statuses: &[i32]) -> Result<Cost> {
    run_timed(command, place, name, statuses).map(|(cost, _)| cost)
}

/// The same, with what the command wrote to standard error.
fn run_timed(
    command: &[OsString],
    place: &Path,
    name: &str,
    statuses: &[i32],
) -> Result<(Cost, Vec<u8>)> {
    let charged = || -> Result<f64> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let total = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Ok(total as f64 / 1e6)
    };
    let (before, start) = (charged()?, Instant::now());
    let output = environment(Command::new(&command[0]).args(&command[1..]), place)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", command[0].display()))?;
    let cost = Cost {
        wall: start.elapsed().as_secs_f64(),
        cpu: charged()? - before,
    };
    if !output
        .status
        .code()
        .is_some_and(|code| statuses.contains(&code))
    {
        let words = String::from_utf8_lossy(&output.stderr)
            .trim_end()
            .to_owned();
        bail!(
            "{} under {}: {}: {words}",
            name,
            command[0].display(),
            output.status
        );
    }
    Ok((cost, output.stderr))
}

/// Below this a process is all start-up, and a ratio of two such times is noise.
const TICK: f64 = 1e-4;

fn ratio(a: f64, b: f64) -> f64 {
    a.max(TICK) / b.max(TICK)
}

fn geometric_mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Ratios over the rows that do more than start, CPU or wall as `pick` says.
fn ratios(rows: &[Row], pick: impl Fn(&Row) -> Option<f64>) -> Vec<f64> {
    rows.iter()
        .filter(|row| !row.start_only)
        .filter_map(pick)
        .collect()
}

fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

fn table(rows: &[Row]) {
    println!(
        "{:<22} {:>9} {:>9} {:>9}   {:>8} {:>8} {:>8}   {:>8}",
        "", "native", "ours", "valgrind", "guest", "ours", "valgrind", "ours"
    );
    println!(
        "{:<22} {:>9} {:>9} {:>9}   {:>8} {:>8} {:>8}   {:>8}",
        "workload", "CPU s", "CPU s", "CPU s", "CPU x", "CPU x", "CPU x", "wall x"
    );
    for row in rows {
        let peer = |text: &dyn Fn(Cost) -> String| row.valgrind.map_or("-".to_owned(), text);
        println!(
            "{:<22} {:>9.3} {:>9.3} {:>9}   {:>8.2} {:>8.2} {:>8}   {:>8.2}",
            row.name,
            row.native.cpu,
            row.ours.cpu,
            peer(&|cost| format!("{:.3}", cost.cpu)),
            ratio(row.guest_cpu, row.native.cpu),
            ratio(row.ours.cpu, row.native.cpu),
            peer(&|cost| format!("{:.2}", ratio(cost.cpu, row.native.cpu))),
            ratio(row.ours.wall, row.native.wall),
        );
    }
    let guest = ratios(rows, |row| Some(ratio(row.guest_cpu, row.native.cpu)));
    let ours = ratios(rows, |row| Some(ratio(row.ours.cpu, row.native.cpu)));
    let wall = ratios(rows, |row| Some(ratio(row.ours.wall, row.native.wall)));
    let peer = ratios(rows, |row| {
        row.valgrind.map(|cost| ratio(cost.cpu, row.native.cpu))
    });
    for (name, fold) in [
        ("geometric mean", geometric_mean as fn(&[f64]) -> f64),
        ("worst", worst),
    ] {
        println!(
            "{name:<52}   {:>8.2} {:>8.2} {:>8.2}   {:>8.2}",
            fold(&guest),
            fold(&ours),
            fold(&peer),
            fold(&wall)
        );
    }
    for row in rows.iter().filter(|row| row.start_only) {
        println!(
            "{} takes {:.1} ms of wall time and is in neither mean",
            row.name,
            row.ours.wall * 1e3
        );
    }
}

fn report(rows: &[Row]) -> Value {
    let cost = |cost: Cost| json!({ "cpu_seconds": cost.cpu, "wall_seconds": cost.wall });
    let guest = ratios(rows, |row| Some(ratio(row.guest_cpu, row.native.cpu)));
    let ours = ratios(rows, |row| Some(ratio(row.ours.cpu, row.native.cpu)));
    let peer = ratios(rows, |row| {
        row.valgrind.map(|cost| ratio(cost.cpu, row.native.cpu))
    });
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "workload": row.name,
                "in_mean": !row.start_only,
                "native": cost(row.native),
                "wherefore": cost(row.ours),
                "valgrind": row.valgrind.map(cost),
                "guest_cpu_seconds": row.guest_cpu,
                "guest_cpu_ratio": ratio(row.guest_cpu, row.native.cpu),
                "cpu_ratio": ratio(row.ours.cpu, row.native.cpu),
                "wall_ratio": ratio(row.ours.wall, row.native.wall),
                "valgrind_cpu_ratio": row.valgrind.map(|cost| ratio(cost.cpu, row.native.cpu)),
            })
        })
        .collect();
    json!({
        "rows": rows,
        "guest_cpu_ratio_geometric_mean": geometric_mean(&guest),
        "guest_cpu_ratio_worst": worst(&guest),
        "cpu_ratio_geometric_mean": geometric_mean(&ours),
        "cpu_ratio_worst": worst(&ours),
        "valgrind_cpu_ratio_geometric_mean": geometric_mean(&peer),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means() {
        assert!((geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-12);
        assert!(geometric_mean(&[]).is_nan());
        assert!((worst(&[1.0, 3.0, 2.0]) - 3.0).abs() < 1e-12);
    }
}
