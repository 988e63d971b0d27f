//! The arguments of a function that has not begun.
//!
//! Unoptimised code moves its arguments to the stack first, and the debug information describes them as they
//! are from then on. Whoever stops at the very first instruction, as one does who looks at calls, finds there
//! what some earlier function left. At that moment arguments are where the calling convention puts them.
//! gdb shows what the debug information says, so this is an answer of its own.

use crate::addresses::after_prologue;
use crate::backtrace::Argument;
use crate::program::{Memory, Program};
use crate::registers::XMM0;
use crate::render::{Object, Renderer};
use crate::types::{Shape, shape_of, size_of, type_of};
use crate::unwind::RawFrame;
use crate::view::View;

/// The registers of integer arguments, in DWARF's numbers: rdi, rsi, rdx, rcx, r8, r9.
const GENERAL: [u16; 6] = [5, 4, 1, 2, 8, 9];
const VECTORS: usize = 8;

impl Program {
    /// Where the frame of the function that begins at an address has been set up, if that takes instructions: variables
    /// are where the debug information says from there on.
    pub fn after_prologue(&self, entry: u64) -> Option<u64> {
        let module = self.module_at(entry)?;
        let vaddr = module.vaddr(entry);
        let contents = &module.contents;
        let (elf, debug) = (contents.elf()?, contents.debug()?);
        let (_, range) = debug.function_at(vaddr, elf, &contents.warnings)?;
        let after = after_prologue(module, vaddr);
        (range.entry == vaddr && after != vaddr).then(|| module.pc(after))
    }

    /// The arguments of a frame that stands before the first instruction of an unoptimised function; `None` of
    /// any other.
    pub fn incoming_arguments(
        &self,
        frame: &RawFrame,
        memory: &dyn Memory,
    ) -> Option<Vec<Argument>> {
        if !frame.is_exact {
            return None;
        }
        self.after_prologue(frame.pc)?;
        let view = View::new(self, frame, memory)?;
        let located = view.module.located(view.module.vaddr(frame.pc));
        let function = located.last()?;
        // A structure may be returned through a pointer that is passed before all arguments.
        let returned = type_of(view.debug, view.die(view.function));
        let mut known = !matches!(shape_of(view.debug, returned), Shape::Structure { .. });
        let renderer = Renderer {
            program: self,
            debug: view.debug,
            memory,
        };
        let (mut general, mut vectors) = (GENERAL.iter(), 0..VECTORS as u16);
        let registers = &frame.registers;
        let mut out = Vec::new();
        for die in view.parameters(function) {
            let Some(name) = view.debug.string(die, gimli::DW_AT_name) else {
                continue;
            };
            let of = type_of(view.debug, die);
            let bytes = match shape_of(view.debug, of) {
                Shape::Signed(1..=8)
                | Shape::Unsigned(1..=8)
                | Shape::Character { .. }
                | Shape::Boolean(_)
                | Shape::Enumeration { .. }
                | Shape::Pointer(_)
                | Shape::Reference(_) => {
                    let number = general.next().and_then(|r| registers.get(*r));
                    number.map(|n| n.to_le_bytes().to_vec())
                }
                Shape::Float(1..=8) => {
                    let number = vectors.next().and_then(|n| registers.get_vector(XMM0 + n));
                    number.map(|n| n.to_le_bytes().to_vec())
                }
                // Of what takes several registers, or none, it is not worth while to know the rules.
                _ => {
                    known = false;
                    None
                }
            };
            let size = usize::try_from(size_of(view.debug, of).unwrap_or(8)).unwrap_or(0);
            let value = match bytes {
                Some(bytes) if known => {
                    let bytes = bytes.into_iter().take(size).map(Some).collect();
                    renderer.value(
                        of,
                        &Object {
                            bytes,
                            address: None,
                        },
                    )
                }
                _ => "<not in its place yet>".to_owned(),
            };
            out.push(Argument { name, value });
        }
        Some(out)
    }
}
