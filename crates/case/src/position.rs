//! Where a guest stands.

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction as Insn, Register};
use image::Registers;
use serde::Serialize;

use crate::access;
use crate::frames::{self, Excerpt, FrameList};
use crate::moment::Moment;
use crate::threads::{ThreadLabel, ThreadReport};

/// A place in the run and on the call stack.
#[derive(Clone, Debug, Serialize)]
pub struct Position {
    /// Guest instructions executed before.
    pub step: u64,
    pub pc: u64,
    /// The instruction that is next, or whose execution failed.
    pub instruction: Option<Instruction>,
    /// Which thread, if the guest has several.
    pub thread: Option<ThreadLabel>,
    pub stack: FrameList,
    /// The other threads.
    pub threads: Vec<ThreadReport>,
    pub excerpt: Option<Excerpt>,
    /// What is missing or damaged of the files that were needed for this.
    pub notes: Vec<String>,
}

/// A machine instruction with the registers it reads.
#[derive(Clone, Debug, Serialize)]
pub struct Instruction {
    pub address: u64,
    pub text: String,
    pub registers: Vec<(String, u64)>,
    /// `main+0x12`.
    pub symbol: Option<String>,
}

/// The place at which a stopped guest stands.
pub(crate) fn here(m: &Moment<'_>) -> Position {
    at(m, &m.registers(), None)
}

/// The place that `registers` describe.
pub(crate) fn at(m: &Moment<'_>, registers: &Registers, scan_from: Option<u64>) -> Position {
    let stack = frames::stack(m, registers, scan_from);
    Position {
        step: m.step,
        pc: registers.rip,
        instruction: instruction(m, registers),
        thread: None,
        threads: Vec::new(),
        excerpt: frames::excerpt(m, &stack),
        notes: m.program.warnings(),
        stack,
    }
}

pub(crate) fn decode(m: &Moment<'_>, pc: u64) -> Option<Insn> {
    let mut bytes = [0; 15];
    let n = m.read(pc, &mut bytes);
    let insn = Decoder::with_ip(64, &bytes[..n], pc, DecoderOptions::NONE).decode();
    (!insn.is_invalid()).then_some(insn)
}

fn instruction(m: &Moment<'_>, registers: &Registers) -> Option<Instruction> {
    let pc = registers.rip;
    if !m.is_code(pc) {
        return None;
    }
    let insn = decode(m, pc)?;
    let mut text = String::new();
    let mut formatter = GasFormatter::new();
    formatter
        .options_mut()
        .set_space_after_operand_separator(true);
    formatter.options_mut().set_rip_relative_addresses(false);
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_uppercase_hex(false);
    formatter.format(&insn, &mut text);
    let symbol = m.program.symbol(pc).map(|s| match s.offset {
        0 => s.name,
        offset => format!("{}+{offset:#x}", s.name),
    });
    Some(Instruction {
        address: pc,
        text,
        registers: registers_read(&insn, registers),
        symbol: symbol.or_else(|| m.program.module_offset(pc)),
    })
}

fn registers_read(insn: &Insn, registers: &Registers) -> Vec<(String, u64)> {
    let mut factory = iced_x86::InstructionInfoFactory::new();
    let info = factory.info(insn);
    let mut out: Vec<(String, u64)> = Vec::new();
    for used in info.used_registers() {
        let reads = !matches!(
            used.access(),
            iced_x86::OpAccess::Write | iced_x86::OpAccess::CondWrite | iced_x86::OpAccess::None
        );
        let full = used.register().full_register();
        if !reads || !full.is_gpr64() || (full == Register::RSP && insn.is_stack_instruction()) {
            continue;
        }
        let name = format!("{full:?}").to_lowercase();
        if let Some(value) = access::register(registers, full)
            && out.iter().all(|(n, _)| *n != name)
        {
            out.push((name, value));
        }
    }
    out
}
