//! Running a test as its user would, without the engine.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::locate::due::{Due, attend};
use crate::locate::suite::{Expected, Suite, Test};
use crate::program;

/// More output than this is a flood.
const LARGEST: u64 = 64 << 20;

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestEnd {
    Exited(i32),
    Killed(i32),
    /// It took longer than it may.
    Timeout,
    /// It printed without end.
    Flood,
}

/// What a program did.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) stdout: Vec<u8>,
    pub(crate) end: TestEnd,
    pub(crate) seconds: f64,
}

/// What a test should have done.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) stdout: Vec<u8>,
    pub(crate) status: Option<i32>,
}

/// Files of one test, in a folder of its own.
pub(crate) struct Desk {
    pub(crate) folder: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) stdin: PathBuf,
}

impl Desk {
    /// Lays out what the test finds: afresh, whatever a run before has left.
    pub(crate) fn lay(folder: &Path, test: &Test) -> Result<Desk, Error> {
        let wrong = |e| Error::Folder(folder.to_owned(), e);
        let cwd = folder.join("work");
        if cwd.exists() {
            fs::remove_dir_all(&cwd).map_err(wrong)?;
        }
        fs::create_dir_all(&cwd).map_err(wrong)?;
        for (name, content) in &test.files {
            let path = cwd.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(wrong)?;
            }
            fs::write(path, content.bytes()?).map_err(wrong)?;
        }
        let stdin = folder.join("stdin");
        fs::write(&stdin, test.stdin.bytes()?).map_err(wrong)?;
        Ok(Desk {
            folder: folder.to_owned(),
            cwd,
            stdin,
        })
    }
}

/// Makes the program, if the suite says how.
pub(crate) fn build(suite: &Suite, home: &Path, due: &Due<'_>) -> Result<(), Error> {
    let Some(command) = &suite.build else {
        return Ok(());
    };
    let log = home.join("build.log");
    let wrong = |e| Error::Folder(log.clone(), e);
    let errors = File::create(&log).map_err(wrong)?;
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", command])
        .current_dir(&suite.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors);
    let done = attend(&mut shell, &mut || due.over().then_some(()))
        .map_err(|e| Error::Build(e.to_string()))?;
    if done.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    if due.over() {
        return Err(due.error("the program was built"));
    }
    let text = fs::read(&log).map_err(wrong)?;
    let text = String::from_utf8_lossy(&text);
    let tail: Vec<&str> = text.lines().rev().take(8).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    Err(Error::Build(format!(
        "`{command}` failed\n{}",
        tail.join("\n")
    )))
}

pub(crate) fn run(program: &Path, test: &Test, desk: &Desk, due: &Due<'_>) -> Result<Done, Error> {
    let wrong = |e| Error::Folder(desk.folder.clone(), e);
    let stdout = desk.folder.join("stdout");
    let begun = Instant::now();
    let mut command = Command::new(program);
    command
        .args(&test.args)
        .envs(&test.env)
        .current_dir(&desk.cwd)
        .stdin(File::open(&desk.stdin).map_err(wrong)?)
        .stdout(File::create(&stdout).map_err(wrong)?)
        .stderr(File::create(desk.folder.join("stderr")).map_err(wrong)?);
    let mut enough = || {
        let flooded = || fs::metadata(&stdout).is_ok_and(|m| m.len() > LARGEST);
        if due.over() {
            Some(None)
        } else if flooded() {
            Some(Some(TestEnd::Flood))
        } else {
            (begun.elapsed().as_secs_f64() > test.seconds).then_some(Some(TestEnd::Timeout))
        }
    };
    let done = attend(&mut command, &mut enough).map_err(|e| {
        let error = guest::Error::Exec(program.to_owned(), e);
        program::explain(program, &error)
    })?;
    let end = match done {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => TestEnd::Exited(code),
            (None, signal) => TestEnd::Killed(signal.unwrap_or(0)),
        },
        Err(Some(end)) => end,
        Err(None) => return Err(due.error("the tests had been run")),
    };
    Ok(Done {
        stdout: fs::read(&stdout).map_err(wrong)?,
        end,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// What the test should do, which may need another program's word.
pub(crate) fn wanted(test: &Test, desk: &Desk, due: &Due<'_>) -> Result<Option<Wanted>, Error> {
    Ok(match &test.expected {
        Expected::Output { stdout, status } => Some(Wanted {
            stdout: stdout.bytes()?,
            status: *status,
        }),
        Expected::Run(reference) => {
            let done = run(reference, test, desk, due)?;
            let status = match done.end {
                TestEnd::Exited(status) => Some(status),
                _ => {
                    return Err(Error::BadTest {
                        test: test.name.clone(),
                        why: format!("{} does not end by itself", reference.display()),
                    });
                }
            };
            Some(Wanted {
                stdout: done.stdout,
                status,
            })
        }
        Expected::Verdict { .. } => None,
    })
}

/// Why a test fails; nothing if it passes.
pub(crate) fn judge(
    test: &Test,
    wanted: &Wanted,
    done: &Done,
    folder: &Path,
    due: &Due<'_>,
) -> Option<String> {
    match done.end {
        TestEnd::Timeout => return Some(format!("takes longer than {} s", test.seconds)),
        TestEnd::Flood => return Some("prints without end".into()),
        TestEnd::Killed(signal) => return Some(format!("dies of {}", crate::signal_name(signal))),
        TestEnd::Exited(status) => {
            if let Some(expected) = wanted.status.filter(|s| *s != status) {
                return Some(format!("exits with {status}, not {expected}"));
            }
        }
    }
    let over = || due.over();
    let equal = (test.compare).equal(&wanted.stdout, &done.stdout, folder, &over);
    (!equal).then(|| difference(&wanted.stdout, &done.stdout))
}

/// The first line that differs.
fn difference(expected: &[u8], actual: &[u8]) -> String {
    let short = |l: Option<&[u8]>| match l {
        None => "nothing".to_owned(),
        Some(l) => {
            let text = String::from_utf8_lossy(l);
            let cut: String = text.chars().take(40).collect();
            format!("{cut:?}")
        }
    };
    let mut expected = expected.split(|b| *b == b'\n');
    let mut actual = actual.split(|b| *b == b'\n');
    let mut line = 0;
    loop {
        line += 1;
        let (e, a) = (expected.next(), actual.next());
        if e != a || e.is_none() {
            return format!("line {line} is {}, not {}", short(a), short(e));
        }
    }
}
