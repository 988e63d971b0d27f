//! Jump tables.
//!
//! Compilers turn a `switch` into a load from a table of addresses, or of distances from the
//! table, and an indirect jump. The instructions before the jump are executed with symbols for
//! what is not known: if the jump's target is then "a word of the table at 0x2000", or "that plus
//! 0x2000", the table gives the targets. How many there are is in the comparison that guards it;
//! where there is none (computed `goto`), the table is read as long as it leads into the function.

use std::collections::BTreeMap;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::explore::Explorer;
use crate::effects::{Control, Effects};

/// How many instructions before the jump are looked at.
const LONGEST_PATH: usize = 48;
const MOST_ENTRIES: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Unknown,
    Known(u64),
    /// Something unknown plus this.
    Index(u64),
    /// An entry of a table: of eight bytes, or of four that are signed.
    Wide(u64),
    Narrow(u64),
    /// An entry of four bytes plus this.
    Relative {
        table: u64,
        base: u64,
    },
}

type Registers = [Value; 16];

/// Where an indirect jump can go, if a table says so.
pub(super) fn targets(explorer: &mut Explorer<'_>, jump: u64) -> Option<Vec<u64>> {
    let path = path(explorer, jump);
    let target = simulate(&path, [Value::Unknown; 16])
        .filter(is_table)
        .or_else(|| {
            // The table's address may have been put into a register long before, outside a loop.
            simulate(&path, constants(explorer)).filter(is_table)
        })?;
    let bound = bound(&path);
    entries(explorer, target, bound)
}

fn is_table(value: &Value) -> bool {
    matches!(value, Value::Wide(_) | Value::Relative { .. })
}

/// The instructions that lead to the jump, the jump last.
fn path(explorer: &Explorer<'_>, jump: u64) -> Vec<Instruction> {
    let mut comes_from: BTreeMap<u64, u64> = BTreeMap::new();
    for (pc, (_, ways)) in &explorer.found {
        for to in &ways.to {
            comes_from.entry(*to).or_insert(*pc);
        }
    }
    let mut out = Vec::new();
    let mut pc = jump;
    while let Some((instruction, _)) = explorer.found.get(&pc) {
        out.push(*instruction);
        let before = explorer.found.range(..pc).next_back();
        let fallen = before.filter(|(_, (i, ways))| i.next_ip() == pc && ways.falls);
        pc = match fallen
            .map(|(at, _)| *at)
            .or_else(|| comes_from.get(&pc).copied())
        {
            Some(pc) if out.len() < LONGEST_PATH => pc,
            _ => break,
        };
    }
    out.reverse();
    out
}

/// Registers that are given one address in the whole function.
fn constants(explorer: &Explorer<'_>) -> Registers {
    let mut out = [Value::Unknown; 16];
    let mut several = [false; 16];
    for (instruction, _) in explorer.found.values() {
        if instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand() {
            let Some(n) = general(instruction.op0_register()) else {
                continue;
            };
            let value = Value::Known(instruction.ip_rel_memory_address());
            several[n] |= out[n] != Value::Unknown && out[n] != value;
            out[n] = value;
        }
    }
    for (value, several) in out.iter_mut().zip(several) {
        if several {
            *value = Value::Unknown;
        }
    }
    out
}

fn general(register: Register) -> Option<usize> {
    let wide = register.is_gpr64() || register.is_gpr32();
    wide.then(|| register.full_register().number())
}

fn get(registers: &Registers, register: Register) -> Value {
    general(register).map_or(Value::Unknown, |n| registers[n])
}

/// The sum of a memory operand's parts.
fn address(registers: &Registers, i: &Instruction) -> Value {
    if i.is_ip_rel_memory_operand() {
        return Value::Known(i.ip_rel_memory_address());
    }
    let mut sum = Value::Known(i.memory_displacement64());
    for (register, scale) in [
        (i.memory_base(), 1),
        (i.memory_index(), u64::from(i.memory_index_scale())),
    ] {
        if register == Register::None {
            continue;
        }
        let part = match get(registers, register) {
            Value::Known(v) => Value::Known(v.wrapping_mul(scale)),
            // `x - 10` as an index is as unknown as x: the guard is on the difference.
            Value::Index(v) if is_address(v) => Value::Index(v.wrapping_mul(scale)),
            _ => Value::Index(0),
        };
        sum = add(sum, part);
    }
    sum
}

/// Nothing is mapped this low, nor this high.
fn is_address(value: u64) -> bool {
    (0x1_0000..1 << 47).contains(&value)
}

fn add(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Known(a), Value::Known(b)) => Value::Known(a.wrapping_add(b)),
        (Value::Known(a), Value::Index(b)) | (Value::Index(a), Value::Known(b)) => {
            Value::Index(a.wrapping_add(b))
        }
        (Value::Index(a), Value::Index(b)) => Value::Index(a.wrapping_add(b)),
        (Value::Known(a), Value::Unknown) | (Value::Unknown, Value::Known(a)) => Value::Index(a),
        (Value::Narrow(table), Value::Known(base)) | (Value::Known(base), Value::Narrow(table)) => {
            Value::Relative { table, base }
        }
        _ => Value::Unknown,
    }
}

fn load(registers: &Registers, i: &Instruction) -> Value {
    match (address(registers, i), i.memory_size().size()) {
        (Value::Index(table), 8) => Value::Wide(table),
        (Value::Index(table), 4) => Value::Narrow(table),
        _ => Value::Unknown,
    }
}

/// What the last instruction, a jump, jumps to.
fn simulate(path: &[Instruction], mut registers: Registers) -> Option<Value> {
    let (jump, before) = path.split_last()?;
    for i in before {
        step(&mut registers, i);
    }
    match jump.op0_kind() {
        OpKind::Memory => Some(load(&registers, jump)),
        OpKind::Register => Some(get(&registers, jump.op0_register())),
        _ => None,
    }
}

fn step(registers: &mut Registers, i: &Instruction) {
    if matches!(Control::of(i), Control::Call(_) | Control::IndirectCall) {
        // Registers that a callee keeps: rbx, rbp, r12 to r15.
        for (n, value) in registers.iter_mut().enumerate() {
            if !matches!(n, 3 | 5 | 12..) {
                *value = Value::Unknown;
            }
        }
        return;
    }
    let memory = i.op_count() > 1 && i.op1_kind() == OpKind::Memory;
    let source = (i.op_count() > 1 && i.op1_kind() == OpKind::Register)
        .then(|| get(registers, i.op1_register()));
    let target = (i.op_count() > 0 && i.op0_kind() == OpKind::Register)
        .then(|| general(i.op0_register()))
        .flatten();
    let value = match (i.mnemonic(), target) {
        (Mnemonic::Cdqe, _) => return,
        (Mnemonic::Lea, Some(_)) => address(registers, i),
        (Mnemonic::Mov | Mnemonic::Movsxd, Some(_)) if memory => load(registers, i),
        (Mnemonic::Mov | Mnemonic::Movsxd, Some(_)) => match source {
            Some(value) => value,
            None if i.op1_kind() != OpKind::Register => Value::Known(i.immediate(1)),
            None => Value::Unknown,
        },
        (Mnemonic::Add, Some(n)) if !memory => match source {
            Some(value) => add(registers[n], value),
            None => add(registers[n], Value::Known(i.immediate(1))),
        },
        _ => {
            let effects = Effects::of(i);
            for written in effects.registers_written() {
                if let Some(n) = written.general_number() {
                    registers[usize::from(n)] = Value::Unknown;
                }
            }
            return;
        }
    };
    if let Some(n) = target {
        registers[n] = value;
    }
}

/// How many entries the guard lets through.
fn bound(path: &[Instruction]) -> Option<u64> {
    let guard = path.iter().rposition(|i| {
        matches!(
            i.mnemonic(),
            Mnemonic::Ja | Mnemonic::Jbe | Mnemonic::Jae | Mnemonic::Jb
        )
    });
    let constant = |i: &Instruction| {
        let is_constant =
            i.op_count() == 2 && !matches!(i.op1_kind(), OpKind::Register | OpKind::Memory);
        is_constant.then(|| i.immediate(1))
    };
    if let Some(guard) = guard {
        let compare = path[..guard].iter().rev().take(6).find(|i| {
            matches!(i.mnemonic(), Mnemonic::Cmp | Mnemonic::Sub) && constant(i).is_some()
        });
        let last = compare.and_then(constant)?;
        return match path[guard].mnemonic() {
            Mnemonic::Ja | Mnemonic::Jbe => last.checked_add(1),
            _ => Some(last),
        };
    }
    // An index cut to some bits needs no guard.
    let mask = path
        .iter()
        .rev()
        .take(8)
        .find(|i| i.mnemonic() == Mnemonic::And);
    let last = mask.and_then(constant)?;
    last.checked_add(1).filter(|n| n.is_power_of_two())
}

fn entries(explorer: &mut Explorer<'_>, target: Value, bound: Option<u64>) -> Option<Vec<u64>> {
    let mut out = Vec::new();
    let most = bound.unwrap_or(MOST_ENTRIES).min(MOST_ENTRIES);
    for n in 0..most {
        let entry = match target {
            Value::Wide(table) => {
                let mut bytes = [0; 8];
                let at = table.checked_add(n * 8)?;
                if explorer.read(at, &mut bytes) < 8 {
                    break;
                }
                u64::from_le_bytes(bytes)
            }
            Value::Relative { table, base } => {
                let mut bytes = [0; 4];
                let at = table.checked_add(n * 4)?;
                if explorer.read(at, &mut bytes) < 4 {
                    break;
                }
                base.wrapping_add_signed(i64::from(i32::from_le_bytes(bytes)))
            }
            _ => return None,
        };
        if !explorer.adopt(entry) {
            if bound.is_some() {
                // The bound belongs to something else, or a case leads out of the function.
                continue;
            }
            break;
        }
        out.push(entry);
    }
    (!out.is_empty()).then_some(out)
}
