//! The call stack as a person reads it.
//!
//! Machine frames become source frames: inlined calls get frames of their own, functions get
//! names from debug information, the symbol table or their module, and arguments get values.

use std::path::PathBuf;

use crate::program::{Memory, Program};
use crate::registers::Registers;
use crate::unwind::{How, RawFrame};

/// An argument of a call, as printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    /// In the notation of gdb: `5`, `0x7ffe0010 "abc"`, `{x = 1, y = 2}`, `<optimized out>`.
    pub value: String,
}

/// A source-level frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The next instruction of this frame.
    pub pc: u64,
    /// The address inside the executing instruction, which `file` and `line` belong to.
    pub lookup_pc: u64,
    /// Nothing is known if neither debug information nor symbol covers the address.
    pub function: Option<String>,
    /// The file of the guest the code is from.
    pub module: Option<PathBuf>,
    /// `libfoo.so+0x1234`.
    pub module_offset: Option<String>,
    pub file: Option<PathBuf>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    /// The function's code is part of the next frame's function.
    pub inlined: bool,
    pub arguments: Vec<Argument>,
    pub is_signal_frame: bool,
    pub how: How,
    /// The index of the machine frame in what [`Program::unwind`] gives for the same stack.
    pub raw: usize,
}

impl Program {
    /// The source frames of a thread, innermost first, from at most `limit` machine frames.
    pub fn backtrace(
        &self,
        registers: &Registers,
        memory: &dyn Memory,
        limit: usize,
    ) -> Vec<Frame> {
        let frames = self.unwind(registers, memory, limit);
        self.describe(&frames, memory)
    }

    /// The source frames of machine frames already unwound.
    pub fn describe(&self, frames: &[RawFrame], memory: &dyn Memory) -> Vec<Frame> {
        let mut out = Vec::new();
        for (raw, frame) in frames.iter().enumerate() {
            let pc = frame.lookup_pc();
            let module = self.module_at(pc);
            let template = Frame {
                pc: frame.pc,
                lookup_pc: pc,
                function: None,
                module: module.map(|m| m.contents.name.clone()),
                module_offset: self.module_offset(frame.pc),
                file: None,
                line: None,
                column: None,
                inlined: false,
                arguments: Vec::new(),
                is_signal_frame: frame.is_signal_frame,
                how: frame.how,
                raw,
            };
            let places = self.locate(pc);
            if places.is_empty() {
                out.push(template);
                continue;
            }
            let mut arguments = self.arguments(frame, memory).into_iter();
            for place in places {
                out.push(Frame {
                    function: place.function,
                    file: place.file,
                    line: place.line,
                    column: place.column,
                    inlined: place.inlined,
                    arguments: arguments.next().unwrap_or_default(),
                    ..template.clone()
                });
            }
        }
        out
    }
}
