//! `cargo xtask gallery`: bugs that shipped, in programs nobody here wrote.
//!
//! An [`Entry`] is in a file in `gallery/` and in the list of [`entries`]. Its sources are downloaded by
//! package name and version into `target/gallery`, built there once, and then looked at as a user would. What cannot
//! be downloaded here, or lacks a tool to build it, is a skip with its reason.

mod crashes;
mod memory;
mod wrong;
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

/// All of them.
fn entries() -> Vec<Entry> {
    let mut all = vec![xz_threads::ENTRY];
    all.extend(crashes::ENTRIES);
    all.extend(memory::ENTRIES);
    all.extend(wrong::ENTRIES);
    all
}

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
    for entry in entries().iter().filter(|e| flags.selects(e.name)) {
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

    /// The unpacked source of a package of npm's.
    pub(crate) fn npm_source(&self, name: &str, version: &str) -> Result<PathBuf> {
        let missing = || Missing(format!("npm package {name} {version}"));
        let wanted = format!("{name}@{version}");
        if self.tool("npm", &["pack", "-s", wanted.as_str()]).is_err() {
            return Err(missing().into());
        }
        let archive = format!("{name}-{version}.tgz");
        self.tool("tar", &["xzf", archive.as_str()])?;
        Ok(self.path("package"))
    }

    /// The unpacked source of a Debian package as it came from its author: the patches that Debian
    /// has for it are in `debian/patches`.
    pub(crate) fn debian_source(&self, name: &str, version: &str) -> Result<PathBuf> {
        let missing = || Missing(format!("Debian source {name} {version}"));
        // Lists and settings of its own, with sources in them.
        let apt = tool::target().join("gallery/apt");
        let apt = std::path::absolute(apt)?;
        let conf = apt.join("apt.conf");
        if !conf.exists() {
            for folder in ["etc", "lists/partial", "cache/archives/partial"] {
                fs::create_dir_all(apt.join(folder))?;
            }
            for file in fs::read_dir("/etc/apt/sources.list.d")
                .into_iter()
                .flatten()
            {
                let file = file?.path();
                if file.extension() == Some(OsStr::new("sources")) {
                    let text = fs::read_to_string(&file)?;
                    let lines = text.lines().map(|line| match line.starts_with("Types:") {
                        true => "Types: deb-src",
                        false => line,
                    });
                    let text = lines.collect::<Vec<_>>().join("\n") + "\n";
                    fs::write(
                        apt.join("etc").join(file.file_name().context("a name")?),
                        text,
                    )?;
                }
            }
            let list = fs::read_to_string("/etc/apt/sources.list").unwrap_or_default();
            let lines = list.lines().filter_map(|l| l.strip_prefix("deb "));
            let text: String = lines.map(|l| format!("deb-src {l}\n")).collect();
            fs::write(apt.join("etc/more.list"), text)?;
            let place = apt.display();
            let text = format!(
                "Dir::State::lists \"{place}/lists\";\nDir::Cache \"{place}/cache\";\n\
                 Dir::Etc::sourcelist \"{place}/etc/more.list\";\nDir::Etc::sourceparts \"{place}/etc\";\n"
            );
            fs::write(&conf, text)?;
        }
        let get = |args: &[&str]| {
            let mut command = Command::new("apt-get");
            command.args(args).current_dir(&self.place);
            command.env("APT_CONFIG", &conf).stdin(Stdio::null());
            command.output().is_ok_and(|o| o.status.success())
        };
        let wanted = format!("{name}={version}");
        let source = ["source", "--download-only", "-qq", wanted.as_str()];
        let fetched = get(&source) || get(&["update", "-qq"]) && get(&source);
        if !fetched {
            return Err(missing().into());
        }
        // The epoch is not in the name of the file.
        let plain = version.split_once(':').map_or(version, |(_, rest)| rest);
        let description = format!("{name}_{plain}.dsc");
        self.tool(
            "dpkg-source",
            &["--skip-patches", "-x", description.as_str(), name],
        )?;
        Ok(self.path(name))
    }

    /// Builds with a script; `$SRC` is the source.
    pub(crate) fn script(&self, source: &Path, text: &str) -> Result<()> {
        let source = source.to_str().context("a path that is text")?;
        self.tool("sh", &["-euc", &format!("SRC='{source}'\n{text}")])
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
        let mut command = self.command(args);
        command.output().context("cannot start wherefore")
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(&self.wherefore);
        command
            .args(args)
            .current_dir(&self.place)
            .env("WHEREFORE_RECORDINGS", &self.recordings)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.join(Path::new(name))
    }
}
