//! Guest programs and their runs: built on demand, run natively, recorded, replayed.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use guest::{End, Halt, Launch, Recorder, Replay, Sink, Until, UserRegs};
use object::{Object, ObjectSymbol};
use tempfile::TempDir;

/// Assembly alone, at fixed low addresses.
pub(crate) const BARE: &[&str] = &["-nostdlib", "-static", "-no-pie"];
/// The same, moved by the dynamic linker to where position-independent programs go.
pub(crate) const BARE_PIE: &[&str] = &["-nostdlib", "-pie"];
/// C without a library.
pub(crate) const FREE: &[&str] = &[
    "-nostdlib",
    "-static",
    "-no-pie",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-O1",
];
pub(crate) const STATIC: &[&str] = &["-static", "-no-pie", "-O1", "-g"];
pub(crate) const DYNAMIC: &[&str] = &["-O1", "-g"];

/// A guest program that was built.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) input: Vec<u8>,
    symbols: HashMap<String, u64>,
}

impl Program {
    /// Builds `text`, in the language of `extension`.
    #[track_caller]
    pub(crate) fn of(text: &str, extension: &str, flags: &[&str]) -> Program {
        let mut state = DefaultHasher::new();
        (text, extension, flags).hash(&mut state);
        fs::read(guests().join("guest.h"))
            .expect("guests/guest.h")
            .hash(&mut state);
        let folder = target().join(format!("{:016x}", state.finish()));
        let (source, path) = (
            folder.join(format!("guest.{extension}")),
            folder.join("guest"),
        );
        if !path.exists() {
            static BUILDS: AtomicU32 = AtomicU32::new(0);
            let n = BUILDS.fetch_add(1, Ordering::Relaxed);
            let partial = folder.join(format!("partial.{}.{n}", std::process::id()));
            fs::create_dir_all(&folder).expect("a folder for the guest");
            fs::write(&source, text).expect("the guest's source");
            let out = Command::new("gcc")
                .arg("-I")
                .arg(guests())
                .args(flags)
                .arg("-o")
                .arg(&partial)
                .arg(&source)
                .args((!flags.contains(&"-nostdlib")).then_some("-lm"))
                .output()
                .expect("gcc can be started");
            let complaint = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{}: {complaint}", source.display());
            fs::rename(&partial, &path).expect("the guest in its place");
        }
        let bytes = fs::read(&path).expect("the guest just built");
        let file = object::File::parse(&*bytes).expect("the guest is an ELF file");
        let symbols = file.symbols();
        let named = symbols.filter_map(|s| Some((s.name().ok()?.to_owned(), s.address())));
        Program {
            path,
            args: Vec::new(),
            input: Vec::new(),
            symbols: named.collect(),
        }
    }

    /// Assembly in Intel syntax that begins at `_start`.
    #[track_caller]
    pub(crate) fn asm(text: &str) -> Program {
        Self::of(&format!(".intel_syntax noprefix\n{text}\n"), "S", BARE)
    }

    #[track_caller]
    pub(crate) fn c(text: &str, flags: &[&str]) -> Program {
        Self::of(text, "c", flags)
    }

    /// One of the programs in `guests/`.
    #[track_caller]
    pub(crate) fn guest(name: &str, flags: &[&str]) -> Program {
        let path = guests().join(name);
        let text = fs::read_to_string(&path).expect("a file in guests/");
        let wanted: Vec<String> = text
            .lines()
            .filter_map(|l| l.strip_prefix("//! flags: "))
            .flat_map(|l| l.split(' ').map(str::to_owned))
            .collect();
        let flags: Vec<&str> = flags
            .iter()
            .copied()
            .chain(wanted.iter().map(String::as_str))
            .collect();
        let mut p = Self::of(&text, "c", &flags);
        if let Some(args) = text.lines().find_map(|l| l.strip_prefix("//! args: ")) {
            p.args = args.split(' ').map(str::to_owned).collect();
        }
        p
    }

    /// The address of a symbol, in a program that is not moved.
    #[track_caller]
    pub(crate) fn at(&self, symbol: &str) -> u64 {
        match self.symbols.get(symbol) {
            Some(&address) => address,
            None => panic!("the guest has no symbol {symbol}"),
        }
    }

    pub(crate) fn stdin(&self) -> File {
        let mut f = tempfile::tempfile().expect("a temporary file");
        std::io::Write::write_all(&mut f, &self.input).expect("the guest's input");
        std::io::Seek::rewind(&mut f).expect("the guest's input");
        f
    }

    pub(crate) fn native(&self) -> Ran {
        let mut command = Command::new(&self.path);
        command.args(&self.args).env_clear().envs(ENVIRONMENT);
        command.stdin(self.stdin()).stderr(Stdio::null());
        // SAFETY: personality(2) is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                Ok(())
            });
        }
        let out = command.output().expect("the guest can be started");
        let end = match (out.status.code(), out.status.signal()) {
            (Some(code), _) => End::Exited(code),
            (None, signal) => End::Killed(signal.expect("exited or killed")),
        };
        Ran {
            stdout: out.stdout,
            end,
        }
    }

    #[track_caller]
    pub(crate) fn record(&self) -> Recording {
        self.record_by(|r| {
            let halt = r.run_until(&Until::end()).expect("recording works");
            assert!(matches!(halt, Halt::Ended(_)), "{halt:?}");
        })
    }

    /// Records it, `drive` letting it run to its end.
    #[track_caller]
    pub(crate) fn record_by(&self, drive: impl FnOnce(&mut Recorder)) -> Recording {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let out = folder.path().join("stdout");
        let stream = |f: File| Some(Arc::new(OwnedFd::from(f)));
        let null = File::options().write(true).open("/dev/null");
        let launch = Launch {
            program: self.path.clone(),
            args: [self.path.clone().into_os_string()]
                .into_iter()
                .chain(self.args.iter().map(OsString::from))
                .collect(),
            env: ENVIRONMENT.map(|(k, v)| (k.into(), v.into())).to_vec(),
            cwd: None,
            streams: [
                stream(self.stdin()),
                stream(File::create(&out).expect("a file for the output")),
                stream(null.expect("/dev/null")),
            ],
        };
        let recording = recording_in(&folder);
        fs::create_dir(&recording).expect("a folder for the recording");
        let mut recorder = Recorder::start(&launch, &recording).expect("recording can start");
        drive(&mut recorder);
        let done = recorder.finished().expect("the guest has ended");
        Recording {
            stdout: fs::read(&out).expect("the guest's output"),
            end: done.end,
            steps: done.stats.steps,
            folder,
        }
    }
}

pub(crate) const ENVIRONMENT: [(&str, &str); 2] =
    [("LC_ALL", "C"), ("GLIBC_TUNABLES", "glibc.pthread.rseq=0")];

fn guests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests")
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests-tests")
}

/// One level down: the store of files that recordings share is beside them.
fn recording_in(folder: &TempDir) -> PathBuf {
    folder.path().join("recording")
}

/// What a native run came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) stdout: Vec<u8>,
    pub(crate) end: End,
}

/// A finished recording, gone when dropped.
pub(crate) struct Recording {
    pub(crate) stdout: Vec<u8>,
    pub(crate) end: End,
    /// Instructions executed, the last call included.
    pub(crate) steps: u64,
    folder: TempDir,
}

/// What a replay has put out.
pub(crate) type Output = Rc<RefCell<Vec<u8>>>;

impl Recording {
    #[track_caller]
    pub(crate) fn replay(&self) -> Replay {
        self.replay_to(&Output::default())
    }

    #[track_caller]
    pub(crate) fn replay_to(&self, output: &Output) -> Replay {
        let output = output.clone();
        let sink: Sink = Box::new(move |kind, bytes| {
            if kind == guest::OutputKind::Stdout {
                output.borrow_mut().extend_from_slice(bytes);
            }
        });
        Replay::open(&recording_in(&self.folder), sink).expect("the recording can be opened")
    }
}

/// A guest's state, as far as it is compared.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) step: u64,
    pub(crate) regs: [u64; 18],
    vectors: Vec<u8>,
    /// A checksum of each writable page that is not all zeros.
    pages: BTreeMap<u64, u64>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}, registers {:x?}", self.step, self.regs)
    }
}

/// The same state, or the first of what differs.
#[track_caller]
pub(crate) fn same(here: &State, there: &State, what: &str) {
    assert_eq!((here.step, here.regs), (there.step, there.regs), "{what}");
    assert!(here.vectors == there.vectors, "{what}: vector registers");
    let one_sided = |a: &State, b: &State| {
        let page = a
            .pages
            .iter()
            .find(|(page, sum)| b.pages.get(page) != Some(sum));
        page.map(|(page, _)| *page)
    };
    let page = one_sided(here, there).or(one_sided(there, here));
    assert!(page.is_none(), "{what}: memory at {:#x}", page.unwrap_or(0));
}

/// The registers that a program can tell: sixteen general ones, rip, and the arithmetic flags.
pub(crate) fn visible(r: &UserRegs) -> [u64; 18] {
    [
        r.rip,
        r.eflags & 0xcd5,
        r.rax,
        r.rcx,
        r.rdx,
        r.rbx,
        r.rsp,
        r.rbp,
        r.rsi,
        r.rdi,
        r.r8,
        r.r9,
        r.r10,
        r.r11,
        r.r12,
        r.r13,
        r.r14,
        r.r15,
    ]
}

/// Registers and everything writable, at the present stop.
#[track_caller]
pub(crate) fn state(r: &mut Replay) -> State {
    let mut pages = BTreeMap::new();
    for m in r.mappings().expect("mappings") {
        if !m.protection.write || !m.protection.read || m.start >> 47 != 0 {
            continue;
        }
        let mut page = vec![0; 4096];
        for at in (m.start..m.end).step_by(4096) {
            if r.read(at, &mut page) == 4096 && page.iter().any(|&b| b != 0) {
                let mut state = DefaultHasher::new();
                page.hash(&mut state);
                pages.insert(at, state.finish());
            }
        }
    }
    // xmm and the upper halves of ymm; the rest of the layout says how the kernel saved them.
    let vectors = r.vector_state().expect("vector state");
    State {
        step: r.step().expect("a step"),
        regs: visible(&r.regs()),
        vectors: [&vectors[160..416], &vectors[576..832]].concat(),
        pages,
    }
}

#[track_caller]
pub(crate) fn to_step(r: &mut Replay, step: u64) {
    let halt = r.run(&Until::step(step)).expect("the replay runs");
    assert_eq!(halt, Halt::Step, "on the way to step {step}");
    assert_eq!(r.step().expect("a step"), step);
}

#[track_caller]
pub(crate) fn word_at(r: &Replay, addr: u64) -> u64 {
    let mut b = [0; 8];
    assert_eq!(r.read(addr, &mut b), 8, "memory at {addr:#x}");
    u64::from_le_bytes(b)
}
