//! The guest's files, found by address.
//!
//! The kernel's list of mappings is the only reliable word on which file lies where. Mappings of
//! one file with one load bias form a module; the bias follows from the program headers. A file
//! that the guest only reads, or mapped a second time as data, has another bias or no executable
//! mapping and is not taken for a module.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::demangle::demangle;
use crate::elf::{Segment, segments_in_file, segments_of};
use crate::module::{Contents, Module};
use crate::source::Sources;

const PAGE: u64 = 4096;

/// One mapping of the guest, as the kernel lists it.
#[derive(Clone, Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// Offset of `start` in the file.
    pub offset: u64,
    pub executable: bool,
    /// What to call the file in reports: the guest's path.
    pub name: PathBuf,
    /// Where its bytes can be read; a stored copy perhaps.
    pub file: PathBuf,
}

/// The guest's memory at the moment in question.
pub trait Memory {
    /// Fills `buf` from `addr`; false if any byte of it cannot be read.
    fn read(&self, addr: u64, buf: &mut [u8]) -> bool;
}

/// Of this, nothing can be read: for what code says by itself.
pub struct NoMemory;

impl Memory for NoMemory {
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

/// A linker symbol that covers an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Readable, without parameter types; stubs are called `puts@plt`.
    pub name: String,
    /// As the symbol table has it.
    pub raw_name: String,
    /// Distance of the address from the start of the symbol.
    pub offset: u64,
    /// Address of the symbol in the guest.
    pub start: u64,
    pub size: u64,
    pub module: PathBuf,
}

/// A source position of an address. An inlined call gives several for one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub function: Option<String>,
    pub file: Option<PathBuf>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    /// The function has no frame of its own here: its code is part of the next place's function.
    pub inlined: bool,
}

/// A function that covers an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub raw_name: String,
    /// The contiguous range around the address; a function may have more than one.
    pub low: u64,
    pub high: u64,
    /// Where calls arrive.
    pub entry: u64,
    pub module: PathBuf,
}

/// Where a function can be stopped at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionEntry {
    pub name: String,
    pub entry: u64,
    /// Past the set-up of the frame, where the arguments are where the debug information says.
    pub after_prologue: u64,
    pub module: PathBuf,
}

/// A function by the linker's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFunction {
    pub name: String,
    pub entry: u64,
    /// The code there returns the address of the function proper (`STT_GNU_IFUNC`).
    pub chooses: bool,
}

/// The start of a stretch of code of a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineAddress {
    pub file: PathBuf,
    /// Greater than the line asked for if that one has no code.
    pub line: u32,
    pub address: u64,
}

/// What is known of a loaded file, for listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleInfo {
    pub name: PathBuf,
    pub file: PathBuf,
    pub start: u64,
    pub end: u64,
    /// Add this to an address in the file to get the address in the guest.
    pub bias: u64,
}

/// All files of a guest.
#[derive(Default)]
pub struct Program {
    modules: Vec<Module>,
    /// Every executable mapping, of a file or not, sorted.
    executable: Vec<(u64, u64)>,
    /// What went wrong before there was a module to blame.
    warnings: crate::elf::Warnings,
    sources: Sources,
}

impl Program {
    pub fn new() -> Program {
        Program::default()
    }

    /// Replaces the mappings by this complete list. Files that stay mapped are not read again.
    pub fn load(&mut self, mappings: &[Mapping]) {
        let old = std::mem::take(&mut self.modules);
        self.executable = mappings
            .iter()
            .filter(|m| m.executable && m.start < m.end)
            .map(|m| (m.start, m.end))
            .collect();
        self.executable.sort_unstable();

        let mut by_file: BTreeMap<&Path, Vec<&Mapping>> = BTreeMap::new();
        for mapping in mappings.iter().filter(|m| m.start < m.end) {
            if is_file(&mapping.name) {
                by_file.entry(&mapping.file).or_default().push(mapping);
            }
        }
        for (file, mappings) in by_file {
            if !mappings.iter().any(|m| m.executable) {
                continue;
            }
            let segments = segments_in_file(file).unwrap_or_else(|error| {
                self.warnings.add(error);
                Vec::new()
            });
            let name = mappings[0].name.clone();
            let contents = old
                .iter()
                .find(|m| m.contents.file == file && m.contents.name == name)
                .map(|m| m.contents.clone())
                .unwrap_or_else(|| Arc::new(Contents::new(name, file.to_path_buf(), None)));
            self.place(&contents, &segments, &mappings);
        }
        self.sort();
    }

    /// Adds a module whose bytes are in no file, such as the kernel's vdso. A later [`load`]
    /// forgets it.
    ///
    /// [`load`]: Program::load
    pub fn load_bytes(&mut self, mapping: &Mapping, bytes: &[u8]) {
        let segments = segments_of(bytes).unwrap_or_default();
        let contents = Arc::new(Contents::new(
            mapping.name.clone(),
            mapping.file.clone(),
            Some(bytes.into()),
        ));
        self.place(&contents, &segments, &[mapping]);
        let range = (mapping.start, mapping.end);
        if mapping.executable && !self.executable.contains(&range) {
            self.executable.push(range);
            self.executable.sort_unstable();
        }
        self.sort();
    }

    fn place(&mut self, contents: &Arc<Contents>, segments: &[Segment], mappings: &[&Mapping]) {
        // Small segments share pages of the file, so a mapping may fit several segments. Code is
        // seldom ambiguous; the other mappings go where the code went.
        let of_code: Vec<u64> = mappings
            .iter()
            .filter(|m| m.executable)
            .filter_map(|m| biases_of(m, segments).first().copied())
            .collect();
        let lowest = mappings.iter().min_by_key(|m| m.start);
        let guess = lowest.map_or(0, |m| m.start.wrapping_sub(m.offset));
        let mut places: BTreeMap<u64, (bool, Vec<(u64, u64)>)> = BTreeMap::new();
        for mapping in mappings {
            let possible = biases_of(mapping, segments);
            let bias = possible
                .iter()
                .find(|b| of_code.contains(b))
                .or(possible.first())
                .copied()
                // Without program headers, offsets are the best guess for addresses.
                .unwrap_or(guess);
            let place = places.entry(bias).or_default();
            place.0 |= mapping.executable;
            place.1.push((mapping.start, mapping.end));
        }
        for (bias, (executable, mut ranges)) in places {
            if !executable {
                continue;
            }
            ranges.sort_unstable();
            // Zero-initialised data continues the file's last mapping in anonymous memory.
            for segment in segments {
                let start = segment.vaddr.wrapping_add(bias);
                if let Some(end) = start.checked_add(segment.memory_size)
                    && ranges.iter().any(|(s, e)| (*s..*e).contains(&start))
                {
                    ranges.push((start, end));
                }
            }
            self.modules.push(Module {
                contents: contents.clone(),
                bias,
                ranges,
            });
        }
    }

    fn sort(&mut self) {
        let start = |m: &Module| m.ranges.iter().map(|r| r.0).min();
        self.modules.sort_by_key(start);
    }

    /// What is wrong with the files, as far as they were looked at.
    pub fn warnings(&self) -> Vec<String> {
        let mut out = self.warnings.list();
        for module in &self.modules {
            for warning in module.contents.warnings.list() {
                if !out.contains(&warning) {
                    out.push(warning);
                }
            }
        }
        out
    }

    /// The loaded files, by address.
    pub fn modules(&self) -> Vec<ModuleInfo> {
        self.modules
            .iter()
            .map(|m| ModuleInfo {
                name: m.contents.name.clone(),
                file: m.contents.file.clone(),
                start: m.ranges.iter().map(|r| r.0).min().unwrap_or(0),
                end: m.ranges.iter().map(|r| r.1).max().unwrap_or(0),
                bias: m.bias,
            })
            .collect()
    }

    /// Up to so many bytes of the file at this address, if the program cannot change them.
    pub fn constant(&self, address: u64, most: usize) -> Option<Vec<u8>> {
        let module = self.module_at(address)?;
        let elf = module.contents.elf()?;
        elf.constant(module.vaddr(address), most)
    }

    /// Whether the file at this address has debug information, here or in a separate file.
    pub fn has_debug_info(&self, pc: u64) -> bool {
        self.module_at(pc)
            .is_some_and(|m| m.contents.debug().is_some())
    }

    pub(crate) fn all_modules(&self) -> &[Module] {
        &self.modules
    }

    pub(crate) fn module_at(&self, pc: u64) -> Option<&Module> {
        self.modules.iter().find(|m| m.contains(pc))
    }

    pub(crate) fn is_code(&self, pc: u64) -> bool {
        let after = self.executable.partition_point(|(start, _)| *start <= pc);
        after > 0 && pc < self.executable[after - 1].1
    }

    /// The executable mapping around an address.
    pub(crate) fn executable_around(&self, pc: u64) -> Option<(u64, u64)> {
        let after = self.executable.partition_point(|(start, _)| *start <= pc);
        let range = *self.executable.get(after.checked_sub(1)?)?;
        (pc < range.1).then_some(range)
    }

    /// The function symbol that covers an address.
    pub fn symbol(&self, pc: u64) -> Option<Symbol> {
        let module = self.module_at(pc)?;
        let found = module.code_symbol(pc)?;
        Some(symbol(module, found, pc))
    }

    /// The variable symbol that covers an address.
    pub fn data_symbol(&self, address: u64) -> Option<Symbol> {
        let module = self.module_at(address)?;
        let found = module.data_symbol(address)?;
        Some(symbol(module, found, address))
    }

    /// An address relative to its file, for code without names: `libfoo.so+0x1234`.
    pub fn module_offset(&self, pc: u64) -> Option<String> {
        let module = self.module_at(pc)?;
        Some(format!("{}+{:#x}", module.short_name(), module.vaddr(pc)))
    }

    /// A line of source text, from disk.
    pub fn source_line(&self, file: &Path, line: u32) -> Option<String> {
        self.sources.line(file, line)
    }
}

fn symbol(module: &Module, found: crate::symbols::Found, pc: u64) -> Symbol {
    let start = module.pc(found.vaddr);
    Symbol {
        name: demangle(&found.raw),
        raw_name: found.raw,
        offset: pc.wrapping_sub(start),
        start,
        size: found.size,
        module: module.contents.name.clone(),
    }
}

/// `[stack]`, `[heap]`, nameless memory and memory with a descriptor are no files.
fn is_file(name: &Path) -> bool {
    let name = name.as_os_str().as_encoded_bytes();
    !name.is_empty() && !name.starts_with(b"[") && !name.starts_with(b"/memfd:")
}

/// The load biases a mapping allows, the likeliest first: the segment it shows says where it
/// wanted to be.
fn biases_of(mapping: &Mapping, segments: &[Segment]) -> Vec<u64> {
    let mut fitting: Vec<&Segment> = segments
        .iter()
        .filter(|s| {
            let first_page = s.offset & !(PAGE - 1);
            mapping.offset >= first_page
                && (mapping.offset < s.offset.saturating_add(s.file_size)
                    || mapping.offset == first_page)
        })
        .collect();
    fitting.sort_by_key(|s| {
        (
            s.executable != mapping.executable,
            s.offset & !(PAGE - 1) != mapping.offset,
        )
    });
    let bias = |s: &&Segment| {
        let wanted = mapping.offset.wrapping_sub(s.offset).wrapping_add(s.vaddr);
        mapping.start.wrapping_sub(wanted)
    };
    fitting.iter().map(bias).collect()
}
