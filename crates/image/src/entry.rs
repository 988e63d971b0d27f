//! Arguments that survive only at the call.
//!
//! Optimised code overwrites the registers its arguments came in as soon as it can. The compiler
//! then says "the value this register had on entry", and describes at each call what it put into
//! the argument registers, often in terms of registers the callee must preserve. Putting both
//! together recovers arguments that exist nowhere in the machine any more.
//!
//! The description belongs to one call of one function. If the function was entered by another
//! road, for example by a tail call from the function that was called here, the description is
//! about someone else's arguments, so the target of the call is checked first.

use crate::debug::Die;
use crate::elf::Bytes;
use crate::evaluate::{self, Surroundings as _, Unavailable};
use crate::unit::{Entry, Offset};
use crate::view::View;

impl View<'_> {
    /// The value an expression had when this function was entered.
    pub(crate) fn value_at_entry(
        &self,
        of: &gimli::Expression<Bytes>,
        depth: u32,
    ) -> Result<u64, Unavailable> {
        let wanted = register_of(of, self.unit.unit.encoding()).ok_or(Unavailable::OptimizedOut)?;
        self.value_at_call(depth, |caller, parameter| {
            let location = parameter
                .attr(gimli::DW_AT_location)
                .and_then(|a| a.exprloc_value());
            let encoding = caller.unit.unit.encoding();
            location.is_some_and(|l| register_of(&l, encoding) == Some(wanted))
        })
    }

    /// The value a call gave to a parameter that the compiler removed from the callee.
    pub(crate) fn removed_parameter(&self, die: Offset, depth: u32) -> Result<u64, Unavailable> {
        let wanted = die.to_unit_section_offset(&self.unit.unit.header);
        self.value_at_call(depth, |caller, parameter| {
            parameter
                .attr_value(gimli::DW_AT_call_parameter)
                .or_else(|| parameter.attr_value(gimli::DW_AT_abstract_origin))
                .and_then(|value| caller.debug.resolve(caller.unit, &value))
                .is_some_and(|d| d.offset.to_unit_section_offset(&d.unit.unit.header) == wanted)
        })
    }

    fn value_at_call(
        &self,
        depth: u32,
        is_wanted: impl Fn(&View<'_>, &Entry) -> bool,
    ) -> Result<u64, Unavailable> {
        if depth > evaluate::DEEPEST {
            return Err(Unavailable::OptimizedOut);
        }
        let mut frame = self.frame.clone();
        let caller = self
            .program
            .caller_of(&mut frame, self.memory)
            .filter(|_| !frame.is_signal_frame)
            .ok_or(Unavailable::OptimizedOut)?;
        let caller =
            View::new(self.program, &caller, self.memory).ok_or(Unavailable::OptimizedOut)?;
        let call = caller.call_site().ok_or(Unavailable::OptimizedOut)?;
        if !caller.targets(&call, self, depth) {
            return Err(Unavailable::OptimizedOut);
        }
        let call = Die {
            unit: caller.unit,
            offset: call.offset(),
        };
        let encoding = caller.unit.unit.encoding();
        for parameter in caller.debug.children(call) {
            if !is_wanted(&caller, &parameter) {
                continue;
            }
            let value = parameter
                .attr(gimli::DW_AT_call_value)
                .or_else(|| parameter.attr(gimli::DW_AT_GNU_call_site_value))
                .and_then(|a| a.exprloc_value())
                .ok_or(Unavailable::OptimizedOut)?;
            return evaluate::number(value, encoding, None, &caller, depth + 1)
                .map_err(|_| Unavailable::OptimizedOut);
        }
        Err(Unavailable::OptimizedOut)
    }

    /// The description of the call this frame is in the middle of.
    fn call_site(&self) -> Option<Entry> {
        let return_vaddr = self.module.vaddr(self.frame.pc);
        let mut entries = self.unit.unit.entries_raw(Some(self.function)).ok()?;
        let mut entry = Entry::null();
        loop {
            if entries.is_empty() {
                return None;
            }
            let is_entry = entries.read_entry(&mut entry).ok()?;
            if is_entry {
                let attribute = match entry.tag() {
                    gimli::DW_TAG_call_site => Some(gimli::DW_AT_call_return_pc),
                    gimli::DW_TAG_GNU_call_site => Some(gimli::DW_AT_low_pc),
                    _ => None,
                };
                let address = attribute
                    .and_then(|name| entry.attr_value(name))
                    .and_then(|value| self.unit.attr_address(value).ok().flatten());
                if address == Some(return_vaddr) {
                    return Some(entry);
                }
            }
            if entries.next_depth() <= 0 {
                return None;
            }
        }
    }

    /// Whether a call of this frame enters the function of `callee`.
    fn targets(&self, call: &Entry, callee: &View<'_>, depth: u32) -> bool {
        let origin = call
            .attr_value(gimli::DW_AT_call_origin)
            .or_else(|| call.attr_value(gimli::DW_AT_abstract_origin))
            .and_then(|value| self.debug.resolve(self.unit, &value));
        let name = callee.debug.function_name(Die {
            unit: callee.unit,
            offset: callee.function,
        });
        if let Some(origin) = origin {
            return name.is_some() && self.debug.function_name(origin) == name;
        }
        let target = call
            .attr(gimli::DW_AT_call_target)
            .or_else(|| call.attr(gimli::DW_AT_GNU_call_site_target))
            .and_then(|a| a.exprloc_value());
        let Some(target) = target else {
            return false;
        };
        let encoding = self.unit.unit.encoding();
        let Ok(address) = evaluate::number(target, encoding, None, self, depth + 1) else {
            return false;
        };
        let entry = self
            .program
            .function_at(callee.frame.lookup_pc())
            .map(|f| f.entry);
        entry == Some(address) || entry == Some(self.relocate(address))
    }
}

/// The register an expression consists of, if it is nothing but a register.
fn register_of(
    expression: &gimli::Expression<Bytes>,
    encoding: gimli::Encoding,
) -> Option<gimli::Register> {
    let mut operations = expression.clone().operations(encoding);
    let first = operations.next().ok()??;
    match (first, operations.next()) {
        (gimli::Operation::Register { register }, Ok(None)) => Some(register),
        _ => None,
    }
}
