//! One compilation unit, read as questions reach it.
//!
//! A program has thousands of units and a crash touches a handful, so a unit holds only its
//! parsed header until it is asked for its lines or its functions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gimli::UnitRef;

use crate::elf::{Bytes, Elf, Warnings};
use crate::lines::{Files, Lines};
use crate::scopes::Scopes;
use crate::separate::{Dwarf, Split, split_unit};

pub(crate) type Entry = gimli::DebuggingInformationEntry<Bytes>;
pub(crate) type Offset = gimli::UnitOffset<usize>;
pub(crate) type Value = gimli::AttributeValue<Bytes>;

/// A range of a function's code. A function split into hot and cold parts has several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionRange {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) die: Offset,
    /// Where calls arrive.
    pub(crate) entry: u64,
}

pub(crate) struct Unit {
    /// The unit in the program itself: a skeleton if the entries were split off.
    pub(crate) main: gimli::Unit<Bytes>,
    pub(crate) dwarf: Arc<Dwarf>,
    split: OnceLock<Option<Split>>,
    lines: OnceLock<Lines>,
    files: OnceLock<Files>,
    functions: OnceLock<Vec<FunctionRange>>,
    scopes: Mutex<HashMap<Offset, Arc<Scopes>>>,
}

impl Unit {
    pub(crate) fn new(main: gimli::Unit<Bytes>, dwarf: Arc<Dwarf>) -> Unit {
        Unit {
            main,
            dwarf,
            split: OnceLock::new(),
            lines: OnceLock::new(),
            files: OnceLock::new(),
            functions: OnceLock::new(),
            scopes: Mutex::default(),
        }
    }

    /// The unit whose entries describe functions and variables.
    pub(crate) fn entries(&self, elf: &Elf, warnings: &Warnings) -> UnitRef<'_, Bytes> {
        let split = self.split.get_or_init(|| {
            self.main.dwo_id?;
            split_unit(&self.main, &self.dwarf, &elf.path, warnings)
        });
        match split {
            Some(split) => split.unit.unit_ref(&split.dwarf),
            None => self.main.unit_ref(&self.dwarf),
        }
    }

    /// The scopes of a function; `entries` are those of the unit.
    pub(crate) fn scopes(&self, entries: UnitRef<'_, Bytes>, function: Offset) -> Arc<Scopes> {
        let mut known = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let scopes = known
            .entry(function)
            .or_insert_with(|| Arc::new(Scopes::of(entries, function)));
        scopes.clone()
    }

    pub(crate) fn lines(&self, elf: &Elf, warnings: &Warnings) -> &Lines {
        self.lines.get_or_init(|| {
            let (lines, error) = Lines::read(&self.main, elf);
            if let Some(error) = error {
                warnings.add(elf.damaged("a line table", error));
            }
            lines
        })
    }

    pub(crate) fn files(&self) -> &Files {
        self.files
            .get_or_init(|| Files::read(&self.dwarf, &self.main))
    }

    /// The functions with code, sorted by address.
    pub(crate) fn functions(&self, elf: &Elf, warnings: &Warnings) -> &[FunctionRange] {
        self.functions.get_or_init(|| {
            let mut out = Vec::new();
            if let Err(error) = read_functions(self.entries(elf, warnings), elf, &mut out) {
                warnings.add(elf.damaged("the debug information of a unit", error));
            }
            out.sort_by_key(|f| f.begin);
            out
        })
    }

    pub(crate) fn function_at(
        &self,
        vaddr: u64,
        elf: &Elf,
        warnings: &Warnings,
    ) -> Option<FunctionRange> {
        let functions = self.functions(elf, warnings);
        let after = functions.partition_point(|f| f.begin <= vaddr);
        functions[..after]
            .iter()
            .rev()
            .take(8)
            .find(|f| vaddr < f.end)
            .copied()
    }
}

fn read_functions(
    unit: UnitRef<'_, Bytes>,
    elf: &Elf,
    out: &mut Vec<FunctionRange>,
) -> Result<(), gimli::Error> {
    let mut entries = unit.entries_raw(None)?;
    let mut attributes = Vec::new();
    while !entries.is_empty() {
        let die = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        if abbreviation.tag() != gimli::DW_TAG_subprogram {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        entries.read_attributes(abbreviation.attributes(), &mut attributes)?;
        let mut entry = None;
        for (begin, end) in ranges_of(unit, &attributes) {
            if !elf.is_code(begin) {
                continue;
            }
            let entry = *entry.get_or_insert(begin);
            out.push(FunctionRange {
                begin,
                end,
                die,
                entry,
            });
        }
    }
    Ok(())
}

/// The code ranges of an entry. Damaged ranges are left out.
pub(crate) fn ranges_of(
    unit: UnitRef<'_, Bytes>,
    attributes: &[gimli::Attribute<Bytes>],
) -> Vec<(u64, u64)> {
    let mut low = None;
    let mut high = None;
    let mut list = None;
    for attribute in attributes {
        match attribute.name() {
            gimli::DW_AT_low_pc => low = unit.attr_address(attribute.value()).ok().flatten(),
            gimli::DW_AT_high_pc => high = Some(attribute.value()),
            gimli::DW_AT_ranges => list = unit.attr_ranges(attribute.value()).ok().flatten(),
            _ => {}
        }
    }
    let mut out = Vec::new();
    if let Some(mut list) = list {
        while let Ok(Some(range)) = list.next() {
            if range.begin < range.end {
                out.push((range.begin, range.end));
            }
        }
        return out;
    }
    let end = match (low, high) {
        (Some(low), Some(value)) => match value.udata_value() {
            Some(size) => low.checked_add(size),
            None => unit.attr_address(value).ok().flatten(),
        },
        _ => None,
    };
    if let (Some(low), Some(end)) = (low, end)
        && low < end
    {
        out.push((low, end));
    }
    out
}
