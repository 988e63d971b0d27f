//! The facts that a guest's header comment states about it.
//!
//! A header is the run of `//!` lines at the top of the file. A line `key: value` with a known key is a fact; any
//! other line is prose. An unknown key is an error, not prose, so that a misspelt fact does not pass unseen: a line
//! counts as a key when it starts with one lower-case word and a colon.
//!
//! | key | value |
//! |---|---|
//! | `flags`, `libs` | for the compiler, before and after the source |
//! | `args`, `env` | words, double quotes around blanks; `NAME=VALUE` for `env` |
//! | `stdin`, `pipe` | the standard input as a file or a pipe, `\n` for a new line; else `/dev/null` |
//! | `file` | a name and the contents of an input file in the working directory |
//! | `plugin` | sources of shared objects that are put into the working directory |
//! | `exit`, `signal` | how it ends, `exit: 0` if neither is given |
//! | `link: dynamic` | it cannot be linked statically |
//! | `needs` | processor features, as `/proc/cpuinfo` names them |
//! | `hangs` | why it would never end natively: wherefore must find a deadlock, and exit with 1 |
//! | `nondeterministic` | why two native runs differ; only the replay is compared |
//! | `children` | text by which lines that its children print are known |

use crate::case::Children;
use crate::process::{Ending, Input};
use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) flags: Vec<String>,
    pub(crate) libs: Vec<String>,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) input: Input,
    pub(crate) files: Vec<(String, Vec<u8>)>,
    pub(crate) plugins: Vec<PathBuf>,
    pub(crate) needs: Vec<String>,
    pub(crate) ending: Option<Ending>,
    pub(crate) dynamic_only: bool,
    pub(crate) hangs: bool,
    pub(crate) nondeterministic: bool,
    pub(crate) children: Children,
}

impl Facts {
    pub(crate) fn parse(source: &str) -> Result<Facts> {
        let mut facts = Facts {
            ending: Some(Ending::Exit(0)),
            ..Facts::default()
        };
        for line in source.lines().map_while(|line| line.strip_prefix("//!")) {
            let Some((key, value)) = line.trim_start().split_once(':') else {
                continue;
            };
            if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_lowercase()) {
                continue;
            }
            facts
                .set(key, value.trim())
                .with_context(|| format!("`//!{line}`"))?;
        }
        Ok(facts)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "flags" => self.flags = words(value)?,
            "libs" => self.libs = words(value)?,
            "args" => self.args = words(value)?,
            "env" => {
                for word in words(value)? {
                    let (name, value) = word.split_once('=').context("NAME=VALUE expected")?;
                    self.env.push((name.to_owned(), value.to_owned()));
                }
            }
            "stdin" => self.input = Input::File(unescape(value)),
            "pipe" => self.input = Input::Pipe(unescape(value)),
            "file" => {
                let (name, text) = value
                    .split_once(' ')
                    .context("a name and its contents expected")?;
                self.files.push((name.to_owned(), unescape(text)));
            }
            "plugin" => self.plugins = words(value)?.into_iter().map(PathBuf::from).collect(),
            "needs" => self.needs = words(value)?,
            "exit" => self.ending = Some(Ending::Exit(value.parse()?)),
            "signal" => self.ending = Some(Ending::Signal(signal(value)?)),
            "link" if value == "dynamic" => self.dynamic_only = true,
            "hangs" => {
                self.hangs = true;
                self.ending = Some(Ending::Exit(1));
            }
            "nondeterministic" => self.nondeterministic = true,
            "children" => self.children = Children::Lines(value.to_owned()),
            _ => bail!("no such fact"),
        }
        Ok(())
    }
}

fn signal(name: &str) -> Result<i32> {
    match name.parse() {
        Ok(number) => Ok(number),
        Err(_) => Ok(Signal::from_str(name).context("a signal's name or number expected")? as i32),
    }
}

fn unescape(text: &str) -> Vec<u8> {
    text.replace("\\n", "\n").into_bytes()
}

/// Splits at blanks; double quotes keep blanks and make empty words.
fn words(text: &str) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let mut current: Option<String> = None;
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                current.get_or_insert_default();
            }
            ' ' if !quoted => all.extend(current.take()),
            c => current.get_or_insert_default().push(c),
        }
    }
    if quoted {
        bail!("a quote is not closed");
    }
    all.extend(current);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_is_quoted() {
        assert_eq!(
            words(r#"one "two words" "" -x"#).unwrap(),
            ["one", "two words", "", "-x"]
        );
        assert!(words("\"open").is_err());
    }

    #[test]
    fn headers_are_prose_and_facts() {
        let facts = Facts::parse(
            "//! Says: things.\n//! signal: SIGSEGV\n//! file: a b\\nc\nint x;\n//! exit: 3\n",
        )
        .unwrap();
        assert_eq!(facts.ending, Some(Ending::Signal(11)));
        assert_eq!(facts.files, [("a".to_owned(), b"b\nc".to_vec())]);
        assert!(Facts::parse("//! singal: SIGSEGV\n").is_err());
    }
}
