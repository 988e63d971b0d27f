//! Files whose contents belong to a recording.
//!
//! A mapped file (the program, its libraries) must be there for the replay even when it has been
//! rebuilt or removed since. Copies are named by what identifies a version of a file on this
//! machine (device, inode, size and both times), kept once in a store beside the recordings, and
//! hard-linked into each recording that uses them, so that removing a recording gives back exactly
//! what no other one needs.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::Error;
use crate::recording::FileRef;

pub(crate) struct Files {
    dir: PathBuf,
    store: PathBuf,
    known: FxHashMap<String, ()>,
}

impl Files {
    /// The files of the recording in `recording`; the store is beside it.
    pub(crate) fn of(recording: &Path) -> Self {
        let store = recording.parent().unwrap_or(Path::new(".")).join(".files");
        Files {
            dir: recording.join("files"),
            store,
            known: FxHashMap::default(),
        }
    }

    pub(crate) fn path(&self, file: &FileRef) -> PathBuf {
        self.dir.join(&file.stored)
    }

    /// Keeps the contents of the first of `sources` that can be opened.
    pub(crate) fn keep(&mut self, name: &Path, sources: &[PathBuf]) -> Result<FileRef, Error> {
        let mut opened = None;
        for s in sources {
            if let Ok(f) = File::open(s) {
                opened = Some(f);
                break;
            }
        }
        let Some(source) = opened else {
            return Err(Error::Unreadable(name.to_owned()));
        };
        let m = source.metadata().map_err(Error::Disk)?;
        // A device has no contents that could be kept.
        if !m.is_file() {
            return Err(Error::Unreadable(name.to_owned()));
        }
        let stored = format!(
            "{:x}-{:x}-{:x}-{:x}.{:x}-{:x}.{:x}",
            m.dev(),
            m.ino(),
            m.size(),
            m.mtime(),
            m.mtime_nsec(),
            m.ctime(),
            m.ctime_nsec()
        );
        let file = FileRef {
            name: name.as_os_str().as_bytes().to_vec(),
            stored: stored.clone(),
        };
        if self.known.contains_key(&stored) {
            return Ok(file);
        }
        fs::create_dir_all(&self.dir).map_err(Error::Disk)?;
        let here = self.path(&file);
        if !here.exists() && fs::hard_link(self.store.join(&stored), &here).is_err() {
            // A copy of our own first, then offered to others: nobody else, another recorder at
            // the same file or `rm`, can come between.
            let partial = self.dir.join(format!("{stored}.partial"));
            File::create(&partial)
                .and_then(|to| copy(&source, &to))
                .and_then(|()| fs::rename(&partial, &here))
                .map_err(|e| {
                    let _ = fs::remove_file(&partial);
                    Error::Disk(e)
                })?;
            // Where this fails, the file is not shared, and nothing is lost.
            let _ = fs::create_dir_all(&self.store);
            let _ = fs::hard_link(&here, self.store.join(&stored));
        }
        self.known.insert(stored, ());
        Ok(file)
    }
}

/// Copies a file and leaves its holes open: one may look larger than the disk.
fn copy(mut from: &File, mut to: &File) -> io::Result<()> {
    let seek = |at: u64, whence| {
        // SAFETY: a plain system call on a descriptor that is open.
        let found = unsafe { libc::lseek(from.as_raw_fd(), at as i64, whence) };
        u64::try_from(found).map_err(|_| io::Error::last_os_error())
    };
    to.set_len(from.metadata()?.len())?;
    let mut at = 0;
    loop {
        let (data, end) = match seek(at, libc::SEEK_DATA) {
            Ok(data) => (data, seek(data, libc::SEEK_HOLE)?),
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => return Ok(()),
            // The file system does not tell.
            Err(_) => (at, u64::MAX),
        };
        from.seek(SeekFrom::Start(data))?;
        to.seek(SeekFrom::Start(data))?;
        let n = io::copy(&mut from.take(end - data), &mut to)?;
        if n == 0 {
            return Ok(());
        }
        at = data + n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn recorders_that_meet_at_a_file_all_keep_it() {
        const AT_ONCE: usize = 8;
        let folder = tempfile::tempdir().expect("a temporary folder");
        for round in 0..20 {
            let source = folder.path().join(format!("source-{round}"));
            let contents = vec![round as u8; 300_000];
            fs::write(&source, &contents).expect("a file to keep");
            let start = Barrier::new(AT_ONCE);
            std::thread::scope(|s| {
                for n in 0..AT_ONCE {
                    let recording = folder.path().join(format!("{round}-{n}"));
                    let (start, source, contents) = (&start, &source, &contents);
                    s.spawn(move || {
                        let mut files = Files::of(&recording);
                        start.wait();
                        let kept = files.keep(source, std::slice::from_ref(source));
                        let kept = kept.expect("the file is kept");
                        let stored = fs::read(files.path(&kept)).expect("the stored file");
                        assert!(stored == *contents, "what was kept is what was there");
                    });
                }
            });
        }
    }
}
