//! The debug information of one module, indexed by address.
//!
//! The index holds the address ranges of the units and nothing more. References between entries
//! are resolved here, because they may lead to another unit or to a type unit.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use gimli::UnitRef;

use crate::elf::{Bytes, Elf, Warnings};
use crate::separate::{Dwarf, dwarf_of, text};
use crate::unit::{Entry, FunctionRange, Offset, Unit, Value, ranges_of};

/// How many references are followed for one name or type before the chain is called a loop.
const LONGEST_CHAIN: usize = 16;

/// An entry with more children than this is damaged.
const MOST_CHILDREN: usize = 1 << 16;

struct UnitRange {
    begin: u64,
    end: u64,
    unit: usize,
    /// The largest `end` up to and including this range, which bounds the search backwards.
    reach: u64,
}

pub(crate) struct Debug {
    pub(crate) dwarf: Arc<Dwarf>,
    units: Vec<Unit>,
    ranges: Vec<UnitRange>,
    type_units: OnceLock<HashMap<u64, (usize, Offset)>>,
    /// Of the file that several programs have in common.
    common: OnceLock<Vec<gimli::Unit<Bytes>>>,
}

/// An entry, together with the unit it must be read in.
#[derive(Clone, Copy)]
pub(crate) struct Die<'a> {
    pub(crate) unit: UnitRef<'a, Bytes>,
    pub(crate) offset: Offset,
}

impl Die<'_> {
    pub(crate) fn entry(&self) -> Option<Entry> {
        let entry = self.unit.unit.entry(self.offset).ok()?;
        (!entry.is_null()).then_some(entry)
    }
}

impl Debug {
    /// Reads the headers and the first entries of all units. `elf` is the file with the debug sections; `program` is
    /// the file whose segments say which addresses are code.
    pub(crate) fn read(elf: &Elf, program: &Elf, warnings: &Warnings) -> Debug {
        let dwarf = Arc::new(dwarf_of(elf, warnings));
        let damaged = |error: gimli::Error| elf.damaged("the debug information", error);
        let mut units = Vec::new();
        let mut headers = dwarf.units();
        loop {
            match headers.next() {
                Ok(Some(header)) => match Unit::read(header, &dwarf) {
                    Ok(unit) => units.push(unit),
                    Err(error) => warnings.add(damaged(error)),
                },
                Ok(None) => break,
                Err(error) => {
                    warnings.add(damaged(error));
                    break;
                }
            }
        }
        let mut old_style = dwarf.type_units();
        while let Ok(Some(header)) = old_style.next() {
            units.extend(Unit::read(header, &dwarf));
        }
        let mut ranges = Vec::new();
        for (index, unit) in units.iter().enumerate() {
            for (begin, end) in unit_ranges(unit, program, warnings) {
                ranges.push(UnitRange {
                    begin,
                    end,
                    unit: index,
                    reach: 0,
                });
            }
        }
        ranges.sort_by_key(|r| r.begin);
        let mut reach = 0;
        for range in &mut ranges {
            reach = range.end.max(reach);
            range.reach = reach;
        }
        Debug {
            dwarf,
            units,
            ranges,
            type_units: OnceLock::new(),
            common: OnceLock::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    pub(crate) fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The units that claim an address, the closest claim first.
    pub(crate) fn units_at(&self, vaddr: u64) -> impl Iterator<Item = &Unit> {
        let after = self.ranges.partition_point(|r| r.begin <= vaddr);
        self.ranges[..after]
            .iter()
            .rev()
            .take_while(move |r| r.reach > vaddr)
            .filter(move |r| r.end > vaddr)
            .map(|r| &self.units[r.unit])
    }

    /// The function that covers an address, with its unit.
    pub(crate) fn function_at(
        &self,
        vaddr: u64,
        elf: &Elf,
        warnings: &Warnings,
    ) -> Option<(&Unit, FunctionRange)> {
        self.units_at(vaddr)
            .find_map(|unit| Some((unit, unit.function_at(vaddr, elf, warnings)?)))
    }

    /// The entry an attribute refers to.
    pub(crate) fn resolve<'a>(
        &'a self,
        from: UnitRef<'a, Bytes>,
        value: &Value,
    ) -> Option<Die<'a>> {
        match *value {
            Value::UnitRef(offset) => Some(Die { unit: from, offset }),
            Value::DebugInfoRefSup(target) => self.in_common(target),
            Value::DebugInfoRef(target) if self.is_common(from) => self.in_common(target),
            Value::DebugInfoRef(target) => {
                // Split units are alone in their file, as far as references go.
                if !std::ptr::eq(from.dwarf, Arc::as_ptr(&self.dwarf)) {
                    let offset = target.to_unit_offset(&from.unit.header)?;
                    return Some(Die { unit: from, offset });
                }
                let after = self.units.partition_point(|u| {
                    u.head
                        .header
                        .debug_info_offset()
                        .is_some_and(|o| o.0 <= target.0)
                });
                let unit = &self.units[after.checked_sub(1)?];
                let offset = target.to_unit_offset(&unit.head.header)?;
                let unit = unit.main();
                Some(Die { unit, offset })
            }
            Value::DebugTypesRef(signature) => {
                let (index, offset) = *self.type_units().get(&signature.0)?;
                let unit = self.units[index].main();
                Some(Die { unit, offset })
            }
            _ => None,
        }
    }

    fn is_common(&self, unit: UnitRef<'_, Bytes>) -> bool {
        self.dwarf
            .sup()
            .is_some_and(|s| std::ptr::eq(unit.dwarf, s))
    }

    /// An entry of the file that several programs have in common.
    fn in_common(&self, target: gimli::DebugInfoOffset) -> Option<Die<'_>> {
        let dwarf = self.dwarf.sup()?;
        let units = self.common.get_or_init(|| {
            let mut out = Vec::new();
            let mut headers = dwarf.units();
            while let Ok(Some(header)) = headers.next() {
                out.extend(dwarf.unit(header));
            }
            out
        });
        let begin = |u: &gimli::Unit<Bytes>| u.header.debug_info_offset();
        let after = units.partition_point(|u| begin(u).is_some_and(|o| o.0 <= target.0));
        let unit = &units[after.checked_sub(1)?];
        let offset = target.to_unit_offset(&unit.header)?;
        Some(Die {
            unit: unit.unit_ref(dwarf),
            offset,
        })
    }

    fn type_units(&self) -> &HashMap<u64, (usize, Offset)> {
        self.type_units.get_or_init(|| {
            self.units
                .iter()
                .enumerate()
                .filter_map(|(index, unit)| match unit.head.header.type_() {
                    gimli::UnitType::Type {
                        type_signature,
                        type_offset,
                    } => Some((type_signature.0, (index, type_offset))),
                    _ => None,
                })
                .collect()
        })
    }

    /// The entries directly below one.
    pub(crate) fn children(&self, die: Die<'_>) -> Vec<Entry> {
        let mut out = Vec::new();
        let Ok(mut entries) = die.unit.unit.entries_raw(Some(die.offset)) else {
            return out;
        };
        match entries.read_abbreviation() {
            Ok(Some(abbreviation)) if abbreviation.has_children() => {
                if entries.skip_attributes(abbreviation.attributes()).is_err() {
                    return out;
                }
            }
            _ => return out,
        }
        while !entries.is_empty() && entries.next_depth() > 0 && out.len() < MOST_CHILDREN {
            let direct = entries.next_depth() == 1;
            if direct {
                let mut entry = Entry::null();
                match entries.read_entry(&mut entry) {
                    Ok(true) => out.push(entry),
                    Ok(false) => {}
                    Err(_) => break,
                }
            } else {
                let skipped = entries.read_abbreviation().and_then(|abbreviation| {
                    abbreviation.map_or(Ok(()), |a| entries.skip_attributes(a.attributes()))
                });
                if skipped.is_err() {
                    break;
                }
            }
        }
        out
    }

    /// An attribute of an entry, or of the entry it is an instance of.
    pub(crate) fn inherited<'a>(
        &'a self,
        die: Die<'a>,
        name: gimli::DwAt,
    ) -> Option<(UnitRef<'a, Bytes>, Value)> {
        let mut die = die;
        for _ in 0..LONGEST_CHAIN {
            let entry = die.entry()?;
            if let Some(value) = entry.attr_value(name) {
                return Some((die.unit, value));
            }
            die = self.origin(die)?;
        }
        None
    }

    /// The entry that another is an instance or the definition of.
    pub(crate) fn origin<'a>(&'a self, die: Die<'a>) -> Option<Die<'a>> {
        let entry = die.entry()?;
        let origin = entry
            .attr_value(gimli::DW_AT_abstract_origin)
            .or_else(|| entry.attr_value(gimli::DW_AT_specification))?;
        self.resolve(die.unit, &origin)
    }

    pub(crate) fn string<'a>(&'a self, die: Die<'a>, name: gimli::DwAt) -> Option<String> {
        let (unit, value) = self.inherited(die, name)?;
        Some(text(&unit.attr_string(value).ok()?))
    }

    /// The linker's name of a function if it has one, else its name with the namespaces and
    /// classes around it.
    pub(crate) fn function_name<'a>(&'a self, die: Die<'a>) -> Option<String> {
        self.string(die, gimli::DW_AT_linkage_name)
            .or_else(|| self.string(die, gimli::DW_AT_MIPS_linkage_name))
            .or_else(|| self.qualified_name(die))
    }

    fn qualified_name<'a>(&'a self, die: Die<'a>) -> Option<String> {
        let name = self.string(die, gimli::DW_AT_name)?;
        let mut declaration = die;
        for _ in 0..LONGEST_CHAIN {
            match self.origin(declaration) {
                Some(next) => declaration = next,
                None => break,
            }
        }
        let mut out = String::new();
        for scope in enclosing(declaration).unwrap_or_default() {
            out.push_str(&scope);
            out.push_str("::");
        }
        out.push_str(&name);
        Some(out)
    }
}

/// The names of the namespaces and types an entry is declared in, outermost first. Entries do not
/// point to their parents, so the unit is read up to the entry; C has nothing to find.
fn enclosing(die: Die<'_>) -> Result<Vec<String>, gimli::Error> {
    let mut scopes: Vec<(isize, String)> = Vec::new();
    if crate::types::is_c(die) {
        return Ok(Vec::new());
    }
    let mut entries = die.unit.unit.entries_raw(None)?;
    let mut attributes = Vec::new();
    while !entries.is_empty() && entries.next_offset() < die.offset {
        let depth = entries.next_depth();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        let unnamed = match abbreviation.tag() {
            gimli::DW_TAG_namespace => "(anonymous namespace)",
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type => "{unnamed}",
            _ => {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
        };
        entries.read_attributes(abbreviation.attributes(), &mut attributes)?;
        let name = attributes
            .iter()
            .find(|a| a.name() == gimli::DW_AT_name)
            .and_then(|a| die.unit.attr_string(a.value()).ok())
            .map_or_else(|| unnamed.to_string(), |name| text(&name));
        scopes.retain(|(at, _)| *at < depth);
        if abbreviation.has_children() {
            scopes.push((depth, name));
        }
    }
    let depth = entries.next_depth();
    scopes.retain(|(at, _)| *at < depth);
    Ok(scopes.into_iter().map(|(_, name)| name).collect())
}

fn unit_ranges(unit: &Unit, program: &Elf, warnings: &Warnings) -> Vec<(u64, u64)> {
    let reference = unit.head.unit_ref(&unit.dwarf);
    let root = unit.head.entry(unit.head.header.root_offset());
    let Ok(root) = root else {
        return Vec::new();
    };
    let mut ranges = ranges_of(reference, &root.attrs);
    ranges.retain(|(begin, _)| program.is_code(*begin));
    let claims_none = !root.has_attr(gimli::DW_AT_ranges) && !root.has_attr(gimli::DW_AT_high_pc);
    if claims_none && root.tag() == gimli::DW_TAG_compile_unit {
        // A unit may leave its own ranges out; its functions still have theirs.
        ranges = unit
            .functions(program, warnings)
            .iter()
            .map(|f| (f.begin, f.end))
            .collect();
    }
    ranges
}
