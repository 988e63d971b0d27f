//! One file of the guest, at one place in its address space.
//!
//! The parsed contents depend on the file alone and are shared when the mappings change; the
//! place is the load bias, the difference between an address in the guest (`pc`) and the address
//! the file speaks of (`vaddr`).

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::cfi::Cfi;
use crate::debug::Debug;
use crate::elf::{Elf, Section, Warnings};
use crate::lines::Names;
use crate::separate;
use crate::symbols::{Found, Symbols};

/// A file and everything read from it so far.
pub(crate) struct Contents {
    pub(crate) file: PathBuf,
    pub(crate) name: PathBuf,
    /// Bytes that exist in no file, such as the kernel's vdso.
    bytes: Option<Arc<[u8]>>,
    pub(crate) warnings: Warnings,
    elf: OnceLock<Option<Elf>>,
    debug_file: OnceLock<Option<Elf>>,
    symbols: OnceLock<Symbols>,
    names: OnceLock<Option<Names>>,
    debug: OnceLock<Option<Debug>>,
    cfi: OnceLock<Option<Cfi>>,
}

impl Contents {
    pub(crate) fn new(name: PathBuf, file: PathBuf, bytes: Option<Arc<[u8]>>) -> Contents {
        Contents {
            file,
            name,
            bytes,
            warnings: Warnings::default(),
            elf: OnceLock::new(),
            debug_file: OnceLock::new(),
            symbols: OnceLock::new(),
            names: OnceLock::new(),
            debug: OnceLock::new(),
            cfi: OnceLock::new(),
        }
    }

    pub(crate) fn elf(&self) -> Option<&Elf> {
        let parsed = self.elf.get_or_init(|| {
            let result = match &self.bytes {
                Some(bytes) => Elf::parse(&self.name, bytes.clone()),
                None => Elf::open(&self.file),
            };
            let mut elf = result.map_err(|error| self.warnings.add(error)).ok()?;
            // What is read may be a copy. What belongs to the file is beside the file, and that is the one that people
            // know.
            elf.path.clone_from(&self.name);
            if let Err(error) = elf.object() {
                self.warnings.add(error);
            }
            Some(elf)
        });
        parsed.as_ref()
    }

    /// The file that has the debug information, if it is not the program itself.
    fn debug_file(&self) -> Option<&Elf> {
        let found = self.debug_file.get_or_init(|| {
            let elf = self.elf()?;
            if separate::has_debug(elf) {
                return None;
            }
            separate::find(elf, &self.warnings)
        });
        found.as_ref()
    }

    pub(crate) fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| match self.elf() {
            Some(elf) => Symbols::read(elf, self.debug_file(), &self.warnings),
            None => Symbols::none(),
        })
    }

    pub(crate) fn debug(&self) -> Option<&Debug> {
        let debug = self.debug.get_or_init(|| {
            let program = self.elf()?;
            let elf = self.debug_file().unwrap_or(program);
            let debug = Debug::read(elf, program, &self.warnings);
            (!debug.is_empty()).then_some(debug)
        });
        debug.as_ref()
    }

    /// The debug information, if its line tables can have lines of a source file.
    pub(crate) fn debug_with(&self, file: &Path) -> Option<&Debug> {
        let names = self.names.get_or_init(|| {
            let program = self.elf()?;
            let elf = self.debug_file().unwrap_or(program);
            Some(Names::read(elf, &self.warnings))
        });
        let may_have = names.as_ref()?.may_have(file);
        may_have.then(|| self.debug()).flatten()
    }

    pub(crate) fn cfi(&self) -> Option<&Cfi> {
        let cfi = self.cfi.get_or_init(|| {
            let elf = self.elf()?;
            Some(Cfi::read(elf, self.debug_file(), &self.warnings))
        });
        cfi.as_ref()
    }

    pub(crate) fn sections(&self) -> &[Section] {
        self.elf().map_or(&[], |elf| &elf.sections)
    }
}

/// A file at its place.
pub(crate) struct Module {
    pub(crate) contents: Arc<Contents>,
    pub(crate) bias: u64,
    /// The mapped ranges, sorted.
    pub(crate) ranges: Vec<(u64, u64)>,
}

impl Module {
    pub(crate) fn vaddr(&self, pc: u64) -> u64 {
        pc.wrapping_sub(self.bias)
    }

    pub(crate) fn pc(&self, vaddr: u64) -> u64 {
        vaddr.wrapping_add(self.bias)
    }

    pub(crate) fn contains(&self, pc: u64) -> bool {
        self.ranges.iter().any(|(s, e)| (*s..*e).contains(&pc))
    }

    pub(crate) fn cfi(&self) -> Option<&Cfi> {
        self.contents.cfi()
    }

    pub(crate) fn code_symbol(&self, pc: u64) -> Option<Found> {
        let contents = &self.contents;
        contents.symbols().code(self.vaddr(pc), contents.sections())
    }

    pub(crate) fn data_symbol(&self, address: u64) -> Option<Found> {
        let contents = &self.contents;
        contents
            .symbols()
            .data(self.vaddr(address), contents.sections())
    }

    pub(crate) fn short_name(&self) -> String {
        match self.contents.name.file_name() {
            Some(name) => name.to_string_lossy().into_owned(),
            None => self.contents.name.display().to_string(),
        }
    }
}
