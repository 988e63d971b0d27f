//! `cargo xtask locate`: how well `wherefore locate` finds faults that were put into the programs of `guests/locate/`.
//!
//! Each program has a reference and ten faults. For each fault a suite is chosen from the program's tests, up to ten
//! that fail and fifty that pass, and the rank of the faulty line is compared between value replacement, Tarantula and
//! Ochiai on the same runs. With several faults at once a developer is played who reads the list down to the first
//! fault, mends it, and asks again.

mod inputs;

use crate::flags::Flags;
use crate::tally::Tally;
use crate::tool;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const PROGRAMS: [&str; 5] = ["alarm", "tokens", "sched", "subst", "stats"];
const FAULTS: u32 = 10;
const FAILING: usize = 10;
const PASSING: usize = 50;
/// Failing tests with several faults: all of them are searched.
const FAILING_TOGETHER: usize = 5;
/// Faults that are put in together.
const TOGETHER: usize = 3;
/// Such versions per program.
const VERSIONS: u32 = 3;

/// What is run with every `cargo xtask test`: one fault of each program, and the last rank that counts as found.
const SHORT: [(&str, u32, u64); 5] = [
    ("alarm", 7, 3),
    ("tokens", 8, 3),
    ("sched", 8, 3),
    ("subst", 2, 3),
    ("stats", 1, 3),
];

/// Arguments, separated by spaces, and standard input.
type Given = (&'static str, &'static str);

/// Runs so short that everything can be tried in a process of its own: program, fault, and arguments and input of tests
/// of which the first fails.
const SMALL: [(&str, u32, &[Given]); 4] = [
    (
        "alarm",
        7,
        &[
            ("1 1 0 600 600 500 1 500 700 0 1", ""),
            ("1 1 0 600 600 500 1 560 700 0 1", ""),
            ("1 1 0 600 600 500 1 450 700 0 1", ""),
        ],
    ),
    ("tokens", 8, &[("", "->"), ("", "-"), ("", "x")]),
    (
        "sched",
        10,
        &[("1", "block flush"), ("1", "flush"), ("0", "flush")],
    ),
    ("subst", 8, &[("ab <&>", "ab"), ("ab X", "ab")]),
];

struct Bench {
    wherefore: PathBuf,
    folder: tempfile::TempDir,
}

/// How one fault came out.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) program: &'static str,
    pub(crate) fault: u32,
    pub(crate) report: Value,
    pub(crate) seconds: f64,
}

pub(crate) fn run(args: &[String]) -> Result<bool> {
    let flags = Flags::parse(args, &["--json"])?;
    if flags.words == ["short"] {
        let mut tally = Tally::default();
        suite(&mut tally)?;
        return Ok(tally.report());
    }
    let only = |what: &str| flags.words.iter().any(|w| w == what);
    let words: Vec<String> = flags
        .words
        .iter()
        .filter(|w| !["single", "many"].contains(&w.as_str()))
        .cloned()
        .collect();
    let found = if only("many") {
        Vec::new()
    } else {
        singles(&words)?
    };
    let rows = if only("single") {
        Vec::new()
    } else {
        multiples(&words)?
    };
    if flags.json {
        let list: Vec<Value> = found.iter().map(Found::json).collect();
        println!(
            "{}",
            serde_json::to_string_pretty(&json!({"single": list, "several": rows}))?
        );
    } else {
        if !found.is_empty() {
            print_singles(&found);
        }
        print_multiples(&rows);
    }
    Ok(true)
}

/// The short part, for `cargo xtask test`.
pub(crate) fn suite(tally: &mut Tally) -> Result<()> {
    let bench = Bench::new()?;
    for (program, fault, most) in SHORT {
        let name = format!("locate {program} {fault}");
        let complaints = match bench.single(program, fault)? {
            None => vec!["no test fails".to_owned()],
            Some(found) => match best(&found.report, "rank") {
                Some(rank) if rank <= most => Vec::new(),
                rank => vec![format!(
                    "the faulty line has rank {rank:?}, not at most {most}"
                )],
            },
        };
        tally.record(&name, Ok(complaints));
    }
    for (program, fault, tests) in SMALL {
        let name = format!("locate {program} {fault}, brute force");
        tally.record(&name, bench.oracle(program, fault, tests));
    }
    tally.record("locate, several faults", bench.several());
    Ok(())
}

/// Every fault that some test shows.
pub(crate) fn singles(words: &[String]) -> Result<Vec<Found>> {
    let bench = Bench::new()?;
    let mut out = Vec::new();
    for program in PROGRAMS {
        for fault in 1..=FAULTS {
            let name = format!("{program} {fault}");
            if !words.iter().all(|w| name.contains(w.as_str())) {
                continue;
            }
            match bench.single(program, fault)? {
                Some(found) => {
                    eprintln!("{name}: {}", found.line());
                    out.push(found);
                }
                None => eprintln!("{name}: no test fails; left out"),
            }
        }
    }
    Ok(out)
}

impl Bench {
    fn new() -> Result<Bench> {
        Ok(Bench {
            wherefore: tool::wherefore()?,
            folder: tempfile::tempdir()?,
        })
    }

    fn compile(&self, program: &str, faults: u32) -> Result<PathBuf> {
        let out = self.folder.path().join(format!("{program}-{faults}"));
        let status = Command::new("gcc")
            .args(["-g", "-O0", "-w", &format!("-DFAULTS={faults}"), "-o"])
            .arg(&out)
            .arg(source(program))
            .status()
            .context("cannot start gcc")?;
        if !status.success() {
            bail!("{program} with faults {faults:#x} does not compile");
        }
        Ok(out)
    }

    /// Writes a suite for the faulty program from the first of its tests; `None` if none of them fails.
    fn write_suite(
        &self,
        name: &str,
        program: &str,
        faulty: &Path,
        most: usize,
    ) -> Result<Option<PathBuf>> {
        self.suite_of(name, program, faulty, most, inputs::inputs(program))
    }

    fn suite_of(
        &self,
        name: &str,
        program: &str,
        faulty: &Path,
        most: usize,
        inputs: Vec<inputs::Input>,
    ) -> Result<Option<PathBuf>> {
        let reference = self.compile(program, 0)?;
        let (mut failing, mut passing) = (Vec::new(), Vec::new());
        for (n, input) in inputs.into_iter().enumerate() {
            if failing.len() == most && passing.len() == PASSING {
                break;
            }
            let Some(same) = self.same(&reference, faulty, &input)? else {
                continue;
            };
            let list = if same { &mut passing } else { &mut failing };
            if list.len() < if same { PASSING } else { most } {
                list.push((n, input));
            }
        }
        if failing.is_empty() {
            return Ok(None);
        }
        let mut text = format!(
            "name = {}\nprogram = {}\nexpected = {}\ntimeout = 5\n",
            quoted(name),
            quoted(&faulty.display().to_string()),
            quoted(&format!("run: {}", reference.display())),
        );
        for (n, (args, stdin)) in failing.iter().chain(&passing) {
            let args: Vec<String> = args.iter().map(|a| quoted(a)).collect();
            text.push_str(&format!(
                "[[test]]\nname = \"t{n}\"\nargs = [{}]\nstdin = {}\n",
                args.join(", "),
                quoted(stdin)
            ));
        }
        let path = self.folder.path().join(format!("{name}.toml"));
        fs::write(&path, text)?;
        Ok(Some(path))
    }

    /// Both programs do the same; `None` if the faulty one does not end.
    fn same(
        &self,
        reference: &Path,
        faulty: &Path,
        (args, stdin): &inputs::Input,
    ) -> Result<Option<bool>> {
        let input = self.folder.path().join("stdin");
        fs::write(&input, stdin)?;
        let run = |program: &Path| -> Result<_> {
            // A faulty program may loop.
            let output = Command::new("timeout")
                .arg("2")
                .arg(program)
                .args(args)
                .stdin(fs::File::open(&input)?)
                .stderr(Stdio::null())
                .output()?;
            Ok((output.stdout, output.status.code()))
        };
        let (a, b) = (run(reference)?, run(faulty)?);
        Ok(if b.1 == Some(124) { None } else { Some(a == b) })
    }

    fn locate(&self, suite: &Path, truth: &[String], options: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.wherefore);
        command
            .arg("locate")
            .arg(suite)
            .args(["--json", "--quiet"])
            .args(options)
            .env(
                "WHEREFORE_RECORDINGS",
                self.folder.path().join("recordings"),
            );
        for t in truth {
            command.args(["--truth", t]);
        }
        let output = command.output()?;
        if output.status.code() != Some(1) && output.status.code() != Some(0) {
            bail!(
                "locate {}: {}",
                suite.display(),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        serde_json::from_slice(&output.stdout).context("locate does not speak JSON")
    }

    fn single(&self, program: &'static str, fault: u32) -> Result<Option<Found>> {
        let faulty = self.compile(program, 1 << fault)?;
        let name = format!("{program}-{fault}");
        let Some(suite) = self.write_suite(&name, program, &faulty, FAILING)? else {
            return Ok(None);
        };
        let begun = Instant::now();
        let report = self.locate(&suite, &truth(program, fault)?, &[])?;
        let found = Found {
            program,
            fault,
            report,
            seconds: begun.elapsed().as_secs_f64(),
        };
        let _ = fs::remove_dir_all(self.folder.path().join("recordings"));
        Ok(Some(found))
    }

    /// Three faults at once: the ways to the next list must find all of them, and search no more than they may.
    fn several(&self) -> Result<Vec<String>> {
        let (program, faults) = ("tokens", [1, 3, 8]);
        let mut complaints = Vec::new();
        let mut runs = Vec::new();
        for way in ["full", "partial", "minimal"] {
            let (mut scores, mut effort) = (Vec::new(), Effort::default());
            self.play(program, &faults, way, &mut scores, &mut effort)?;
            if scores.len() != faults.len() {
                complaints.push(format!("{way}: {} of 3 faults are found", scores.len()));
            }
            runs.push(effort.runs);
        }
        if !(runs[2] <= runs[1] && runs[1] <= runs[0]) {
            complaints.push(format!("runs searched by full, partial, minimal: {runs:?}"));
        }
        Ok(complaints)
    }

    /// The full search with forks and without must give the same pairs.
    fn oracle(&self, program: &str, fault: u32, tests: &[Given]) -> Result<Vec<String>> {
        let faulty = self.compile(program, 1 << fault)?;
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        let inputs = tests.iter().map(|(a, i)| (words(a), (*i).to_owned()));
        let Some(suite) = self.suite_of("oracle", program, &faulty, 1, inputs.collect())? else {
            return Ok(vec!["no test fails".to_owned()]);
        };
        let mut states = Vec::new();
        for options in [&["--full"][..], &["--full", "--no-fork"][..]] {
            let report = self.locate(&suite, &[], options)?;
            let state = self
                .folder
                .path()
                .join("recordings/.locate/oracle/state.json");
            let state: Value = serde_json::from_slice(&fs::read(state)?)?;
            let mut pairs: Vec<String> = state["search"]["runs"]
                .as_array()
                .into_iter()
                .flatten()
                .flat_map(|r| r["ivmps"].as_array().cloned().unwrap_or_default())
                .map(|p| p.to_string())
                .collect();
            pairs.sort();
            states.push((pairs, report["search"]["tally"].clone()));
        }
        let mut complaints = Vec::new();
        if states[0].0.is_empty() {
            complaints.push("the full search finds nothing".to_owned());
        }
        if states[0].0 != states[1].0 {
            complaints.push("forking and starting over find different pairs".to_owned());
        }
        if states[0].1 != states[1].1 {
            complaints.push(format!(
                "the experiments end differently: {} and {}",
                states[0].1, states[1].1
            ));
        }
        Ok(complaints)
    }
}

fn source(program: &str) -> PathBuf {
    tool::root().join(format!("guests/locate/{program}.c"))
}

/// The lines that count as the fault.
fn truth(program: &str, fault: u32) -> Result<Vec<String>> {
    let text = fs::read_to_string(source(program))?;
    let (here, also) = (format!("BUG_{fault}("), format!("// FAULT {fault}"));
    let is_mark = |line: &str| line.contains(&here) || line.trim_end().ends_with(&also);
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, l)| is_mark(l) && !l.starts_with("#define"));
    Ok(lines
        .map(|(n, _)| format!("{program}.c:{}", n + 1))
        .collect())
}

/// The best of the lines that count, by `key`.
fn best(report: &Value, key: &str) -> Option<u64> {
    let truth = report["truth"].as_array()?;
    truth.iter().filter_map(|t| t[key].as_u64()).min()
}

fn quoted(text: &str) -> String {
    // TOML's basic strings are JSON's, but for a few escapes that do not occur here.
    Value::String(text.to_owned()).to_string()
}

impl Found {
    fn statements(&self) -> u64 {
        self.report["statements"].as_u64().unwrap_or(1).max(1)
    }

    /// Percentage of the lines that need not be looked at.
    fn score(&self, key: &str) -> f64 {
        let total = self.statements() as f64;
        best(&self.report, key).map_or(0.0, |r| 100.0 * (total - r as f64) / total)
    }

    fn line(&self) -> String {
        let rank = |key| best(&self.report, key).map_or("-".to_owned(), |r| r.to_string());
        format!(
            "rank {} (tarantula {}, ochiai {}) of {} lines, {} replacements, {:.1} s",
            rank("rank"),
            rank("tarantula_rank"),
            rank("ochiai_rank"),
            self.statements(),
            self.report["search"]["tally"]["tried"],
            self.seconds
        )
    }

    fn json(&self) -> Value {
        json!({
            "program": self.program,
            "fault": self.fault,
            "statements": self.statements(),
            "rank": best(&self.report, "rank"),
            "tarantula": best(&self.report, "tarantula_rank"),
            "ochiai": best(&self.report, "ochiai_rank"),
            "tried": self.report["search"]["tally"]["tried"],
            "full": self.report["search"]["full"],
            "per_second": self.report["search"]["per_second"],
            "workers": self.report["search"]["workers"],
            "seconds": self.seconds,
        })
    }
}

fn print_singles(found: &[Found]) {
    let n = found.len().max(1) as f64;
    let methods = [
        ("value replacement", "rank"),
        ("tarantula", "tarantula_rank"),
        ("ochiai", "ochiai_rank"),
    ];
    println!(
        "\n{} single faults; share of them by score (lines that need not be looked at)\n",
        found.len()
    );
    println!(
        "{:<10}{:>20}{:>14}{:>14}",
        "score", methods[0].0, methods[1].0, methods[2].0
    );
    let bands = [99, 90, 80, 70, 60, 50, 40, 30, 20, 10, 0];
    for (i, low) in bands.iter().enumerate() {
        let high = if i == 0 {
            101.0
        } else {
            f64::from(bands[i - 1])
        };
        let count = |key| {
            let scores = found.iter().map(|f| f.score(key));
            let inside = scores
                .filter(|s| *s >= f64::from(*low) && *s < high)
                .count();
            format!("{inside} ({:.1} %)", 100.0 * inside as f64 / n)
        };
        let upper = if i == 0 { 100 } else { bands[i - 1] };
        let band = format!("{low}-{upper} %");
        println!(
            "{band:<10}{:>20}{:>14}{:>14}",
            count("rank"),
            count("tarantula_rank"),
            count("ochiai_rank")
        );
    }
    for most in [1, 5] {
        let share = |key| {
            let hits = found
                .iter()
                .filter(|f| best(&f.report, key).is_some_and(|r| r <= most))
                .count();
            format!("{hits} ({:.1} %)", 100.0 * hits as f64 / n)
        };
        let name = format!("rank <= {most}");
        println!(
            "{name:<10}{:>20}{:>14}{:>14}",
            share("rank"),
            share("tarantula_rank"),
            share("ochiai_rank")
        );
    }
    println!(
        "\n{:<8}{:>7}{:>14}{:>14}{:>8}{:>10}{:>9}",
        "program", "faults", "replacements", "full search", "share", "per s", "s/fault"
    );
    for program in PROGRAMS {
        let of: Vec<&Found> = found.iter().filter(|f| f.program == program).collect();
        if of.is_empty() {
            continue;
        }
        let sum = |key: &[&str]| -> f64 {
            let value = |f: &&Found| {
                key.iter()
                    .fold(&f.report, |v, k| &v[*k])
                    .as_f64()
                    .unwrap_or(0.0)
            };
            of.iter().map(value).sum()
        };
        let (tried, full) = (sum(&["search", "tally", "tried"]), sum(&["search", "full"]));
        println!(
            "{program:<8}{:>7}{tried:>14.0}{full:>14.0}{:>7.1}%{:>10.0}{:>9.1}",
            of.len(),
            100.0 * tried / full.max(1.0),
            tried / sum(&["search", "seconds"]).max(1e-9),
            of.iter().map(|f| f.seconds).sum::<f64>() / of.len() as f64
        );
    }
}

/// Plays the developer on versions with several faults; one row per program and way.
fn multiples(words: &[String]) -> Result<Vec<Value>> {
    let bench = Bench::new()?;
    let mut rows = Vec::new();
    for program in PROGRAMS {
        if !words.iter().all(|w| program.contains(w.as_str())) {
            continue;
        }
        for way in ["ideal", "full", "partial", "minimal"] {
            let (mut scores, mut seconds, mut effort) = (Vec::new(), 0.0, Effort::default());
            for version in 0..VERSIONS {
                let faults: Vec<u32> = (0..TOGETHER as u32)
                    .map(|i| 1 + (version * 2 + i * 3) % FAULTS)
                    .collect();
                let begun = Instant::now();
                if way == "ideal" {
                    for &f in &faults {
                        if let Some(found) = bench.single(program, f)? {
                            scores.push(found.score("rank"));
                            effort.add(&found.report);
                        }
                    }
                } else {
                    bench.play(program, &faults, way, &mut scores, &mut effort)?;
                }
                seconds += begun.elapsed().as_secs_f64();
            }
            let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
            eprintln!(
                "{program} {way}: {mean:.1} % over {} faults, {seconds:.0} s",
                scores.len()
            );
            rows.push(json!({
                "program": program, "way": way, "score": mean, "faults": scores.len(),
                "runs_searched": effort.runs, "replacements": effort.tried, "full": effort.full,
                "seconds": seconds,
            }));
        }
    }
    Ok(rows)
}

/// `cargo xtask bench locate`: replacements per second on one CPU, and what a fault takes.
pub(crate) fn bench(args: &[String]) -> Result<bool> {
    let flags = Flags::parse(args, &["--json"])?;
    let bench = Bench::new()?;
    let mut rows = Vec::new();
    for (program, fault, _) in SHORT {
        if !flags.selects(program) {
            continue;
        }
        let Some(found) = bench.single(program, fault)? else {
            continue;
        };
        // Without the reductions there is enough to do for a rate.
        let faulty = bench.compile(program, 1 << fault)?;
        let Some(suite) = bench.write_suite("rate", program, &faulty, 1)? else {
            continue;
        };
        let options = ["--workers", "1", "--full", "--budget", "20"];
        let rate = bench.locate(&suite, &[], &options)?;
        let mut row = found.json();
        row["per_second_per_cpu"] = rate["search"]["per_second"].clone();
        row["steps"] = rate["search"]["steps"].clone();
        rows.push(row);
        let _ = fs::remove_dir_all(bench.folder.path().join("recordings"));
    }
    if flags.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(true);
    }
    println!(
        "{:<10}{:>14}{:>22}{:>12}{:>16}{:>14}",
        "program", "instructions", "replacements/s/CPU", "s/fault", "replacements", "of the full"
    );
    for row in &rows {
        let number = |key: &str| row[key].as_f64().unwrap_or(0.0);
        println!(
            "{:<10}{:>14}{:>22.0}{:>12.1}{:>16}{:>12.1} %",
            row["program"].as_str().unwrap_or_default(),
            number("steps"),
            number("per_second_per_cpu"),
            number("seconds"),
            number("tried"),
            100.0 * number("tried") / number("full").max(1.0)
        );
    }
    Ok(true)
}

impl Bench {
    /// Mends one fault after another, as the lists lead to them.
    fn play(
        &self,
        program: &'static str,
        faults: &[u32],
        way: &str,
        scores: &mut Vec<f64>,
        effort: &mut Effort,
    ) -> Result<()> {
        let mut left: Vec<u32> = faults.to_vec();
        let name = format!("{program}-many");
        let mut mended: Option<Vec<String>> = None;
        while !left.is_empty() {
            let mask = left.iter().fold(0, |m, f| m | 1 << f);
            let faulty = self.compile(program, mask)?;
            let most = FAILING_TOGETHER;
            let Some(suite) = self.write_suite(&name, program, &faulty, most)? else {
                break;
            };
            let mut lines = Vec::new();
            for &f in &left {
                lines.extend(truth(program, f)?.into_iter().map(|t| (f, t)));
            }
            let all: Vec<String> = lines.iter().map(|(_, t)| t.clone()).collect();
            let mut options = vec!["--faults", "many", "--recompute", way];
            if let Some(fixed) = &mended {
                options.push("--continue");
                for f in fixed {
                    options.extend(["--fixed", f.as_str()]);
                }
            }
            let report = self.locate(&suite, &all, &options)?;
            effort.add(&report);
            let total = report["statements"].as_f64().unwrap_or(1.0);
            let ranks = report["truth"].as_array().cloned().unwrap_or_default();
            let first = ranks
                .iter()
                .zip(&lines)
                .filter_map(|(t, (f, _))| Some((t["rank"].as_u64()?, *f)))
                .min();
            // What no list leads to is found in the end, by reading everything.
            let (rank, fault) = first.unwrap_or((total as u64, left[0]));
            scores.push(100.0 * (total - rank as f64).max(0.0) / total);
            left.retain(|f| *f != fault);
            mended = Some(truth(program, fault)?);
        }
        let _ = fs::remove_dir_all(self.folder.path().join("recordings"));
        Ok(())
    }
}

/// What searches took.
#[derive(Default)]
struct Effort {
    runs: u64,
    tried: u64,
    /// Replacements that the full search of the same runs would have tried.
    full: u64,
}

impl Effort {
    fn add(&mut self, report: &Value) {
        let search = &report["search"];
        let list = |key: &str| search[key].as_array().map_or(0, Vec::len) as u64;
        self.runs += list("searched") - list("reused");
        self.tried += search["tally"]["tried"].as_u64().unwrap_or(0);
        self.full += search["full"].as_u64().unwrap_or(0);
    }
}

fn print_multiples(rows: &[Value]) {
    if rows.is_empty() {
        return;
    }
    let ways = ["ideal", "full", "partial", "minimal"];
    let print = |title: &str, cell: &dyn Fn(&Value) -> String| {
        println!("\n{TOGETHER} faults at once: {title}\n");
        print!("{:<8}", "program");
        ways.iter().for_each(|way| print!("{way:>20}"));
        println!();
        for program in PROGRAMS {
            let of: Vec<&Value> = rows.iter().filter(|r| r["program"] == program).collect();
            if of.is_empty() {
                continue;
            }
            print!("{program:<8}");
            for way in ways {
                let row = of.iter().find(|r| r["way"] == way);
                print!("{:>20}", row.map_or_else(String::new, |r| cell(r)));
            }
            println!();
        }
    };
    let number = |r: &Value, key: &str| r[key].as_f64().unwrap_or(0.0);
    print("mean score of each located fault (their number)", &|r| {
        format!("{:.1} % ({})", number(r, "score"), r["faults"])
    });
    print("failing runs searched, seconds", &|r| {
        format!("{}, {:.0} s", r["runs_searched"], number(r, "seconds"))
    });
    print("replacements, share of the full search", &|r| {
        let share = 100.0 * number(r, "replacements") / number(r, "full").max(1.0);
        format!("{}, {share:.1} %", r["replacements"])
    });
}
