//! The files that every foreign case finds: made by rule, the same each time.

use crate::tool;
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const WORDS: [&str; 16] = [
    "amber", "basin", "cobalt", "delta", "ember", "fjord", "garnet", "harbor", "indigo", "jasper",
    "kelp", "lagoon", "meadow", "nectar", "opal", "prairie",
];

/// A fixed sequence; quality does not matter, sameness does.
fn draw(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 40).unwrap_or(0)
}

pub(crate) fn fill(work: &Path) -> Result<()> {
    let mut state = 1;
    let mut list = String::new();
    for line in 0..3000 {
        let word = WORDS[draw(&mut state) % WORDS.len()];
        writeln!(list, "{word} {} {line}", draw(&mut state) % 10_000)?;
    }
    fs::write(work.join("list.txt"), list)?;
    let text = prose(&mut state, 800)?;
    let other = text
        .replace("harbor", "port")
        .replacen("opal", "quartz", 20);
    fs::write(work.join("text.txt"), text)?;
    fs::write(work.join("other.txt"), other)?;
    for branch in ["tree/alpha", "tree/beta/gamma", "tree/delta/epsilon/zeta"] {
        let branch = work.join(branch);
        fs::create_dir_all(&branch)?;
        for (number, word) in WORDS.iter().enumerate().take(6) {
            fs::write(
                branch.join(format!("{word}{number}.txt")),
                prose(&mut state, number * 9)?,
            )?;
        }
    }
    std::os::unix::fs::symlink("alpha/amber0.txt", work.join("tree/link"))?;
    Ok(())
}

fn prose(state: &mut u64, lines: usize) -> Result<String> {
    let mut text = String::new();
    for _ in 0..lines {
        for _ in 0..8 {
            write!(text, "{} ", WORDS[draw(state) % WORDS.len()])?;
        }
        writeln!(text, "{}", draw(state) % 100)?;
    }
    Ok(text)
}

/// Thirty commits with fixed authors and dates, hence fixed hashes.
pub(crate) fn repository(place: &Path) -> Result<()> {
    fs::create_dir(place)?;
    git(place, 0, &["init", "-q", "-b", "main"])?;
    let mut text = String::new();
    for number in 0..30 {
        writeln!(text, "line {number} {}", WORDS[number % WORDS.len()])?;
        fs::write(place.join("notes.txt"), &text)?;
        fs::write(
            place.join(format!("file{}.txt", number % 7)),
            format!("{number}\n"),
        )?;
        git(place, number, &["add", "."])?;
        git(
            place,
            number,
            &["commit", "-q", "-m", &format!("change {number}")],
        )?;
    }
    // The index holds inode numbers and times, which no two runs share; what the cases ask needs none.
    fs::remove_file(place.join(".git/index"))?;
    Ok(())
}

fn git(place: &Path, number: usize, args: &[&str]) -> Result<()> {
    let program = tool::find_program("git").context("git is not installed")?;
    let date = format!("{} +0000", 1_600_000_000 + number * 3600);
    let status = Command::new(program)
        .current_dir(place)
        .env_clear()
        .env("PATH", tool::PATH)
        .env("HOME", place)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs([
            ("GIT_AUTHOR_NAME", "A"),
            ("GIT_AUTHOR_EMAIL", "a@example.org"),
            ("GIT_AUTHOR_DATE", &date),
        ])
        .envs([
            ("GIT_COMMITTER_NAME", "A"),
            ("GIT_COMMITTER_EMAIL", "a@example.org"),
            ("GIT_COMMITTER_DATE", &date),
        ])
        .args(args)
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("git {} failed", args.join(" "));
    }
    Ok(())
}
