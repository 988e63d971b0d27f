//! The folder of recordings.
//!
//! ```text
//! RECORDINGS/fib-0/meta.json     what it is
//! RECORDINGS/fib-0/events        what came from outside
//! RECORDINGS/fib-0/files/...     the files it maps, hard links into .files
//! RECORDINGS/.files/...          one copy of each version of each file
//! RECORDINGS/latest -> fib-0
//! ```
//!
//! A recording is named after its program with a counter, as rr does it, because that is what
//! people remember. It holds the guest's environment and input, so only its owner may look.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Error;
use crate::meta::{Ended, Meta};

const LATEST: &str = "latest";
const FILES: &str = ".files";

/// The name of a recording, as the user types it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct RecordingName(pub String);

impl fmt::Display for RecordingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `$WHEREFORE_RECORDINGS`, else `$XDG_DATA_HOME/wherefore`, else `~/.local/share/wherefore`.
pub fn default_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty());
    set("WHEREFORE_RECORDINGS")
        .map(PathBuf::from)
        .or_else(|| set("XDG_DATA_HOME").map(|d| PathBuf::from(d).join("wherefore")))
        .or_else(|| set("HOME").map(|d| PathBuf::from(d).join(".local/share/wherefore")))
}

/// A recording whose guest runs no more.
pub(crate) struct Finished {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) meta: Meta,
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) folder: PathBuf,
}

/// A folder for a recording to be; removed again unless [`kept`](Place::keep).
pub(crate) struct Place<'a> {
    store: &'a Store,
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    /// The outermost folder that had to be made.
    made: Option<PathBuf>,
    kept: bool,
}

impl Place<'_> {
    /// The recording has begun: it stays, and is the latest.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
        self.store.point_latest(&self.name);
    }

    /// It stays, and the latest is the one it was.
    pub(crate) fn keep_aside(&mut self) {
        self.kept = true;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let _ = self.store.delete(&self.name);
        if let Some(made) = &self.made {
            let mut folder = self.store.folder.as_path();
            while fs::remove_dir(folder).is_ok() && folder != made {
                match folder.parent() {
                    Some(parent) => folder = parent,
                    None => break,
                }
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && name != LATEST
        && !name.starts_with(['.', '-'])
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '+'))
}

impl Store {
    pub(crate) fn new(folder: PathBuf) -> Self {
        // The engine maps files from here after the guest may have gone elsewhere.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        Store { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn trouble(&self, e: io::Error) -> Error {
        Error::Folder(self.folder.clone(), e)
    }

    /// Makes a folder for a recording of `program`, or one called `wanted`.
    pub(crate) fn make(&self, program: &Path, wanted: Option<&str>) -> Result<Place<'_>, Error> {
        if let Some(name) = wanted
            && !is_name(name)
        {
            return Err(Error::BadName(name.to_owned()));
        }
        let made = self
            .folder
            .ancestors()
            .take_while(|p| !p.exists())
            .last()
            .map(Path::to_owned);
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700);
        builder
            .recursive(true)
            .create(&self.folder)
            .map_err(|e| self.trouble(e))?;
        builder.recursive(false);
        let place = |name: String| Place {
            store: self,
            folder: self.path(&name),
            name,
            made: made.clone(),
            kept: false,
        };
        if let Some(name) = wanted {
            return match builder.create(self.path(name)) {
                Ok(()) => Ok(place(name.to_owned())),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    Err(Error::NameTaken(name.to_owned()))
                }
                Err(e) => Err(self.trouble(e)),
            };
        }
        let stem = stem(program);
        let mut number = self.next_number(&stem);
        loop {
            let name = format!("{stem}-{number}");
            match builder.create(self.path(&name)) {
                Ok(()) => return Ok(place(name)),
                // Another one was quicker.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(self.trouble(e)),
            }
        }
    }

    fn next_number(&self, stem: &str) -> u64 {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return 0;
        };
        let used = entries.flatten().filter_map(|e| {
            let name = e.file_name().into_string().ok()?;
            let number = name.strip_prefix(stem)?.strip_prefix('-')?;
            number.parse::<u64>().ok()
        });
        used.max().map_or(0, |n| n.saturating_add(1))
    }

    fn point_latest(&self, name: &str) {
        // Renamed into place, so that there is always one. Failing is no reason to stop a program.
        let temporary = self.folder.join(format!(".latest.{}", std::process::id()));
        let _ = fs::remove_file(&temporary);
        if std::os::unix::fs::symlink(name, &temporary).is_ok() {
            let _ = fs::rename(&temporary, self.folder.join(LATEST));
        }
    }

    /// The names of all recordings, in no order.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(self.trouble(e)),
        };
        Ok(entries
            .flatten()
            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|n| is_name(n))
            // A folder that holds neither is somebody else's.
            .filter(|n| {
                ["meta.json", "events"]
                    .iter()
                    .any(|f| self.path(n).join(f).exists())
            })
            .collect())
    }

    /// The recording that `name` means; the latest if there is none.
    pub(crate) fn resolve(&self, name: Option<&str>) -> Result<String, Error> {
        let missing = |name: Option<&str>| Error::NoRecording {
            name: name.map(str::to_owned),
            folder: self.folder.clone(),
        };
        match name {
            Some(name) if name != LATEST => {
                if !is_name(name) || !self.path(name).is_dir() {
                    return Err(missing(Some(name)));
                }
                Ok(name.to_owned())
            }
            _ => fs::read_link(self.folder.join(LATEST))
                .ok()
                .and_then(|target| target.into_os_string().into_string().ok())
                .filter(|target| is_name(target) && self.path(target).is_dir())
                .ok_or_else(|| missing(None)),
        }
    }

    /// A recording that can be worked with.
    pub(crate) fn finished(&self, name: Option<&str>) -> Result<Finished, Error> {
        let name = self.resolve(name)?;
        let folder = self.path(&name);
        let meta = Meta::read(&name, &folder)?;
        match meta.ended {
            Ended::Running { pid, .. } => Err(Error::Running { name, pid }),
            _ => Ok(Finished { name, folder, meta }),
        }
    }

    /// Bytes of the recording on disk, stored files included.
    pub(crate) fn size(&self, name: &str) -> u64 {
        fn below(folder: &Path) -> u64 {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries
                .map(|e| match e.metadata() {
                    Ok(m) if m.is_dir() => below(&e.path()),
                    Ok(m) => m.len(),
                    Err(_) => 0,
                })
                .sum()
        }
        below(&self.path(name))
    }

    /// Removes a recording and the stored files that only it used.
    pub(crate) fn delete(&self, name: &str) -> Result<(), Error> {
        let folder = self.path(name);
        let stored: Vec<_> = fs::read_dir(folder.join("files"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name())
            .collect();
        fs::remove_dir_all(&folder).map_err(|e| Error::Folder(folder.clone(), e))?;
        let files = self.folder.join(FILES);
        for file in stored {
            let path = files.join(file);
            if fs::metadata(&path).is_ok_and(|m| m.nlink() == 1) {
                let _ = fs::remove_file(path);
            }
        }
        // Succeeds only when it is empty.
        let _ = fs::remove_dir(files);
        if fs::read_link(self.folder.join(LATEST)).is_ok_and(|l| l == Path::new(name)) {
            let _ = fs::remove_file(self.folder.join(LATEST));
        }
        Ok(())
    }

    /// Removes what an earlier search for faults has recorded under this name.
    pub(crate) fn make_room(&self, name: &str) -> Result<(), Error> {
        let folder = self.path(name);
        match Meta::read(name, &folder) {
            _ if !folder.exists() => Ok(()),
            Ok(meta) if meta.suite.is_none() => Err(Error::NameTaken(name.to_owned())),
            _ => self.delete(name),
        }
    }

    /// Makes the youngest recording the latest, after others were removed.
    pub(crate) fn settle_latest(&self, youngest: Option<&str>) {
        if let Some(name) = youngest
            && self.resolve(None).is_err()
        {
            self.point_latest(name);
        }
    }
}

/// What a recording of `program` is called, without the counter.
fn stem(program: &Path) -> String {
    let base = program.file_name().unwrap_or(program.as_os_str());
    let clean: String = base
        .to_string_lossy()
        .chars()
        .map(|c| {
            if is_name(&c.to_string()) || matches!(c, '.' | '-') {
                c
            } else {
                '_'
            }
        })
        .take(60)
        .collect();
    let clean = clean.trim_start_matches(['.', '-']);
    if clean.is_empty() {
        "program".to_owned()
    } else {
        clean.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(program: &str, expected: &str) {
        assert_eq!(stem(Path::new(program)), expected);
        assert!(is_name(&format!("{expected}-0")));
    }

    #[test]
    fn recordings_are_named_after_programs() {
        check("/usr/bin/fib", "fib");
        check("./a b", "a_b");
        check("..", "program");
        check("-.hidden", "hidden");
        check("g++", "g++");
        check("\u{1b}[2J", "__2J");
        check(&"x".repeat(300), &"x".repeat(60));
    }

    #[test]
    fn names_do_not_leave_the_folder() {
        for bad in ["", ".", "..", ".files", "latest", "a/b", "-x", "a\nb"] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}
