//! `cargo xtask gallery`: bugs that shipped, in programs nobody here wrote.
//!
//! An entry is a file in `gallery/` with an [`Entry`] and a line in [`ENTRIES`]. Its sources are downloaded by
//! package name and version into `target/gallery`, built there once, and then looked at as a user would. What cannot
//! be downloaded here, or lacks a tool to build it, is a skip with its reason.

mod xz_threads;

use crate::flags::Flags;
use crate::scene::Complaints;
use crate::tally::Tally;
use crate::{install, tool};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ENTRIES: [Entry; 1] = [xz_threads::ENTRY];

pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// Programs that building it takes.
    pub(crate) needs: &'static [&'static str],
    /// Makes its files on the shelf; called while there is no finished one.
    pub(crate) build: fn(&Shelf) -> Result<()>,
    /// What is wrong with how wherefore deals with the bug.
    pub(crate) check: fn(&Shelf) -> Result<Complaints>,
}

/// The place of one entry, and the tool that looks at it.
pub(crate) struct Shelf {
    pub(crate) place: PathBuf,
    pub(crate) wherefore: PathBuf,
    /// Recordings made for it; removed afterwards.
    pub(crate) recordings: PathBuf,
}

pub(crate) fn run(args: &[String]) -> Result<bool> {
    let flags = Flags::parse(args, &[])?;
    install::missing_programs();
    let wherefore = tool::wherefore()?;
    let mut tally = Tally::default();
    for entry in ENTRIES.iter().filter(|entry| flags.selects(entry.name)) {
        println!("{}", entry.name);
        if let Some(missing) = entry.needs.iter().find(|n| tool::find_program(n).is_none()) {
            tally.skip(entry.name, &format!("{missing} is not installed"));
            continue;
        }
        let place = tool::target().join("gallery").join(entry.name);
        let recordings = tempfile::Builder::new().prefix("gallery-").tempdir()?;
        let shelf = Shelf {
            place,
            wherefore: wherefore.clone(),
            recordings: recordings.path().to_owned(),
        };
        match shelf.fill(entry) {
            Ok(()) => tally.record(entry.name, (entry.check)(&shelf)),
            Err(error) if error.is::<Missing>() => tally.skip(entry.name, &format!("{error}")),
            Err(error) => tally.fail(entry.name, vec![format!("{error:#}")]),
        }
    }
    Ok(tally.report())
}

/// A package that cannot be had here.
#[derive(Debug)]
struct Missing(String);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no way to get {}", self.0)
    }
}

impl std::error::Error for Missing {}

impl Shelf {
    /// Builds the entry unless that was done before.
    fn fill(&self, entry: &Entry) -> Result<()> {
        let done = self.place.join("done");
        if done.exists() {
            return Ok(());
        }
        if self.place.exists() {
            fs::remove_dir_all(&self.place)?;
        }
        fs::create_dir_all(&self.place)?;
        (entry.build)(self)?;
        Ok(fs::write(done, "")?)
    }

    /// The unpacked source of a crate.
    pub(crate) fn crate_source(&self, name: &str, version: &str) -> Result<PathBuf> {
        // A cargo home of its own, with the settings of the usual one: where crates come from.
        let home = tool::target().join("gallery/cargo");
        fs::create_dir_all(&home)?;
        let usual = std::env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
        for file in ["config.toml", "config", "credentials.toml"] {
            if let Some(from) = usual.as_ref().map(|u| u.join(file)).filter(|f| f.is_file()) {
                fs::copy(from, home.join(file))?;
            }
        }
        // Outside of this workspace, whose lock file is none of the matter.
        let outside = tempfile::tempdir()?;
        let fetched = tool::cargo()
            .args(["info", "--quiet", &format!("{name}@{version}")])
            .current_dir(outside.path())
            .env("CARGO_HOME", &home)
            .stdin(Stdio::null())
            .output()?;
        let sources = fs::read_dir(home.join("registry/src"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|registry| registry.path().join(format!("{name}-{version}")));
        let mut found = sources.filter(|source| source.is_dir());
        match found.next() {
            Some(source) if fetched.status.success() => Ok(source),
            _ => Err(Missing(format!("crate {name} {version}")).into()),
        }
    }

    /// Runs a program of the build in the entry's place.
    pub(crate) fn tool<S: AsRef<OsStr>>(&self, program: &str, args: &[S]) -> Result<()> {
        let output = Command::new(program)
            .args(args)
            .current_dir(&self.place)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {program}"))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr)
                .trim_end()
                .to_owned();
            bail!("{program}: {}: {words}", output.status);
        }
        Ok(())
    }

    /// Runs wherefore with the entry's recordings.
    pub(crate) fn ask<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Output> {
        Command::new(&self.wherefore)
            .args(args)
            .current_dir(&self.place)
            .env("WHEREFORE_RECORDINGS", &self.recordings)
            .stdin(Stdio::null())
            .output()
            .context("cannot start wherefore")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.join(Path::new(name))
    }
}
