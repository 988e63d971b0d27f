//! A guest that stands still: its registers, its memory, its files.
//!
//! A crash while recording, a crash in a replay and a stop at a step look the same from here.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use image::{Memory, Program, Registers};

pub(crate) struct Moment<'a> {
    pub(crate) step: u64,
    pub(crate) regs: guest::UserRegs,
    pub(crate) mappings: &'a [guest::Mapping],
    pub(crate) program: Rc<Program>,
    memory: Reader<'a>,
    stored: &'a HashMap<PathBuf, PathBuf>,
}

type Read<'a> = &'a dyn Fn(u64, &mut [u8]) -> usize;

#[derive(Clone, Copy)]
struct Reader<'a>(Read<'a>);

impl Memory for Reader<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
        (self.0)(addr, buf) == buf.len()
    }
}

/// The memory of a guest that stands still.
pub(crate) struct Guest<'a>(pub(crate) &'a guest::Replay);

impl Memory for Guest<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool {
        self.0.read(addr, buf) == buf.len()
    }
}

impl<'a> Moment<'a> {
    /// With the program if it is known to be the one there; else it is read from what is mapped.
    pub(crate) fn new(
        step: u64,
        regs: guest::UserRegs,
        mappings: &'a [guest::Mapping],
        stored: &'a HashMap<PathBuf, PathBuf>,
        read: Read<'a>,
        known: Option<Rc<Program>>,
    ) -> Self {
        Moment {
            step,
            regs,
            mappings,
            program: known.unwrap_or_else(|| Rc::new(program(mappings, stored))),
            memory: Reader(read),
            stored,
        }
    }

    pub(crate) fn memory(&self) -> &dyn Memory {
        &self.memory
    }

    /// As many bytes as there are, up to the length of `buf`.
    pub(crate) fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        (self.memory.0)(addr, buf)
    }

    pub(crate) fn word(&self, addr: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read(addr, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
    }

    pub(crate) fn mapping(&self, addr: u64) -> Option<&guest::Mapping> {
        let i = self.mappings.partition_point(|m| m.end <= addr);
        self.mappings.get(i).filter(|m| m.start <= addr)
    }

    pub(crate) fn is_code(&self, addr: u64) -> bool {
        self.mapping(addr).is_some_and(|m| m.protection.execute)
    }

    /// What the guest calls the file at an address.
    pub(crate) fn file_at(&self, addr: u64) -> Option<PathBuf> {
        let modules = self.program.modules();
        let module = modules.iter().find(|m| (m.start..m.end).contains(&addr));
        module.map(|m| m.name.clone())
    }

    /// What the guest calls the file of a mapping.
    pub(crate) fn known_name(&self, map: &guest::Mapping) -> Option<PathBuf> {
        let name = self.stored.get(&map.name).unwrap_or(&map.name);
        (!name.as_os_str().is_empty()).then(|| name.clone())
    }

    pub(crate) fn registers(&self) -> Registers {
        registers(&self.regs)
    }
}

/// What the mapped files say.
pub(crate) fn program(mappings: &[guest::Mapping], stored: &HashMap<PathBuf, PathBuf>) -> Program {
    let mut program = Program::new();
    program.load(&mapped(mappings, stored));
    program
}

/// The mappings under the names that the guest knows.
pub(crate) fn mapped(
    mappings: &[guest::Mapping],
    stored: &HashMap<PathBuf, PathBuf>,
) -> Vec<image::Mapping> {
    let one = |m: &guest::Mapping| image::Mapping {
        start: m.start,
        end: m.end,
        offset: m.offset,
        executable: m.protection.execute,
        name: stored.get(&m.name).unwrap_or(&m.name).clone(),
        file: m.name.clone(),
    };
    mappings.iter().map(one).collect()
}

pub(crate) fn registers(r: &guest::UserRegs) -> Registers {
    Registers {
        rax: r.rax,
        rdx: r.rdx,
        rcx: r.rcx,
        rbx: r.rbx,
        rsi: r.rsi,
        rdi: r.rdi,
        rbp: r.rbp,
        rsp: r.rsp,
        r8: r.r8,
        r9: r.r9,
        r10: r.r10,
        r11: r.r11,
        r12: r.r12,
        r13: r.r13,
        r14: r.r14,
        r15: r.r15,
        rip: r.rip,
        rflags: r.eflags,
        fs_base: Some(r.fs_base),
        xmm: None,
    }
}
