//! The linker's names for addresses.
//!
//! A symbol table is the only source of names for code without debug information. It is sorted
//! once by address; names stay in the file's string table and are copied out per answer, since a
//! large program has a million symbols and a report names a dozen.
//!
//! A symbol with a size covers exactly that range. An address after the end of the last sized
//! symbol gets no name: in a library stripped to its exports the nearest preceding symbol is
//! usually a different function, and a wrong name is worse than `libfoo.so+0x1234`.

use gimli::Reader as _;
use object::SymbolIndex;
use object::elf;
use object::read::elf::{SectionHeader as _, Sym as _};

use crate::elf::{Bytes, ENDIAN, Elf, LittleEndianObject, Section, Warnings, empty};
use crate::plt;

/// How many symbols before an address are tried before it counts as nameless.
const MOST_NESTED: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Code,
    Data,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    vaddr: u64,
    size: u64,
    name: u32,
    table: Table,
    kind: Kind,
    /// Larger is the better name among symbols at one address.
    rank: u8,
    /// Not the function itself: code that chooses it when the program starts.
    chooses: bool,
}

#[derive(Clone, Copy, Debug)]
enum Table {
    Static,
    Dynamic,
    Plt,
}

/// A symbol that covers an address.
pub(crate) struct Found {
    pub(crate) raw: String,
    pub(crate) vaddr: u64,
    pub(crate) size: u64,
    pub(crate) chooses: bool,
}

pub(crate) struct Symbols {
    entries: Vec<Entry>,
    static_names: Bytes,
    dynamic_names: Bytes,
    plt_names: Vec<String>,
    /// Whether the table names local functions too. A stripped file has only its exports.
    pub(crate) complete: bool,
}

impl Symbols {
    pub(crate) fn none() -> Symbols {
        Symbols {
            entries: Vec::new(),
            static_names: empty(),
            dynamic_names: empty(),
            plt_names: Vec::new(),
            complete: false,
        }
    }

    /// Reads the tables of `elf`. `debug` is the separate debug file, which holds the full table
    /// when the program itself was stripped.
    pub(crate) fn read(elf: &Elf, debug: Option<&Elf>, warnings: &Warnings) -> Symbols {
        let mut out = Symbols::none();
        for (file, table) in [
            (Some(elf), Table::Static),
            (debug, Table::Static),
            (Some(elf), Table::Dynamic),
        ] {
            let Some(file) = file else { continue };
            if matches!(table, Table::Static) && out.complete {
                continue;
            }
            if let Err(error) = out.add_table(file, elf, table) {
                warnings.add(error);
            }
        }
        for (vaddr, size, name) in plt::entries(elf, warnings) {
            out.entries.push(Entry {
                vaddr,
                size,
                name: out.plt_names.len() as u32,
                table: Table::Plt,
                kind: Kind::Code,
                rank: 0,
                chooses: false,
            });
            out.plt_names.push(name);
        }
        out.entries.sort_by_key(|e| (e.vaddr, e.rank));
        out
    }

    fn add_table(&mut self, file: &Elf, program: &Elf, table: Table) -> Result<(), crate::Error> {
        let object = file.object()?;
        let endian = ENDIAN;
        let symbols = match table {
            Table::Dynamic => object.elf_dynamic_symbol_table(),
            _ => object.elf_symbol_table(),
        };
        if symbols.is_empty() {
            return Ok(());
        }
        let sections = object.elf_section_table();
        let strings = sections
            .section(symbols.string_section())
            .map_err(|e| file.damaged("the symbol table", e))?;
        let (offset, size) = strings.file_range(endian).unwrap_or((0, 0));
        let Some(names) = file.range(offset, size) else {
            return Err(file.damaged(
                "the symbol table",
                "its names lie beyond the end of the file",
            ));
        };
        match table {
            Table::Dynamic => self.dynamic_names = names,
            _ => {
                self.static_names = names;
                self.complete = true;
            }
        }
        for (_, symbol) in symbols.enumerate() {
            if symbol.st_shndx(endian) == elf::SHN_UNDEF {
                continue;
            }
            let vaddr = symbol.st_value(endian);
            let size = symbol.st_size(endian);
            let kind = match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => Kind::Code,
                elf::STT_OBJECT => Kind::Data,
                elf::STT_NOTYPE if program.is_code(vaddr) => Kind::Code,
                _ => continue,
            };
            if kind == Kind::Code && !program.is_code(vaddr) {
                continue;
            }
            let binding = match symbol.st_bind() {
                elf::STB_GLOBAL => 3,
                elf::STB_WEAK => 2,
                _ => 1,
            };
            let typed = if symbol.st_type() == elf::STT_NOTYPE {
                0
            } else {
                8
            };
            let sized = if size == 0 { 0 } else { 4 };
            self.entries.push(Entry {
                vaddr,
                size,
                name: symbol.st_name(endian),
                table,
                kind,
                rank: typed + sized + binding,
                chooses: symbol.st_type() == elf::STT_GNU_IFUNC,
            });
        }
        Ok(())
    }

    fn name(&self, entry: &Entry) -> Option<String> {
        let names = match entry.table {
            Table::Static => &self.static_names,
            Table::Dynamic => &self.dynamic_names,
            Table::Plt => return self.plt_names.get(entry.name as usize).cloned(),
        };
        let mut names = names.clone();
        names.skip(entry.name as usize).ok()?;
        let name = names.read_null_terminated_slice().ok()?;
        let name = name.to_string_lossy().ok()?;
        // Symbol versions (`memcpy@@GLIBC_2.14`) are the linker's business.
        let name = name.split_once('@').map_or(&*name, |(front, _)| front);
        (!name.is_empty()).then(|| name.to_string())
    }

    fn find(&self, vaddr: u64, kind: Kind, sections: &[Section]) -> Option<Found> {
        let end = self.entries.partition_point(|e| e.vaddr <= vaddr);
        // Aliases and symbols nested in larger ones (labels in assembly) make the best match not
        // always the last one before the address. The walk back is bounded.
        let mut past_another = false;
        for entry in self.entries[..end].iter().rev().take(MOST_NESTED) {
            if entry.kind != kind {
                continue;
            }
            let covers = if entry.size > 0 {
                vaddr - entry.vaddr < entry.size
            } else {
                let together =
                    |s: &Section| s.executable && s.contains(entry.vaddr) && s.contains(vaddr);
                let reaches = kind == Kind::Code && !past_another;
                entry.vaddr == vaddr || (reaches && sections.iter().any(together))
            };
            // A symbol without a size ends where the next one begins.
            past_another |= entry.vaddr != vaddr && entry.size > 0;
            if covers && let Some(raw) = self.name(entry) {
                return Some(Found {
                    raw,
                    vaddr: entry.vaddr,
                    size: entry.size,
                    chooses: entry.chooses,
                });
            }
        }
        None
    }

    /// The function symbol that covers an address.
    pub(crate) fn code(&self, vaddr: u64, sections: &[Section]) -> Option<Found> {
        self.find(vaddr, Kind::Code, sections)
    }

    /// The variable symbol that covers an address.
    pub(crate) fn data(&self, vaddr: u64, sections: &[Section]) -> Option<Found> {
        self.find(vaddr, Kind::Data, sections)
    }

    /// Where a variable of this name is.
    pub(crate) fn variable(&self, name: &str) -> Option<u64> {
        let mut data = self.entries.iter().filter(|e| e.kind == Kind::Data);
        let found = data.find(|e| self.name(e).is_some_and(|n| n == name));
        found.map(|e| e.vaddr)
    }

    /// All function symbols; several may share an address.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Found> + '_ {
        self.all(|e| e.kind == Kind::Code && !matches!(e.table, Table::Plt))
    }

    /// The pieces of code through which functions of other files are called, by the names of those.
    pub(crate) fn stubs(&self) -> impl Iterator<Item = Found> + '_ {
        self.all(|e| matches!(e.table, Table::Plt))
    }

    /// The symbols of all variables that have a size.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Found> + '_ {
        self.all(|e| e.kind == Kind::Data && e.size > 0)
    }

    fn all(&self, wanted: impl Fn(&Entry) -> bool) -> impl Iterator<Item = Found> {
        self.entries
            .iter()
            .filter(move |e| wanted(e))
            .filter_map(|e| {
                Some(Found {
                    raw: self.name(e)?,
                    vaddr: e.vaddr,
                    size: e.size,
                    chooses: e.chooses,
                })
            })
    }
}

/// The name of a dynamic symbol by index, as relocations refer to it.
pub(crate) fn dynamic_name(
    object: &object::read::elf::ElfFile64<'_, LittleEndianObject>,
    index: u32,
) -> Option<String> {
    let symbols = object.elf_dynamic_symbol_table();
    let symbol = symbols.symbol(SymbolIndex(index as usize)).ok()?;
    let name = symbols.symbol_name(ENDIAN, symbol).ok()?;
    let name = String::from_utf8_lossy(name);
    let name = name.split_once('@').map_or(&*name, |(front, _)| front);
    (!name.is_empty()).then(|| name.to_string())
}
