//! Types and values while an expression is evaluated.

use std::rc::Rc;

use crate::debug::{Debug, Die};
use crate::module::Module;
use crate::render::Object;
use crate::types::{self, Shape, dimensions, shape_of, size_of};

use super::ValuePlace;

/// Where types come from.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) module: &'a Module,
    pub(super) debug: &'a Debug,
}

#[derive(Clone)]
pub(super) enum Type<'a> {
    /// As the debug information has it; `None` is void.
    Known(Origin<'a>, Option<Die<'a>>),
    Integer {
        size: u64,
        signed: bool,
    },
    Float(u64),
    /// Made by `&` or a cast.
    Pointer(Rc<Type<'a>>),
    /// What is left of an array of arrays.
    Array(Origin<'a>, Die<'a>, Vec<Option<u64>>),
}

/// What a type can do.
pub(super) enum Class<'a> {
    Integer { size: u64, signed: bool },
    Float(u64),
    Pointer(Type<'a>),
    Reference(Type<'a>),
    Array(Origin<'a>, Die<'a>, Vec<Option<u64>>),
    Structure(Origin<'a>, Die<'a>),
    Function,
    Void,
    Unknown,
}

impl<'a> Type<'a> {
    pub(super) fn class(&self) -> Class<'a> {
        match self {
            Type::Known(origin, die) => match shape_of(origin.debug, *die) {
                Shape::Void => Class::Void,
                Shape::Signed(size) => Class::Integer { size, signed: true },
                Shape::Character { size, signed } => Class::Integer { size, signed },
                Shape::Unsigned(size) | Shape::Boolean(size) => Class::Integer {
                    size,
                    signed: false,
                },
                Shape::Enumeration { size, .. } => Class::Integer {
                    size,
                    signed: size < 8,
                },
                Shape::Float(size) => Class::Float(size),
                Shape::Pointer(to) => Class::Pointer(Type::Known(*origin, to)),
                Shape::Reference(to) => Class::Reference(Type::Known(*origin, to)),
                Shape::Structure { die, .. } => Class::Structure(*origin, die),
                Shape::Array { element, die } => {
                    Class::Array(*origin, element, dimensions(origin.debug, die))
                }
                Shape::Function => Class::Function,
                Shape::Unknown(_) => Class::Unknown,
            },
            Type::Integer { size, signed } => Class::Integer {
                size: *size,
                signed: *signed,
            },
            Type::Float(size) => Class::Float(*size),
            Type::Pointer(to) => Class::Pointer((**to).clone()),
            Type::Array(origin, element, lengths) => {
                Class::Array(*origin, *element, lengths.clone())
            }
        }
    }

    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Type::Known(origin, die) => size_of(origin.debug, *die),
            Type::Integer { size, .. } | Type::Float(size) => Some(*size),
            Type::Pointer(_) => Some(8),
            Type::Array(origin, element, lengths) => {
                let mut size = size_of(origin.debug, Some(*element))?;
                for length in lengths {
                    size = size.checked_mul((*length)?)?;
                }
                Some(size)
            }
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Type::Known(origin, die) => types::name_of(origin.debug, *die),
            Type::Integer { size, signed } => {
                let name = match size {
                    1 => "char",
                    2 => "short",
                    4 => "int",
                    8 => "long",
                    _ => "__int128",
                };
                match (signed, *size) {
                    (false, 4) => "unsigned int".to_owned(),
                    (false, _) => format!("unsigned {name}"),
                    (true, _) => name.to_owned(),
                }
            }
            Type::Float(4) => "float".to_owned(),
            Type::Float(8) => "double".to_owned(),
            Type::Float(_) => "long double".to_owned(),
            Type::Pointer(to) => {
                let name = to.name();
                // `int [3]` and `int (int)` go around the star.
                match name.find(['[', '(']) {
                    Some(at) if name[at..].starts_with("(*") => {
                        format!("{}(*{}", &name[..at], &name[at + 1..])
                    }
                    Some(at) => format!("{}(*){}", &name[..at], &name[at..]),
                    None if name.ends_with('*') => format!("{name}*"),
                    None => format!("{name} *"),
                }
            }
            Type::Array(origin, element, lengths) => {
                let mut name = types::name_of(origin.debug, Some(*element));
                name.push(' ');
                for length in lengths {
                    let length = length.map(|l| l.to_string()).unwrap_or_default();
                    name.push_str(&format!("[{length}]"));
                }
                name
            }
        }
    }
}

#[derive(Clone)]
pub(super) struct Val<'a> {
    pub(super) of: Type<'a>,
    pub(super) object: Object,
    pub(super) places: Vec<ValuePlace>,
    pub(super) bits: Option<(u64, u64)>,
}

impl<'a> Val<'a> {
    /// Something computed, which is nowhere.
    pub(super) fn computed(of: Type<'a>, bytes: &[u8]) -> Val<'a> {
        Val {
            of,
            object: Object {
                bytes: bytes.iter().copied().map(Some).collect(),
                address: None,
            },
            places: Vec::new(),
            bits: None,
        }
    }

    pub(super) fn integer(value: i128, size: u64, signed: bool) -> Val<'a> {
        let bytes = value.to_le_bytes();
        Val::computed(
            Type::Integer { size, signed },
            &bytes[..size.min(16) as usize],
        )
    }

    /// The bytes `offset..offset + size` with another type.
    pub(super) fn part(&self, of: Type<'a>, offset: u64, size: u64) -> Option<Val<'a>> {
        let object = self.object.part(offset, size)?;
        Some(Val {
            of,
            object,
            places: cut(&self.places, offset, size),
            bits: None,
        })
    }
}

/// Some bytes out of a row of places.
fn cut(places: &[ValuePlace], offset: u64, size: u64) -> Vec<ValuePlace> {
    let mut out = Vec::new();
    let mut start = 0;
    for place in places {
        let len = match place {
            ValuePlace::Memory { len, .. } | ValuePlace::Nowhere { len } => *len,
            ValuePlace::Register(range) => u64::from(range.len),
        };
        let from = offset.max(start);
        let to = offset.saturating_add(size).min(start.saturating_add(len));
        if from < to {
            let (skip, len) = (from - start, to - from);
            out.push(match place {
                ValuePlace::Memory { address, .. } => ValuePlace::Memory {
                    address: address.wrapping_add(skip),
                    len,
                },
                ValuePlace::Nowhere { .. } => ValuePlace::Nowhere { len },
                ValuePlace::Register(r) => ValuePlace::Register(r.part(skip as u16, len as u16)),
            });
        }
        start = start.saturating_add(len);
    }
    out
}
