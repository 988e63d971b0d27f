//! What can go wrong, by who is at fault: the request, or the tool and its surroundings.

use std::fmt;
use std::io;
use std::path::PathBuf;

#[derive(Debug)]
pub enum Error {
    /// The program cannot be started, for this reason.
    Program { program: PathBuf, why: String },
    /// No recording has this name; `None` if there is none at all.
    NoRecording {
        name: Option<String>,
        folder: PathBuf,
    },
    /// A name that is a path, or otherwise none for a recording.
    BadName(String),
    /// A recording of that name exists.
    NameTaken(String),
    /// The recording is still being made by this process.
    Running { name: String, pid: i32 },
    /// A list of switches that cannot be read, with all that is wrong with it.
    Schedule { file: PathBuf, wrong: Vec<String> },
    /// A rule file with errors, each with the lines in question.
    Rules { file: PathBuf, wrong: Vec<String> },
    /// A step that the recording does not have.
    NoSuchStep { step: u64, steps: u64 },
    /// A suite of tests that cannot be used.
    Suite { path: PathBuf, why: String },
    /// A test that makes no sense.
    BadTest { test: String, why: String },
    /// The program could not be made.
    Build(String),
    /// A change of a replay that cannot be made.
    BadSet(String),
    /// The program has no line numbers.
    NoLines(PathBuf),
    /// No failing test can be searched.
    NothingToSearch,
    /// There is no earlier search to go on with.
    NoState { suite: String, why: String },
    /// The tool is at fault.
    Internal(String),
    /// A place that the program or its run does not have.
    NoSuchPlace(String),
    /// The request cannot be understood.
    Request(String),
    /// Somebody interrupted the work.
    Interrupted,
    /// The time that was given was over before there was anything to show.
    OutOfTime { before: &'static str },
    /// There are not addresses enough for what is known of memory.
    Addresses(io::Error),
    /// The folder of recordings cannot be used.
    Folder(PathBuf, io::Error),
    /// The description of the recording is not what it should be.
    Damaged { name: String, why: String },
    /// The description was written by a later version.
    Version {
        name: String,
        found: u32,
        known: u32,
    },
    /// The engine could not go on with this recording.
    Engine { name: String, error: guest::Error },
    /// The guest was started, and then needed what the engine does not do.
    Unsupported { name: String, error: guest::Error },
}

impl Error {
    /// The request is at fault, not the tool or what it works on.
    pub fn is_request(&self) -> bool {
        matches!(
            self,
            Error::Program { .. }
                | Error::NoRecording { .. }
                | Error::BadName(_)
                | Error::NameTaken(_)
                | Error::Running { .. }
                | Error::Rules { .. }
                | Error::NoSuchStep { .. }
                | Error::Suite { .. }
                | Error::BadTest { .. }
                | Error::Build(_)
                | Error::BadSet(_)
                | Error::NoLines(_)
                | Error::NothingToSearch
                | Error::NoState { .. }
                | Error::NoSuchPlace(_)
                | Error::Request(_)
                | Error::Schedule { .. }
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Program { program, why } => {
                write!(f, "cannot run {}: {why}", program.display())
            }
            Error::NoRecording { name: None, folder } => write!(
                f,
                "there is no recording in {}; make one with `wherefore run -- PROGRAM`",
                folder.display()
            ),
            Error::NoRecording {
                name: Some(name),
                folder,
            } => write!(
                f,
                "there is no recording `{name}` in {}; `wherefore ls` lists them",
                folder.display()
            ),
            Error::BadName(name) => write!(
                f,
                "`{name}` cannot name a recording: use letters, digits, `.`, `_` and `-`"
            ),
            Error::NoSuchPlace(why) | Error::Request(why) => f.write_str(why),
            Error::NameTaken(name) => write!(
                f,
                "there is a recording `{name}` already; remove it with `wherefore rm {name}` or choose another name"
            ),
            Error::Running { name, pid } => write!(
                f,
                "`{name}` is still being recorded by process {pid}; wait for it to end"
            ),
            Error::Schedule { file, wrong } => {
                write!(f, "cannot use the schedule {}", file.display())?;
                wrong.iter().try_for_each(|w| write!(f, "\n  {w}"))
            }
            Error::Rules { file, wrong } => {
                write!(f, "cannot use the rules in {}", file.display())?;
                wrong.iter().try_for_each(|w| write!(f, "\n{w}"))
            }
            Error::NoSuchStep { step, steps } => write!(
                f,
                "there is no step {step}: the recording ends at step {steps}"
            ),
            Error::Suite { path, why } => {
                write!(f, "{} is no suite of tests: {why}", path.display())
            }
            Error::BadTest { test, why } => write!(f, "test `{test}`: {why}"),
            Error::Build(why) => write!(f, "the program could not be built: {why}"),
            Error::BadSet(why) => write!(f, "--set: {why}"),
            Error::NoLines(program) => write!(
                f,
                "{} has no line numbers; compile it with -g",
                program.display()
            ),
            Error::NothingToSearch => f.write_str(
                "no failing test can be searched: each must end by itself and say what it should print",
            ),
            Error::NoState { suite, why } => {
                write!(f, "there is no earlier search of `{suite}` to go on with: {why}")
            }
            Error::Interrupted => f.write_str("interrupted"),
            Error::OutOfTime { before } => write!(
                f,
                "the time was over before {before}\n  give it more with --budget, or shorter tests"
            ),
            Error::Addresses(e) => write!(
                f,
                "cannot set {} TiB of addresses aside for what is known of the program's memory: {e}\n  \
                 little of it is used; lift the limit (`ulimit -v unlimited`, `sysctl vm.overcommit_memory=0`)",
                rules::machine::ADDRESSES >> 40
            ),
            Error::Internal(why) => write!(f, "internal error: {why}"),
            Error::Folder(path, e) => write!(
                f,
                "cannot use {}: {e}; name another folder with --recordings",
                path.display()
            ),
            Error::Damaged { name, why } => write!(
                f,
                "the recording `{name}` is damaged: {why}; `wherefore rm {name}` removes it"
            ),
            Error::Version { name, found, known } => write!(
                f,
                "the recording `{name}` has format {found}, this version of wherefore knows {known}: record again"
            ),
            Error::Engine { name, error } | Error::Unsupported { name, error } => {
                write!(f, "{name}: {error}")
            }
        }
    }
}

impl std::error::Error for Error {}
