//! One compilation unit, read as questions reach it.
//!
//! A program has thousands of units and a crash touches a handful, so a unit holds only what its
//! header and its first entry say until it is asked for its lines or its functions. What its other
//! entries look like is in a list of abbreviations, which takes longest to read of all; of that
//! only the abbreviation of the first entry is read in advance.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gimli::{Reader as _, Section as _, UnitRef};

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
    /// What the first entry says; no other can be read with it.
    pub(crate) head: gimli::Unit<Bytes>,
    // Apart, because hardly any unit needs them, and they are large.
    main: OnceLock<Option<Box<gimli::Unit<Bytes>>>>,
    pub(crate) dwarf: Arc<Dwarf>,
    split: OnceLock<Option<Box<Split>>>,
    lines: OnceLock<Lines>,
    files: OnceLock<Files>,
    functions: OnceLock<Vec<FunctionRange>>,
    scopes: Mutex<HashMap<Offset, Arc<Scopes>>>,
}

impl Unit {
    /// Reads the first entry.
    pub(crate) fn read(
        header: gimli::UnitHeader<Bytes>,
        dwarf: &Arc<Dwarf>,
    ) -> Result<Unit, gimli::Error> {
        let first = match first_abbreviation(&header, dwarf) {
            Ok(first) => Arc::new(first),
            Err(_) => dwarf.abbreviations(&header)?,
        };
        let head = gimli::Unit::new_with_abbreviations(dwarf, header, first)?;
        Ok(Unit {
            head,
            main: OnceLock::new(),
            dwarf: dwarf.clone(),
            split: OnceLock::new(),
            lines: OnceLock::new(),
            files: OnceLock::new(),
            functions: OnceLock::new(),
            scopes: Mutex::default(),
        })
    }

    /// The unit in the program itself: a skeleton if the entries were split off.
    pub(crate) fn main(&self) -> UnitRef<'_, Bytes> {
        let main = self
            .main
            .get_or_init(|| self.dwarf.unit(self.head.header.clone()).ok().map(Box::new));
        // Where the abbreviations are damaged, reading another entry than the first will say so.
        main.as_deref().unwrap_or(&self.head).unit_ref(&self.dwarf)
    }

    /// The unit whose entries describe functions and variables.
    pub(crate) fn entries(&self, elf: &Elf, warnings: &Warnings) -> UnitRef<'_, Bytes> {
        let split = self.split.get_or_init(|| {
            self.head.dwo_id?;
            split_unit(&self.head, &self.dwarf, &elf.path, warnings).map(Box::new)
        });
        match split {
            Some(split) => split.unit.unit_ref(&split.dwarf),
            None => self.main(),
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
            let (lines, error) = Lines::read(&self.head, elf);
            if let Some(error) = error {
                warnings.add(elf.damaged("a line table", error));
            }
            lines
        })
    }

    pub(crate) fn files(&self) -> &Files {
        self.files
            .get_or_init(|| Files::read(&self.dwarf, &self.head))
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

/// The list of abbreviations of a unit, with none but that of its first entry.
fn first_abbreviation(
    header: &gimli::UnitHeader<Bytes>,
    dwarf: &Dwarf,
) -> Result<gimli::Abbreviations, gimli::Error> {
    let code = header.range_from(header.root_offset()..)?.read_uleb128()?;
    let mut list = dwarf.debug_abbrev.reader().clone();
    list.skip(header.debug_abbrev_offset().0)?;
    loop {
        let begin = list.clone();
        let found = list.read_uleb128()?;
        if found == 0 {
            return Err(gimli::Error::InvalidAbbreviationCode(code));
        }
        // The tag, and whether it has children.
        list.skip_leb128()?;
        list.skip(1)?;
        loop {
            let attribute = list.read_uleb128()?;
            let form = list.read_uleb128()?;
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                list.skip_leb128()?;
            }
            if (attribute, form) == (0, 0) {
                break;
            }
        }
        if found == code {
            let mut alone = begin.bytes()[..begin.len() - list.len()].to_vec();
            alone.push(0);
            let alone = gimli::DebugAbbrev::new(&alone, gimli::LittleEndian);
            return alone.abbreviations(gimli::DebugAbbrevOffset(0));
        }
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
