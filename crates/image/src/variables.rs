//! The variables of a frame and their values.
//!
//! A variable's entry says where it lives at each address, or that it is a constant, or nothing
//! at all, which means it was optimised away. Parameters of an inlined call that vanished without
//! trace are taken from the function's abstract description, so that a call shows all its
//! arguments even if some have no value.

use crate::backtrace::Argument;
use crate::debug::Die;
use crate::elf::Bytes;
use crate::evaluate::Unavailable;
use crate::expression::ValuePlace;
use crate::locate::Located;
use crate::program::{Memory, Program};
use crate::render::{Object, Renderer};
use crate::types::{name_of, size_of, type_of};
use crate::unit::{Entry, Offset, Value};
use crate::unwind::RawFrame;
use crate::view::View;

/// A variable in scope, as printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub type_name: String,
    /// In the notation of gdb.
    pub value: String,
    /// Where the variable is in memory; one in registers or optimised away has no address.
    pub address: Option<u64>,
    /// Its size in bytes, if the type says so.
    pub size: Option<u64>,
    pub is_argument: bool,
    /// The inlined function it belongs to, counted from the innermost; the last one is the
    /// function itself.
    pub inline_depth: usize,
}

impl Program {
    /// The arguments of the source functions of a frame, innermost first, in the order of
    /// [`Program::locate`].
    pub(crate) fn arguments(&self, frame: &RawFrame, memory: &dyn Memory) -> Vec<Vec<Argument>> {
        let Some(view) = View::new(self, frame, memory) else {
            return Vec::new();
        };
        let located = view.module.located(view.module.vaddr(frame.lookup_pc()));
        located
            .iter()
            .map(|function| {
                let parameters = view.parameters(function);
                let as_argument = |die| {
                    let variable = view.variable(die, true, 0)?;
                    Some(Argument {
                        name: variable.name,
                        value: variable.value,
                    })
                };
                parameters.into_iter().filter_map(as_argument).collect()
            })
            .collect()
    }

    /// The arguments and local variables in scope in a frame, innermost scope first.
    pub fn locals(&self, frame: &RawFrame, memory: &dyn Memory) -> Vec<Variable> {
        let Some(view) = View::new(self, frame, memory) else {
            return Vec::new();
        };
        let located = view.module.located(view.module.vaddr(frame.lookup_pc()));
        let mut out = Vec::new();
        for (depth, function) in located.iter().enumerate() {
            let parameters = view.parameters(function);
            out.extend(
                parameters
                    .into_iter()
                    .filter_map(|die| view.variable(die, true, depth)),
            );
            for scope in function.scopes.iter().rev() {
                for entry in view.debug.children(view.die(scope.die)) {
                    if entry.tag() == gimli::DW_TAG_variable {
                        out.extend(view.variable(view.die(entry.offset()), false, depth));
                    }
                }
            }
        }
        out
    }

    /// A global or static variable by its name, from the first unit that defines it.
    pub fn global(&self, name: &str, memory: &dyn Memory) -> Option<Variable> {
        for module in self.all_modules() {
            let contents = &module.contents;
            let (Some(elf), Some(debug)) = (contents.elf(), contents.debug()) else {
                continue;
            };
            for unit in debug.units() {
                let unit = unit.entries(elf, &contents.warnings);
                let root = Die {
                    unit,
                    offset: unit.unit.header.root_offset(),
                };
                for entry in debug.children(root) {
                    if entry.tag() != gimli::DW_TAG_variable
                        || !entry.has_attr(gimli::DW_AT_location)
                    {
                        continue;
                    }
                    let die = Die {
                        unit,
                        offset: entry.offset(),
                    };
                    if debug.string(die, gimli::DW_AT_name).as_deref() == Some(name) {
                        let view = View::of_unit(self, module, debug, unit, memory);
                        return view.variable(die, false, 0);
                    }
                }
            }
        }
        None
    }
}

impl<'a> View<'a> {
    pub(crate) fn die(&self, offset: Offset) -> Die<'a> {
        Die {
            unit: self.unit,
            offset,
        }
    }

    /// The parameters of a function in the order of its declaration.
    pub(crate) fn parameters(&self, function: &Located) -> Vec<Die<'a>> {
        let Some(scope) = function.scopes.first() else {
            return Vec::new();
        };
        let of = self.die(scope.die);
        let is_parameter = |entry: &Entry| entry.tag() == gimli::DW_TAG_formal_parameter;
        let concrete: Vec<Entry> = self
            .debug
            .children(of)
            .into_iter()
            .filter(is_parameter)
            .collect();
        let origin = of
            .entry()
            .and_then(|e| e.attr_value(gimli::DW_AT_abstract_origin))
            .and_then(|value| self.debug.resolve(self.unit, &value));
        let Some(origin) = origin.filter(|o| std::ptr::eq(o.unit.unit, self.unit.unit)) else {
            return concrete.iter().map(|e| self.die(e.offset())).collect();
        };
        let instance_of = |entry: &Entry| match entry.attr_value(gimli::DW_AT_abstract_origin) {
            Some(Value::UnitRef(offset)) => Some(offset),
            Some(value) => Some(self.debug.resolve(self.unit, &value)?.offset),
            None => None,
        };
        let mut rest = concrete;
        let mut out = Vec::new();
        for entry in self.debug.children(origin).into_iter().filter(is_parameter) {
            let instance = rest
                .iter()
                .position(|e| instance_of(e) == Some(entry.offset()));
            let shown = match instance {
                Some(at) => rest.remove(at).offset(),
                None => entry.offset(),
            };
            out.push(self.die(shown));
        }
        out.extend(rest.iter().map(|e| self.die(e.offset())));
        out
    }

    fn variable(&self, die: Die<'a>, is_argument: bool, inline_depth: usize) -> Option<Variable> {
        let name = self.debug.string(die, gimli::DW_AT_name)?;
        let of = type_of(self.debug, die);
        let size = size_of(self.debug, of);
        let renderer = Renderer {
            program: self.program,
            debug: self.debug,
            memory: self.memory,
        };
        let mut address = None;
        let value = match self.contents(die, size.unwrap_or(0)) {
            Ok(object) => {
                address = object.address;
                renderer.value(of, &object)
            }
            Err(why) => why.to_string(),
        };
        Some(Variable {
            name,
            type_name: name_of(self.debug, of),
            value,
            address,
            size,
            is_argument,
            inline_depth,
        })
    }

    pub(crate) fn contents(&self, die: Die<'a>, size: u64) -> Result<Object, Unavailable> {
        if die.entry().is_none() {
            let reason = "a variable is not where it should be";
            return Err(Unavailable::Invalid(reason.into()));
        }
        let own = die
            .entry()
            .and_then(|e| e.attr_value(gimli::DW_AT_location));
        if own.is_none()
            && let Some((_, value)) = self.debug.inherited(die, gimli::DW_AT_const_value)
        {
            return constant(&value, size).ok_or(Unavailable::OptimizedOut);
        }
        match self.location(die) {
            Some(location) => self.object(&location, size),
            None => Err(Unavailable::OptimizedOut),
        }
    }

    /// Only a static variable keeps its location in the entry this one is an instance of.
    fn location(&self, die: Die<'a>) -> Option<Value> {
        let own = die.entry()?.attr_value(gimli::DW_AT_location);
        own.or_else(|| {
            let (_, location) = self.debug.inherited(die, gimli::DW_AT_location)?;
            Some(location)
        })
    }

    /// Where a variable of `size` bytes is, from its first byte on.
    pub(crate) fn places(&self, die: Die<'a>, size: u64) -> Vec<ValuePlace> {
        self.location(die)
            .map_or(Vec::new(), |location| self.places_of(&location, size))
    }
}

/// The bytes of a constant.
fn constant(value: &Value, size: u64) -> Option<Object> {
    let size = usize::try_from(size).ok()?;
    let from = |bytes: &Bytes| bytes.bytes().iter().copied().map(Some).collect();
    let mut bytes: Vec<Option<u8>> = match value {
        Value::Block(block) => from(block),
        Value::String(string) => from(string),
        Value::Data16(number) => number.to_le_bytes().map(Some).to_vec(),
        other => {
            let number = other
                .sdata_value()
                .or_else(|| other.udata_value().map(|n| n as i64))?;
            i128::from(number).to_le_bytes().map(Some).to_vec()
        }
    };
    bytes.resize(size.min(1 << 16), None);
    Some(Object {
        bytes,
        address: None,
    })
}
