//! Types as the debug information tells them.
//!
//! A type is an entry that refers to further entries, possibly to itself and, in a damaged file,
//! in a circle. It is looked at one level at a time: [`shape_of`] strips what does not change the
//! representation (typedefs, qualifiers) and names what is left; whoever prints bounds the depth.

use crate::debug::{Debug, Die};
use crate::separate::text;
use crate::unit::Entry;

/// Qualifiers and typedefs looked through before a chain is called a loop.
const LONGEST_CHAIN: usize = 32;

/// How a value is represented.
#[derive(Clone, Copy)]
pub(crate) enum Shape<'a> {
    Void,
    Signed(u64),
    Unsigned(u64),
    /// A character of this many bytes; signed or not only matters for its number.
    Character {
        size: u64,
        signed: bool,
    },
    Boolean(u64),
    Float(u64),
    Pointer(Option<Die<'a>>),
    Reference(Option<Die<'a>>),
    Enumeration {
        size: u64,
        die: Die<'a>,
    },
    /// A structure, class or union.
    Structure {
        size: u64,
        die: Die<'a>,
    },
    Array {
        element: Die<'a>,
        die: Die<'a>,
    },
    Function,
    Unknown(Option<u64>),
}

/// The type an entry has, through the entry it is an instance of if need be.
pub(crate) fn type_of<'a>(debug: &'a Debug, die: Die<'a>) -> Option<Die<'a>> {
    let (unit, value) = debug.inherited(die, gimli::DW_AT_type)?;
    debug.resolve(unit, &value)
}

fn own_type<'a>(debug: &'a Debug, die: Die<'a>, entry: &Entry) -> Option<Die<'a>> {
    let value = entry.attr_value(gimli::DW_AT_type)?;
    debug.resolve(die.unit, &value)
}

fn number(entry: &Entry, name: gimli::DwAt) -> Option<u64> {
    entry.attr(name)?.udata_value()
}

/// The representation of a type; `None` is `void`.
pub(crate) fn shape_of<'a>(debug: &'a Debug, mut die: Option<Die<'a>>) -> Shape<'a> {
    for _ in 0..LONGEST_CHAIN {
        let Some(here) = die else {
            return Shape::Void;
        };
        let Some(entry) = here.entry() else {
            return Shape::Unknown(None);
        };
        let size = number(&entry, gimli::DW_AT_byte_size);
        return match entry.tag() {
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => {
                die = own_type(debug, here, &entry);
                continue;
            }
            gimli::DW_TAG_base_type => base(&entry, size.unwrap_or(0)),
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_ptr_to_member_type => {
                Shape::Pointer(own_type(debug, here, &entry))
            }
            gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                Shape::Reference(own_type(debug, here, &entry))
            }
            gimli::DW_TAG_enumeration_type => Shape::Enumeration {
                size: size.unwrap_or(4),
                die: here,
            },
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                match size {
                    Some(size) => Shape::Structure { size, die: here },
                    // A declaration whose definition is in another unit.
                    None => match entry.attr_value(gimli::DW_AT_signature) {
                        Some(signature) => {
                            die = debug.resolve(here.unit, &signature);
                            continue;
                        }
                        None => Shape::Unknown(None),
                    },
                }
            }
            gimli::DW_TAG_array_type => match own_type(debug, here, &entry) {
                Some(element) => Shape::Array { element, die: here },
                None => Shape::Unknown(size),
            },
            gimli::DW_TAG_subroutine_type => Shape::Function,
            gimli::DW_TAG_unspecified_type => Shape::Unknown(Some(size.unwrap_or(8))),
            _ => Shape::Unknown(size),
        };
    }
    Shape::Unknown(None)
}

fn base<'a>(entry: &Entry, size: u64) -> Shape<'a> {
    let encoding = match entry.attr_value(gimli::DW_AT_encoding) {
        Some(gimli::AttributeValue::Encoding(encoding)) => encoding,
        _ => return Shape::Unknown(Some(size)),
    };
    match encoding {
        gimli::DW_ATE_boolean => Shape::Boolean(size),
        gimli::DW_ATE_signed => Shape::Signed(size),
        gimli::DW_ATE_unsigned | gimli::DW_ATE_address => Shape::Unsigned(size),
        gimli::DW_ATE_signed_char => Shape::Character { size, signed: true },
        gimli::DW_ATE_unsigned_char | gimli::DW_ATE_UTF => Shape::Character {
            size,
            signed: false,
        },
        gimli::DW_ATE_float => Shape::Float(size),
        _ => Shape::Unknown(Some(size)),
    }
}

/// The lengths of an array, outermost first; a length the compiler left out is `None`.
pub(crate) fn dimensions(debug: &Debug, array: Die<'_>) -> Vec<Option<u64>> {
    let mut out = Vec::new();
    for child in debug.children(array) {
        if child.tag() != gimli::DW_TAG_subrange_type {
            continue;
        }
        let count = number(&child, gimli::DW_AT_count);
        let upper = number(&child, gimli::DW_AT_upper_bound);
        out.push(count.or_else(|| upper?.checked_add(1)));
    }
    out
}

/// The size of a value in bytes.
pub(crate) fn size_of(debug: &Debug, die: Option<Die<'_>>) -> Option<u64> {
    size_within(debug, die, 16)
}

fn size_within(debug: &Debug, die: Option<Die<'_>>, depth: u32) -> Option<u64> {
    match shape_of(debug, die) {
        Shape::Signed(size)
        | Shape::Unsigned(size)
        | Shape::Boolean(size)
        | Shape::Float(size)
        | Shape::Character { size, .. }
        | Shape::Enumeration { size, .. }
        | Shape::Structure { size, .. } => Some(size),
        Shape::Pointer(_) | Shape::Reference(_) => Some(8),
        Shape::Array { element, die } => {
            let mut size = size_within(debug, Some(element), depth.checked_sub(1)?)?;
            for count in dimensions(debug, die) {
                size = size.checked_mul(count?)?;
            }
            Some(size)
        }
        Shape::Unknown(size) => size,
        Shape::Void | Shape::Function => None,
    }
}

/// The type as it would be written, without the name it declares.
pub(crate) fn name_of<'a>(debug: &'a Debug, die: Option<Die<'a>>) -> String {
    let (before, after) = declarator(debug, die, 12);
    format!("{before}{after}").trim_end().to_string()
}

/// A C declaration goes around its name, so a type has a part before and a part behind it.
fn declarator<'a>(debug: &'a Debug, die: Option<Die<'a>>, depth: u32) -> (String, String) {
    let Some(die) = die else {
        return ("void".into(), String::new());
    };
    let (Some(entry), Some(depth)) = (die.entry(), depth.checked_sub(1)) else {
        return ("...".into(), String::new());
    };
    let inner = own_type(debug, die, &entry);
    let name = entry
        .attr_value(gimli::DW_AT_name)
        .and_then(|value| die.unit.attr_string(value).ok())
        .map(|name| text(&name));
    let prefixed = |keyword: &str| {
        let name = name.clone().unwrap_or_else(|| "{...}".into());
        let name = match is_c(die) {
            true => format!("{keyword} {name}"),
            false => name,
        };
        (name, String::new())
    };
    match entry.tag() {
        gimli::DW_TAG_pointer_type if name.is_none() => around(debug, inner, "*", depth),
        gimli::DW_TAG_reference_type => around(debug, inner, "&", depth),
        gimli::DW_TAG_rvalue_reference_type => around(debug, inner, "&&", depth),
        gimli::DW_TAG_const_type => qualified(debug, inner, "const", depth),
        gimli::DW_TAG_volatile_type => qualified(debug, inner, "volatile", depth),
        gimli::DW_TAG_restrict_type => qualified(debug, inner, "restrict", depth),
        gimli::DW_TAG_structure_type => prefixed("struct"),
        gimli::DW_TAG_union_type => prefixed("union"),
        gimli::DW_TAG_enumeration_type => prefixed("enum"),
        gimli::DW_TAG_array_type => {
            let (before, after) = declarator(debug, inner, depth);
            let mut lengths = String::new();
            for count in dimensions(debug, die) {
                let count = count.map(|c| c.to_string()).unwrap_or_default();
                lengths.push_str(&format!("[{count}]"));
            }
            let before = before.trim_end();
            let space = if before.ends_with("* const") { "" } else { " " };
            (format!("{before}{space}"), format!("{lengths}{after}"))
        }
        gimli::DW_TAG_subroutine_type => {
            let (before, after) = declarator(debug, inner, depth);
            let parameters: Vec<String> = debug
                .children(die)
                .iter()
                .filter_map(|child| match child.tag() {
                    gimli::DW_TAG_formal_parameter => {
                        let of = own_type(debug, die, child);
                        let (before, after) = declarator(debug, of, depth);
                        Some(format!("{before}{after}").trim_end().to_string())
                    }
                    gimli::DW_TAG_unspecified_parameters => Some("...".into()),
                    _ => None,
                })
                .collect();
            let parameters = match parameters.is_empty() {
                true => "void".into(),
                false => parameters.join(", "),
            };
            (format!("{before} "), format!("({parameters}){after}"))
        }
        _ => (name.unwrap_or_else(|| "?".into()), String::new()),
    }
}

fn around<'a>(
    debug: &'a Debug,
    inner: Option<Die<'a>>,
    mark: &str,
    depth: u32,
) -> (String, String) {
    let (before, after) = declarator(debug, inner, depth);
    if after.starts_with(['(', '[']) {
        return (format!("{before}({mark}"), format!("){after}"));
    }
    let space = if before.ends_with(['*', '&', ' ']) {
        ""
    } else {
        " "
    };
    (format!("{before}{space}{mark}"), after)
}

fn qualified<'a>(
    debug: &'a Debug,
    inner: Option<Die<'a>>,
    word: &str,
    depth: u32,
) -> (String, String) {
    let (before, after) = declarator(debug, inner, depth);
    // The elements of an array carry the qualifier of the array.
    if after.starts_with('[') {
        return (before, after);
    }
    // A qualifier of a pointer stands behind it.
    match before.ends_with('*') {
        true => (format!("{before} {word} "), after),
        false => (format!("{word} {before}"), after),
    }
}

/// Whether the entry is from a unit in C, which spells `struct` before the name.
pub(crate) fn is_c(die: Die<'_>) -> bool {
    let root = die.unit.unit.entry(die.unit.unit.header.root_offset());
    let language = root.ok().and_then(|r| r.attr_value(gimli::DW_AT_language));
    matches!(
        language,
        Some(gimli::AttributeValue::Language(
            gimli::DW_LANG_C | gimli::DW_LANG_C89 | gimli::DW_LANG_C99 | gimli::DW_LANG_C11
        ))
    )
}
