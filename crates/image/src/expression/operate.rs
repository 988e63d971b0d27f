//! What operators do to values.

use std::rc::Rc;

use super::ExpressionError;
use super::lookup::{Scene, distance, fail};
use super::parse::{Kind, Node, TypeName};
use super::value::{Class, Type, Val};

type Result<T> = std::result::Result<T, ExpressionError>;

/// A number, as arithmetic sees it.
enum Number {
    Integer {
        value: i128,
        size: u64,
        signed: bool,
    },
    Float {
        value: f64,
        size: u64,
    },
}

impl<'a> Scene<'a> {
    pub(super) fn evaluate(&self, node: &Node) -> Result<Val<'a>> {
        let at = node.at;
        match &node.kind {
            Kind::Name(path) => self.name(at, path),
            Kind::InFile(file, name) => self.in_file(at, file, name),
            Kind::Register(name) => self.register(at, name),
            Kind::Integer {
                value,
                unsigned,
                long,
            } => {
                let fits = *value <= i32::MAX as u128 || (*unsigned && *value <= u32::MAX as u128);
                let size = if fits && !long { 4 } else { 8 };
                let signed = !unsigned && *value <= i64::MAX as u128;
                Ok(Val::integer(*value as i128, size, signed))
            }
            Kind::Float(value) => Ok(Val::computed(Type::Float(8), &value.to_le_bytes())),
            Kind::Character(value) => Ok(Val::computed(self.character(at), &[*value])),
            Kind::Unary(operator, operand) => self.unary(at, operator, operand),
            Kind::Binary(operator, left, right) => self.binary(at, operator, left, right),
            Kind::Choice(condition, yes, no) => {
                let chosen = self.truth(condition)?;
                self.evaluate(if chosen { yes } else { no })
            }
            Kind::Index(array, index) => {
                let (array, index) = (self.evaluate(array)?, self.evaluate(index)?);
                let (array, index) = match array.of.class() {
                    // `2[a]` is C too.
                    Class::Integer { .. } => (index, array),
                    _ => (array, index),
                };
                let index = self.integer(at, &index)?;
                match array.of.class() {
                    Class::Array(..) => self.element(at, &array, index),
                    Class::Pointer(_) => {
                        let pointer = self.moved(at, &array, index)?;
                        self.dereference(at, &pointer)
                    }
                    _ => fail(
                        at,
                        format!("`{}` is no array and no pointer", array.of.name()),
                    ),
                }
            }
            Kind::Member(object, name) => {
                let object = self.evaluate(object)?;
                // gdb takes a dot for an arrow.
                let object = match object.of.class() {
                    Class::Pointer(_) => self.dereference(at, &object)?,
                    _ => object,
                };
                self.member(at, &object, name)
            }
            Kind::Arrow(pointer, name) => {
                let pointer = self.evaluate(pointer)?;
                let object = match pointer.of.class() {
                    Class::Structure(..) => pointer,
                    _ => self.dereference(at, &pointer)?,
                };
                self.member(at, &object, name)
            }
            Kind::Cast(name, operand) => {
                let of = self.named_type(name)?;
                let value = self.evaluate(operand)?;
                self.cast(at, of, value)
            }
            Kind::SizeOf(operand) => {
                let value = self.evaluate(operand)?;
                self.size(at, &value.of)
            }
            Kind::SizeOfType(name) => {
                let of = self.named_type(name)?;
                self.size(at, &of)
            }
        }
    }

    /// The program's `char`, which prints as a character.
    fn character(&self, at: usize) -> Type<'a> {
        let name = TypeName {
            at,
            tag: None,
            words: vec!["char".to_owned()],
            stars: 0,
        };
        self.named_type(&name).unwrap_or(Type::Integer {
            size: 1,
            signed: true,
        })
    }

    fn size(&self, at: usize, of: &Type<'a>) -> Result<Val<'a>> {
        match of.size() {
            Some(size) => Ok(Val::integer(i128::from(size), 8, false)),
            None => fail(at, format!("the size of `{}` is not known", of.name())),
        }
    }

    fn member(&self, at: usize, object: &Val<'a>, name: &str) -> Result<Val<'a>> {
        if !matches!(object.of.class(), Class::Structure(..)) {
            return fail(at, format!("`{}` has no members", object.of.name()));
        }
        if let Some(member) = self.member_of(object, name) {
            return match member.of.class() {
                Class::Reference(_) => self.dereference(at, &member),
                _ => Ok(member),
            };
        }
        let members = self.members(object);
        let close = members
            .iter()
            .map(|m| (distance(m, name), m))
            .filter(|(d, m)| *d <= 2 && *d < m.len())
            .min();
        let hint = match close {
            Some((_, meant)) => format!("; did you mean `{meant}`?"),
            None => String::new(),
        };
        let of = object.of.name();
        fail(at, format!("`{of}` has no member `{name}`{hint}"))
    }

    fn number(&self, at: usize, value: &Val<'a>) -> Result<Number> {
        let known = |size: u64| match value.object.number(size) {
            Some(number) => Ok(number),
            None => fail(at, "the value is not known: it is optimised out"),
        };
        match value.of.class() {
            Class::Integer { size, signed } => {
                let number = known(size)?;
                let unused = 128 - (size.clamp(1, 16) * 8) as u32;
                let number = match signed {
                    true => ((number << unused) as i128) >> unused,
                    false => number as i128,
                };
                Ok(Number::Integer {
                    value: number,
                    size,
                    signed,
                })
            }
            Class::Float(size) => {
                let bits = known(size.min(16))?;
                let value = match size {
                    4 => f64::from(f32::from_bits(bits as u32)),
                    8 => f64::from_bits(bits as u64),
                    _ => crate::render::extended_value(bits),
                };
                Ok(Number::Float { value, size })
            }
            Class::Pointer(_) => Ok(Number::Integer {
                value: known(8)? as i128,
                size: 8,
                signed: false,
            }),
            // An array is the address of its first element.
            Class::Array(..) => match value.object.address {
                Some(address) => Ok(Number::Integer {
                    value: i128::from(address),
                    size: 8,
                    signed: false,
                }),
                None => fail(at, "this array is in no memory, so it has no address"),
            },
            _ => fail(at, format!("`{}` is no number", value.of.name())),
        }
    }

    fn integer(&self, at: usize, value: &Val<'a>) -> Result<i128> {
        match self.number(at, value)? {
            Number::Integer { value, .. } => Ok(value),
            Number::Float { .. } => fail(at, "a whole number is needed here"),
        }
    }

    fn truth(&self, node: &Node) -> Result<bool> {
        let value = self.evaluate(node)?;
        Ok(match self.number(node.at, &value)? {
            Number::Integer { value, .. } => value != 0,
            Number::Float { value, .. } => value != 0.0,
        })
    }

    fn unary(&self, at: usize, operator: &str, operand: &Node) -> Result<Val<'a>> {
        let value = self.evaluate(operand)?;
        match operator {
            "*" => self.dereference(at, &value),
            "&" => {
                if value.bits.is_some() {
                    return fail(at, "a bit field has no address");
                }
                match value.object.address {
                    Some(address) => {
                        let of = Type::Pointer(Rc::new(value.of));
                        Ok(Val::computed(of, &address.to_le_bytes()))
                    }
                    // A function's name is its address already.
                    None if matches!(value.of, Type::Pointer(_)) && value.places.is_empty() => {
                        Ok(value)
                    }
                    None if value.places.is_empty() => fail(at, "this value is in no memory"),
                    None => fail(at, "this variable is in a register, so it has no address"),
                }
            }
            "!" => {
                let zero = match self.number(at, &value)? {
                    Number::Integer { value, .. } => value == 0,
                    Number::Float { value, .. } => value == 0.0,
                };
                Ok(Val::integer(i128::from(zero), 4, true))
            }
            _ => match self.number(at, &value)? {
                Number::Float { value, size } if operator != "~" => {
                    Ok(float(if operator == "-" { -value } else { value }, size))
                }
                Number::Float { .. } => fail(at, "a whole number is needed here"),
                Number::Integer {
                    value,
                    size,
                    signed,
                } => {
                    let (size, signed) = promoted(size, signed);
                    let value = match operator {
                        "-" => value.wrapping_neg(),
                        "~" => !value,
                        _ => value,
                    };
                    Ok(Val::integer(value, size, signed))
                }
            },
        }
    }

    fn binary(&self, at: usize, operator: &str, left: &Node, right: &Node) -> Result<Val<'a>> {
        if operator == "&&" || operator == "||" {
            let decided = operator == "||";
            let result = match self.truth(left)? == decided {
                true => decided,
                false => self.truth(right)?,
            };
            return Ok(Val::integer(i128::from(result), 4, true));
        }
        let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
        let points = |v: &Val<'a>| matches!(v.of.class(), Class::Pointer(_) | Class::Array(..));
        match (operator, points(&left), points(&right)) {
            ("+" | "-", true, false) => {
                let by = self.integer(at, &right)?;
                return self.moved(at, &left, if operator == "-" { -by } else { by });
            }
            ("+", false, true) => {
                let by = self.integer(at, &left)?;
                return self.moved(at, &right, by);
            }
            ("-", true, true) => {
                let size = self.target(&left).size().unwrap_or(1).max(1);
                let (a, b) = (self.integer(at, &left)?, self.integer(at, &right)?);
                return Ok(Val::integer((a - b) / i128::from(size), 8, true));
            }
            _ => {}
        }
        let numbers = (self.number(at, &left)?, self.number(at, &right)?);
        match numbers {
            (
                Number::Integer {
                    value: a,
                    size: a_size,
                    signed: a_signed,
                },
                Number::Integer {
                    value: b,
                    size: b_size,
                    signed: b_signed,
                },
            ) => {
                let (a_size, a_signed) = promoted(a_size, a_signed);
                let (b_size, b_signed) = promoted(b_size, b_signed);
                let size = a_size.max(b_size);
                let unsigned = |s, signed: bool| s == size && !signed;
                let signed = !(unsigned(a_size, a_signed) || unsigned(b_size, b_signed));
                whole(
                    at,
                    operator,
                    wrap(a, size, signed),
                    wrap(b, size, signed),
                    size,
                    signed,
                )
            }
            (a, b) => {
                let size = |n: &Number| match n {
                    Number::Float { size, .. } => *size,
                    Number::Integer { .. } => 4,
                };
                let size = size(&a).max(size(&b));
                let value = |n: Number| match n {
                    Number::Float { value, .. } => value,
                    Number::Integer { value, .. } => value as f64,
                };
                fraction(at, operator, value(a), value(b), size)
            }
        }
    }

    fn target(&self, pointer: &Val<'a>) -> Type<'a> {
        match pointer.of.class() {
            Class::Pointer(to) => to,
            Class::Array(origin, element, lengths) => {
                let rest = lengths.get(1..).unwrap_or(&[]).to_vec();
                match rest.is_empty() {
                    true => Type::Known(origin, Some(element)),
                    false => Type::Array(origin, element, rest),
                }
            }
            _ => pointer.of.clone(),
        }
    }

    /// A pointer, so many elements further.
    fn moved(&self, at: usize, pointer: &Val<'a>, by: i128) -> Result<Val<'a>> {
        let to = self.target(pointer);
        // Arithmetic on `void *` counts bytes.
        let size = to.size().unwrap_or(1).max(1);
        let start = self.integer(at, pointer)?;
        let address = start.wrapping_add(by.wrapping_mul(i128::from(size))) as u64;
        let of = match pointer.of.class() {
            Class::Pointer(_) => pointer.of.clone(),
            _ => Type::Pointer(Rc::new(to)),
        };
        Ok(Val::computed(of, &address.to_le_bytes()))
    }

    fn cast(&self, at: usize, of: Type<'a>, value: Val<'a>) -> Result<Val<'a>> {
        match of.class() {
            Class::Integer { size, .. } => {
                let number = match self.number(at, &value)? {
                    Number::Integer { value, .. } => value,
                    Number::Float { value, .. } => value as i128,
                };
                Ok(Val::computed(
                    of,
                    &number.to_le_bytes()[..size.min(16) as usize],
                ))
            }
            Class::Float(size) => {
                let number = match self.number(at, &value)? {
                    Number::Integer { value, .. } => value as f64,
                    Number::Float { value, .. } => value,
                };
                let mut made = float(number, size.min(8));
                if size <= 8 {
                    made.of = of;
                }
                Ok(made)
            }
            Class::Pointer(_) => {
                let number = self.integer(at, &value)? as u64;
                let mut made = Val::computed(of, &number.to_le_bytes());
                // The pointer is still where it was.
                if value.object.bytes.len() == 8 && value.bits.is_none() {
                    made.places = value.places;
                    made.object.address = value.object.address;
                }
                Ok(made)
            }
            Class::Void => fail(at, "nothing can be seen of a value cast to void"),
            // Another view of the same bytes, as gdb allows for the same structure.
            _ if of.size().is_some() && of.size() == value.of.size() => Ok(Val { of, ..value }),
            _ => fail(
                at,
                format!("`{}` cannot be cast to `{}`", value.of.name(), of.name()),
            ),
        }
    }
}

fn promoted(size: u64, signed: bool) -> (u64, bool) {
    if size < 4 { (4, true) } else { (size, signed) }
}

fn wrap(value: i128, size: u64, signed: bool) -> i128 {
    let unused = 128 - (size.clamp(1, 16) * 8) as u32;
    if signed {
        (value << unused) >> unused
    } else {
        (((value as u128) << unused) >> unused) as i128
    }
}

fn float<'a>(value: f64, size: u64) -> Val<'a> {
    match size {
        4 => Val::computed(Type::Float(4), &(value as f32).to_le_bytes()),
        _ => Val::computed(Type::Float(8), &value.to_le_bytes()),
    }
}

fn whole<'a>(
    at: usize,
    operator: &str,
    a: i128,
    b: i128,
    size: u64,
    signed: bool,
) -> Result<Val<'a>> {
    let truth = |b: bool| Ok(Val::integer(i128::from(b), 4, true));
    let shift = || u32::try_from(b).ok().filter(|b| u64::from(*b) < size * 8);
    let value = match operator {
        "==" => return truth(a == b),
        "!=" => return truth(a != b),
        "<" => return truth(a < b),
        ">" => return truth(a > b),
        "<=" => return truth(a <= b),
        ">=" => return truth(a >= b),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" | "%" if b == 0 => return fail(at, "division by zero"),
        "/" => a.wrapping_div(b),
        "%" => a.wrapping_rem(b),
        "&" => a & b,
        "|" => a | b,
        "^" => a ^ b,
        "<<" | ">>" => match shift() {
            Some(by) if operator == "<<" => a.wrapping_shl(by),
            Some(by) => a.wrapping_shr(by),
            None => return fail(at, "shifted by more bits than there are"),
        },
        _ => return fail(at, format!("`{operator}` is not supported")),
    };
    Ok(Val::integer(wrap(value, size, signed), size, signed))
}

fn fraction<'a>(at: usize, operator: &str, a: f64, b: f64, size: u64) -> Result<Val<'a>> {
    let truth = |b: bool| Ok(Val::integer(i128::from(b), 4, true));
    let value = match operator {
        "==" => return truth(a == b),
        "!=" => return truth(a != b),
        "<" => return truth(a < b),
        ">" => return truth(a > b),
        "<=" => return truth(a <= b),
        ">=" => return truth(a >= b),
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        _ => return fail(at, format!("`{operator}` needs whole numbers")),
    };
    Ok(float(value, size))
}
