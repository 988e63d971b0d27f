//! Which scopes an address is in: the function, inlined calls and blocks.
//!
//! Optimised code at one address may belong to several source functions at once. The entries of
//! a function form a tree of ranges; the path from its root to the innermost range that holds the
//! address is the list of frames a person expects to see, and of the blocks whose variables are
//! in scope.

use gimli::UnitRef;

use crate::elf::Bytes;
use crate::unit::{Offset, ranges_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    Function,
    Inlined,
    Block,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub(crate) kind: ScopeKind,
    pub(crate) die: Offset,
    /// Where an inlined function was called from.
    pub(crate) call_file: Option<u32>,
    pub(crate) call_line: u32,
    pub(crate) call_column: u32,
}

/// The inlined calls and blocks of a function. Those who ask for an address mostly ask for others of the same
/// function, and reading entries takes much longer than looking through what they say.
pub(crate) struct Scopes {
    function: Offset,
    /// Each is followed by those that are in it.
    list: Vec<Nested>,
}

struct Nested {
    scope: Scope,
    ranges: Vec<(u64, u64)>,
    /// Where those that are in it end.
    end: usize,
}

impl Scopes {
    pub(crate) fn of(unit: UnitRef<'_, Bytes>, function: Offset) -> Scopes {
        let mut list = Vec::new();
        // An error in the middle ends the walk; the scopes found so far still hold.
        let _ = read(unit, function, &mut list);
        Scopes { function, list }
    }

    /// The scopes around an address, the function first and the innermost last.
    pub(crate) fn around(&self, vaddr: u64) -> Vec<Scope> {
        let mut out = vec![Scope {
            kind: ScopeKind::Function,
            die: self.function,
            call_file: None,
            call_line: 0,
            call_column: 0,
        }];
        let (mut at, mut end) = (0, self.list.len());
        while at < end {
            let nested = &self.list[at];
            if nested.ranges.iter().any(|(b, e)| (*b..*e).contains(&vaddr)) {
                out.push(nested.scope);
                (at, end) = (at + 1, nested.end);
            } else {
                at = nested.end;
            }
        }
        out
    }
}

fn read(
    unit: UnitRef<'_, Bytes>,
    function: Offset,
    list: &mut Vec<Nested>,
) -> Result<(), gimli::Error> {
    let mut entries = unit.entries_raw(Some(function))?;
    let mut attributes = Vec::new();
    let Some(abbreviation) = entries.read_abbreviation()? else {
        return Ok(());
    };
    entries.skip_attributes(abbreviation.attributes())?;
    // Scopes that the next entry may be in, with their depths.
    let mut open: Vec<(isize, usize)> = Vec::new();
    while !entries.is_empty() && entries.next_depth() > 0 {
        let depth = entries.next_depth();
        let die = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        while open.pop_if(|(outer, _)| *outer >= depth).is_some() {}
        let kind = match abbreviation.tag() {
            gimli::DW_TAG_inlined_subroutine => Some(ScopeKind::Inlined),
            gimli::DW_TAG_lexical_block => Some(ScopeKind::Block),
            _ => None,
        };
        if let Some(kind) = kind {
            entries.read_attributes(abbreviation.attributes(), &mut attributes)?;
            open.push((depth, list.len()));
            list.push(Nested {
                scope: scope(kind, die, &attributes),
                ranges: ranges_of(unit, &attributes),
                end: 0,
            });
            for (_, n) in &open {
                list[*n].end = list.len();
            }
            continue;
        }
        entries.skip_attributes(abbreviation.attributes())?;
        while !entries.is_empty() && entries.next_depth() > depth {
            if let Some(abbreviation) = entries.read_abbreviation()? {
                entries.skip_attributes(abbreviation.attributes())?;
            }
        }
    }
    Ok(())
}

fn scope(kind: ScopeKind, die: Offset, attributes: &[gimli::Attribute<Bytes>]) -> Scope {
    let number = |name: gimli::DwAt| {
        let attribute = attributes.iter().find(|a| a.name() == name)?;
        let value = match attribute.value() {
            gimli::AttributeValue::FileIndex(index) => index,
            other => other.udata_value()?,
        };
        u32::try_from(value).ok()
    };
    Scope {
        kind,
        die,
        call_file: number(gimli::DW_AT_call_file),
        call_line: number(gimli::DW_AT_call_line).unwrap_or(0),
        call_column: number(gimli::DW_AT_call_column).unwrap_or(0),
    }
}
