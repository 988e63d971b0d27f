//! gdb's agent expressions: the little stack machine in which it sends the condition of a breakpoint.
//!
//! A condition that is judged here costs a stop of the guest and no word to gdb. What cannot be judged
//! (memory that is not there, an operation that is about tracing) counts as true: gdb then judges for
//! itself, and says what is wrong.

use case::{Session, UserRegs};

use crate::registers::Layout;

/// No expression that gdb makes of a condition comes near.
const MOST: usize = 100_000;

/// What an expression can ask about.
pub(crate) trait State {
    fn register(&self, number: usize) -> Option<u64>;
    fn memory(&self, address: u64, len: usize) -> Option<u64>;
}

/// The thread that runs.
pub(crate) struct Thread<'a> {
    session: &'a Session,
    layout: &'a Layout,
    regs: UserRegs,
}

impl<'a> Thread<'a> {
    pub(crate) fn new(session: &'a Session, layout: &'a Layout) -> Self {
        Thread {
            session,
            layout,
            regs: session.current_registers(),
        }
    }
}

impl State for Thread<'_> {
    fn register(&self, number: usize) -> Option<u64> {
        self.layout.general_value(number, &self.regs)
    }

    fn memory(&self, address: u64, len: usize) -> Option<u64> {
        let mut word = [0; 8];
        let read = self.session.read(address, &mut word[..len]);
        (read == len).then(|| u64::from_le_bytes(word))
    }
}

/// The value of an expression; none if it cannot be had.
pub(crate) fn value(code: &[u8], state: &impl State) -> Option<u64> {
    let mut stack: Vec<u64> = Vec::new();
    let mut at = 0;
    for _ in 0..MOST {
        let op = *code.get(at)?;
        at += 1;
        let mut operand = |len: usize| {
            let bytes = code.get(at..at + len)?;
            at += len;
            let wide = bytes.iter().fold(0, |all, b| all << 8 | u64::from(*b));
            Some(wide)
        };
        match op {
            // `float` says that what follows is about floating point, which no operation is.
            0x01 => {}
            0x02..=0x09 | 0x0a | 0x0b | 0x0f..=0x11 | 0x13..=0x15 => {
                let b = stack.pop()?;
                let a = stack.pop()?;
                stack.push(two(op, a, b)?);
            }
            0x0e => {
                let a = stack.pop()?;
                stack.push(u64::from(a == 0));
            }
            0x12 => {
                let a = stack.pop()?;
                stack.push(!a);
            }
            0x16 => {
                let (bits, a) = (operand(1)?, stack.pop()?);
                let unused = 64u32.checked_sub(u32::try_from(bits).ok()?)?;
                stack.push(((a << unused) as i64 >> unused) as u64);
            }
            0x2a => {
                let (bits, a) = (operand(1)?, stack.pop()?);
                let unused = 64u32.checked_sub(u32::try_from(bits).ok()?)?;
                stack.push(a << unused >> unused);
            }
            0x17..=0x1a => {
                let address = stack.pop()?;
                stack.push(state.memory(address, 1 << (op - 0x17))?);
            }
            0x20 => {
                let (to, a) = (operand(2)?, stack.pop()?);
                if a != 0 {
                    at = to as usize;
                }
            }
            0x21 => at = operand(2)? as usize,
            0x22..=0x25 => {
                let constant = operand(1 << (op - 0x22))?;
                stack.push(constant);
            }
            0x26 => {
                let number = operand(2)? as usize;
                stack.push(state.register(number)?);
            }
            0x27 => return stack.last().copied(),
            0x28 => stack.push(*stack.last()?),
            0x29 => drop(stack.pop()?),
            0x2b => {
                let n = stack.len();
                stack.swap(n.checked_sub(2)?, n - 1);
            }
            0x32 => {
                let deep = operand(1)? as usize;
                stack.push(*stack.iter().rev().nth(deep)?);
            }
            0x33 => {
                let from = stack.len().checked_sub(3)?;
                stack[from..].rotate_right(1);
            }
            _ => return None,
        }
    }
    None
}

/// An operation on the two topmost values, `b` being the top.
fn two(op: u8, a: u64, b: u64) -> Option<u64> {
    let (sa, sb) = (a as i64, b as i64);
    let shift = |f: &dyn Fn(u32) -> u64, beyond: u64| match u32::try_from(b) {
        Ok(n @ 0..64) => f(n),
        _ => beyond,
    };
    Some(match op {
        0x02 => a.wrapping_add(b),
        0x03 => a.wrapping_sub(b),
        0x04 => a.wrapping_mul(b),
        0x05 => sa.checked_div(sb)? as u64,
        0x06 => a.checked_div(b)?,
        0x07 => sa.checked_rem(sb)? as u64,
        0x08 => a.checked_rem(b)?,
        0x09 => shift(&|n| a << n, 0),
        0x0a => shift(&|n| (sa >> n) as u64, (sa >> 63) as u64),
        0x0b => shift(&|n| a >> n, 0),
        0x0f => a & b,
        0x10 => a | b,
        0x11 => a ^ b,
        0x13 => u64::from(a == b),
        0x14 => u64::from(sa < sb),
        0x15 => u64::from(a < b),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers are ten times their number; memory has the low byte of its address everywhere.
    struct Made;

    impl State for Made {
        fn register(&self, number: usize) -> Option<u64> {
            (number < 16).then_some(number as u64 * 10)
        }

        fn memory(&self, address: u64, len: usize) -> Option<u64> {
            let byte = address & 0xff;
            let all = (0..len).fold(0, |all, _| all << 8 | byte);
            (address != 0).then_some(all)
        }
    }

    #[track_caller]
    fn check(code: &[u8], expected: Option<u64>) {
        assert_eq!(value(code, &Made), expected, "{code:x?}");
    }

    #[test]
    fn arithmetic() {
        let two = |a: u8, b: u8, op: u8| value(&[0x22, a, 0x22, b, op, 0x27], &Made);
        assert_eq!(two(7, 3, 0x02), Some(10));
        assert_eq!(two(3, 7, 0x03), Some(-4i64 as u64));
        assert_eq!(two(7, 3, 0x04), Some(21));
        assert_eq!(two(7, 3, 0x05), Some(2));
        assert_eq!(two(7, 3, 0x08), Some(1));
        assert_eq!(two(7, 0, 0x06), None);
        assert_eq!(two(7, 3, 0x09), Some(56));
        assert_eq!(two(7, 99, 0x0b), Some(0));
        assert_eq!(two(7, 7, 0x13), Some(1));
        assert_eq!(two(7, 3, 0x14), Some(0));
        assert_eq!(two(3, 7, 0x15), Some(1));
    }

    #[test]
    fn widths_and_places() {
        // ext: 0xff as a signed byte.
        check(&[0x22, 0xff, 0x16, 8, 0x27], Some(u64::MAX));
        check(&[0x23, 0x12, 0x34, 0x2a, 8, 0x27], Some(0x34));
        check(&[0x26, 0, 5, 0x27], Some(50));
        check(&[0x26, 0, 99, 0x27], None);
        check(&[0x22, 0x41, 0x18, 0x27], Some(0x4141));
        check(&[0x22, 0, 0x18, 0x27], None);
    }

    #[test]
    fn jumps_and_the_stack() {
        // `reg 1 == 10 ? 5 : 6`.
        let choose = [
            0x26, 0, 1, 0x22, 10, 0x13, 0x20, 0, 14, 0x22, 6, 0x21, 0, 16, 0x22, 5, 0x27,
        ];
        check(&choose, Some(5));
        check(&[0x22, 1, 0x22, 2, 0x22, 3, 0x33, 0x27], Some(2));
        check(&[0x22, 1, 0x22, 2, 0x32, 1, 0x27], Some(1));
        check(&[0x22, 1, 0x22, 2, 0x2b, 0x27], Some(1));
        check(&[0x22, 9, 0x28, 0x02, 0x27], Some(18));
        // What ends early, tracing, and what never ends.
        check(&[0x22], None);
        check(&[0x2b, 0x27], None);
        check(&[0x22, 1, 0x0c], None);
        check(&[0x21, 0, 0], None);
    }
}
