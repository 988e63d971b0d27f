//! Test suites: what is run, and what should come out.
//!
//! A suite is a TOML file, a folder of `NAME.in` and `NAME.out` pairs, or put together by the front
//! end. Paths in a suite file are relative to it. Everything is read and checked before anything
//! runs; all mistakes of a file that can be told at once are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::locate::compare::Compare;

/// A program and its tests, ready to run.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Names its recordings and its state.
    pub name: String,
    /// Where relative paths lead from.
    pub folder: PathBuf,
    pub program: PathBuf,
    /// A shell command that makes the program.
    pub build: Option<String>,
    pub tests: Vec<Test>,
}

#[derive(Clone, Debug)]
pub struct Test {
    pub name: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub stdin: Content,
    /// Files that the test finds in its working directory.
    pub files: BTreeMap<String, Content>,
    pub expected: Expected,
    pub compare: Compare,
    pub seconds: f64,
}

/// Text, given or in a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Content {
    Text(String),
    File { file: PathBuf },
}

/// What a test should print and how it should end.
#[derive(Clone, Debug)]
pub enum Expected {
    Output {
        stdout: Content,
        /// Not looked at if absent, except that a signal is a failure.
        status: Option<i32>,
    },
    /// What another program does.
    Run(PathBuf),
    /// Known to be wrong or right, for the methods that look at coverage alone.
    Verdict { passes: bool },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    program: PathBuf,
    build: Option<String>,
    name: Option<String>,
    timeout: Option<f64>,
    compare: Option<Compare>,
    expected: Option<Content>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, Content>,
    #[serde(default)]
    test: Vec<FileTest>,
    /// A folder of NAME.in and NAME.out.
    pairs: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Args {
    Line(String),
    List(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTest {
    name: Option<String>,
    args: Option<Args>,
    stdin: Option<Content>,
    expected: Option<Content>,
    status: Option<i32>,
    timeout: Option<f64>,
    compare: Option<Compare>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, Content>,
}

const SECONDS: f64 = 10.0;

impl Suite {
    /// Reads a suite file.
    pub fn read(path: &Path) -> Result<Suite, Error> {
        let bad = |why: String| Error::Suite {
            path: path.to_owned(),
            why,
        };
        let text = fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        let file: File = toml::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let folder = std::path::absolute(path)
            .ok()
            .and_then(|p| p.parent().map(Path::to_owned))
            .unwrap_or_default();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut suite = Suite {
            name: clean(&file.name.clone().unwrap_or_else(|| stem.into_owned())),
            program: folder.join(&file.program),
            build: file.build.clone(),
            tests: Vec::new(),
            folder: folder.clone(),
        };
        if let Some(pairs) = &file.pairs {
            let seconds = file.timeout.unwrap_or(SECONDS);
            let compare = file.compare.clone().unwrap_or_default();
            suite.tests = pairs_in(&folder.join(pairs), &compare, seconds)?;
        }
        let mut wrong = Vec::new();
        for (n, t) in file.test.iter().enumerate() {
            match test(n, t, &file, &folder) {
                Ok(t) if suite.tests.iter().any(|o| o.name == t.name) => {
                    wrong.push(format!("two tests are called `{}`", t.name));
                }
                Ok(t) => suite.tests.push(t),
                Err(why) => wrong.push(why),
            }
        }
        for t in &suite.tests {
            wrong.extend(missing(t).map(|p| format!("test `{}`: no file {}", t.name, p.display())));
        }
        if suite.tests.is_empty() && wrong.is_empty() {
            wrong.push("it has no tests: add [[test]] entries or `pairs = \"FOLDER\"`".into());
        }
        if wrong.is_empty() {
            Ok(suite)
        } else {
            Err(bad(wrong.join("\n  ")))
        }
    }

    /// A folder of `NAME.in` and `NAME.out` pairs.
    pub fn import(pairs: &Path, program: PathBuf) -> Result<Suite, Error> {
        Ok(Suite {
            name: clean(&program.file_name().unwrap_or_default().to_string_lossy()),
            folder: std::env::current_dir().unwrap_or_default(),
            program,
            build: None,
            tests: pairs_in(pairs, &Compare::default(), SECONDS)?,
        })
    }

    /// From command lines: those that should give `expected`, and those that are right as they are.
    pub fn inline(
        program: PathBuf,
        fail: &[String],
        expected: &[PathBuf],
        pass: &[String],
        compare: &Compare,
    ) -> Result<Suite, Error> {
        let mut tests = Vec::new();
        for (n, line) in fail.iter().enumerate() {
            // One file for all of them, or one for each.
            let file = if expected.len() == 1 {
                expected.first()
            } else {
                expected.get(n)
            };
            let (args, stdin) = words(line)?;
            tests.push(Test {
                name: format!("fail{}", n + 1),
                args,
                env: BTreeMap::new(),
                stdin,
                files: BTreeMap::new(),
                expected: match file {
                    Some(file) => Expected::Output {
                        stdout: Content::File {
                            file: absolute(file),
                        },
                        status: None,
                    },
                    None => Expected::Verdict { passes: false },
                },
                compare: compare.clone(),
                seconds: SECONDS,
            });
        }
        for (n, line) in pass.iter().enumerate() {
            let (args, stdin) = words(line)?;
            tests.push(Test {
                name: format!("pass{}", n + 1),
                args,
                env: BTreeMap::new(),
                stdin,
                files: BTreeMap::new(),
                expected: Expected::Verdict { passes: true },
                compare: compare.clone(),
                seconds: SECONDS,
            });
        }
        Ok(Suite {
            name: clean(&program.file_name().unwrap_or_default().to_string_lossy()),
            folder: std::env::current_dir().unwrap_or_default(),
            program,
            build: None,
            tests,
        })
    }
}

fn test(n: usize, t: &FileTest, file: &File, folder: &Path) -> Result<Test, String> {
    let name = t.name.clone().unwrap_or_else(|| format!("t{}", n + 1));
    let here = |c: &Content| match c {
        Content::File { file } => Content::File {
            file: folder.join(file),
        },
        text => text.clone(),
    };
    let args = match &t.args {
        None => Vec::new(),
        Some(Args::List(list)) => list.clone(),
        Some(Args::Line(line)) => split(line).map_err(|why| format!("test `{name}`: {why}"))?,
    };
    let expected = match t.expected.as_ref().or(file.expected.as_ref()) {
        None => return Err(format!("test `{name}` does not say what is `expected`")),
        Some(Content::Text(text)) if text.starts_with("run:") => {
            Expected::Run(folder.join(text["run:".len()..].trim()))
        }
        Some(content) => Expected::Output {
            stdout: here(content),
            status: t.status,
        },
    };
    let merged = |a: &BTreeMap<String, String>, b: &BTreeMap<String, String>| {
        let mut out = a.clone();
        out.extend(b.clone());
        out
    };
    let mut files = file.files.clone();
    files.extend(t.files.clone());
    for name in files.keys() {
        let path = Path::new(name);
        let inside = path.is_relative() && !path.components().any(|c| c.as_os_str() == "..");
        if !inside {
            return Err(format!(
                "`{name}` does not stay in the working directory of the test"
            ));
        }
    }
    Ok(Test {
        args,
        env: merged(&file.env, &t.env),
        stdin: t.stdin.as_ref().map_or(Content::Text(String::new()), here),
        files: files.iter().map(|(k, v)| (k.clone(), here(v))).collect(),
        expected,
        compare: t
            .compare
            .clone()
            .or(file.compare.clone())
            .unwrap_or_default(),
        seconds: t
            .timeout
            .or(file.timeout)
            .unwrap_or(SECONDS)
            .clamp(0.01, 86_400.0),
        name,
    })
}

fn missing(t: &Test) -> impl Iterator<Item = PathBuf> + use<'_> {
    let expected = match &t.expected {
        Expected::Output { stdout, .. } => Some(stdout),
        _ => None,
    };
    let run = match &t.expected {
        Expected::Run(p) if !p.is_file() => Some(p.clone()),
        _ => None,
    };
    let contents = t.files.values().chain([&t.stdin]).chain(expected);
    let files = contents.filter_map(|c| match c {
        Content::File { file } if !file.is_file() => Some(file.clone()),
        _ => None,
    });
    files.chain(run)
}

fn pairs_in(folder: &Path, compare: &Compare, seconds: f64) -> Result<Vec<Test>, Error> {
    let bad = |why: String| Error::Suite {
        path: folder.to_owned(),
        why,
    };
    let entries = fs::read_dir(folder).map_err(|e| bad(e.to_string()))?;
    let mut tests = Vec::new();
    for entry in entries.flatten() {
        let input = absolute(&entry.path());
        if input.extension().is_none_or(|e| e != "in") {
            continue;
        }
        let output = input.with_extension("out");
        if !output.is_file() {
            return Err(bad(format!("{} has no .out beside it", input.display())));
        }
        let args = input.with_extension("args");
        let args = match fs::read_to_string(&args) {
            Ok(line) => {
                split(line.trim()).map_err(|why| bad(format!("{}: {why}", args.display())))?
            }
            Err(_) => Vec::new(),
        };
        tests.push(Test {
            name: input
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            args,
            env: BTreeMap::new(),
            stdin: Content::File { file: input },
            files: BTreeMap::new(),
            expected: Expected::Output {
                stdout: Content::File { file: output },
                status: None,
            },
            compare: compare.clone(),
            seconds,
        });
    }
    if tests.is_empty() {
        return Err(bad("it has no NAME.in files".into()));
    }
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tests)
}

fn absolute(p: &Path) -> PathBuf {
    std::path::absolute(p).unwrap_or_else(|_| p.to_owned())
}

impl Content {
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, Error> {
        match self {
            Content::Text(text) => Ok(text.clone().into_bytes()),
            Content::File { file } => fs::read(file).map_err(|e| Error::Folder(file.clone(), e)),
        }
    }
}

/// `ARGS < FILE`, as one would type it.
fn words(line: &str) -> Result<(Vec<String>, Content), Error> {
    let wrong = |why| Error::BadTest {
        test: line.to_owned(),
        why,
    };
    let mut args = split(line).map_err(wrong)?;
    let mut stdin = Content::Text(String::new());
    if let Some(at) = args.iter().position(|a| a == "<") {
        let Some(file) = args.get(at + 1) else {
            return Err(wrong("no file after `<`".into()));
        };
        stdin = Content::File {
            file: absolute(Path::new(file)),
        };
        args.drain(at..at + 2);
    }
    Ok((args, stdin))
}

/// Splits a command line as a shell does: blanks, both kinds of quotes, backslashes. Nothing is
/// expanded.
pub(crate) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => out.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_with(String::new);
                loop {
                    match chars.next() {
                        None => return Err(format!("a {c} is not closed in `{line}`")),
                        Some(d) if d == c => break,
                        Some('\\') if c == '"' => word.extend(chars.next()),
                        Some(d) => word.push(d),
                    }
                }
            }
            '\\' => word.get_or_insert_with(String::new).extend(chars.next()),
            c => word.get_or_insert_with(String::new).push(c),
        }
    }
    out.extend(word);
    Ok(out)
}

/// As part of the name of a recording.
pub(crate) fn clean(name: &str) -> String {
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
            c
        } else {
            '_'
        }
    };
    let out: String = name.chars().map(keep).take(60).collect();
    let out = out.trim_start_matches('-');
    if out.is_empty() {
        "suite".to_owned()
    } else {
        out.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        for (line, words) in [
            ("a b", vec!["a", "b"]),
            ("  'a b' \"c\\\"d\" e\\ f ", vec!["a b", "c\"d", "e f"]),
            ("''", vec![""]),
            ("", vec![]),
        ] {
            assert_eq!(split(line).expect("it is closed"), words, "{line}");
        }
        assert!(split("'a").is_err());
    }
}
