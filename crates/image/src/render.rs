//! Values as text, in the notation of gdb.
//!
//! A report shows values to be read at a glance, so strings, arrays and nested structures are cut
//! short. Bytes the compiler optimised away are known to be unknown and show as such, even when
//! the rest of the structure survives.

use std::fmt::Write as _;

use crate::debug::{Debug, Die};
use crate::program::{Memory, Program};
use crate::separate::text;
use crate::types::{Shape, dimensions, shape_of, size_of, type_of};
use crate::unit::Entry;

const LONGEST_STRING: usize = 200;
const MOST_ELEMENTS: usize = 32;
const MOST_MEMBERS: usize = 64;
const DEEPEST: u32 = 5;
/// Runs of more equal elements than this are shown once, with a count.
const REPEATS: usize = 10;
/// The whole text of one value.
const LONGEST_VALUE: usize = 4096;

/// The bytes of a value. A byte is `None` if it was optimised away or cannot be read.
#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) bytes: Vec<Option<u8>>,
    /// Where the value is in memory, if it is.
    pub(crate) address: Option<u64>,
}

impl Object {
    pub(crate) fn part(&self, offset: u64, size: u64) -> Option<Object> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        Some(Object {
            bytes: self.bytes.get(start..end)?.to_vec(),
            address: self.address.map(|a| a.wrapping_add(offset)),
        })
    }

    /// The first `size` bytes as a little-endian number.
    pub(crate) fn number(&self, size: u64) -> Option<u128> {
        let size = usize::try_from(size)
            .ok()
            .filter(|s| (1..=16).contains(s))?;
        let mut out = 0u128;
        for byte in self.bytes.get(..size)?.iter().rev() {
            out = out << 8 | u128::from((*byte)?);
        }
        Some(out)
    }
}

pub(crate) struct Renderer<'a> {
    pub(crate) program: &'a Program,
    pub(crate) debug: &'a Debug,
    pub(crate) memory: &'a dyn Memory,
}

impl<'a> Renderer<'a> {
    pub(crate) fn value(&self, of: Option<Die<'a>>, object: &Object) -> String {
        let mut out = String::new();
        self.write(&mut out, of, object, 0);
        if out.len() > LONGEST_VALUE {
            let cut = (0..=LONGEST_VALUE)
                .rev()
                .find(|at| out.is_char_boundary(*at));
            out.truncate(cut.unwrap_or(0));
            out.push_str("...");
        }
        out
    }

    /// Reads up to a bounded number of bytes of an object in memory.
    pub(crate) fn read(&self, address: u64, size: u64) -> Object {
        let size = size.min(64 * 1024) as usize;
        let mut bytes = vec![0u8; size];
        let bytes = if self.memory.read(address, &mut bytes) {
            bytes.into_iter().map(Some).collect()
        } else {
            // The object may end in a page that is not there.
            (0..size as u64)
                .map(|at| {
                    let mut byte = [0u8];
                    let at = address.checked_add(at)?;
                    self.memory.read(at, &mut byte).then_some(byte[0])
                })
                .collect()
        };
        Object {
            bytes,
            address: Some(address),
        }
    }

    fn write(&self, out: &mut String, of: Option<Die<'a>>, object: &Object, depth: u32) {
        if out.len() > LONGEST_VALUE {
            return;
        }
        let shape = shape_of(self.debug, of);
        let number = |size| object.number(size);
        let text = match shape {
            Shape::Signed(size) => number(size).map(|n| signed(n, size).to_string()),
            Shape::Unsigned(size) => number(size).map(|n| n.to_string()),
            Shape::Boolean(size) => number(size).map(|n| match n {
                0 => "false".into(),
                1 => "true".into(),
                n => n.to_string(),
            }),
            Shape::Character { size, signed } => number(size).map(|n| character(n, size, signed)),
            Shape::Float(size) => number(size).map(|n| float(n, size)),
            Shape::Enumeration { size, die } => number(size).map(|n| self.enumerator(die, n, size)),
            Shape::Pointer(to) => number(8).map(|n| self.pointer(n as u64, to)),
            Shape::Reference(to) => number(8).map(|n| {
                let mut out = format!("@{:#x}: ", n as u64);
                let size = size_of(self.debug, to).unwrap_or(0);
                if depth >= DEEPEST {
                    out.push_str("...");
                } else {
                    let target = self.read(n as u64, size);
                    self.write(&mut out, to, &target, depth + 1);
                }
                out
            }),
            Shape::Structure { die, .. } => {
                self.structure(out, die, object, depth);
                return;
            }
            Shape::Array { element, die } => {
                let lengths = dimensions(self.debug, die);
                self.array(out, element, &lengths, object, depth);
                return;
            }
            Shape::Void => Some("void".into()),
            Shape::Function => Some("{function}".into()),
            Shape::Unknown(_) => None,
        };
        match text {
            Some(text) => out.push_str(&text),
            None if matches!(shape, Shape::Unknown(_)) => out.push_str("<unknown type>"),
            None => out.push_str(missing(object)),
        }
    }

    pub(crate) fn pointer(&self, value: u64, to: Option<Die<'a>>) -> String {
        let mut out = format!("{value:#x}");
        if value == 0 {
            return out;
        }
        let symbol = self
            .program
            .symbol(value)
            .or_else(|| self.program.data_symbol(value));
        if let Some(symbol) = symbol {
            let _ = match symbol.offset {
                0 => write!(out, " <{}>", symbol.name),
                offset => write!(out, " <{}+{offset}>", symbol.name),
            };
        }
        if let Shape::Character { size: 1, .. } = shape_of(self.debug, to) {
            match self.string_at(value) {
                Some(string) => {
                    let _ = write!(out, " {string}");
                }
                None => {
                    let _ = write!(out, " <error: Cannot access memory at address {value:#x}>");
                }
            }
        }
        out
    }

    fn string_at(&self, address: u64) -> Option<String> {
        let mut bytes = Vec::new();
        let mut ended = false;
        while bytes.len() < LONGEST_STRING {
            let mut byte = [0u8];
            let at = address.checked_add(bytes.len() as u64)?;
            if !self.memory.read(at, &mut byte) {
                if bytes.is_empty() {
                    return None;
                }
                break;
            }
            if byte[0] == 0 {
                ended = true;
                break;
            }
            bytes.push(byte[0]);
        }
        Some(quoted(&bytes, !ended))
    }

    fn enumerator(&self, die: Die<'a>, value: u128, size: u64) -> String {
        let mut flags = Vec::new();
        let mut rest = value;
        for child in self.debug.children(die) {
            if child.tag() != gimli::DW_TAG_enumerator {
                continue;
            }
            let Some(attribute) = child.attr(gimli::DW_AT_const_value) else {
                continue;
            };
            let mask = u128::MAX >> (128 - (size.clamp(1, 16) * 8));
            let number = attribute
                .udata_value()
                .map(u128::from)
                .or_else(|| attribute.sdata_value().map(|n| n as u128));
            let Some(number) = number.map(|n| n & mask) else {
                continue;
            };
            let name = self.name(die, &child).unwrap_or_default();
            if number == value {
                return name;
            }
            if number.is_power_of_two() && rest & number != 0 {
                rest &= !number;
                flags.push(name);
            }
        }
        match rest == 0 && !flags.is_empty() {
            true => format!("({})", flags.join(" | ")),
            false => signed(value, size).to_string(),
        }
    }

    fn name(&self, die: Die<'a>, child: &Entry) -> Option<String> {
        let value = child.attr_value(gimli::DW_AT_name)?;
        Some(text(&die.unit.attr_string(value).ok()?))
    }

    fn structure(&self, out: &mut String, die: Die<'a>, object: &Object, depth: u32) {
        if depth >= DEEPEST {
            out.push_str("{...}");
            return;
        }
        if !object.bytes.is_empty() && object.bytes.iter().all(Option::is_none) {
            out.push_str(missing(object));
            return;
        }
        if self.string_slice(out, die, object) {
            return;
        }
        out.push('{');
        let mut first = true;
        for child in self.debug.children(die).into_iter().take(MOST_MEMBERS) {
            let is_base = child.tag() == gimli::DW_TAG_inheritance;
            let is_static = child.has_attr(gimli::DW_AT_external);
            if !is_base && child.tag() != gimli::DW_TAG_member || is_static {
                continue;
            }
            if out.len() > LONGEST_VALUE {
                break;
            }
            if !first {
                out.push_str(", ");
            }
            first = false;
            let member = Die {
                unit: die.unit,
                offset: child.offset(),
            };
            let of = type_of(self.debug, member);
            match (is_base, self.name(die, &child)) {
                (true, _) => {
                    let base = crate::types::name_of(self.debug, of);
                    let _ = write!(out, "<{base}> = ");
                }
                (false, Some(name)) => {
                    let _ = write!(out, "{name} = ");
                }
                (false, None) => {}
            }
            match self.member(&child, of, object) {
                Some(part) => self.write(out, of, &part, depth + 1),
                None => out.push_str("<unknown>"),
            }
        }
        out.push('}');
    }

    /// The bytes of a member. A bit field is moved into place first.
    pub(crate) fn member(
        &self,
        member: &Entry,
        of: Option<Die<'a>>,
        object: &Object,
    ) -> Option<Object> {
        let size = size_of(self.debug, of)?;
        let (start, bits) = place_of_member(self.debug, member, of)?;
        let Some(bits) = bits else {
            return object.part(start / 8, size);
        };
        let part = object.part(start / 8, (start % 8 + bits).div_ceil(8))?;
        let value = part.number(part.bytes.len() as u64)? >> (start % 8);
        let mut value = value & (u128::MAX >> (128 - bits));
        if let Shape::Signed(_) = shape_of(self.debug, of) {
            value = (value << (128 - bits)) as i128 as u128;
            value = ((value as i128) >> (128 - bits)) as u128;
        }
        let bytes = value.to_le_bytes();
        Some(Object {
            bytes: bytes
                .get(..size as usize)?
                .iter()
                .copied()
                .map(Some)
                .collect(),
            address: None,
        })
    }

    /// Rust's `&str` is a structure of pointer and length, and means the text.
    fn string_slice(&self, out: &mut String, die: Die<'a>, object: &Object) -> bool {
        let is_str = self.debug.string(die, gimli::DW_AT_name).as_deref() == Some("&str");
        let (Some(pointer), Some(length)) = (
            object.part(0, 8).and_then(|p| p.number(8)),
            object.part(8, 8).and_then(|p| p.number(8)),
        ) else {
            return false;
        };
        if !is_str {
            return false;
        }
        let shown = (length as usize).min(LONGEST_STRING);
        let mut bytes = vec![0; shown];
        if !self.memory.read(pointer as u64, &mut bytes) {
            return false;
        }
        let dots = if shown < length as usize { "..." } else { "" };
        let _ = write!(out, "\"{}\"{dots}", escape(&bytes, b'"'));
        true
    }

    /// The elements of an array, or of what is left of one.
    pub(crate) fn array_text(
        &self,
        element: Die<'a>,
        lengths: &[Option<u64>],
        object: &Object,
    ) -> String {
        let mut out = String::new();
        self.array(&mut out, element, lengths, object, 0);
        out
    }

    fn array(
        &self,
        out: &mut String,
        element: Die<'a>,
        lengths: &[Option<u64>],
        object: &Object,
        depth: u32,
    ) {
        let Some((length, inner)) = lengths.split_first() else {
            self.write(out, Some(element), object, depth);
            return;
        };
        let size = inner
            .iter()
            .try_fold(size_of(self.debug, Some(element)).unwrap_or(0), |s, l| {
                s.checked_mul((*l)?)
            });
        let (Some(size), Some(length)) = (size.filter(|s| *s > 0), *length) else {
            out.push_str("{...}");
            return;
        };
        if depth >= DEEPEST {
            out.push_str("{...}");
            return;
        }
        let is_text = matches!(
            shape_of(self.debug, Some(element)),
            Shape::Character { size: 1, .. }
        );
        if inner.is_empty() && is_text {
            let known: Option<Vec<u8>> = object.bytes.iter().copied().collect();
            if let Some(bytes) = known {
                // The zero that ends a string that fills its array is not shown.
                let end = match bytes.split_last() {
                    Some((0, front)) if bytes.len() <= LONGEST_STRING => front.len(),
                    _ => bytes.len(),
                };
                out.push_str(&quoted(&bytes[..end], false));
                return;
            }
        }
        out.push('{');
        let mut shown = 0;
        let mut at = 0;
        while at < length {
            if shown >= MOST_ELEMENTS || out.len() > LONGEST_VALUE {
                out.push_str("...");
                break;
            }
            let Some(part) = at.checked_mul(size).and_then(|o| object.part(o, size)) else {
                out.push_str("...");
                break;
            };
            if shown > 0 {
                out.push_str(", ");
            }
            let mut run = 1;
            while at + run < length
                && let Some(offset) = (at + run).checked_mul(size)
                && object
                    .part(offset, size)
                    .is_some_and(|next| next.bytes == part.bytes)
            {
                run += 1;
            }
            self.array(out, element, inner, &part, depth + 1);
            if run as usize > REPEATS {
                let _ = write!(out, " <repeats {run} times>");
                at += run;
            } else {
                at += 1;
            }
            shown += 1;
        }
        out.push('}');
    }
}

/// The first bit of a member in its structure and, of a bit field, how many there are. Virtual
/// bases are found by an expression over the object; they have no place here.
pub(crate) fn place_of_member(
    debug: &Debug,
    member: &Entry,
    of: Option<Die<'_>>,
) -> Option<(u64, Option<u64>)> {
    let attribute = |name| member.attr(name).and_then(|a| a.udata_value());
    let offset = match member.attr(gimli::DW_AT_data_member_location) {
        Some(location) => location.udata_value()?,
        None => 0,
    };
    let offset = offset.checked_mul(8)?;
    let Some(bits) = attribute(gimli::DW_AT_bit_size).filter(|b| (1..=64).contains(b)) else {
        return Some((offset, None));
    };
    if let Some(start) = attribute(gimli::DW_AT_data_bit_offset) {
        return Some((start, Some(bits)));
    }
    // The older form counts from the most significant bit of the storage unit.
    let storage = attribute(gimli::DW_AT_byte_size).or_else(|| size_of(debug, of))?;
    let from_top = attribute(gimli::DW_AT_bit_offset).unwrap_or(0);
    let start = offset
        .checked_add(storage.checked_mul(8)?)?
        .checked_sub(from_top.checked_add(bits)?)?;
    Some((start, Some(bits)))
}

/// A number as it is printed.
pub(crate) fn integer(value: u128, size: u64, is_signed: bool) -> String {
    match is_signed {
        true => signed(value, size).to_string(),
        false => value.to_string(),
    }
}

/// What to say for bytes that are not known.
fn missing(object: &Object) -> &'static str {
    match object.address {
        Some(_) => "<cannot read memory>",
        None => "<optimized out>",
    }
}

/// Text in quotes; a long run of one character is counted instead, and takes the room of a short
/// one.
fn quoted(bytes: &[u8], cut: bool) -> String {
    let mut parts: Vec<String> = Vec::new();
    let text = |from: usize, to: usize| format!("\"{}\"", escape(&bytes[from..to], b'"'));
    let (mut plain, mut at, mut room) = (0, 0, LONGEST_STRING);
    while at < bytes.len() && room > 0 {
        let run = bytes[at..].iter().take_while(|b| **b == bytes[at]).count();
        if run > REPEATS {
            if plain < at {
                parts.push(text(plain, at));
            }
            let shown = escape(&[bytes[at]], b'\'');
            parts.push(format!("'{shown}' <repeats {run} times>"));
            plain = at + run;
            at = plain;
            room = room.saturating_sub(REPEATS);
        } else {
            let run = run.min(room);
            at += run;
            room -= run;
        }
    }
    if plain < at || parts.is_empty() {
        parts.push(text(plain, at));
    }
    let dots = if cut || at < bytes.len() { "..." } else { "" };
    format!("{}{dots}", parts.join(", "))
}

fn signed(value: u128, size: u64) -> i128 {
    let unused = 128 - (size.clamp(1, 16) * 8) as u32;
    ((value << unused) as i128) >> unused
}

pub(crate) fn float(bits: u128, size: u64) -> String {
    match size {
        4 => shortened(f64::from(f32::from_bits(bits as u32)), 9),
        8 => shortened(f64::from_bits(bits as u64), 17),
        _ => extended(bits),
    }
}

/// A number to so many digits, as `%g` has it.
fn shortened(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{value:.decimals$}"))
}

/// An 80-bit x87 number, rounded to what a `f64` can show.
fn extended(bits: u128) -> String {
    shortened(extended_value(bits), 18)
}

pub(crate) fn extended_value(bits: u128) -> f64 {
    let mantissa = bits as u64;
    let exponent = i32::from((bits >> 64) as u16 & 0x7fff);
    let sign = if (bits >> 79) & 1 != 0 { -1.0 } else { 1.0 };
    if exponent == 0x7fff {
        let infinite = mantissa << 1 == 0;
        return if infinite {
            sign * f64::INFINITY
        } else {
            f64::NAN
        };
    }
    sign * (mantissa as f64) * 2f64.powi((exponent - 16383 - 63).clamp(-1100, 1023))
}

fn character(value: u128, size: u64, is_signed: bool) -> String {
    let number = match is_signed {
        true => signed(value, size).to_string(),
        false => value.to_string(),
    };
    match (size, u32::try_from(value).ok().and_then(char::from_u32)) {
        (1, _) => format!("{number} '{}'", escape(&[value as u8], b'\'')),
        (2, Some(c)) => format!("{number} u'{c}'"),
        (_, Some(c)) => format!("{number} U'{c}'"),
        _ => number,
    }
}

/// Bytes as they would be written in C source. Text in UTF-8 is left alone.
fn escape(bytes: &[u8], quote: u8) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\x07' => out.push_str("\\a"),
                '\x08' => out.push_str("\\b"),
                '\x0b' => out.push_str("\\v"),
                '\x0c' => out.push_str("\\f"),
                '\x1b' => out.push_str("\\033"),
                '\\' => out.push_str("\\\\"),
                c if c == char::from(quote) => {
                    out.push('\\');
                    out.push(c);
                }
                c if c.is_control() => {
                    let mut encoded = [0; 4];
                    for byte in c.encode_utf8(&mut encoded).bytes() {
                        let _ = write!(out, "\\{byte:03o}");
                    }
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\{byte:03o}");
        }
    }
    out
}
