//! From the source to addresses: where to stop for a line or a function.
//!
//! To find a line, only modules whose line tables have the name of its file somewhere are looked
//! at, and there the file lists of all units; the line tables are run for the units that name the
//! file. Functions are found in the symbol table, which has them all unless
//! the program was stripped; only then are all units searched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::debug::Die;
use crate::demangle::{demangle, matches};
use crate::elf::Elf;
use crate::module::Module;
use crate::program::{FunctionEntry, LineAddress, NamedFunction, Program};

impl Program {
    /// The starts of the code of a line, one per contiguous stretch and inlined copy. `file` is a
    /// path or the last components of one. If the line has no code, the answer is for the next
    /// line of that file that has, and says so by its `line`.
    pub fn addresses_of_line(&self, file: &str, line: u32) -> Vec<LineAddress> {
        let mut by_file: BTreeMap<PathBuf, (u32, BTreeSet<u64>)> = BTreeMap::new();
        for module in self.all_modules() {
            let contents = &module.contents;
            let (Some(elf), Some(debug)) = (contents.elf(), contents.debug_with(Path::new(file)))
            else {
                continue;
            };
            for unit in debug.units() {
                let files = unit.files().matching(Path::new(file));
                if files.is_empty() {
                    continue;
                }
                let lines = unit.lines(elf, &contents.warnings);
                lines.range_starts(
                    |index| files.contains(&index),
                    |row| {
                        let Some(path) = unit.files().get(row.file) else {
                            return;
                        };
                        if row.line < line {
                            return;
                        }
                        let best = by_file
                            .entry(path.to_path_buf())
                            .or_insert_with(|| (row.line, BTreeSet::new()));
                        if row.line < best.0 {
                            *best = (row.line, BTreeSet::new());
                        }
                        if row.line == best.0 {
                            best.1.insert(module.pc(row.vaddr));
                        }
                    },
                );
            }
        }
        // A file that has the very line asked for is the one that was meant.
        let exact = by_file.values().any(|(found, _)| *found == line);
        by_file
            .into_iter()
            .filter(|(_, (found, _))| !exact || *found == line)
            .flat_map(|(file, (line, addresses))| {
                addresses.into_iter().map(move |address| LineAddress {
                    file: file.clone(),
                    line,
                    address,
                })
            })
            .collect()
    }

    /// The code of each file that lines are known of, sorted.
    pub fn code_with_lines(&self) -> Vec<(PathBuf, Vec<(u64, u64)>)> {
        let mut out = Vec::new();
        for module in self.all_modules() {
            let contents = &module.contents;
            let (Some(elf), Some(debug)) = (contents.elf(), contents.debug()) else {
                continue;
            };
            let mut ranges: Vec<(u64, u64)> = debug
                .units()
                .iter()
                .flat_map(|u| u.lines(elf, &contents.warnings).ranges())
                .map(|(low, high)| (module.pc(low), module.pc(high)))
                .collect();
            ranges.sort_unstable();
            if !ranges.is_empty() {
                out.push((contents.name.clone(), ranges));
            }
        }
        out
    }

    /// The starts of the code of every line of a file, as [`Program::addresses_of_line`] has them.
    pub fn line_starts(&self, file: &Path) -> BTreeMap<u32, BTreeSet<u64>> {
        let mut out: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for module in self.all_modules() {
            let contents = &module.contents;
            let (Some(elf), Some(debug)) = (contents.elf(), contents.debug_with(file)) else {
                continue;
            };
            for unit in debug.units() {
                let files = unit.files().matching(file);
                if files.is_empty() {
                    continue;
                }
                let lines = unit.lines(elf, &contents.warnings);
                lines.range_starts(
                    |index| files.contains(&index),
                    |row| {
                        out.entry(row.line)
                            .or_default()
                            .insert(module.pc(row.vaddr));
                    },
                );
            }
        }
        out
    }

    /// The function symbols whose linker's name is wanted.
    pub fn functions_named(&self, wanted: impl Fn(&str) -> bool) -> Vec<NamedFunction> {
        let mut out = Vec::new();
        for module in self.all_modules() {
            let found = module.contents.symbols().functions();
            for symbol in found.filter(|s| wanted(&s.raw)) {
                out.push(NamedFunction {
                    entry: module.pc(symbol.vaddr),
                    name: symbol.raw,
                    chooses: symbol.chooses,
                });
            }
        }
        out
    }

    /// Whether a function was made part of others where they call it, as far as debug information tells. That is gone
    /// through as a whole.
    pub fn is_inlined(&self, name: &str) -> bool {
        let there = |m: &&Module| m.contents.symbols().functions().any(|s| s.raw == name);
        let mut modules = self.all_modules().iter().filter(there);
        modules.any(|module| inlined_in_debug(module, name))
    }

    /// The address of a variable, by the linker's name.
    pub fn address_of_variable(&self, name: &str) -> Option<u64> {
        self.all_modules().iter().find_map(|module| {
            let vaddr = module.contents.symbols().variable(name)?;
            Some(module.pc(vaddr))
        })
    }

    /// Where calls of functions of other files go first, by the name that was asked for. Several names may lead
    /// to one function in the end.
    pub fn stubs_named(&self, wanted: impl Fn(&str) -> bool) -> Vec<(u64, String)> {
        let mut out = Vec::new();
        for module in self.all_modules() {
            for stub in module.contents.symbols().stubs() {
                let name = stub.raw.strip_suffix("@plt").unwrap_or(&stub.raw);
                if wanted(name) {
                    out.push((module.pc(stub.vaddr), name.to_owned()));
                }
            }
        }
        out
    }

    /// The functions a name means: the linker's name, the readable name without parameters, or
    /// the end of a qualified name.
    pub fn addresses_of_function(&self, name: &str) -> Vec<FunctionEntry> {
        let mut out: Vec<FunctionEntry> = Vec::new();
        for module in self.all_modules() {
            let mut found: BTreeMap<u64, String> = BTreeMap::new();
            let symbols = module.contents.symbols();
            for symbol in symbols.functions() {
                if let Some(readable) = meant(&symbol.raw, name) {
                    found.insert(symbol.vaddr, readable);
                }
            }
            if !symbols.complete {
                functions_in_debug(module, name, &mut found);
            }
            for (vaddr, name) in found {
                out.push(FunctionEntry {
                    name,
                    entry: module.pc(vaddr),
                    after_prologue: module.pc(after_prologue(module, vaddr)),
                    module: module.contents.name.clone(),
                });
            }
        }
        out
    }
}

/// The readable name, if `asked` means it. The last component is compared before the costly
/// demangling, as nearly no symbol passes.
fn meant(raw: &str, asked: &str) -> Option<String> {
    let tail = asked.rsplit("::").next().unwrap_or(asked);
    let tail = tail.split('<').next().unwrap_or(tail);
    let plain = tail.trim_start_matches('~');
    let searchable = plain
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if searchable && !plain.is_empty() && !raw.contains(plain) && !is_structor(raw) {
        return None;
    }
    let readable = demangle(raw);
    (raw == asked || matches(&readable, asked)).then_some(readable)
}

/// Constructors and destructors are mangled without repeating the name of their class.
fn is_structor(raw: &str) -> bool {
    raw.starts_with("_Z")
        && ["C1", "C2", "D0", "D1", "D2"]
            .iter()
            .any(|m| raw.contains(m))
}

fn functions_in_debug(module: &Module, name: &str, found: &mut BTreeMap<u64, String>) {
    let contents = &module.contents;
    let (Some(elf), Some(debug)) = (contents.elf(), contents.debug()) else {
        return;
    };
    for unit in debug.units() {
        for function in unit.functions(elf, &contents.warnings) {
            let die = Die {
                unit: unit.entries(elf, &contents.warnings),
                offset: function.die,
            };
            if let Some(raw) = debug.function_name(die)
                && let Some(readable) = meant(&raw, name)
            {
                found.insert(function.entry, readable);
            }
        }
    }
}

fn inlined_in_debug(module: &Module, name: &str) -> bool {
    let contents = &module.contents;
    let (Some(elf), Some(debug)) = (contents.elf(), contents.debug()) else {
        return false;
    };
    debug.units().iter().any(|unit| {
        let unit = unit.entries(elf, &contents.warnings);
        let Ok(mut entries) = unit.unit.entries_raw(None) else {
            return false;
        };
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let Ok(abbreviation) = entries.read_abbreviation() else {
                return false;
            };
            let Some(abbreviation) = abbreviation else {
                continue;
            };
            if entries.skip_attributes(abbreviation.attributes()).is_err() {
                return false;
            }
            let called = || debug.string(Die { unit, offset }, gimli::DW_AT_name);
            if abbreviation.tag() == gimli::DW_TAG_inlined_subroutine
                && called().as_deref() == Some(name)
            {
                return true;
            }
        }
        false
    })
}

/// Where the frame of a function is set up.
///
/// A compiler that marks the end of the prologue is believed. Otherwise a function that begins by
/// saving the frame pointer is unoptimised, and its second line is where the body begins. Code
/// without a frame pointer describes its arguments correctly from the first instruction.
pub(crate) fn after_prologue(module: &Module, entry: u64) -> u64 {
    let contents = &module.contents;
    let (Some(elf), Some(debug)) = (contents.elf(), contents.debug()) else {
        return past_frame_pointer(contents.elf(), entry).unwrap_or(entry);
    };
    let Some((unit, range)) = debug.function_at(entry, elf, &contents.warnings) else {
        return entry;
    };
    let lines = unit.lines(elf, &contents.warnings);
    let mut rows = lines.within(range.begin, range.end);
    if let Some(row) = rows.find(|r| r.prologue_end) {
        return row.vaddr;
    }
    let Some(past) = past_frame_pointer(Some(elf), entry) else {
        return entry;
    };
    lines
        .within(past, range.end)
        .find(|r| r.is_statement && r.line != 0)
        .map_or(past, |row| row.vaddr)
}

/// The address behind `push %rbp; mov %rsp,%rbp` at the start of a function.
fn past_frame_pointer(elf: Option<&Elf>, entry: u64) -> Option<u64> {
    let code = elf?.at_vaddr(entry)?;
    let code = code.bytes();
    let skip = if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) {
        4
    } else {
        0
    };
    let rest = code.get(skip..)?;
    let saves =
        rest.starts_with(&[0x55, 0x48, 0x89, 0xe5]) || rest.starts_with(&[0x55, 0x48, 0x8b, 0xec]);
    saves.then(|| entry + skip as u64 + 4)
}
