//! A folder of its own for each test, guests built into it, and the real binary.
#![allow(dead_code)]

pub(crate) mod faults;
pub(crate) mod gdb;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No single command may take longer; waiting is by polling.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Place {
    folder: tempfile::TempDir,
}

pub(crate) struct Ran {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<i32>,
}

impl Ran {
    fn of(o: Output) -> Self {
        Ran {
            out: String::from_utf8_lossy(&o.stdout).into_owned(),
            err: String::from_utf8_lossy(&o.stderr).into_owned(),
            status: o.status.code(),
            signal: o.status.signal(),
        }
    }

    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(self.err.contains(text), "no {text:?} in:\n{}", self.err);
        self
    }

    #[track_caller]
    pub(crate) fn exits(&self, status: i32) -> &Self {
        assert_eq!(
            (self.status, self.signal),
            (Some(status), None),
            "{}",
            self.err
        );
        self
    }

    #[track_caller]
    pub(crate) fn dies(&self, signal: i32) -> &Self {
        assert_eq!(
            (self.status, self.signal),
            (None, Some(signal)),
            "{}",
            self.err
        );
        self
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Place {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn recordings(&self) -> PathBuf {
        self.path("recordings")
    }

    /// Compiles C into the folder and returns the program.
    #[track_caller]
    pub(crate) fn build(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        self.compile("gcc", &format!("{name}.c"), source, flags)
    }

    #[track_caller]
    fn compile(&self, compiler: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.path(name);
        let program = file.with_extension("");
        fs::write(&file, source).expect("the source");
        let status = Command::new(compiler)
            .args(["-g", "-w", "-o"])
            .args([&program, &file])
            .args(flags)
            .status()
            .expect("these tests need gcc");
        assert!(status.success(), "{name} does not compile");
        program
    }

    /// A guest of the repository.
    #[track_caller]
    pub(crate) fn guest(&self, path: &str, flags: &[&str]) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
        let source = fs::read_to_string(root.join(path)).expect("a guest");
        let own = source.lines().find_map(|l| l.strip_prefix("//! flags:"));
        let include = format!("-I{}", root.display());
        let mut all: Vec<&str> = own.unwrap_or("").split_whitespace().collect();
        all.push(&include);
        all.extend(flags);
        let name = Path::new(path).file_name().expect("a name");
        let compiler = match path.ends_with(".cpp") {
            true => "g++",
            false => "gcc",
        };
        self.compile(compiler, &name.to_string_lossy(), &source, &all)
    }

    pub(crate) fn wherefore(&self, args: &[&str]) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_wherefore"));
        c.env("WHEREFORE_RECORDINGS", self.recordings());
        c.env_remove("NO_COLOR");
        c.current_dir(self.folder.path());
        c.args(args);
        c.stdin(Stdio::null());
        c
    }

    pub(crate) fn say(&self, args: &[&str]) -> Ran {
        finish(self.wherefore(args))
    }

    pub(crate) fn run(&self, program: &Path, args: &[&str]) -> Ran {
        let mut c = self.wherefore(&["run", "--"]);
        c.arg(program).args(args);
        finish(c)
    }

    /// The names of all recordings.
    pub(crate) fn names(&self) -> Vec<String> {
        let listed: serde_json::Value =
            serde_json::from_str(&self.say(&["ls", "--json"]).out).expect("JSON");
        let list = listed["recordings"].as_array().expect("a list").clone();
        list.iter()
            .map(|r| r["name"].as_str().expect("a name").to_owned())
            .collect()
    }
}

/// Runs to the end, but not for ever.
#[track_caller]
pub(crate) fn finish(mut c: Command) -> Ran {
    let child = c
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    finish_child(child)
}

#[track_caller]
pub(crate) fn finish_child(child: Child) -> Ran {
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    let (done, waiting) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let output = child.wait_with_output().expect("it can be waited for");
        let _ = done.send(());
        output
    });
    if waiting.recv_timeout(DEADLINE).is_err() {
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        panic!("it did not end within {DEADLINE:?}");
    }
    Ran::of(reader.join().expect("the reader ends"))
}

/// Polls until `ready` gives something.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    while begun.elapsed() < DEADLINE {
        if let Some(x) = ready() {
            return x;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited in vain for {what}");
}

/// Pids of the children of a process.
pub(crate) fn children(pid: u32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|p| p.parse().ok())
        .collect()
}

/// Whether a process is there and not merely waiting to be reaped.
pub(crate) fn alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}
