//! `cargo xtask bench trace`: what writing the tape costs, how much of it there is, and what reading it costs.
//!
//! `crates/flow/benches/trace.rs` measures one program. The inputs are a tenth of those of `bench engine`, because
//! the tape is kept in memory. What the peers do for each instruction takes them so long that they get less again:
//! lackey a hundredth, and gdb three seconds, counted in instructions from `main` on. So that these can be
//! compared, all are divided by the instructions that they went through. `--alone` leaves the peers out.

use super::workloads::{self, Workload};
use super::{Cost, environment, geometric_mean, left_out, measure_each, record, show, time, worst};
use crate::flags::Flags;
use crate::install;
use crate::tool;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Those of `bench engine` that take a divisor.
const PROGRAMS: [&str; 11] = [
    "tree insert",
    "sort",
    "compression",
    "matrix",
    "fib",
    "string hash",
    "virtual calls",
    "tiny loops",
    "bytecode",
    "Lua",
    "Python loop",
];
const DIVISOR: u32 = 10;
const LACKEY_DIVISOR: u32 = 100;
const GDB_SECONDS: u32 = 3;

/// What we want to reach: times native, bytes on disk and nanoseconds for each instruction.
const TARGET_CPU: f64 = 3.0;
const TARGET_BYTES: f64 = 0.5;
const TARGET_PASS: f64 = 2.0;

struct Row {
    name: &'static str,
    steps: f64,
    native: Cost,
    guest_cpu: f64,
    wall: f64,
    tape_bytes: f64,
    compressed_bytes: Option<f64>,
    pass: f64,
    /// Most memory that taping, the pass and saving had.
    peak_bytes: f64,
    lackey: Option<PerStep>,
    gdb: Option<PerStep>,
}

/// Seconds for each instruction.
type PerStep = f64;

impl Row {
    fn ratio(&self) -> f64 {
        self.guest_cpu / self.native.cpu
    }

    fn wall_ratio(&self) -> f64 {
        self.wall / self.native.wall
    }

    /// How many times native a peer takes that takes so long for each instruction.
    fn times_native(&self, peer: PerStep) -> f64 {
        peer * self.steps / self.native.cpu
    }

    fn each(&self, what: f64) -> f64 {
        what / self.steps
    }
}

/// The programs that are run, as far as they are installed.
struct Tools {
    bench: PathBuf,
    wherefore: PathBuf,
    /// And what it takes to start under lackey, with how many instructions.
    valgrind: Option<(PathBuf, f64, u64)>,
    gdb: Option<PathBuf>,
}

pub(super) fn run(rest: &[String]) -> Result<bool> {
    let flags = Flags::parse(rest, &["--json", "--runs", "--alone"])?;
    install::missing_programs();
    for name in ["valgrind", "gdb", "zstd"] {
        if tool::find_program(name).is_none() {
            eprintln!("skipped, it is not installed: {name}");
        }
    }
    let place = tempfile::Builder::new().prefix("bench-").tempdir()?;
    let (workloads, mut absent) = workloads::all(place.path())?;
    let mut tools = Tools {
        bench: tool::bench("flow", "trace")?,
        wherefore: tool::wherefore()?,
        valgrind: None,
        gdb: tool::find_program("gdb").filter(|_| !flags.alone),
    };
    if let Some(valgrind) = tool::find_program("valgrind").filter(|_| !flags.alone) {
        let hello = workloads.iter().find(|workload| workload.start_only);
        let hello = hello.context("there is no workload that only starts")?;
        let (cpu, steps) = lackey(hello, &valgrind, &tools.wherefore, place.path())?;
        tools.valgrind = Some((valgrind, cpu, steps));
    }
    absent.retain(|(name, _)| PROGRAMS.contains(name));
    let runs = flags.runs.unwrap_or(3);
    let ours = workloads.iter().filter(|w| PROGRAMS.contains(&w.name));
    let (rows, failed) = measure_each(&flags, ours, |workload| {
        measure(workload, &tools, place.path(), runs).context(workload.name)
    });
    left_out(&absent, &failed);
    show(&flags, "workload", &rows, report, table)?;
    Ok(failed.is_empty())
}

fn measure(workload: &Workload, tools: &Tools, place: &Path, runs: u32) -> Result<Row> {
    let program = reduced(workload, DIVISOR);
    let mut native = Cost::UNKNOWN;
    for _ in 0..runs {
        native = native.least(time(&program, place, workload.name)?);
    }
    let output = environment(Command::new(&tools.bench).args(&program), place)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    // The program has printed what it had to say before.
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    let ours: Value = serde_json::from_str(line).context("the benchmark does not speak JSON")?;
    let figure = |name: &str| ours[name].as_f64().context("a figure is missing");
    Ok(Row {
        name: workload.name,
        steps: figure("steps")?,
        native,
        guest_cpu: figure("guest_cpu_seconds")?,
        wall: figure("wall_seconds")?,
        tape_bytes: figure("tape_bytes")?,
        compressed_bytes: ours["compressed_bytes"].as_f64(),
        pass: figure("last_writer_seconds")?,
        peak_bytes: figure("peak_bytes")?,
        lackey: match &tools.valgrind {
            Some((valgrind, start, start_steps)) => {
                let (cpu, steps) = lackey(workload, valgrind, &tools.wherefore, place)?;
                Some((cpu - start) / steps.saturating_sub(*start_steps) as f64)
            }
            None => None,
        },
        gdb: match &tools.gdb {
            Some(gdb) => gdb_record(workload, gdb, place)?,
            None => None,
        },
    })
}

fn reduced(workload: &Workload, by: u32) -> Vec<OsString> {
    std::iter::once(workload.program.clone().into_os_string())
        .chain(workload.args.iter().map(OsString::from))
        .chain([by.to_string().into()])
        .collect()
}

/// CPU seconds and instructions.
fn lackey(
    workload: &Workload,
    valgrind: &Path,
    wherefore: &Path,
    place: &Path,
) -> Result<(f64, u64)> {
    let program = reduced(workload, LACKEY_DIVISOR);
    let flags = [
        "--tool=lackey",
        "--trace-mem=yes",
        "--log-file=/dev/null",
        "-q",
    ];
    let mut command: Vec<OsString> = vec![valgrind.into()];
    command.extend(flags.map(OsString::from));
    command.extend(program.iter().cloned());
    let cost = time(&command, place, workload.name)?;
    let recordings = place.join("recordings");
    let steps = record(&program, wherefore, &recordings, place, workload.name)?;
    fs::remove_dir_all(&recordings)?;
    Ok((cost.cpu, steps))
}

/// Seconds for each instruction from `main` on, while it records; none if it cannot record the program at all.
fn gdb_record(workload: &Workload, gdb: &Path, place: &Path) -> Result<Option<PerStep>> {
    let script = place.join("record.gdb");
    // A program without symbols has no `main` that gdb could find.
    let start = match workload.args.is_empty() {
        true => "main",
        false => "__libc_start_main",
    };
    // It knows neither AVX nor the `xsave` with which a function is bound when first called.
    let text = format!(
        "set confirm off\nset pagination off\nset breakpoint pending on\n\
         set environment LD_BIND_NOW 1\n\
         set environment GLIBC_TUNABLES glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL\n\
         break {start}\nrun >/dev/null\nrecord full\nset record full insn-number-max 0\n\
         python import os, signal, threading, time\n\
         python stop = (gdb.selected_inferior().pid, signal.SIGINT)\n\
         python threading.Timer({GDB_SECONDS}, os.kill, stop).start(); begun = time.time()\n\
         continue\n\
         python print('seconds', time.time() - begun)\n\
         info record\nkill\n"
    );
    fs::write(&script, text)?;
    let mut command = Command::new(gdb);
    command
        .args(["-nx", "-q", "-batch", "-x"])
        .arg(&script)
        .arg("--args")
        .args(reduced(workload, 1));
    let output = environment(&mut command, place)
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = |prefix: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(prefix))?;
        line.split_whitespace().next()?.parse().ok()
    };
    match (number("seconds "), number("Log contains ")) {
        // It gives up at the first instruction that it does not know.
        (Some(seconds), Some(steps)) if seconds > 0.9 * f64::from(GDB_SECONDS) && steps > 0.0 => {
            Ok(Some(seconds / steps))
        }
        _ => {
            let errors = String::from_utf8_lossy(&output.stderr);
            let mut lines = errors.lines().chain(text.lines());
            let words = lines.find(|line| line.contains("not support"));
            let words = words.unwrap_or("it did not say why");
            eprintln!("skipped, gdb cannot record it ({words}): {}", workload.name);
            Ok(None)
        }
    }
}

fn table(rows: &[Row]) {
    println!(
        "{:<15} {:>6} {:>7} {:>7} {:>7} {:>6} {:>6}  {:>6} {:>10}  {:>6}  {:>8} {:>8}",
        "",
        "steps",
        "native",
        "guest",
        "",
        "guest",
        "",
        "bytes",
        "compressed",
        "reader",
        "lackey",
        "gdb"
    );
    println!(
        "{:<15} {:>6} {:>7} {:>7} {:>7} {:>6} {:>6}  {:>6} {:>10}  {:>6}  {:>8} {:>8}",
        "workload",
        "1e6",
        "CPU s",
        "CPU s",
        "wall s",
        "CPU x",
        "wall x",
        "/insn",
        "bytes/insn",
        "ns",
        "CPU x",
        "insn/s"
    );
    for row in rows {
        let optional =
            |value: Option<f64>, digits| value.map_or("-".into(), |v| format!("{v:.digits$}"));
        println!(
            "{:<15} {:>6.0} {:>7.3} {:>7.3} {:>7.3} {:>6.2} {:>6.1}  {:>6.2} {:>10}  {:>6.2}  {:>8} {:>8}",
            row.name,
            row.steps / 1e6,
            row.native.cpu,
            row.guest_cpu,
            row.wall,
            row.ratio(),
            row.wall_ratio(),
            row.each(row.tape_bytes),
            optional(row.compressed_bytes.map(|b| row.each(b)), 3),
            row.each(row.pass) * 1e9,
            optional(row.lackey.map(|s| row.times_native(s)), 0),
            optional(row.gdb.map(|s| 1.0 / s), 0),
        );
    }
    let means = Means::of(rows);
    println!(
        "guest CPU {:.2} times native on average (target {TARGET_CPU}), {:.2} at worst",
        means.cpu, means.cpu_worst
    );
    println!(
        "tape in memory {:.2} bytes for each instruction, compressed with zstd -1 {:.2} (target {TARGET_BYTES})",
        means.bytes, means.compressed
    );
    println!(
        "last writer of each register and 8 bytes of memory: {:.2} ns for each instruction (target {TARGET_PASS}), {:.2} at worst",
        means.pass, means.pass_worst
    );
    let peak = rows.iter().map(|r| r.peak_bytes).fold(0.0, f64::max);
    println!("memory, taping and the pass: {:.0} MB at most", peak / 1e6);
    if means.lackey.is_finite() {
        println!(
            "lackey --trace-mem: {:.0} times native on average",
            means.lackey
        );
    }
}

/// Ratios by geometric mean; bytes and nanoseconds by the plain mean over programs.
struct Means {
    cpu: f64,
    cpu_worst: f64,
    bytes: f64,
    compressed: f64,
    pass: f64,
    pass_worst: f64,
    lackey: f64,
    gdb: f64,
}

impl Means {
    fn of(rows: &[Row]) -> Means {
        let list = |pick: &dyn Fn(&Row) -> Option<f64>| -> Vec<f64> {
            rows.iter().filter_map(pick).collect()
        };
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let cpu = list(&|row| Some(row.ratio()));
        let pass = list(&|row| Some(row.each(row.pass) * 1e9));
        Means {
            cpu: geometric_mean(&cpu),
            cpu_worst: worst(&cpu),
            bytes: mean(list(&|row| Some(row.each(row.tape_bytes)))),
            compressed: mean(list(&|row| row.compressed_bytes.map(|b| row.each(b)))),
            pass_worst: worst(&pass),
            pass: mean(pass),
            lackey: geometric_mean(&list(&|row| row.lackey.map(|s| row.times_native(s)))),
            gdb: geometric_mean(&list(&|row| row.gdb.map(|s| 1.0 / s))),
        }
    }
}

fn report(rows: &[Row]) -> Value {
    let means = Means::of(rows);
    let list: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "workload": row.name,
                "steps": row.steps as u64,
                "native": { "cpu_seconds": row.native.cpu, "wall_seconds": row.native.wall },
                "guest_cpu_seconds": row.guest_cpu,
                "wall_seconds": row.wall,
                "guest_cpu_ratio": row.ratio(),
                "wall_ratio": row.wall_ratio(),
                "bytes_per_instruction": row.each(row.tape_bytes),
                "compressed_bytes_per_instruction": row.compressed_bytes.map(|b| row.each(b)),
                "last_writer_ns_per_instruction": row.each(row.pass) * 1e9,
                "peak_bytes": row.peak_bytes as u64,
                "lackey_cpu_ratio": row.lackey.map(|s| row.times_native(s)),
                "gdb_record_instructions_per_second": row.gdb.map(|s| 1.0 / s),
            })
        })
        .collect();
    json!({
        "rows": list,
        "guest_cpu_ratio_geometric_mean": means.cpu,
        "guest_cpu_ratio_worst": means.cpu_worst,
        "guest_cpu_ratio_target": TARGET_CPU,
        "bytes_per_instruction_mean": means.bytes,
        "compressed_bytes_per_instruction_mean": means.compressed,
        "compressed_bytes_per_instruction_target": TARGET_BYTES,
        "last_writer_ns_per_instruction_mean": means.pass,
        "last_writer_ns_per_instruction_worst": means.pass_worst,
        "last_writer_ns_per_instruction_target": TARGET_PASS,
        "lackey_cpu_ratio_geometric_mean": means.lackey,
        "gdb_record_instructions_per_second_geometric_mean": means.gdb,
    })
}
