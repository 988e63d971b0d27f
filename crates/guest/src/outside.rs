//! What others write into the guest's memory while it is recorded.
//!
//! Memory that is mapped shared changes without a system call of the guest's saying so: children
//! run natively and write what they inherited, other processes write the same file, and so does
//! the guest itself with write(2) and ftruncate(2). A private mapping of a file shows such changes
//! too, page by page until the guest writes there itself.
//!
//! A replay must see them. While the guest has memory of that kind, every system call is a stop,
//! and at each the recorder compares the memory with what it saw last; differing bytes become
//! effects of that call. The beginning of a signal handler is another such moment. The guest's own stores are among them, which does no harm: they are in
//! place when the replay comes there. A page is written down in full the first time it is seen,
//! except where the stored copy of its file has it.
//!
//! Most such memory is a file that somebody mapped to read it (the classes of a Java machine, a cache of fonts) and
//! nobody writes. It is not compared as long as the file's times say that it is as it was when it was copied, where they
//! can be trusted: a store through a mapping changes them only if the page was clean, so they must be older than the
//! kernel leaves pages dirty, and in memory file systems they do not change at all.
//!
//! Where such a file is part of the system (glibc maps one of its own in every program that sets a locale), calls need
//! not stop for it: below `/usr` is what is only read, and is replaced by renaming. At stops that happen anyway its times
//! are looked at too.
//!
//! A guest that opens its own `/proc/self/mem` to write it is such an other: from then on each call is a stop, and
//! what it writes there is an effect of the call.
//!
//! Rejected: mapping the same memory in the recorder (anonymous memory has no name to open) and
//! the kernel's dirty bits (they know nothing of other writers). What another process writes
//! between two system calls and the guest reads before the next one is not recorded: finding that
//! would take a fault for every access.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use abi::Call;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Error;
use crate::engine::Engine;
use crate::maps::{Mapping, Maps};
use crate::record::Recorder;
use crate::recording::{CallEffects, FileRef, Kind};

/// Of mappings larger than this, only so much is looked at, where the guest has touched them.
const LARGE: u64 = 64 << 20;

/// Bytes read from the guest at a time.
const CHUNK: usize = 256 << 10;

type Page = Box<[u8; 4096]>;

/// Memory of the guest that others can write, as it was seen last.
#[derive(Default)]
pub(crate) struct Outside {
    /// The guest has had memory of this kind.
    active: bool,
    /// Objects to be watched that would not be by themselves: anonymous memory that a child has
    /// inherited, and files that the guest can write while they are mapped privately.
    exposed: FxHashSet<(u64, u64)>,
    watched: Vec<Watched>,
    seen: FxHashMap<u64, Page>,
    /// Objects that were copied when they were first mapped, and whose files have not changed since; `None` for one
    /// that has, or may have.
    still: FxHashMap<(u64, u64), Option<Still>>,
    /// The guest has opened its own memory as a file that it can write.
    own_memory: bool,
}

struct Watched {
    start: u64,
    end: u64,
    object: (u64, u64),
    offset: u64,
    large: bool,
    /// Reading beyond the end of a file ends the matter for the rest of the mapping.
    is_file: bool,
}

/// A stretch of a file that the guest has written with a system call. The device is left out, which
/// some file systems show differently in different places.
struct Wrote {
    inode: u64,
    from: u64,
    to: u64,
}

impl Watched {
    /// Where this mapping shows what was written.
    fn window(&self, wrote: &Wrote) -> Option<(u64, u64)> {
        let from = (wrote.from & !0xfff).max(self.offset);
        let to = wrote.to.next_multiple_of(4096);
        let to = to.min(self.offset + (self.end - self.start));
        (self.object.1 == wrote.inode && from < to).then(|| {
            (
                self.start + from - self.offset,
                self.start + to - self.offset,
            )
        })
    }
}

/// A file that nobody writes.
struct Still {
    path: PathBuf,
    state: State,
}

/// When it was written and changed, and its size and inode.
type State = [i64; 6];

/// Longer than the kernel leaves a page dirty.
const LONG_AGO: i64 = 60;

/// File systems on disks: ext, xfs, btrfs, f2fs, overlayfs, squashfs, erofs, iso9660.
const TELL_TIMES: [i64; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x794c_7630,
    0x7371_7368,
    0xe0f5_e1e2,
    0x9660,
];

impl Still {
    /// The file behind a mapping, if one can tell that it is not written.
    fn of(m: &Mapping) -> Option<Still> {
        let path = m.name.clone();
        let known = file_system(&path).is_some_and(|t| TELL_TIMES.contains(&t));
        let state = Still::state(&path)?;
        let is_it = state[5] as u64 == m.object.1;
        (m.is_file() && known && is_it).then_some(Still { path, state })
    }

    /// Nothing if it is no plain file, or was written a moment ago.
    fn state(path: &Path) -> Option<State> {
        let m = std::fs::metadata(path).ok().filter(|m| m.is_file())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        (m.mtime() + LONG_AGO < now.as_secs() as i64).then_some([
            m.mtime(),
            m.mtime_nsec(),
            m.ctime(),
            m.ctime_nsec(),
            m.size() as i64,
            m.ino() as i64,
        ])
    }

    fn holds(&self) -> bool {
        Still::state(&self.path) == Some(self.state)
    }
}

fn file_system(path: &Path) -> Option<i64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: the name ends with a zero, and the structure is live.
    unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        (libc::statfs(path.as_ptr(), &raw mut system) == 0).then_some(system.f_type)
    }
}

/// A mapping just made, and the copy that a replay will have in its place.
struct Fresh {
    start: u64,
    end: u64,
    copy: Option<File>,
    offset: u64,
}

impl Fresh {
    fn none() -> Self {
        Fresh {
            start: 0,
            end: 0,
            copy: None,
            offset: 0,
        }
    }

    fn page(&self, at: u64) -> Option<Page> {
        let file = self.copy.as_ref()?;
        if at < self.start || at >= self.end {
            return None;
        }
        let mut page = Box::new([0; 4096]);
        let mut n = 0;
        while n < 4096 {
            match file.read_at(&mut page[n..], self.offset + (at - self.start) + n as u64) {
                Ok(0) | Err(_) => break,
                Ok(k) => n += k,
            }
        }
        (n > 0).then_some(page)
    }
}

impl Outside {
    /// Every call is to be a stop.
    pub(crate) fn watching(&self) -> bool {
        self.own_memory || self.watched.iter().any(|w| !self.is_of_system(w.object))
    }

    fn is_of_system(&self, object: (u64, u64)) -> bool {
        let still = self.still.get(&object).and_then(Option::as_ref);
        still.is_some_and(|s| s.path.starts_with("/usr") && !s.path.starts_with("/usr/local"))
    }

    /// A child comes into being that inherits all shared mappings.
    pub(crate) fn inherited(&mut self, maps: &Maps) {
        let shared = maps.list.iter().filter(|m| m.shared && m.object.1 != 0);
        self.exposed.extend(shared.map(|m| m.object));
    }

    fn watches(&self, m: &Mapping) -> bool {
        if m.object.1 == 0 || !m.protection.read {
            return false;
        }
        let anonymous = m.is_named("/dev/zero (deleted)");
        (m.shared && !anonymous) || self.exposed.contains(&m.object)
    }

    fn choose(&mut self, engine: &Engine) {
        self.watched = engine
            .maps
            .list
            .iter()
            .filter(|m| self.watches(m) && !engine.owns(m.start, m.end))
            .map(|m| Watched {
                start: m.start,
                end: m.end,
                object: m.object,
                offset: m.offset,
                large: m.end - m.start > LARGE,
                is_file: !m.is_named("/dev/zero (deleted)"),
            })
            .collect();
        // What the guest writes itself by a mapping need not change the times.
        let written = engine.maps.list.iter().filter(|m| m.protection.write);
        for m in written.filter(|m| m.shared) {
            self.still.insert(m.object, None);
        }
        let watched = &self.watched;
        self.seen
            .retain(|&p, _| watched.iter().any(|w| w.start <= p && p < w.end));
    }

    /// Compares, and returns what differs; an empty stretch is a page that is no longer there.
    fn compare(
        &mut self,
        engine: &Engine,
        fresh: &Fresh,
        wrote: Option<&Wrote>,
    ) -> Vec<(u64, Vec<u8>)> {
        let mut out = Vec::new();
        let longest = self.watched.iter().map(|w| (w.end - w.start) as usize);
        let mut buffer = vec![0; longest.max().unwrap_or(0).min(CHUNK)];
        for i in 0..self.watched.len() {
            let (start, end) = (self.watched[i].start, self.watched[i].end);
            let is_file = self.watched[i].is_file;
            if self.is_still(self.watched[i].object) {
                continue;
            }
            let runs = if self.watched[i].large {
                let mut runs = engine.present(start, end);
                runs.extend(wrote.and_then(|w| self.watched[i].window(w)));
                runs
            } else {
                vec![(start, end)]
            };
            'runs: for (from, to) in runs {
                let mut at = from;
                while at < to {
                    let want = ((to - at) as usize).min(CHUNK);
                    let got = engine.memory.read(at, &mut buffer[..want]) & !0xfff;
                    for page in buffer[..got].chunks_exact(4096) {
                        let page: &[u8; 4096] = page.try_into().expect("a page");
                        self.look(at, page, fresh, &mut out);
                        at += 4096;
                    }
                    if got < want {
                        if self.seen.contains_key(&at) {
                            self.seen.retain(|&p, _| p < at || p >= end);
                            out.push((at, Vec::new()));
                        }
                        if is_file {
                            break 'runs;
                        }
                        at += 4096;
                    }
                }
            }
        }
        out
    }

    /// Nobody writes this.
    fn is_still(&mut self, object: (u64, u64)) -> bool {
        let Some(known) = self.still.get_mut(&object) else {
            return false;
        };
        // Once it does not hold, it is looked at from then on.
        known.take_if(|s| !s.holds());
        known.is_some()
    }

    fn look(&mut self, at: u64, page: &[u8; 4096], fresh: &Fresh, out: &mut Vec<(u64, Vec<u8>)>) {
        match self.seen.get_mut(&at) {
            Some(old) => {
                if **old != *page {
                    let differ = |i: &usize| old[*i] != page[*i];
                    let first = (0..4096).find(differ).unwrap_or(0);
                    let last = (0..4096).rfind(differ).unwrap_or(4095);
                    out.push((at + first as u64, page[first..=last].to_vec()));
                    **old = *page;
                }
            }
            None => {
                if fresh.page(at).is_none_or(|copy| *copy != *page) {
                    out.push((at, page.to_vec()));
                }
                self.seen.insert(at, Box::new(*page));
            }
        }
    }
}

impl Recorder {
    /// What of the memory that others can write is not as it was before. Called at each system
    /// call that has come to its end.
    pub(crate) fn outside_writes(
        &mut self,
        call: &Call,
        ret: i64,
        file: Option<&FileRef>,
    ) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let fresh = self.note_shared(call, ret, file)?;
        let mut writes = Vec::new();
        if self.outside.active {
            let large = self.outside.watched.iter().any(|w| w.large);
            let wrote = large.then(|| self.engine.wrote(call, ret)).flatten();
            writes = self.outside.compare(&self.engine, &fresh, wrote.as_ref());
        }
        if self.outside.own_memory {
            writes.extend(self.engine.wrote_itself(call, ret));
        }
        for (at, bytes) in &writes {
            self.engine.code_changed(*at, bytes.len() as u64)?;
        }
        Ok(writes)
    }

    /// A handler is about to begin, and not because a system call was cut short. The signal may
    /// well be about something that another process has written.
    pub(crate) fn outside_before_handler(&mut self) -> Result<(), Error> {
        if !self.outside.watching() {
            return Ok(());
        }
        let writes = self.outside.compare(&self.engine, &Fresh::none(), None);
        if writes.is_empty() {
            return Ok(());
        }
        for (at, bytes) in &writes {
            self.engine.code_changed(*at, bytes.len() as u64)?;
        }
        let effects = CallEffects {
            writes,
            ..Default::default()
        };
        self.tape_writes(&effects);
        self.engine.tape_outside()?;
        self.log(Kind::Memory, 0, 0, effects.encode())
    }

    /// Keeps the list of what is watched.
    fn note_shared(
        &mut self,
        call: &Call,
        ret: i64,
        file: Option<&FileRef>,
    ) -> Result<Fresh, Error> {
        let mut fresh = Fresh::none();
        if (-4095..0).contains(&ret) {
            return Ok(fresh);
        }
        let at = ret as u64;
        let [_, len, size, flags, fd, offset] = call.args;
        match call.nr as i64 {
            libc::SYS_mmap => {
                let end = at.saturating_add((len + 0xfff) & !0xfff);
                self.outside.seen.retain(|&p, _| p < at || p >= end);
                let shared = flags & libc::MAP_SHARED as u64 != 0;
                let named = flags & libc::MAP_ANONYMOUS as u64 == 0;
                if shared {
                    self.outside.active = true;
                } else if named && self.engine.can_write(fd as i32) {
                    self.engine.refresh_maps()?;
                    if let Some(m) = self.engine.maps.find(at).filter(|m| m.object.1 != 0) {
                        self.outside.exposed.insert(m.object);
                        self.outside.active = true;
                    }
                }
                if let Some(f) = file.filter(|_| self.outside.active) {
                    fresh = Fresh {
                        start: at,
                        end,
                        copy: File::open(self.files.path(f)).ok(),
                        offset,
                    };
                }
            }
            libc::SYS_mremap => {
                let end = at.saturating_add(size);
                self.outside.seen.retain(|&p, _| p < at || p >= end);
            }
            libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => {
                if self.engine.is_own_memory(ret as i32) && self.engine.can_write(ret as i32) {
                    self.outside.own_memory = true;
                    self.choose_classes();
                }
                return Ok(fresh);
            }
            libc::SYS_shmat => self.outside.active = true,
            libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_pkey_mprotect
            | libc::SYS_shmdt
            | libc::SYS_fork
            | libc::SYS_vfork
            | libc::SYS_clone
            | libc::SYS_clone3 => {}
            _ => return Ok(fresh),
        }
        if !self.outside.active {
            return Ok(fresh);
        }
        self.engine.refresh_maps()?;
        if let (Some(m), true) = (self.engine.maps.find(at), fresh.copy.is_some()) {
            let still = self.outside.still.entry(m.object);
            still.or_insert_with(|| Still::of(m));
        }
        self.outside.choose(&self.engine);
        self.choose_classes();
        for i in 0..self.outside.watched.len() {
            let w = &self.outside.watched[i];
            let still = self.outside.still.get(&w.object);
            if w.large && still.is_none_or(Option::is_none) {
                let (start, size) = (w.start, (w.end - w.start) >> 20);
                self.note(format!(
                    "the shared memory at {start:#x} has {size} megabytes: what others write to \
                     more than the first 64 that the guest has touched is not recorded"
                ));
            }
        }
        Ok(fresh)
    }
}

/// The descriptor that a call writes to, if it writes to a file.
fn written_to(call: &Call) -> i32 {
    let fd = match call.nr as i64 {
        libc::SYS_copy_file_range => call.args[2],
        _ => call.args[0],
    };
    fd as i32
}

impl Engine {
    /// What a call that has succeeded wrote to a file.
    fn wrote(&self, call: &Call, ret: i64) -> Option<Wrote> {
        if ret < 0 {
            return None;
        }
        let n = ret as u64;
        let [_, b, c, d, ..] = call.args;
        let fd = written_to(call);
        let at_position = || self.position(fd).map(|p| (p.saturating_sub(n), p));
        let (from, to) = match call.nr as i64 {
            libc::SYS_pwrite64 | libc::SYS_pwritev => (d, d + n),
            libc::SYS_pwritev2 if d != u64::MAX => (d, d + n),
            libc::SYS_pwritev2 | libc::SYS_write | libc::SYS_writev | libc::SYS_sendfile => {
                at_position()?
            }
            libc::SYS_copy_file_range if d == 0 => at_position()?,
            libc::SYS_copy_file_range => {
                let to = self.memory.read_u64(d).ok()?;
                (to.saturating_sub(n), to)
            }
            libc::SYS_fallocate => (c, c.saturating_add(d)),
            // Its new last page tells a replay how long it has become.
            libc::SYS_ftruncate if b > 0 => (b - 1, b),
            _ => return None,
        };
        let file = std::fs::metadata(format!("/proc/{}/fd/{fd}", self.tracee.0));
        let inode = file.ok()?.ino();
        Some(Wrote { inode, from, to })
    }

    /// What a call has written to the guest's memory by way of the file that this is.
    fn wrote_itself(&self, call: &Call, ret: i64) -> Option<(u64, Vec<u8>)> {
        let wrote = self.wrote(call, ret)?;
        if !self.is_own_memory(written_to(call)) {
            return None;
        }
        let mut bytes = vec![0; (wrote.to - wrote.from) as usize];
        let n = self.memory.read(wrote.from, &mut bytes);
        bytes.truncate(n);
        Some((wrote.from, bytes))
    }

    /// The descriptor is of `/proc/self/mem`, or of a thread's.
    fn is_own_memory(&self, fd: i32) -> bool {
        let pid = self.tracee.0;
        let Ok(path) = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")) else {
            return false;
        };
        let rest = path.strip_prefix(format!("/proc/{pid}"));
        rest.is_ok_and(|rest| rest.file_name().is_some_and(|name| name == "mem"))
    }

    fn position(&self, fd: i32) -> Option<u64> {
        let info = std::fs::read_to_string(format!("/proc/{}/fdinfo/{fd}", self.tracee.0)).ok()?;
        let at = info.lines().find_map(|l| l.strip_prefix("pos:"))?;
        at.trim().parse().ok()
    }

    /// The guest has this descriptor open for writing.
    fn can_write(&self, fd: i32) -> bool {
        let info = std::fs::read_to_string(format!("/proc/{}/fdinfo/{fd}", self.tracee.0));
        info.ok()
            .and_then(|text| {
                let flags = text.lines().find_map(|l| l.strip_prefix("flags:"))?;
                i32::from_str_radix(flags.trim(), 8).ok()
            })
            .is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
    }

    /// Stretches of pages that are in the guest's page tables.
    fn present(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        const PRESENT: u64 = 1 << 63;
        let Ok(pagemap) = File::open(format!("/proc/{}/pagemap", self.tracee.0)) else {
            return Vec::new();
        };
        let mut out: Vec<(u64, u64)> = Vec::new();
        let mut found = 0;
        let mut words = vec![0u8; 8 * 4096];
        let mut at = start;
        while at < end {
            let n = ((end - at) >> 12).min(4096) as usize;
            let Ok(got) = pagemap.read_at(&mut words[..n * 8], (at >> 12) * 8) else {
                break;
            };
            for (i, w) in words[..got].chunks_exact(8).enumerate() {
                let w = u64::from_le_bytes(w.try_into().expect("eight bytes"));
                if w & PRESENT == 0 {
                    continue;
                }
                let page = at + ((i as u64) << 12);
                match out.last_mut() {
                    Some(last) if last.1 == page => last.1 += 4096,
                    _ => out.push((page, page + 4096)),
                }
                found += 4096;
                if found == LARGE {
                    return out;
                }
            }
            at += (n as u64) << 12;
        }
        out
    }
}
