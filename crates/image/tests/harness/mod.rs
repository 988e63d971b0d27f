//! Programs built on the spot, stopped under gdb and frozen in a core file.
//!
//! A core holds registers, memory and mappings of a crashed program, so it is a `Memory` that
//! every test can share, and gdb reads the same core: what it prints is the expected answer.

#![allow(dead_code, unreachable_pub)]

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use image::{Mapping, Memory, Program, Registers};

/// A directory of its own for each test, below the build directory.
pub fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Runs a tool that must be present and must succeed.
#[track_caller]
pub fn run(program: &str, arguments: &[&str], directory: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        // Which characters gdb prints as they are is a matter of the locale.
        .env("LC_ALL", "C.UTF-8")
        .env("DEBUGINFOD_URLS", "")
        .output()
        .unwrap_or_else(|e| panic!("{program} is needed by this test: {e}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles a program from source text; C++ if the flags ask for it by `-xc++`.
#[track_caller]
pub fn compile(directory: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let cpp = flags.contains(&"-xc++");
    let file = format!("{name}.{}", if cpp { "cc" } else { "c" });
    std::fs::write(directory.join(&file), source).unwrap();
    let mut arguments = vec!["-o", name];
    arguments.extend(flags.iter().filter(|f| **f != "-xc++"));
    arguments.insert(2, &file);
    run(if cpp { "g++" } else { "gcc" }, &arguments, directory);
    directory.join(name)
}

/// A crashed program: what the kernel knew of it when it stopped.
pub struct Core {
    pub path: PathBuf,
    pub program: PathBuf,
    pub registers: Registers,
    pub mappings: Vec<Mapping>,
    segments: Vec<(u64, Vec<u8>)>,
}

impl Memory for Core {
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
        for (start, bytes) in &self.segments {
            if addr >= *start
                && let Some(from) = usize::try_from(addr - start).ok()
                && let Some(part) = bytes.get(from..from + buf.len())
            {
                buf.copy_from_slice(part);
                return true;
            }
        }
        // gdb leaves unchanged code of libraries out of a core, so the files stand in for it.
        self.mappings.iter().any(|mapping| {
            let end = addr + buf.len() as u64;
            if addr < mapping.start || end > mapping.end {
                return false;
            }
            std::fs::File::open(&mapping.file).is_ok_and(|file| {
                file.read_exact_at(buf, addr - mapping.start + mapping.offset)
                    .is_ok()
            })
        })
    }
}

/// Runs a program under gdb until it stops for a signal and keeps the core.
#[track_caller]
pub fn crash(program: &Path) -> Core {
    stop(program, &["run"])
}

/// Runs gdb commands that leave the program stopped and keeps the core.
#[track_caller]
pub fn stop(program: &Path, commands: &[&str]) -> Core {
    let directory = program.parent().unwrap();
    let core = program.with_extension("core");
    let generate = format!("generate-core-file {}", core.display());
    let mut arguments = vec!["-batch", "-nx"];
    for command in commands {
        arguments.extend(["-ex", command]);
    }
    arguments.extend(["-ex", &generate]);
    let program_text = program.display().to_string();
    arguments.push(&program_text);
    let log = run("gdb", &arguments, directory);
    assert!(core.exists(), "no core was written:\n{log}");
    read_core(&core, program)
}

/// Asks gdb about a core.
#[track_caller]
pub fn gdb(core: &Core, commands: &[&str]) -> String {
    let program = core.program.display().to_string();
    let path = core.path.display().to_string();
    let mut arguments = vec!["-batch", "-nx"];
    for command in [
        "set print entry-values no",
        "set print frame-arguments all",
        "set width 0",
        "set backtrace past-main on",
        "set backtrace past-entry on",
    ]
    .iter()
    .chain(commands)
    {
        arguments.extend(["-ex", command]);
    }
    arguments.extend([program.as_str(), path.as_str()]);
    run("gdb", &arguments, core.program.parent().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn read_core(path: &Path, program: &Path) -> Core {
    let data = std::fs::read(path).unwrap();
    let table = u64_at(&data, 32) as usize;
    let count = usize::from(u16::from_le_bytes(data[56..58].try_into().unwrap()));
    let mut core = Core {
        path: path.to_path_buf(),
        program: program.to_path_buf(),
        registers: Registers::default(),
        mappings: Vec::new(),
        segments: Vec::new(),
    };
    let mut executable = Vec::new();
    let mut seen_registers = false;
    for index in 0..count {
        let header = table + index * 56;
        let kind = u32_at(&data, header);
        let flags = u32_at(&data, header + 4);
        let offset = u64_at(&data, header + 8) as usize;
        let address = u64_at(&data, header + 16);
        let size = u64_at(&data, header + 32) as usize;
        match kind {
            1 => {
                if flags & 1 != 0 {
                    executable.push((address, address + u64_at(&data, header + 40)));
                }
                core.segments
                    .push((address, data[offset..offset + size].to_vec()));
            }
            4 => {
                let notes = &data[offset..offset + size];
                let mut at = 0;
                while at + 12 <= notes.len() {
                    let name = (u32_at(notes, at) as usize).next_multiple_of(4);
                    let length = u32_at(notes, at + 4) as usize;
                    let kind = u32_at(notes, at + 8);
                    let start = at + 12 + name;
                    let body = &notes[start..start + length];
                    match kind {
                        1 if !seen_registers => {
                            seen_registers = true;
                            core.registers = registers(body, core.registers.xmm);
                        }
                        2 => {
                            let mut xmm = [0u128; 16];
                            for (index, slot) in xmm.iter_mut().enumerate() {
                                let from = 160 + index * 16;
                                *slot =
                                    u128::from_le_bytes(body[from..from + 16].try_into().unwrap());
                            }
                            core.registers.xmm.get_or_insert(xmm);
                        }
                        0x4649_4c45 => core.mappings = file_mappings(body),
                        _ => {}
                    }
                    at = start + length.next_multiple_of(4);
                }
            }
            _ => {}
        }
    }
    assert!(seen_registers, "the core has no registers");
    for mapping in &mut core.mappings {
        mapping.executable = executable
            .iter()
            .any(|(s, e)| mapping.start < *e && *s < mapping.end)
            || shows_code(mapping);
    }
    core
}

/// Whether a file's own program headers call the mapped part executable.
fn shows_code(mapping: &Mapping) -> bool {
    let data = std::fs::read(&mapping.file).unwrap_or_default();
    if !data.starts_with(b"\x7fELF") {
        return false;
    }
    let table = u64_at(&data, 32) as usize;
    let count = usize::from(u16::from_le_bytes(data[56..58].try_into().unwrap()));
    (0..count).map(|index| table + index * 56).any(|header| {
        u32_at(&data, header) == 1
            && u32_at(&data, header + 4) & 1 != 0
            && u64_at(&data, header + 8) & !4095 == mapping.offset
    })
}

/// The kernel's `elf_prstatus`: general registers begin at byte 112.
fn registers(body: &[u8], xmm: Option<[u128; 16]>) -> Registers {
    let r = |index: usize| u64_at(body, 112 + index * 8);
    Registers {
        r15: r(0),
        r14: r(1),
        r13: r(2),
        r12: r(3),
        rbp: r(4),
        rbx: r(5),
        r11: r(6),
        r10: r(7),
        r9: r(8),
        r8: r(9),
        rax: r(10),
        rcx: r(11),
        rdx: r(12),
        rsi: r(13),
        rdi: r(14),
        rip: r(16),
        rflags: r(18),
        rsp: r(19),
        fs_base: Some(r(21)),
        xmm,
    }
}

fn file_mappings(body: &[u8]) -> Vec<Mapping> {
    let count = u64_at(body, 0) as usize;
    let page = u64_at(body, 8);
    let mut names = body[16 + count * 24..].split(|b| *b == 0);
    (0..count)
        .map(|index| {
            let at = 16 + index * 24;
            let name = PathBuf::from(String::from_utf8_lossy(names.next().unwrap()).into_owned());
            Mapping {
                start: u64_at(body, at),
                end: u64_at(body, at + 8),
                offset: u64_at(body, at + 16) * page,
                executable: false,
                file: name.clone(),
                name,
            }
        })
        .collect()
}

/// The program of a core, loaded.
pub fn load(core: &Core) -> Program {
    let mut program = Program::new();
    program.load(&core.mappings);
    program
}
