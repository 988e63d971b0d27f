//! What a debugger wants to know of the guest's process: its auxiliary vector, its program, its
//! address space, the contents of the files it maps. None of it comes from the file system: the
//! files may be gone, and the process is not the one that was recorded.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use guest::Replay;

use super::Session;
use crate::Error;
use crate::meta::Meta;
use crate::store::Store;

const AT_NULL: u64 = 0;
const AT_PHDR: u64 = 3;
/// No auxiliary vector, argument list or environment is longer.
const LONGEST: usize = 1 << 20;

fn word(replay: &Replay, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (replay.read(at, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
}

/// The auxiliary vector, found from the stack of a guest that has not begun.
pub(super) fn auxv(replay: &Replay) -> Vec<u8> {
    let mut at = replay.regs().rsp;
    // argc and argv, then the environment; each list ends with a zero.
    at = at.wrapping_add(8);
    for _ in 0..2 {
        for _ in 0..LONGEST {
            let next = word(replay, at);
            at = at.wrapping_add(8);
            if next.unwrap_or(0) == 0 {
                break;
            }
        }
    }
    let mut out = Vec::new();
    while let (Some(kind), Some(value)) = (word(replay, at), word(replay, at.wrapping_add(8))) {
        out.extend(kind.to_le_bytes());
        out.extend(value.to_le_bytes());
        at = at.wrapping_add(16);
        if kind == AT_NULL || out.len() > LONGEST {
            break;
        }
    }
    out
}

impl Session {
    /// The auxiliary vector with which the program began.
    pub fn auxv(&self) -> &[u8] {
        &self.auxv
    }

    /// The path of the program, as the guest knows it.
    pub fn executable(&self) -> Option<&Path> {
        self.executable.as_deref()
    }

    pub(super) fn find_executable(&mut self) -> Result<Option<PathBuf>, Error> {
        let pairs = self.auxv.chunks_exact(16);
        let number = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
        let headers = pairs
            .map(|p| (number(&p[..8]), number(&p[8..])))
            .find(|(kind, _)| *kind == AT_PHDR);
        let Some((_, headers)) = headers else {
            return Ok(None);
        };
        let mappings = self.replay.mappings().map_err(|e| self.wrong(e))?;
        let around = mappings
            .iter()
            .find(|m| (m.start..m.end).contains(&headers));
        Ok(around.map(|m| self.known_name(&m.name).to_path_buf()))
    }

    fn known_name<'a>(&'a self, stored: &'a Path) -> &'a Path {
        self.replay.names().get(stored).map_or(stored, |p| p)
    }

    /// Where the recording keeps a file of the guest's. The guest may call it by another of its
    /// names: `/lib/x` where `/lib` is a link to `/usr/lib`.
    pub fn stored(&self, name: &Path) -> Option<PathBuf> {
        let folder = self.store.path(&self.name).join("files");
        let known = || self.meta.files.iter().map(|(s, k)| (s, Path::new(k)));
        let exact = |name: &Path| known().find(|(_, k)| *k == name);
        let found = exact(name).or_else(|| {
            let end = name.file_name()?;
            let mut alike = known().filter(|(_, k)| k.file_name() == Some(end));
            let first = alike.next()?;
            alike.next().is_none().then_some(first)
        });
        found.map(|(stored, _)| folder.join(stored))
    }

    /// The address space, in the form of `/proc/PID/maps`.
    pub fn maps(&mut self) -> Result<String, Error> {
        let mappings = self.replay.mappings().map_err(|e| self.wrong(e))?;
        let mut out = String::new();
        for m in &mappings {
            let flag = |on, c| if on { c } else { '-' };
            let p = m.protection;
            let _ = writeln!(
                out,
                "{:x}-{:x} {}{}{}{} {:08x} 00:00 {} {}",
                m.start,
                m.end,
                flag(p.read, 'r'),
                flag(p.write, 'w'),
                flag(p.execute, 'x'),
                if m.shared { 's' } else { 'p' },
                m.offset,
                m.object.1,
                self.known_name(&m.name).display(),
            );
        }
        Ok(out)
    }

    /// The arguments, each with a zero behind it.
    pub fn command_line(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for a in &self.meta.args {
            out.extend(a.as_bytes());
            out.push(0);
        }
        out
    }

    pub fn working_directory(&self) -> &str {
        &self.meta.cwd
    }
}

/// The files of a recording that on this machine are no longer what they were.
pub(crate) fn changed_files(store: &Store, name: &str) -> Result<Vec<PathBuf>, Error> {
    let folder = store.path(name);
    let meta = Meta::read(name, &folder)?;
    let pairs = meta.files.iter();
    let changed = pairs.filter(|(stored, known)| {
        // The loader's cache is rewritten with every installation; no debugger wants it.
        let wanted = known != "/etc/ld.so.cache";
        wanted && !same_contents(&folder.join("files").join(stored), Path::new(known))
    });
    Ok(changed.map(|(_, known)| PathBuf::from(known)).collect())
}

/// Whether two files hold the same; links to one file do.
fn same_contents(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(a), Ok(b)) = (one.metadata(), other.metadata()) else {
        return false;
    };
    if (a.dev(), a.ino()) == (b.dev(), b.ino()) {
        return true;
    }
    let read = |p: &Path| std::fs::read(p).ok();
    a.len() == b.len() && read(one).is_some() && read(one) == read(other)
}
