//! Types, and the functions that every file has.

use crate::term::Function;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Truth,
    /// Integers, pointers and times.
    Number,
    Block,
    Text,
}

impl Type {
    pub(super) fn word(self) -> &'static str {
        match self {
            Type::Truth => "a condition",
            Type::Number => "a number or pointer",
            Type::Block => "a block",
            Type::Text => "a text",
        }
    }
}

/// Functions that every file has: name, parameters, result. A parameter may be one of several types.
pub(super) const FUNCTIONS: [(&str, Function, &[&[Type]], Type); 14] = {
    const POINTER: &[Type] = &[Type::Number];
    const EITHER: &[Type] = &[Type::Number, Type::Block];
    [
        ("Bid", Function::Bid, &[POINTER], Type::Block),
        ("Idx", Function::Idx, &[POINTER], Type::Number),
        ("Begin", Function::Begin, &[EITHER], Type::Number),
        ("End", Function::End, &[EITHER], Type::Number),
        ("Size", Function::Size, &[EITHER], Type::Number),
        ("Time", Function::Time, &[EITHER], Type::Number),
        ("Value", Function::Value, &[POINTER], Type::Number),
        ("Block", Function::Block, &[EITHER], Type::Text),
        ("Family", Function::Family, &[EITHER], Type::Text),
        ("Releaser", Function::Releaser, &[], Type::Text),
        ("OnStack", Function::OnStack, &[POINTER], Type::Truth),
        ("Local", Function::Local, &[POINTER], Type::Truth),
        ("Global", Function::Global, &[POINTER], Type::Truth),
        ("Gone", Function::Gone, &[POINTER], Type::Truth),
    ]
};
