//! The first moments of an image: moving in, and what a replay needs to rebuild it.
//!
//! At the exec event the guest has not executed anything. The engine maps its memory into the new
//! address space, takes away the vdso (so that time comes through system calls, which are
//! recorded) and writes down everything that is there: that [`Snapshot`] is where a replay begins,
//! in a process of its own whose mappings are replaced one for one.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::Error;
use crate::descriptors::Inherited;
use crate::engine::Engine;
use crate::files::Files;
use crate::layout::{BASES, Layout, PRIVATE_SIZE, SHARED_SIZE, class, slot};
use crate::maps::{Mapping, Maps, Protection};
use crate::memory::Memory;
use crate::ptrace::{Resume, Tracee, UserRegs, Wait};
use crate::recording::{Decoder, Encoder, FileRef};
use crate::signals::Dispositions;

const AT_IGNORE: u64 = 1;
const AT_SYSINFO_EHDR: u64 = 33;

/// One mapping of a new image, with the pages that its file does not have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) protection: Protection,
    pub(crate) offset: u64,
    pub(crate) stack: bool,
    pub(crate) file: Option<FileRef>,
    pub(crate) pages: Vec<(u64, Vec<u8>)>,
}

/// A whole image before its first instruction.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) regs: UserRegs,
    pub(crate) brk: u64,
    /// How far the stack may grow, soft and hard.
    pub(crate) stack_limit: [u64; 2],
    /// The guest's process id, and the files it begins with: descriptor, flags, position, path.
    pub(crate) pid: u64,
    pub(crate) open: Vec<Inherited>,
    pub(crate) pieces: Vec<Piece>,
}

/// Moves the engine into the process that stands at its exec event.
pub(crate) fn move_in(tracee: Tracee, class_of: &dyn Fn(u64) -> u64) -> Result<Engine, Error> {
    let regs = tracee.regs()?;
    if regs.cs != 0x33 {
        return Err(Error::Unsupported("a 32-bit program"));
    }
    let maps = Maps::of(tracee.0)?;
    let base = BASES
        .into_iter()
        .find(|&b| {
            maps.is_free(
                b,
                b + PRIVATE_SIZE + SHARED_SIZE + crate::layout::REGION_SIZE,
            )
        })
        .ok_or(Error::Unsupported(
            "a program that fills the low two gigabytes",
        ))?;
    let layout = Layout { base };
    let mut engine = Engine::new(tracee, layout, regs)?;
    engine.dispositions = Dispositions::inherited(tracee.0);

    // Until the code cache is mapped, system calls are made from the program's entry.
    let entry = regs.rip;
    let original = engine.memory.read_vec(entry, 3)?;
    engine.memory.write(entry, &[0x0f, 0x05, 0xcc])?;
    // The kernel finishes the exec call on the way out and overwrites rax; let it, harmlessly.
    let mut at_trap = regs;
    at_trap.rip = entry + 2;
    tracee.set_regs(&at_trap)?;
    loop {
        tracee.resume(Resume::Run)?;
        match tracee.wait()? {
            Wait::Signal(libc::SIGTRAP) => break,
            Wait::Signal(sig) => engine.note_signal(sig)?,
            Wait::Event(_) | Wait::Group(_) => {}
            _ => return Err(Error::Lost),
        }
    }
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    let rw = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let r = engine.inject_at(
        entry,
        libc::SYS_mmap,
        [base, PRIVATE_SIZE, rw, anonymous, u64::MAX, 0],
    )?;
    if r as u64 != base {
        return Err(Error::Internal(format!(
            "no place for the engine at {base:#x}: {r}"
        )));
    }
    let scratch = engine.page + u64::from(slot::SCRATCH);
    let path = format!("/proc/{}/fd/{}\0", std::process::id(), engine.cache.fd());
    engine.memory.write(scratch, path.as_bytes())?;
    let open = [
        libc::AT_FDCWD as u64,
        scratch,
        (libc::O_RDWR | libc::O_CLOEXEC) as u64,
        0,
        0,
        0,
    ];
    let fd = engine.inject_at(entry, libc::SYS_openat, open)?;
    if fd < 0 {
        return Err(Error::Internal(format!(
            "the guest cannot open the code cache: {fd}"
        )));
    }
    let shared = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
    for (at, size, prot, offset) in [
        (layout.shared(), SHARED_SIZE, rw, 0),
        (
            layout.first_region(),
            crate::layout::REGION_SIZE,
            (libc::PROT_READ | libc::PROT_EXEC) as u64,
            crate::cache::Cache::region_offset(0),
        ),
    ] {
        let r = engine.inject_at(
            entry,
            libc::SYS_mmap,
            [at, size, prot, shared, fd as u64, offset],
        )?;
        if r as u64 != at {
            return Err(Error::Internal(format!(
                "no place for the engine at {at:#x}: {r}"
            )));
        }
    }
    engine.inject_at(entry, libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0])?;
    engine.memory.write(entry, &original)?;
    engine.cache.add_region(layout.first_region());

    engine.set_slot(slot::STACK, engine.page + u64::from(slot::STACK_TOP))?;
    engine.set_slot(slot::RING_AT, layout.ring())?;
    engine.set_slot(slot::RING_END, layout.spots_end())?;
    engine.reset_step(0)?;
    engine.set_classes(class_of);
    // Exec keeps the flags of the alternate stack, which signal frames show; let them not be those of
    // whoever started the guest.
    engine
        .memory
        .write(scratch, &crate::engine::DISABLED_STACK)?;
    engine.inject(libc::SYS_sigaltstack, [scratch, 0, 0, 0, 0, 0])?;
    engine.regs.gs_base = engine.page;
    engine.regs.orig_rax = u64::MAX;
    engine.regs.rax = 0;
    Ok(engine)
}

impl Engine {
    /// Tells the system-call routine what it may do by itself.
    pub(crate) fn set_classes(&mut self, class_of: &dyn Fn(u64) -> u64) {
        let words: Vec<u8> = (0..512).flat_map(|nr| class_of(nr).to_le_bytes()).collect();
        let at = self.cache.layout.classes();
        self.cache.write_shared(at, &words);
    }

    /// Takes the vdso away, in memory and from the auxiliary vector.
    pub(crate) fn hide_vdso(&mut self) -> Result<(), Error> {
        self.refresh_maps()?;
        let gone: Vec<Mapping> = self
            .maps
            .list
            .iter()
            .filter(|m| m.name.as_os_str().as_bytes().starts_with(b"[vvar") || m.is_named("[vdso]"))
            .cloned()
            .collect();
        for m in gone {
            self.inject(libc::SYS_munmap, [m.start, m.end - m.start, 0, 0, 0, 0])?;
            self.changed(m.start, m.end);
        }
        let mut at = self.regs.rsp;
        let argc = self.memory.read_u64(at)?;
        at += 8 * (argc + 2);
        while self.memory.read_u64(at)? != 0 {
            at += 8;
        }
        at += 8;
        loop {
            match self.memory.read_u64(at)? {
                0 => break,
                AT_SYSINFO_EHDR => self.memory.write_u64(at, AT_IGNORE)?,
                _ => {}
            }
            at += 16;
        }
        self.hide_vdso_in_kernel();
        Ok(())
    }

    /// The kernel keeps an auxiliary vector of its own, which `/proc/PID/auxv` shows. One that was built without
    /// support for checkpoints cannot be told to change it, and a program that looks there finds no vdso.
    fn hide_vdso_in_kernel(&mut self) -> Option<()> {
        let pid = self.tracee.0;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before may have anything in it; the numbers are those of proc(5).
        let fields: Vec<u64> = (stat[stat.rfind(')')? + 1..].split_whitespace().skip(1))
            .map(|word| word.parse().unwrap_or(0))
            .collect();
        let field = |number: usize| fields.get(number - 4).copied();
        let mut vector = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
        let (key, ignored) = (AT_SYSINFO_EHDR.to_le_bytes(), AT_IGNORE.to_le_bytes());
        let entry = vector.chunks_exact_mut(16).find(|e| e[..8] == key)?;
        entry[..8].copy_from_slice(&ignored);
        let brk = self.inject(libc::SYS_brk, [0; 6]).ok()? as u64;
        let at = self.page + u64::from(slot::SCRATCH);
        let mut map = Vec::new();
        // Where code, data, heap, stack, arguments and environment begin and end.
        for number in [26, 27, 45, 46, 47] {
            map.extend(field(number)?.to_le_bytes());
        }
        map.extend(brk.to_le_bytes());
        for number in [28, 48, 49, 50, 51] {
            map.extend(field(number)?.to_le_bytes());
        }
        let size = map.len() as u64 + 16;
        map.extend((at + size).to_le_bytes());
        map.extend((vector.len() as u32).to_le_bytes());
        // The program's file stays what it is.
        map.extend(u32::MAX.to_le_bytes());
        map.extend(vector);
        if map.len() > slot::SCRATCH_LEN {
            return None;
        }
        self.memory.write(at, &map).ok()?;
        let (set, all) = (libc::PR_SET_MM as u64, libc::PR_SET_MM_MAP as u64);
        let done = self.inject(libc::SYS_prctl, [set, all, at, size, 0, 0]);
        self.memory.write(at, &vec![0; map.len()]).ok()?;
        done.ok().filter(|r| *r == 0).map(drop)
    }

    /// Writes down the image as it stands.
    pub(crate) fn snapshot(&mut self, files: &mut Files) -> Result<Snapshot, Error> {
        self.refresh_maps()?;
        let brk = self.inject(libc::SYS_brk, [0; 6])? as u64;
        let mut pieces = Vec::new();
        for m in self.maps.list.clone() {
            if self.owns(m.start, m.end) || m.start >> 47 != 0 {
                continue;
            }
            let file = if m.is_file() {
                let range = format!(
                    "/proc/{}/map_files/{:x}-{:x}",
                    self.tracee.0, m.start, m.end
                );
                Some(files.keep(&m.name, &[PathBuf::from(range), m.name.clone()])?)
            } else {
                None
            };
            let stored = match &file {
                Some(f) => Some(File::open(files.path(f)).map_err(Error::Disk)?),
                None => None,
            };
            let pages = if m.protection.read {
                self.differing(&m, stored.as_ref())?
            } else {
                Vec::new()
            };
            pieces.push(Piece {
                start: m.start,
                end: m.end,
                protection: m.protection,
                offset: m.offset,
                stack: m.is_named("[stack]"),
                file,
                pages,
            });
        }
        let scratch = self.page + u64::from(slot::SCRATCH);
        self.inject(
            libc::SYS_prlimit64,
            [0, u64::from(libc::RLIMIT_STACK), 0, scratch, 0, 0],
        )?;
        let stack_limit = [
            self.memory.read_u64(scratch)?,
            self.memory.read_u64(scratch + 8)?,
        ];
        Ok(Snapshot {
            regs: self.regs,
            brk,
            stack_limit,
            pid: self.tracee.0 as u64,
            open: crate::descriptors::inherited(self.tracee.0),
            pieces,
        })
    }

    /// Pages of a mapping that are not as its file (or zero) has them.
    fn differing(&self, m: &Mapping, file: Option<&File>) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let mut out = Vec::new();
        if file.is_some() && !m.protection.write {
            return Ok(out);
        }
        let mut page = [0u8; 4096];
        let mut expected = [0u8; 4096];
        for at in (m.start..m.end).step_by(4096) {
            if self.memory.read(at, &mut page) != 4096 {
                continue;
            }
            expected.fill(0);
            if let Some(f) = file {
                let mut n = 0;
                while n < 4096 {
                    match f.read_at(&mut expected[n..], m.offset + (at - m.start) + n as u64) {
                        Ok(0) | Err(_) => break,
                        Ok(k) => n += k,
                    }
                }
            }
            if page != expected {
                out.push((at, page.to_vec()));
            }
        }
        Ok(out)
    }

    /// Replaces everything in the process but the engine by the image of a recording. Returns what
    /// each stored file was known as.
    pub(crate) fn rebuild(
        &mut self,
        snapshot: &Snapshot,
        files: &Files,
    ) -> Result<HashMap<PathBuf, PathBuf>, Error> {
        self.refresh_maps()?;
        for m in self.maps.list.clone() {
            if !self.owns(m.start, m.end) && m.start >> 47 == 0 {
                self.inject(libc::SYS_munmap, [m.start, m.end - m.start, 0, 0, 0, 0])?;
            }
        }
        self.changed_everything();
        // A lower hard limit here only matters to a guest that fills its stack.
        let scratch = self.page + u64::from(slot::SCRATCH);
        self.memory.write_u64(scratch, snapshot.stack_limit[0])?;
        self.memory
            .write_u64(scratch + 8, snapshot.stack_limit[1])?;
        self.inject(
            libc::SYS_prlimit64,
            [0, u64::from(libc::RLIMIT_STACK), scratch, 0, 0, 0],
        )?;
        let mut names = HashMap::new();
        for p in &snapshot.pieces {
            if self.owns(p.start, p.end) {
                return Err(Error::damaged("its image overlaps the engine"));
            }
            let len = p.end - p.start;
            let extra = if p.stack {
                libc::MAP_GROWSDOWN | libc::MAP_STACK
            } else {
                0
            };
            if let Some(f) = &p.file {
                names.insert(
                    files.path(f),
                    PathBuf::from(std::ffi::OsStr::from_bytes(&f.name)),
                );
                self.map_stored(f, files, p.start, len, p.protection.bits(), p.offset)?;
            } else {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | extra;
                let args = [p.start, len, p.protection.bits(), flags as u64, u64::MAX, 0];
                let r = self.inject(libc::SYS_mmap, args)?;
                if r as u64 != p.start {
                    return Err(Error::Internal(format!(
                        "cannot rebuild the mapping at {:#x}: {r}",
                        p.start
                    )));
                }
            }
            for (at, bytes) in &p.pages {
                self.memory.write(*at, bytes)?;
            }
        }
        self.regs = snapshot.regs;
        self.regs.gs_base = self.page;
        Ok(names)
    }

    /// Maps a stored file privately at a fixed place.
    pub(crate) fn map_stored(
        &mut self,
        file: &FileRef,
        files: &Files,
        at: u64,
        len: u64,
        protection: u64,
        offset: u64,
    ) -> Result<(), Error> {
        let path = files.path(file);
        let mut bytes = path.as_os_str().as_bytes().to_vec();
        bytes.push(0);
        if bytes.len() > slot::SCRATCH_LEN {
            return Err(Error::Unsupported(
                "a recordings folder with so long a path",
            ));
        }
        let scratch = self.page + u64::from(slot::SCRATCH);
        self.memory.write(scratch, &bytes)?;
        let open = [
            libc::AT_FDCWD as u64,
            scratch,
            (libc::O_RDONLY | libc::O_CLOEXEC) as u64,
            0,
            0,
            0,
        ];
        let fd = self.inject(libc::SYS_openat, open)?;
        if fd < 0 {
            return Err(Error::MissingFile(path));
        }
        let flags = (libc::MAP_PRIVATE | libc::MAP_FIXED) as u64;
        let r = self.inject(
            libc::SYS_mmap,
            [at, len, protection, flags, fd as u64, offset],
        )?;
        self.inject(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0])?;
        if r as u64 != at {
            return Err(Error::Internal(format!(
                "cannot map {} at {at:#x}: {r}",
                path.display()
            )));
        }
        Ok(())
    }
}

/// The words of the class table while recording.
/// Commands of fcntl that write no memory and do nothing but to descriptors.
const FCNTL_ON_THE_SPOT: &[i32] = &[
    libc::F_DUPFD,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_DUPFD_CLOEXEC,
];

pub(crate) fn recording_class(nr: u64, code_guarded: bool) -> u64 {
    match abi::simple(nr) {
        // What is opened may be the guest's own memory.
        _ if nr == libc::SYS_creat as u64 => 0,
        // The recorder answers these: the guest runs on one CPU, but believes in those that it was given.
        _ if nr == libc::SYS_sched_getaffinity as u64 => 0,
        _ if nr == libc::SYS_sched_setaffinity as u64 => 0,
        _ if nr == libc::SYS_fcntl as u64 => class::commands(1, FCNTL_ON_THE_SPOT),
        abi::Simple::NoWrites if nr == libc::SYS_open as u64 => class::opens(1),
        abi::Simple::NoWrites if nr == libc::SYS_openat as u64 => class::opens(2),
        abi::Simple::NoWrites => class::no_writes(),
        // Guarded code pages would make the kernel's writes fail where the guest's would not.
        _ if code_guarded => 0,
        abi::Simple::FixedAt { arg, len, .. } => class::fixed(arg, len),
        abi::Simple::ReturnedAt { arg, bound } => class::returned(arg, bound),
        _ => 0,
    }
}

impl Snapshot {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::default();
        for w in regs_to_words(&self.regs) {
            e.u64(w);
        }
        e.u64(self.brk);
        e.u64(self.stack_limit[0]);
        e.u64(self.stack_limit[1]);
        e.u64(self.pid);
        e.u32(self.open.len() as u32);
        for o in &self.open {
            e.u64(o.fd);
            e.u64(o.flags);
            e.u64(o.position);
            e.bytes(&o.path);
        }
        e.u32(self.pieces.len() as u32);
        for p in &self.pieces {
            e.u64(p.start);
            e.u64(p.end);
            e.u64(p.offset);
            e.u32(
                p.protection.bits() as u32
                    | u32::from(p.stack) << 8
                    | u32::from(p.file.is_some()) << 9,
            );
            if let Some(f) = &p.file {
                f.encode(&mut e);
            }
            e.u32(p.pages.len() as u32);
            for (at, bytes) in &p.pages {
                e.u64(*at);
                e.bytes(bytes);
            }
        }
        e.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, Error> {
        let mut d = Decoder(payload);
        let mut words = [0; 27];
        for w in &mut words {
            *w = d.u64()?;
        }
        let mut out = Snapshot {
            regs: regs_from_words(&words),
            brk: d.u64()?,
            stack_limit: [d.u64()?, d.u64()?],
            pid: d.u64()?,
            open: Vec::new(),
            pieces: Vec::new(),
        };
        for _ in 0..d.u32()? {
            let (fd, flags, position) = (d.u64()?, d.u64()?, d.u64()?);
            let path = d.bytes()?.to_vec();
            out.open.push(Inherited {
                fd,
                flags,
                position,
                path,
            });
        }
        for _ in 0..d.u32()? {
            let (start, end, offset) = (d.u64()?, d.u64()?, d.u64()?);
            let bits = d.u32()?;
            let file = if bits >> 9 & 1 != 0 {
                Some(FileRef::decode(&mut d)?)
            } else {
                None
            };
            let mut pages = Vec::new();
            for _ in 0..d.u32()? {
                let at = d.u64()?;
                pages.push((at, d.bytes()?.to_vec()));
            }
            let protection = Protection::from_bits(u64::from(bits & 7));
            out.pieces.push(Piece {
                start,
                end,
                protection,
                offset,
                stack: bits >> 8 & 1 != 0,
                file,
                pages,
            });
        }
        Ok(out)
    }
}

/// The registers in the order of the kernel's structure.
pub(crate) fn regs_to_words(r: &UserRegs) -> [u64; 27] {
    [
        r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx, r.rdx,
        r.rsi, r.rdi, r.orig_rax, r.rip, r.cs, r.eflags, r.rsp, r.ss, r.fs_base, r.gs_base, r.ds,
        r.es, r.fs, r.gs,
    ]
}

pub(crate) fn regs_from_words(w: &[u64; 27]) -> UserRegs {
    let [
        r15,
        r14,
        r13,
        r12,
        rbp,
        rbx,
        r11,
        r10,
        r9,
        r8,
        rax,
        rcx,
        rdx,
        rsi,
        rdi,
        orig_rax,
        rip,
        cs,
        eflags,
        rsp,
        ss,
        fs_base,
        gs_base,
        ds,
        es,
        fs,
        gs,
    ] = *w;
    UserRegs {
        r15,
        r14,
        r13,
        r12,
        rbp,
        rbx,
        r11,
        r10,
        r9,
        r8,
        rax,
        rcx,
        rdx,
        rsi,
        rdi,
        orig_rax,
        rip,
        cs,
        eflags,
        rsp,
        ss,
        fs_base,
        gs_base,
        ds,
        es,
        fs,
        gs,
    }
}

/// The page of `pid` at `addr`, if it is mapped.
pub(crate) fn page_of(memory: &Memory, addr: u64) -> Option<[u8; 4096]> {
    let mut page = [0; 4096];
    (memory.read(addr, &mut page) == 4096).then_some(page)
}
