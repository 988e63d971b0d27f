//! Runs one program to its end, or to ours.
//!
//! Output goes to files, not pipes: nobody has to read them while the program runs, and a program killed for
//! taking too long leaves behind what it said. Each program leads a process group of its own, so that a time-out
//! ends its children too. Waiting polls, because the standard library has no wait with a time limit and a case
//! lasts long enough for a millisecond not to matter.

use anyhow::{Context, Result};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Exit(i32),
    Signal(i32),
    TimedOut,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exit(code) => write!(f, "exit {code}"),
            Ending::Signal(number) => write!(f, "signal {number}"),
            Ending::TimedOut => write!(f, "no end in time (killed)"),
        }
    }
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Ending {
        match status.signal() {
            Some(number) => Ending::Signal(number),
            None => Ending::Exit(status.code().unwrap_or(-1)),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) enum Input {
    #[default]
    Nothing,
    File(Vec<u8>),
    Pipe(Vec<u8>),
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) ending: Ending,
}

#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) command: Vec<OsString>,
    pub(crate) directory: &'a Path,
    pub(crate) env: &'a [(String, String)],
    pub(crate) input: &'a Input,
    /// Where the output files go: outside of what the program sees as its own directory.
    pub(crate) aside: &'a Path,
    pub(crate) limit: Duration,
}

impl Job<'_> {
    pub(crate) fn run(&self) -> Result<Outcome> {
        let (out, err) = (self.aside.join("stdout"), self.aside.join("stderr"));
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .current_dir(self.directory)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .process_group(0);
        match self.input {
            Input::Nothing => command.stdin(Stdio::null()),
            Input::File(bytes) => {
                let path = self.aside.join("stdin");
                fs::write(&path, bytes)?;
                command.stdin(File::open(path)?)
            }
            Input::Pipe(_) => command.stdin(Stdio::piped()),
        };
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", self.command[0].display()))?;
        if let (Input::Pipe(bytes), Some(mut stdin)) = (self.input, child.stdin.take()) {
            // A program that ends without reading its input closes the pipe; that is its own affair.
            let _ = stdin.write_all(bytes);
        }
        let ending = wait(&mut child, self.limit)?;
        Ok(Outcome {
            stdout: fs::read(out)?,
            stderr: fs::read(err)?,
            ending,
        })
    }
}

fn wait(child: &mut Child, limit: Duration) -> Result<Ending> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.into());
        }
        if Instant::now() >= deadline {
            let group = Pid::from_raw(i32::try_from(child.id())?);
            // The group may be gone between the look above and here.
            let _ = killpg(group, Signal::SIGKILL);
            child.wait()?;
            return Ok(Ending::TimedOut);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Crashing guests are the point; their memory images are not.
pub(crate) fn forbid_core_dumps() -> Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0).context("cannot turn core dumps off")
}

/// Processes whose environment carries `mark` and that outlived their case. They get a moment to end by
/// themselves, as the losing side of a pipeline does, and are killed after that.
pub(crate) fn survivors(mark: &str) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let found = marked(mark);
        if found.is_empty() || Instant::now() >= deadline {
            for (pid, _) in &found {
                let _ = nix::sys::signal::kill(Pid::from_raw(*pid), Signal::SIGKILL);
            }
            return found
                .into_iter()
                .map(|(pid, name)| format!("{name} ({pid})"))
                .collect();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn marked(mark: &str) -> Vec<(i32, String)> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let carries = environment
                .split(|byte| *byte == 0)
                .any(|item| item == mark.as_bytes());
            let command: PathBuf = fs::read_link(entry.path().join("exe")).ok()?;
            carries.then(|| (pid, command.display().to_string()))
        })
        .collect()
}
