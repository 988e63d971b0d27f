//! A program with its surroundings: what the suites run in three ways.

use crate::process::{Ending, Input};
use anyhow::Result;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) type Fill = Arc<dyn Fn(&Path) -> Result<()> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) input: Input,
    /// Puts the input files into the case's fresh working directory.
    pub(crate) fill: Fill,
    /// How the native run must end, where that is known beforehand.
    pub(crate) ending: Option<Ending>,
    /// It never ends natively, so only the recorded run has that ending.
    pub(crate) hangs: bool,
    /// Two native runs print different things, so only the replay is held to the recorded run.
    pub(crate) nondeterministic: bool,
    pub(crate) children: Children,
    pub(crate) limit: Duration,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({})", self.name)
    }
}

/// What the guest's children write to the standard streams. They run outside the recording, so the replay repeats
/// only what the guest itself wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Children {
    #[default]
    Silent,
    /// Every line that contains this text, and no other.
    Lines(String),
    /// Nobody knows which: the replay must write a part of the recorded run's lines, in their order.
    Unknown,
}

/// A thing to run, or the reason why it cannot be run here.
#[derive(Debug)]
pub(crate) enum Plan {
    Run(Case),
    Skip { name: String, reason: String },
    Broken { name: String, reason: String },
}

/// Gives every file below `directory` the same age, so that listings and archives are the same each time.
pub(crate) fn settle(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            settle(&entry.path())?;
        }
        age(&entry.path())?;
    }
    age(directory)
}

fn age(path: &Path) -> Result<()> {
    let then = TimeSpec::new(1_600_000_000, 0);
    utimensat(
        AT_FDCWD,
        path,
        &then,
        &then,
        UtimensatFlags::NoFollowSymlink,
    )?;
    Ok(())
}

/// What a directory holds, by path: kind, permissions and contents, but not times.
pub(crate) fn contents(directory: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut all = BTreeMap::new();
    collect(directory, directory, &mut all)?;
    Ok(all)
}

fn collect(top: &Path, directory: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = path.strip_prefix(top)?.to_owned();
        if kind.is_dir() {
            collect(top, &path, all)?;
            all.insert(name, b"directory".to_vec());
        } else if kind.is_symlink() {
            all.insert(
                name,
                format!("link to {}", fs::read_link(&path)?.display()).into_bytes(),
            );
        } else if kind.is_file() {
            let mut bytes = format!("{:o} ", entry.metadata()?.permissions().mode()).into_bytes();
            bytes.extend(fs::read(&path)?);
            all.insert(name, bytes);
        } else {
            all.insert(name, b"special".to_vec());
        }
    }
    Ok(())
}
