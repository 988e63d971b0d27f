//! Facts about the guest's files: symbols, source lines, types and how to unwind.
//!
//! A debugger is asked in the language of the source (functions, lines, variables) about a
//! machine that knows only registers and memory. The dictionary between the two lies in the
//! files the guest mapped: ELF symbol tables, DWARF debug information and call frame
//! information. Compilers, strippers, packagers and crashes all damage or withhold parts of it.
//!
//! This crate is a set of pure functions over the bytes of those files and a [`Memory`]. It has
//! never heard of ptrace: the same code serves a live process, a core file and a recording.
//!
//! * [`Program`] is the only entry point. It is told the guest's mappings and answers from there.
//! * Everything is lazy. Loading a mapping reads the ELF program headers; sections, units, line
//!   tables and function lists are read when a question first needs them.
//! * Nothing here fails for the caller. What cannot be read is left out of the answer, and
//!   [`Program::warnings`] says which file was at fault.
//!
//! **Invariant:** no byte of a guest file can make this crate panic or loop.
//!
//! The `addr2line` crate answers a part of these questions. It is not used because arguments and
//! locals need the same walk over the same entries, and one index kept by us is smaller than two
//! that must agree.

#![forbid(unsafe_code)]

mod addresses;
mod backtrace;
pub mod cfg;
mod cfi;
mod debug;
mod demangle;
pub mod effects;
mod elf;
mod entry;
mod error;
mod evaluate;
mod expression;
mod extents;
mod incoming;
mod lines;
mod locate;
mod module;
mod plt;
mod program;
mod registers;
mod render;
mod scopes;
mod separate;
mod source;
mod symbols;
mod threads;
mod types;
mod unit;
mod unwind;
mod variables;
mod view;
mod words;

pub use backtrace::{Argument, Frame};
pub use demangle::demangle;
pub use error::Error;
pub use expression::{Evaluated, ExpressionError, ValuePlace};
pub use extents::{Extent, Imagined};
pub use program::{
    Function, FunctionEntry, LineAddress, Mapping, Memory, ModuleInfo, NamedFunction, NoMemory,
    Place, Program, Symbol,
};
pub use registers::{KnownRegisters, Registers};
pub use unwind::{How, RawFrame};
pub use variables::Variable;
