//! What the C library and the kernel decide by: arguments, and what is where they point.
//!
//! What a function of the library makes of its arguments is seen as everything else is that the program does. Some are
//! not looked into, and the kernel never is: of these it is known which arguments say what they are to do, and whose
//! contents they go by.

use image::effects::RegRange;
use tape::UNMEASURED;

use super::models::Decides;
use super::*;

/// Bytes of a string or of memory that are looked at.
pub(super) const MOST_LOOKED_AT: u64 = 1 << 16;
/// Comparisons of one caller of which it is found out later whether they went as far as something unwritten.
const MOST_COMPARED: u32 = 4;

/// The registers of a system call's arguments.
const KERNEL: [u8; 6] = [7, 6, 2, 10, 8, 9];

/// System calls with the arguments that they use whatever the others are, and how many bytes of each. Of those that have
/// different arguments for different purposes nothing is said.
const SCALARS: [(u64, &[(u8, u8)]); 16] = [
    (0, &[(0, 4), (2, 8)]),
    (1, &[(0, 4), (2, 8)]),
    (3, &[(0, 4)]),
    (8, &[(0, 4), (1, 8), (2, 4)]),
    (10, &[(0, 8), (1, 8), (2, 4)]),
    (11, &[(0, 8), (1, 8)]),
    (17, &[(0, 4), (2, 8), (3, 8)]),
    (18, &[(0, 4), (2, 8), (3, 8)]),
    (32, &[(0, 4)]),
    (33, &[(0, 4), (1, 4)]),
    (41, &[(0, 4), (1, 4), (2, 4)]),
    (60, &[(0, 4)]),
    (62, &[(0, 4), (1, 4)]),
    (74, &[(0, 4)]),
    (77, &[(0, 4), (1, 8)]),
    (231, &[(0, 4)]),
];

impl Machine {
    /// Numbers and pointers that say what a function is to do.
    pub(super) fn given(&mut self, a: &Active) {
        let mut left = self.names[usize::from(a.function)].parameters;
        while left != 0 {
            let n = left.trailing_zeros() as usize;
            left &= left - 1;
            let unit = brief::ARGUMENTS[n];
            if self.now.registers.units[unit].unwritten() == 0 {
                continue;
            }
            // One report is enough for what follows from it.
            self.now.registers.units[unit].set_unwritten(0);
            let name = self.function_name(a.function);
            let what = format!("argument {} of {name}", n + 1);
            let by = Holder::Register(unit as u8);
            self.wrong(a, what, by);
        }
    }

    /// A function goes by so many bytes, each of which should have been written.
    pub(super) fn looks_at(&mut self, a: &Active, t: &Touch, len: u64, caller: calls::Before) {
        let at = a.arguments[usize::from(t.pointer)];
        let len = len.min(MOST_LOOKED_AT);
        if t.decides == Decides::Never || self.memory.is_written(at, len) {
            return;
        }
        let Some((first, bytes)) = self.memory.first_unwritten(at, len) else {
            return;
        };
        let name = self.function_name(a.function);
        let s = if bytes == 1 { "" } else { "s" };
        let what = format!("{name} looks at {bytes} byte{s} at {first:#x}");
        let by = Holder::Memory(first, bytes);
        if t.decides == Decides::ByDifference {
            let [one, other, ..] = a.arguments;
            let before = first - at;
            return self.compares(a, ([one, other], before), (what, by), caller);
        }
        self.memory.settle(at, len);
        self.wrong(a, what, by);
    }

    /// Which bytes are the same is not on the tape.
    fn compares(
        &mut self,
        a: &Active,
        (addresses, before): ([u64; 2], u64),
        (what, by): (String, Holder),
        (plan, insn): calls::Before,
    ) {
        let code = self.codes.get(plan as usize);
        let insn = code.and_then(|c| c.insns.get(usize::from(insn)));
        let times = self.compared.entry(insn.map_or(0, |i| i.pc)).or_default();
        if *times == MOST_COMPARED || self.now.lenient > 0 {
            return;
        }
        *times += 1;
        let redex = Redex::Compared {
            addresses,
            before,
            what,
            by,
        };
        self.decided(a.step, a.pc, &redex);
    }

    /// Arguments that a format asks for.
    pub(super) fn formats(&mut self, a: &Active, format: u8, wide: bool, list: Option<u8>) {
        // Others may have functions of these names that take something else.
        if !self.trackers.unwritten || !self.in_library(a.pc) {
            return;
        }
        let at = a.arguments[usize::from(format)];
        let program = {
            let codebase = self.codebase.lock();
            let codebase = codebase.expect("nobody panics while holding it");
            codebase.program.clone()
        };
        let Some(wanted) = self.formats.at(at, wide, program.as_ref()) else {
            return;
        };
        match list {
            None => self.format_asks(a, &wanted, format),
            Some(n) => self.format_takes(a, &wanted, n),
        }
    }

    /// Arguments that are in registers and behind the return address.
    fn format_asks(&mut self, a: &Active, list: &[formats::Wanted], format: u8) {
        let slots = formats::places(list, (format + 1, 0, 0));
        for (wanted, place) in list.iter().zip(slots) {
            let registers = &mut self.now.registers;
            let mask = ((1u16 << wanted.kind.bytes().min(8)) - 1) as u8;
            let by = match place {
                formats::Place::General(n) => {
                    let unit = brief::ARGUMENTS[usize::from(n)];
                    let cell = &mut registers.units[unit];
                    if cell.unwritten() & mask == 0 {
                        continue;
                    }
                    cell.set_unwritten(0);
                    Holder::Register(unit as u8)
                }
                formats::Place::Vector(n) => {
                    let unit = RegRange::vector(n.into()).at / 8;
                    let cell = &mut registers.units[usize::from(unit)];
                    if cell.unwritten() & mask == 0 {
                        continue;
                    }
                    cell.set_unwritten(0);
                    Holder::Vector(n)
                }
                formats::Place::Stack(n) => {
                    let at = a.slot.wrapping_add(8 + 8 * u64::from(n));
                    let bytes = u64::from(wanted.kind.bytes());
                    let Some((first, len)) = self.memory.first_unwritten(at, bytes) else {
                        continue;
                    };
                    self.memory.settle(at, bytes);
                    Holder::Memory(first, len)
                }
            };
            let name = self.function_name(a.function);
            let number = usize::from(format) + 1 + wanted.position;
            let what = format!("argument {number} of {name}, for {}", wanted.text);
            self.wrong(a, what, by);
        }
    }

    /// Arguments in a `va_list`.
    fn format_takes(&mut self, a: &Active, list: &[formats::Wanted], n: u8) {
        let [rest, saved] = a.measured;
        if rest == UNMEASURED || saved == UNMEASURED {
            return;
        }
        let (rest, general, vector) = tape::taken(rest);
        let (saved, ..) = tape::taken(saved);
        // Words behind a multiple of 16.
        let base = rest & !15;
        let slots = formats::places(list, (general, vector, (rest - base) as u16 / 8));
        for (wanted, place) in list.iter().zip(slots) {
            let (area, offset) = match place {
                formats::Place::General(n) => (saved, 8 * u64::from(n)),
                formats::Place::Vector(n) => (saved, 48 + 16 * u64::from(n)),
                formats::Place::Stack(n) => (base, 8 * u64::from(n)),
            };
            let (at, bytes) = (area.wrapping_add(offset), u64::from(wanted.kind.bytes()));
            let Some((first, len)) = self.memory.first_unwritten(at, bytes) else {
                continue;
            };
            self.memory.settle(at, bytes);
            let name = self.function_name(a.function);
            let (position, text) = (wanted.position, &wanted.text);
            let what = format!(
                "value {position} in argument {} of {name}, for {text}",
                n + 1
            );
            let by = Holder::Memory(first, len);
            self.wrongly_given(a, what, by, true);
        }
    }

    /// Numbers that a system call is made with.
    pub(super) fn given_to_kernel(&mut self, nr: u64, pc: u64) {
        if self.now.registers.tainted == 0 || self.now.closed > 0 {
            return;
        }
        let Some((_, list)) = SCALARS.iter().find(|(n, _)| *n == nr) else {
            return;
        };
        for (n, bytes) in *list {
            let unit = KERNEL[usize::from(*n)];
            let cell = &mut self.now.registers.units[usize::from(unit)];
            if cell.unwritten() & ((1u16 << bytes) - 1) as u8 == 0 {
                continue;
            }
            cell.set_unwritten(0);
            let name = abi_name(nr).unwrap_or_default();
            let what = format!("argument {} of {name}", n + 1);
            let by = Holder::Register(unit);
            if self.now.lenient == 0 {
                let passed_on = false;
                let redex = Redex::Given {
                    what,
                    by,
                    passed_on,
                };
                self.decided(self.step, pc, &redex);
            }
        }
    }

    fn wrong(&mut self, a: &Active, what: String, by: Holder) {
        self.wrongly_given(a, what, by, false);
    }

    fn wrongly_given(&mut self, a: &Active, what: String, by: Holder, passed_on: bool) {
        if self.now.lenient == 0 {
            let redex = Redex::Given {
                what,
                by,
                passed_on,
            };
            self.decided(a.step, a.pc, &redex);
        }
    }
}
