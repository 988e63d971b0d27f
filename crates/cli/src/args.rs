//! What can be typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use case::{Point, Window};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  wherefore run -- ./server --port 8080     run and record; report a crash
  wherefore replay                          run the latest recording again
  wherefore replay server-3 --to 1234567    stop there and say where that is
  wherefore check -- ./server               run, and look for memory faults and leaks
  wherefore debug                           look at it with gdb, forwards and backwards
  wherefore locate suite.toml               which line makes the tests fail
  wherefore run --chaos 100 -- ./server     run under hostile schedules until it fails
  wherefore ls                              what has been recorded
  wherefore rm server-0 server-1            give back the space

Exit status: that of the program (also death by the same signal); 2 if the request makes no sense;
3 if wherefore could not do its job.";

/// Records a program while it runs, repeats the run exactly, and reports why it died.
#[derive(Debug, Parser)]
#[command(name = "wherefore", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the recordings [default: $WHEREFORE_RECORDINGS, else $XDG_DATA_HOME/wherefore, else
    /// ~/.local/share/wherefore]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) recordings: Option<PathBuf>,

    /// Never use colours (they are used on a terminal, unless NO_COLOR is set)
    #[arg(long, global = true)]
    pub(crate) no_color: bool,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a program as the shell would, and record it
    Run(RunArgs),
    /// Run a recording again, from the recording alone
    Replay(ReplayArgs),
    /// Debug a recording with gdb, forwards and backwards
    Debug(DebugArgs),
    /// Serve a recording to any debugger that speaks gdb's remote protocol
    Serve(ServeArgs),
    /// Find the line that is at fault, from tests that pass and tests that fail
    Locate(Box<LocateArgs>),
    /// Find memory faults and leaks by rules, with the way that each bad pointer took
    Check(Box<CheckArgs>),
    /// List, check and explain rule files
    Rules(RulesArgs),
    /// Show the statements that had to do with a value or a failure
    Slice(SliceArgs),
    /// Show who wrote a variable, the latest first, with the values
    Where(WhereArgs),
    /// Print the value of an expression at a place in the run
    Value(ValueArgs),
    /// Show which lines of the source ran, and how often
    Source(SourceArgs),
    /// List the recordings
    Ls(ListArgs),
    /// Describe a recording
    Info(InfoArgs),
    /// List when which thread had its turn, as `run --schedule` reads it
    Schedule(ScheduleArgs),
    /// Remove recordings
    Rm(RemoveArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Telling {
    /// Print no report and no notes, only errors
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Say how the run ended and what it cost, even if all went well
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Print figures about the run
    #[arg(long)]
    pub(crate) stats: bool,

    /// Print the report as JSON on standard error
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the JSON report to this file
    #[arg(short, long, value_name = "FILE", requires = "json")]
    pub(crate) output: Option<PathBuf>,
}

/// Options of verbs whose work is a report.
#[derive(Debug, ClapArgs)]
pub(crate) struct Reporting {
    /// Print figures about the work
    #[arg(long)]
    pub(crate) stats: bool,

    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the report to this file [default: standard error]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Statements to change.
#[derive(Debug, ClapArgs)]
pub(crate) struct Changing {
    /// Reverse the outcome of the predicate at FILE:LINE, all times or the N-th (FILE:LINE#N), or of the
    /// branch at an address (ADDRESS#N), and say what that changes
    #[arg(long, value_name = "FILE:LINE[#N]", value_parser = switched)]
    pub(crate) switch: Vec<case::Alteration>,

    /// Do not execute the statement at FILE:LINE, all times or the N-th (FILE:LINE#N), and say what that
    /// changes
    #[arg(long, value_name = "FILE:LINE[#N]", value_parser = suppressed)]
    pub(crate) suppress: Vec<case::Alteration>,

    /// Set something on the way, and say what that changes: PLACE#N:NAME=VALUE, where PLACE is FILE:LINE or
    /// an address and N counts its executions; PLACE#N+ is after it
    #[arg(long, value_name = "CHANGE", value_parser = set)]
    pub(crate) set: Vec<case::Alteration>,

    /// Put global variables (NAME,NAME...) or local ones (FUNCTION:NAME,NAME...) elsewhere, one behind the other, and
    /// say what that changes
    #[arg(long = "move", value_name = "[FUNCTION:]NAME[,NAME...]", value_parser = moved)]
    pub(crate) moved: Vec<case::Alteration>,
}

fn moved(text: &str) -> Result<case::Alteration, String> {
    text.parse().map(case::Alteration::Move)
}

fn switched(text: &str) -> Result<case::Alteration, String> {
    // One branch of a line that has several.
    if text.starts_with("0x") {
        return set(&format!("{text}:branch"));
    }
    changed(case::EditKind::Switch, text)
}

fn suppressed(text: &str) -> Result<case::Alteration, String> {
    changed(case::EditKind::Suppress, text)
}

fn set(text: &str) -> Result<case::Alteration, String> {
    text.parse().map(case::Alteration::Set)
}

fn changed(kind: case::EditKind, text: &str) -> Result<case::Alteration, String> {
    let mut request = case::EditRequest::parse(kind, text)?;
    if request.times == case::Times::Once && !text.contains("once") {
        request.times = case::Times::All;
    }
    Ok(case::Alteration::Statement(request))
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) telling: Telling,

    /// Name of the recording [default: the program's with a counter]
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// Show the backtraces of all threads with that of a crash
    #[arg(long)]
    pub(crate) all_threads: bool,

    /// Let threads take turns by this seed [default: 0, evenly]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) seed: u64,

    /// Let threads take turns as this list says, made by `wherefore schedule` and changed by hand
    #[arg(long, value_name = "FILE", conflicts_with_all = ["chaos", "seed"])]
    pub(crate) schedule: Option<PathBuf>,

    /// End the program if it takes longer [default: none; with --chaos: 10 s and ten times what the
    /// first run took]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,

    /// Run up to N times under hostile schedules, stop at the first failure and keep that
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "50", value_parser = runs)]
    pub(crate) chaos: Option<u32>,

    /// With --chaos: go on after a failure, and count
    #[arg(long, requires = "chaos")]
    pub(crate) keep_going: bool,

    /// With --chaos: exit statuses that are no failure [default: 0 and that of the first run]
    #[arg(
        long,
        value_name = "STATUS,...",
        requires = "chaos",
        value_delimiter = ','
    )]
    pub(crate) expect: Vec<i32>,

    /// With --chaos: other output than that of the first run is a failure
    #[arg(long, requires = "chaos")]
    pub(crate) same_output: bool,

    #[command(flatten)]
    pub(crate) changing: Changing,

    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  wherefore check -- ./prog args                run, record, and look for faults
  wherefore check prog-3 --all                  all faults of a recording
  wherefore check --only double_free -- ./prog  one rule
  wherefore check --rules my.rules -- ./prog    rules of your own beside the shipped ones

Exit status: 0 if no rule found a fault, 1 if one did, 2 if the request makes no sense, 3 if wherefore
could not do its job.")]
pub(crate) struct CheckArgs {
    /// The recording, if no program is given behind `--` [default: the latest]
    #[arg(value_name = "REC")]
    pub(crate) recording: Option<String>,

    /// A file of rules, beside the shipped ones
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,

    /// Only these rules
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Report all faults, not only the first
    #[arg(long)]
    pub(crate) all: bool,

    /// List the events that rules are asked about: blocks made and freed, accesses to them, calls
    #[arg(long)]
    pub(crate) events: bool,

    /// Follow the run also without machine code, slowly, and say whether that comes to the same
    #[arg(long)]
    pub(crate) doubt: bool,

    /// Leave the value propagation chains out
    #[arg(long)]
    pub(crate) no_chains: bool,

    /// Name of the recording that is made [default: the program's with a counter]
    #[arg(long, requires = "command")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) report: Reporting,

    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "recording")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RulesArgs {
    /// Show what is made of a file, or of a shipped one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "show"])]
    pub(crate) explain: Option<PathBuf>,

    /// Say what is wrong with a file
    #[arg(long, value_name = "FILE", conflicts_with = "show")]
    pub(crate) check: Option<PathBuf>,

    /// Print a shipped file, to copy and change
    #[arg(long, value_name = "FILE")]
    pub(crate) show: Option<PathBuf>,

    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReplayArgs {
    /// The recording [default: the latest]
    #[arg(value_name = "REC")]
    pub(crate) recording: Option<String>,

    /// Stop before this step and say where that is
    #[arg(long, value_name = "STEP", value_parser = step)]
    pub(crate) to: Option<u64>,

    #[command(flatten)]
    pub(crate) changing: Changing,

    /// Show the backtraces of all threads
    #[arg(long)]
    pub(crate) all_threads: bool,

    #[command(flatten)]
    pub(crate) telling: Telling,
}

/// A recording, or a program that is to be recorded first.
#[derive(Debug, ClapArgs)]
pub(crate) struct Subject {
    /// The recording [default: the latest]
    #[arg(value_name = "REC", conflicts_with = "command")]
    pub(crate) recording: Option<String>,

    /// A program and its arguments: it is run and recorded first
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  wherefore debug                          the latest recording
  wherefore debug server-3
  wherefore debug -- ./prog input.txt      run, record, debug
  wherefore debug --batch -x script.gdb    commands from a file

Inside gdb, `help wherefore` lists the commands that are not gdb's own.")]
pub(crate) struct DebugArgs {
    #[command(flatten)]
    pub(crate) subject: Subject,

    /// Go there first: a step, or FILE:LINE [N]
    #[arg(long, value_name = "WHERE")]
    pub(crate) to: Option<String>,

    /// The gdb to use
    #[arg(long, value_name = "GDB", default_value = "gdb")]
    pub(crate) gdb: PathBuf,

    /// Execute gdb commands from a file
    #[arg(short = 'x', value_name = "FILE")]
    pub(crate) script: Vec<PathBuf>,

    /// End when the files of commands are done
    #[arg(long)]
    pub(crate) batch: bool,

    /// A further option for gdb
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) gdb_option: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  wherefore serve --listen 127.0.0.1:1234
  gdb -ex 'target extended-remote :1234'
  wherefore serve --listen /tmp/socket server-3

Whoever can connect can read the memory and the files of the recording.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) subject: Subject,

    /// HOST:PORT, a PORT of this machine, or the path of a socket [default: any free port of
    /// 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,

    /// End when the first debugger has gone
    #[arg(long)]
    pub(crate) once: bool,

    /// Standard input is the socket to listen at, which `debug` has made
    #[arg(long, hide = true)]
    pub(crate) inherited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodArg {
    /// Value replacement, ties by Tarantula
    Replacement,
    Tarantula,
    Ochiai,
    Dstar,
    Op2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TiesArg {
    Tarantula,
    Ochiai,
    Dstar,
    Op2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FaultsArg {
    One,
    Many,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecomputeArg {
    /// The same list again
    Minimal,
    /// Search everything again
    Full,
    /// Search again the failing runs that execute what was mended
    Partial,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  wherefore locate suite.toml
  wherefore locate --pairs tests -- ./prog           tests/NAME.in, tests/NAME.out
  wherefore locate --fail '-x 3' --expect right.txt --pass '-x 2' -- ./prog
  wherefore locate suite.toml --method ochiai        coverage only, in seconds
  wherefore locate suite.toml --budget 1m            what can be had in a minute
  wherefore locate suite.toml --resume               go on where it was interrupted

Exit status: 0 if all tests pass, 1 if a ranking was made, 2 if the request makes no sense, 3 if
wherefore could not do its job.")]
pub(crate) struct LocateArgs {
    /// The suite of tests, a TOML file
    #[arg(value_name = "SUITE", conflicts_with_all = ["fail", "pass", "expect", "pairs"])]
    pub(crate) suite: Option<PathBuf>,

    /// Arguments with which the program fails, as typed; `< FILE` for its input
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub(crate) fail: Vec<String>,

    /// What the program should print then: a file for each --fail, or one for all
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: Vec<PathBuf>,

    /// Arguments with which the program is right
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub(crate) pass: Vec<String>,

    /// A folder of NAME.in (standard input), NAME.out (what should be printed) and, if need be,
    /// NAME.args
    #[arg(long, value_name = "DIR", conflicts_with_all = ["fail", "pass", "expect"])]
    pub(crate) pairs: Option<PathBuf>,

    /// How to rank
    #[arg(long, value_enum, default_value_t = MethodArg::Replacement)]
    pub(crate) method: MethodArg,

    /// What breaks ties in the ranking by value replacement
    #[arg(long, value_enum, default_value_t = TiesArg::Tarantula)]
    pub(crate) ties: TiesArg,

    /// Be done after this time, such as 30s, 5m or 2h, tests and all
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) budget: Option<Duration>,

    /// Try everything: no reduction of the search at all
    #[arg(long)]
    pub(crate) full: bool,

    /// Try all values of the profile, not only the spanning ones
    #[arg(long)]
    pub(crate) no_spanning: bool,

    /// Look at all statements in every failing run
    #[arg(long)]
    pub(crate) no_working_set: bool,

    /// Look for all replacements of a statement, not only for one in each run
    #[arg(long)]
    pub(crate) no_one_each: bool,

    /// Begin each experiment at the beginning of the run
    #[arg(long)]
    pub(crate) no_fork: bool,

    /// CPUs to use [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<usize>,

    /// Failing tests to search, the shortest first; 0 for all
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) runs: usize,

    /// Executions of one instruction to look at in a run; 0 for all
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) instances: u32,

    /// Whether the tests may fail for several reasons
    #[arg(long, value_enum, default_value_t = FaultsArg::One)]
    pub(crate) faults: FaultsArg,

    /// With several faults: how the list is made anew after one has been mended
    #[arg(long, value_enum, default_value_t = RecomputeArg::Partial)]
    pub(crate) recompute: RecomputeArg,

    /// Go on after a fault was mended
    #[arg(long = "continue", conflicts_with = "resume")]
    pub(crate) proceed: bool,

    /// The line that was mended [default: those that have changed]
    #[arg(long, value_name = "FILE:LINE", value_parser = file_line, requires = "proceed")]
    pub(crate) fixed: Vec<(String, u32)>,

    /// Go on with a search that was interrupted
    #[arg(long)]
    pub(crate) resume: bool,

    /// The line that is at fault, to see how it ranks
    #[arg(long, value_name = "FILE:LINE", value_parser = file_line)]
    pub(crate) truth: Vec<(String, u32)>,

    /// Lines to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,

    /// Print no tests and no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print the report as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the report to this file instead
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write the report as a web page to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// The program, with --fail, --pass or --pairs
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Option<PathBuf>,
}

/// `90`, `90s`, `1.5m`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = match text.chars().last() {
        Some('s') => (&text[..text.len() - 1], 1.0),
        Some('m') => (&text[..text.len() - 1], 60.0),
        Some('h') => (&text[..text.len() - 1], 3600.0),
        _ => (text, 1.0),
    };
    match digits.parse::<f64>() {
        Ok(n) if n >= 0.0 && n * unit < 1e9 => Ok(Duration::from_secs_f64(n * unit)),
        _ => Err("a time is a number of seconds, or such as 30s, 5m or 2h".to_owned()),
    }
}

fn file_line(text: &str) -> Result<(String, u32), String> {
    text.rsplit_once(':')
        .filter(|(file, _)| !file.is_empty())
        .and_then(|(file, line)| Some((file.to_owned(), line.parse().ok()?)))
        .ok_or_else(|| "write FILE:LINE, such as replace.c:117".to_owned())
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SliceArgs {
    /// The recording [default: the latest]
    #[arg(value_name = "REC")]
    pub(crate) recording: Option<String>,

    /// Where: `crash`, a step, FILE:LINE[#N] or FUNCTION[#N] (the last time without #N)
    /// [default: crash]
    #[arg(long, value_name = "POINT", value_parser = Point::parse)]
    pub(crate) at: Option<Point>,

    /// About this variable: `p->next->val`, `a[i].x`, `*q` [default: everything used there]
    #[arg(long, value_name = "EXPR", conflicts_with_all = ["addr", "reg"])]
    pub(crate) var: Option<String>,

    /// About the memory at this address
    #[arg(long, value_name = "ADDR", value_parser = address, conflicts_with = "reg")]
    pub(crate) addr: Option<u64>,

    /// So many bytes of it
    #[arg(long, value_name = "N", default_value_t = 8, requires = "addr")]
    pub(crate) len: u64,

    /// About this register
    #[arg(long, value_name = "REG")]
    pub(crate) reg: Option<String>,

    /// Leave out why statements were executed at all
    #[arg(long)]
    pub(crate) data_only: bool,

    /// With branches that, had they gone otherwise, might have led to a write of what was used
    #[arg(long)]
    pub(crate) relevant: bool,

    /// Do not follow these: registers, ADDR+LEN or global variables, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) prune: Vec<String>,

    /// Look only at what was executed from A to B: steps, or places as for --at; A the first time, B
    /// the last time unless numbered
    #[arg(long, value_name = "A..B", value_parser = window)]
    pub(crate) window: Option<Window>,

    /// Show what happened inside of libraries, not only their calls
    #[arg(long)]
    pub(crate) library: bool,

    /// Write a page for a browser: the source with the slice in it
    #[arg(long, conflicts_with = "json")]
    pub(crate) html: bool,

    #[command(flatten)]
    pub(crate) report: Reporting,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ScheduleArgs {
    /// The recording [default: the latest]
    #[arg(value_name = "REC")]
    pub(crate) recording: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// A recording and an expression: `[REC] EXPR`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Expression {
    /// The expression, after the recording if that is not the latest
    #[arg(value_name = "[REC] EXPR", required = true, num_args = 1..=2)]
    pub(crate) words: Vec<String>,

    /// Where: `crash`, a step, FILE:LINE[#N] or FUNCTION[#N] (the last time without #N)
    /// [default: crash]
    #[arg(long, value_name = "POINT", value_parser = Point::parse)]
    pub(crate) at: Option<Point>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WhereArgs {
    #[command(flatten)]
    pub(crate) what: Expression,

    /// Writers to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = some)]
    pub(crate) number: usize,

    #[command(flatten)]
    pub(crate) report: Reporting,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ValueArgs {
    #[command(flatten)]
    pub(crate) what: Expression,

    /// Another expression, beside the first
    #[arg(long, value_name = "EXPR")]
    pub(crate) and: Vec<String>,

    /// Each time that the place is reached, not only the last time
    #[arg(long, requires = "at")]
    pub(crate) every: bool,

    /// Times to show
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        default_value_t = 1000,
        value_parser = some,
        requires = "every"
    )]
    pub(crate) number: usize,

    #[command(flatten)]
    pub(crate) report: Reporting,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SourceArgs {
    /// The recording [default: the latest]
    #[arg(value_name = "REC")]
    pub(crate) recording: Option<String>,

    #[command(flatten)]
    pub(crate) report: Reporting,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct InfoArgs {
    /// The recording [default: the latest]
    #[arg(value_name = "REC")]
    pub(crate) recording: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RemoveArgs {
    /// The recordings to remove
    #[arg(
        value_name = "REC",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pub(crate) names: Vec<String>,

    /// Remove all of them
    #[arg(long)]
    pub(crate) all: bool,
}

fn runs(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("a number of runs is wanted here; put `--` before the program".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().filter(|s| *s > 0.0);
    number
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
        .ok_or_else(|| "a number of seconds is wanted here, such as 10 or 0.5".to_owned())
}

/// Steps are printed with commas; they may be typed back that way.
fn step(text: &str) -> Result<u64, String> {
    text.replace([',', '_'], "")
        .parse()
        .map_err(|_| "a step is a number, such as 1234567 or 1,234,567".to_owned())
}

fn some(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| "a number from 1 on is wanted here".to_owned())
}

fn address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "an address is a number, such as 0x7fffffffe000".to_owned())
}

fn window(text: &str) -> Result<Window, String> {
    let (a, b) = text
        .split_once("..")
        .ok_or("a window is two steps or places with `..` between them")?;
    let end = |text: &str| match text {
        "" => Ok(None),
        _ => Point::parse(text).map(Some),
    };
    let window = Window {
        from: end(a)?,
        to: end(b)?,
    };
    match (&window.from, &window.to) {
        (Some(Point::Step(a)), Some(Point::Step(b))) if a >= b => {
            Err("the window ends before it begins".to_owned())
        }
        _ => Ok(window),
    }
}
