//! Shared memory in a replay.
//!
//! A replay has neither the files nor the other processes that the guest shared memory with, but
//! what the guest mapped twice must be one memory again. So each object (a file, an anonymous
//! shared mapping, a System V segment) becomes an anonymous file of the tracer's, which the guest
//! maps at the same places as in the recording. What was written to it from outside stands in the
//! recording as effects of system calls, and is put there through the tracer's own descriptor,
//! since the guest may have the object mapped for reading only.
//!
//! A checkpoint must not change when the guest runs on. Forking shares these objects, so the copy
//! gets objects of its own with equal contents, mapped over the old ones.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use abi::Call;

use crate::Error;
use crate::engine::Engine;
use crate::layout::slot;
use crate::maps::Maps;
use crate::memory::Memory;
use crate::ptrace::Tracee;
use crate::recording::{CallEffects, FileRef};
use crate::replay::Replay;

/// One memory that the guest may have mapped several times.
#[derive(Clone)]
struct Object {
    /// What it was in the recording: device and inode, or a segment's number. Anonymous memory has
    /// none, because no later mapping can ask for it.
    was: Option<String>,
    /// What the kernel calls it in the replayed guest's list of mappings.
    id: (u64, u64),
    file: Arc<File>,
}

/// The shared memory of one replayed guest.
#[derive(Clone, Default)]
pub(crate) struct Objects(Vec<Object>);

impl Object {
    fn new(was: Option<String>) -> Result<Self, Error> {
        let os = |e| Error::Os("memfd_create", e);
        // SAFETY: a plain system call; the descriptor it gives belongs to nobody else.
        let file = unsafe {
            let fd = libc::memfd_create(c"shared".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(os(io::Error::last_os_error()));
            }
            File::from_raw_fd(fd)
        };
        let m = file.metadata().map_err(os)?;
        Ok(Object {
            was,
            id: (m.dev(), m.ino()),
            file: Arc::new(file),
        })
    }

    /// Copies this stretch of `source`, as far as it goes, to the same place.
    fn fill(&self, source: &File, from: u64, to: u64) -> Result<(), Error> {
        let mut buffer = vec![0; 1 << 20];
        let mut at = from;
        while at < to {
            // SAFETY: a plain system call on a descriptor that is open.
            let data = unsafe { libc::lseek(source.as_raw_fd(), at as i64, libc::SEEK_DATA) };
            if data < 0 || data as u64 >= to {
                break;
            }
            if data as u64 > at {
                self.punch(at, data as u64);
                at = data as u64;
            }
            let want = buffer.len().min((to - at) as usize);
            let n = source
                .read_at(&mut buffer[..want], at)
                .map_err(Error::Disk)?;
            if n == 0 {
                break;
            }
            self.file
                .write_all_at(&buffer[..n], at)
                .map_err(Error::Disk)?;
            at += n as u64;
        }
        if at < to {
            self.punch(at, to);
        }
        Ok(())
    }

    fn punch(&self, from: u64, to: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a plain system call on a descriptor that is open. It fails only where there is
        // nothing to punch.
        unsafe {
            libc::fallocate(self.file.as_raw_fd(), mode, from as i64, (to - from) as i64);
        }
    }

    fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |m| m.len())
    }

    fn grow(&self, len: u64) -> Result<(), Error> {
        if self.len() < len {
            self.file.set_len(len).map_err(Error::Disk)?;
        }
        Ok(())
    }

    /// Another object with the same contents.
    fn duplicate(&self) -> Result<Object, Error> {
        let new = Object::new(self.was.clone())?;
        new.grow(self.len())?;
        new.fill(&self.file, 0, self.len())?;
        Ok(new)
    }
}

impl Objects {
    fn find(&self, id: (u64, u64)) -> Option<&Object> {
        self.0.iter().find(|o| o.id == id)
    }

    fn known(&mut self, was: &str) -> Result<Object, Error> {
        if let Some(o) = self.0.iter().find(|o| o.was.as_deref() == Some(was)) {
            return Ok(o.clone());
        }
        self.add(Some(was.to_owned()))
    }

    fn add(&mut self, was: Option<String>) -> Result<Object, Error> {
        let object = Object::new(was)?;
        self.0.push(object.clone());
        Ok(object)
    }

    /// Lets go of objects that the guest has not mapped any more. A file mapped again is filled
    /// from its stored copy again.
    fn sweep(&mut self, maps: &Maps) {
        self.0
            .retain(|o| maps.list.iter().any(|m| m.object == o.id));
    }
}

/// What of a stored file's name says which file it was: all but its version.
fn identity(file: &FileRef) -> String {
    file.stored.split('-').take(2).collect::<Vec<_>>().join("-")
}

/// How a System V segment stands in a recording, where files have their stored name.
pub(crate) fn segment(id: u64, size: u64) -> FileRef {
    FileRef {
        name: format!("/SYSV{id}").into_bytes(),
        stored: format!("sysv-{id:x}-{size:x}"),
    }
}

fn segment_size(file: &FileRef) -> Result<u64, Error> {
    let size = file.stored.split('-').nth(2);
    size.and_then(|s| u64::from_str_radix(s, 16).ok())
        .ok_or(Error::damaged("a segment has no size"))
}

impl Engine {
    /// Opens one of the tracer's descriptors in the guest.
    fn open_here(&mut self, file: &File) -> Result<u64, Error> {
        let path = format!("/proc/{}/fd/{}\0", std::process::id(), file.as_raw_fd());
        let scratch = self.page + u64::from(slot::SCRATCH);
        self.memory.write(scratch, path.as_bytes())?;
        let how = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
        let args = [libc::AT_FDCWD as u64, scratch, how, 0, 0, 0];
        match self.inject(libc::SYS_openat, args)? {
            fd if fd >= 0 => Ok(fd as u64),
            e => Err(Error::Internal(format!(
                "the guest cannot open shared memory: {e}"
            ))),
        }
    }

    fn map_here(
        &mut self,
        fd: u64,
        at: u64,
        len: u64,
        protection: u64,
        offset: u64,
    ) -> Result<(), Error> {
        let flags = (libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE) as u64;
        let r = self.inject(libc::SYS_mmap, [at, len, protection, flags, fd, offset])?;
        if r as u64 != at {
            return Err(Error::Internal(format!(
                "cannot map shared memory at {at:#x}: {r}"
            )));
        }
        Ok(())
    }

    fn map_object(
        &mut self,
        object: &Object,
        at: u64,
        len: u64,
        protection: u64,
        offset: u64,
    ) -> Result<(), Error> {
        let fd = self.open_here(&object.file)?;
        self.map_here(fd, at, len, protection, offset)?;
        self.inject(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        Ok(())
    }

    /// Gives the copy of a guest shared memory of its own.
    pub(crate) fn separate(&mut self, copy: Tracee, objects: &Objects) -> Result<Objects, Error> {
        if objects.0.is_empty() {
            return Ok(Objects::default());
        }
        let tracee = std::mem::replace(&mut self.tracee, copy);
        let memory = std::mem::replace(&mut self.memory, Memory::of(copy.0));
        let can_deliver = self.can_deliver;
        let made = self.replace_objects(objects);
        self.tracee = tracee;
        self.memory = memory;
        self.can_deliver = can_deliver;
        made
    }

    fn replace_objects(&mut self, objects: &Objects) -> Result<Objects, Error> {
        let maps = Maps::of(self.tracee.0)?;
        let mut made = Objects::default();
        for object in &objects.0 {
            let places = maps.list.iter().filter(|m| m.object == object.id);
            let places: Vec<_> = places.cloned().collect();
            if places.is_empty() {
                continue;
            }
            let new = object.duplicate()?;
            let fd = self.open_here(&new.file)?;
            for m in places {
                let len = m.end - m.start;
                self.map_here(fd, m.start, len, m.protection.bits(), m.offset)?;
            }
            self.inject(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
            made.0.push(new);
        }
        Ok(made)
    }
}

impl Replay {
    /// Makes a shared mapping again.
    pub(crate) fn map_shared(
        &mut self,
        call: &Call,
        at: u64,
        file: Option<&FileRef>,
    ) -> Result<(), Error> {
        let [_, len, protection, _, _, offset] = call.args;
        let len = (len + 0xfff) & !0xfff;
        self.sweep_objects()?;
        let (object, offset) = match file {
            Some(f) => {
                let path = self.files.path(f);
                let stored = File::open(&path).map_err(|_| Error::MissingFile(path))?;
                let whole = stored.metadata().map_err(Error::Disk)?.len();
                let object = self.objects.known(&identity(f))?;
                let end = whole.min(offset.saturating_add(len));
                object.grow((end + 0xfff) & !0xfff)?;
                object.fill(&stored, offset, end)?;
                (object, offset)
            }
            None => {
                let object = self.objects.add(None)?;
                object.grow(len)?;
                (object, 0)
            }
        };
        self.engine
            .map_object(&object, at, len, protection & 7, offset)
    }

    /// Attaches a segment again. Its contents are effects of the call.
    pub(crate) fn attach(&mut self, call: &Call, at: u64, file: &FileRef) -> Result<(), Error> {
        let size = (segment_size(file)? + 0xfff) & !0xfff;
        self.sweep_objects()?;
        let object = self.objects.known(&identity(file))?;
        object.grow(size)?;
        let read_only = call.args[2] & libc::SHM_RDONLY as u64 != 0;
        let execute = call.args[2] & libc::SHM_EXEC as u64 != 0;
        let protection = 1 | u64::from(!read_only) << 1 | u64::from(execute) << 2;
        self.engine.map_object(&object, at, size, protection, 0)
    }

    pub(crate) fn detach(&mut self, addr: u64) -> Result<(), Error> {
        for (start, end) in self.engine.attached(addr)? {
            self.engine
                .inject(libc::SYS_munmap, [start, end - start, 0, 0, 0, 0])?;
            self.engine.changed(start, end);
        }
        Ok(())
    }

    fn sweep_objects(&mut self) -> Result<(), Error> {
        if !self.objects.0.is_empty() {
            self.engine.refresh_maps()?;
            self.objects.sweep(&self.engine.maps);
        }
        Ok(())
    }

    /// Puts the memory effects of a call in place.
    pub(crate) fn put_effects(&mut self, effects: &CallEffects) -> Result<(), Error> {
        for (addr, bytes) in &effects.writes {
            if self.objects.0.is_empty() {
                self.engine.put(*addr, bytes)?;
                self.engine.code_changed(*addr, bytes.len() as u64)?;
            } else {
                self.put_shared(*addr, bytes)?;
            }
        }
        Ok(())
    }

    /// Which bytes a recorded effect counts as having written. In memory that others can write, the
    /// guest's own stores are among the effects, and only what differs was not the guest's doing.
    pub(crate) fn changes(&self, addr: u64, bytes: &[u8]) -> Vec<(u64, u64)> {
        let whole = vec![(addr, bytes.len() as u64)];
        let maps = &self.engine.maps;
        if maps.find(addr).is_none_or(|m| m.object.1 == 0) {
            return whole;
        }
        let mut here = vec![0; bytes.len()];
        if self.engine.memory.read(addr, &mut here) != bytes.len() {
            return whole;
        }
        let mut out: Vec<(u64, u64)> = Vec::new();
        for (i, _) in here
            .iter()
            .zip(bytes)
            .enumerate()
            .filter(|(_, (a, b))| a != b)
        {
            let at = addr + i as u64;
            match out.last_mut() {
                Some((start, n)) if *start + *n == at => *n += 1,
                _ => out.push((at, 1)),
            }
        }
        out
    }

    fn put_shared(&mut self, mut addr: u64, mut bytes: &[u8]) -> Result<(), Error> {
        self.engine.refresh_maps()?;
        self.engine.tape_write(addr, bytes.len() as u64);
        loop {
            let found = self.engine.maps.find(addr).and_then(|m| {
                let object = m.shared.then(|| self.objects.find(m.object)).flatten()?;
                Some((object.clone(), m.offset + (addr - m.start), m.end - addr))
            });
            let Some((object, offset, room)) = found else {
                // Private memory: in one go up to where shared memory begins.
                let next =
                    self.engine.maps.list.iter().find(|m| {
                        m.start > addr && m.shared && self.objects.find(m.object).is_some()
                    });
                let room = next.map_or(u64::MAX, |m| m.start - addr);
                let n = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
                self.engine.put_untold(addr, &bytes[..n])?;
                self.engine.code_changed(addr, n as u64)?;
                if n == bytes.len() {
                    return Ok(());
                }
                (addr, bytes) = (addr + n as u64, &bytes[n..]);
                continue;
            };
            if bytes.is_empty() {
                // The file has become shorter: the guest's accesses beyond its end must fault.
                return object.file.set_len(offset & !0xfff).map_err(Error::Disk);
            }
            let n = bytes.len().min(room as usize);
            self.engine.code_changed(addr, n as u64)?;
            object
                .file
                .write_all_at(&bytes[..n], offset)
                .map_err(Error::Disk)?;
            object.grow((offset + n as u64 + 0xfff) & !0xfff)?;
            if n == bytes.len() {
                return Ok(());
            }
            (addr, bytes) = (addr + n as u64, &bytes[n..]);
        }
    }
}
