//! Is this output the expected one?

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::locate::due::attend;

/// What the user's command may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How output is compared with what is expected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    /// Byte by byte.
    #[default]
    Exact,
    /// Any blank space is as good as any other.
    Space,
    /// Numbers may differ by this much, absolutely or relatively; between them as for `space`.
    Tolerance(f64),
    /// This command is run with two files, expected and actual; status 0 means equal.
    Command(String),
}

impl Compare {
    /// The user's command is given up when it is `over`.
    pub(crate) fn equal(
        &self,
        expected: &[u8],
        actual: &[u8],
        folder: &Path,
        over: &dyn Fn() -> bool,
    ) -> bool {
        match self {
            Compare::Exact => expected == actual,
            Compare::Space => words(expected).eq(words(actual)),
            Compare::Tolerance(most) => {
                let (a, b): (Vec<_>, Vec<_>) = (words(expected).collect(), words(actual).collect());
                a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| near(a, b, *most))
            }
            Compare::Command(command) => {
                ask(command, expected, actual, folder, over).unwrap_or(false)
            }
        }
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty())
}

fn near(a: &[u8], b: &[u8], most: f64) -> bool {
    if a == b {
        return true;
    }
    let number = |w: &[u8]| std::str::from_utf8(w).ok()?.parse::<f64>().ok();
    match (number(a), number(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= most * a.abs().max(b.abs()).max(1.0),
        _ => false,
    }
}

/// Runs the user's command on two temporary files.
fn ask(
    command: &str,
    expected: &[u8],
    actual: &[u8],
    folder: &Path,
    over: &dyn Fn() -> bool,
) -> std::io::Result<bool> {
    let file = |name: &str, bytes: &[u8]| -> std::io::Result<PathBuf> {
        let thread = format!("{:?}", std::thread::current().id());
        let number: String = thread.chars().filter(char::is_ascii_digit).collect();
        let path =
            std::env::temp_dir().join(format!("wherefore-{}-{number}-{name}", std::process::id()));
        std::fs::File::create(&path)?.write_all(bytes)?;
        Ok(path)
    };
    let (a, b) = (file("expected", expected)?, file("actual", actual)?);
    let begun = Instant::now();
    let mut shell = Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(format!("{command} \"$1\" \"$2\""))
        .arg("sh")
        .args([&a, &b])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut enough = || (begun.elapsed() > PATIENCE || over()).then_some(());
    let done = attend(&mut shell, &mut enough);
    let _ = (std::fs::remove_file(a), std::fs::remove_file(b));
    Ok(done?.is_ok_and(|status| status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(compare: &Compare, a: &str, b: &str, equal: bool) {
        let got = compare.equal(a.as_bytes(), b.as_bytes(), Path::new("/"), &|| false);
        assert_eq!(got, equal, "{compare:?} {a:?} {b:?}");
    }

    #[test]
    fn comparisons() {
        check(&Compare::Exact, "a b\n", "a  b\n", false);
        check(&Compare::Space, "a b\n", " a\tb", true);
        check(&Compare::Space, "a b", "ab", false);
        check(&Compare::Tolerance(1e-3), "x 1.0000\n", "x 1.0001", true);
        check(&Compare::Tolerance(1e-3), "x 1.0", "x 1.1", false);
        check(&Compare::Tolerance(1e-3), "x 1.0", "y 1.0", false);
        check(&Compare::Command("cmp -s".into()), "a", "a", true);
        check(&Compare::Command("cmp -s".into()), "a", "b", false);
    }
}
