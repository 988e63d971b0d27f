//! What types say of memory: which eight bytes hold a pointer.

use crate::debug::{Debug, Die};
use crate::expression::ValuePlace;
use crate::program::{Memory, Program};
use crate::types::{Shape, dimensions, shape_of, size_of, type_of};
use crate::unwind::RawFrame;
use crate::view::View;

/// Structures within structures, and elements of an array that are listed.
const DEEPEST: u32 = 8;
const MOST: u64 = 1 << 16;

impl Program {
    /// The addresses in global and static variables where there are pointers, in order.
    pub fn global_pointers(&self, memory: &dyn Memory) -> Vec<u64> {
        let mut out = Vec::new();
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
                let view = View::of_unit(self, module, debug, unit, memory);
                for entry in debug.children(root) {
                    if entry.tag() == gimli::DW_TAG_variable {
                        pointers_of(&view, view.die(entry.offset()), &mut out);
                    }
                }
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// The same for the variables that are in scope in a frame, static ones of its functions included.
    pub fn frame_pointers(&self, frame: &RawFrame, memory: &dyn Memory) -> Vec<u64> {
        let Some(view) = View::new(self, frame, memory) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for function in view.module.located(view.module.vaddr(frame.lookup_pc())) {
            for scope in &function.scopes {
                for entry in view.debug.children(view.die(scope.die)) {
                    let is_variable = [gimli::DW_TAG_variable, gimli::DW_TAG_formal_parameter];
                    if is_variable.contains(&entry.tag()) {
                        pointers_of(&view, view.die(entry.offset()), &mut out);
                    }
                }
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }
}

fn pointers_of(view: &View<'_>, variable: Die<'_>, out: &mut Vec<u64>) {
    let of = type_of(view.debug, variable);
    let Some(size) = size_of(view.debug, of).filter(|s| *s >= 8) else {
        return;
    };
    if let [ValuePlace::Memory { address, len }] = view.places(view.die(variable.offset), size)[..]
        && len == size
    {
        let end = out.len() as u64 + MOST;
        within(view.debug, of, address, DEEPEST, end, out);
    }
}

/// Lists the pointers in a value of this type at this address, up to `end` entries of the list.
fn within(debug: &Debug, of: Option<Die<'_>>, at: u64, deeper: u32, end: u64, out: &mut Vec<u64>) {
    if deeper == 0 || out.len() as u64 >= end {
        return;
    }
    match shape_of(debug, of) {
        Shape::Pointer(_) | Shape::Reference(_) => out.push(at),
        // What is in a union is not a matter of its type.
        Shape::Structure { die, .. } if is_union(die) => {}
        Shape::Structure { die, .. } => {
            for entry in debug.children(die) {
                if entry.tag() != gimli::DW_TAG_member {
                    continue;
                }
                let offset = entry.attr(gimli::DW_AT_data_member_location);
                let offset = offset.and_then(|a| a.udata_value()).unwrap_or(0);
                let member = Die {
                    unit: die.unit,
                    offset: entry.offset(),
                };
                let of = type_of(debug, member);
                within(debug, of, at.wrapping_add(offset), deeper - 1, end, out);
            }
        }
        Shape::Array { element, die } => {
            let Some(size) = size_of(debug, Some(element)).filter(|s| *s > 0) else {
                return;
            };
            let count = dimensions(debug, die)
                .into_iter()
                .try_fold(1u64, |n, d| n.checked_mul(d?))
                .unwrap_or(0);
            for n in 0..count.min(MOST) {
                let before = out.len();
                let place = at.wrapping_add(n.wrapping_mul(size));
                within(debug, Some(element), place, deeper - 1, end, out);
                if out.len() == before {
                    // No pointer in one element: none in any.
                    return;
                }
            }
        }
        _ => {}
    }
}

fn is_union(die: Die<'_>) -> bool {
    die.entry()
        .is_some_and(|e| e.tag() == gimli::DW_TAG_union_type)
}
