//! The guest's call stack, from the innermost frame outwards.
//!
//! A stack is unwound when something went wrong, so the usual assumptions may not hold: the
//! program may have jumped to a null function pointer, have smashed its return addresses, or have
//! stopped in code without call frame information. Each frame is found by the most exact means
//! that works, and says by which:
//!
//! 1. call frame information;
//! 2. for a program counter outside all code, the return address on top of the stack: the
//!    faulting instruction was a call, and a call pushes before it jumps;
//! 3. the frame pointer, if what it points to is a frame: a return address right behind a call;
//! 4. the first such return address in a bounded scan of the stack.
//!
//! The address of a caller is the one *after* its call, which may already belong to another line
//! or even another function. Lookups therefore use [`RawFrame::lookup_pc`].

use std::collections::HashSet;

use crate::program::{Memory, Program};
use crate::registers::{KnownRegisters, RBP, RIP, RSP, Registers};

/// How far above the stack pointer a return address is looked for, in words.
const SCAN_WORDS: u64 = 1024;

/// A frame larger than this is taken for a wrong frame pointer.
const LARGEST_FRAME: u64 = 8 << 20;

/// By which means a frame was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is the innermost frame: the registers are the thread's own.
    Registers,
    /// Call frame information of the frame inside it.
    Cfi,
    /// The chain of saved frame pointers.
    FramePointer,
    /// A word on the stack that follows a call instruction; frames may have been skipped.
    Scan,
    /// The return address a call to a bad address had just pushed.
    ReturnAddressAtTop,
}

/// A frame of the machine's stack; inlined calls are not among them.
#[derive(Clone, Debug)]
pub struct RawFrame {
    pub pc: u64,
    /// The stack pointer before the call that made this frame, if it could be determined.
    pub cfa: Option<u64>,
    pub registers: KnownRegisters,
    /// The frame the kernel built to run a signal handler.
    pub is_signal_frame: bool,
    /// Whether `pc` is the next instruction to run rather than a return address.
    pub is_exact: bool,
    pub how: How,
}

impl RawFrame {
    /// The address to look up for this frame: inside the instruction that is executing.
    pub fn lookup_pc(&self) -> u64 {
        if self.is_exact || self.is_signal_frame {
            self.pc
        } else {
            self.pc.wrapping_sub(1)
        }
    }
}

struct Caller {
    registers: KnownRegisters,
    how: How,
}

impl Program {
    /// The frames of a thread, innermost first, at most `limit`.
    pub fn unwind(
        &self,
        registers: &Registers,
        memory: &dyn Memory,
        limit: usize,
    ) -> Vec<RawFrame> {
        let mut frames = Vec::new();
        let mut seen = HashSet::new();
        let mut next = Some(RawFrame {
            pc: registers.rip,
            cfa: None,
            registers: KnownRegisters::from(registers),
            is_signal_frame: false,
            is_exact: true,
            how: How::Registers,
        });
        while let Some(mut frame) = next
            && frames.len() < limit
        {
            next = self.caller_of(&mut frame, memory);
            let fresh = seen.insert((frame.pc, frame.registers.rsp()));
            if !fresh {
                break;
            }
            frames.push(frame);
        }
        frames
    }

    /// Fills in the frame's own address.
    pub fn find_base(&self, frame: &mut RawFrame, memory: &dyn Memory) {
        // What it says about the caller is of no interest.
        let _ = self.step(frame, memory);
    }

    /// The frame that called `frame`, whose own frame address is filled in on the way.
    pub(crate) fn caller_of(&self, frame: &mut RawFrame, memory: &dyn Memory) -> Option<RawFrame> {
        let caller = self.step(frame, memory)?;
        let pc = caller.registers.rip().filter(|pc| *pc != 0)?;
        let (inner, outer) = (frame.registers.rsp(), caller.registers.rsp());
        // The stack of a signal handler may lie above or below the one it interrupted. All other
        // callers are further up.
        if !frame.is_signal_frame && outer? <= inner? {
            return None;
        }
        // A frame found by guessing whose address is not code is no frame at all.
        if caller.how != How::Cfi && !self.is_code(pc) {
            return None;
        }
        Some(RawFrame {
            pc,
            cfa: None,
            registers: caller.registers,
            is_signal_frame: false,
            is_exact: frame.is_signal_frame,
            how: caller.how,
        })
    }

    fn step(&self, frame: &mut RawFrame, memory: &dyn Memory) -> Option<Caller> {
        if !self.is_code(frame.pc) {
            // A return address outside all code is damage: what lies beyond is guesswork.
            if !frame.is_exact {
                return None;
            }
            return self.return_address_at_top(frame, memory);
        }
        if let Some(module) = self.module_at(frame.pc)
            && let Some(step) = module.cfi().and_then(|cfi| {
                let pc = if frame.is_exact {
                    frame.pc
                } else {
                    frame.pc.wrapping_sub(1)
                };
                cfi.step(module.vaddr(pc), &frame.registers, memory, module.bias)
            })
        {
            frame.cfa = Some(step.cfa);
            frame.is_signal_frame = step.is_signal;
            return Some(Caller {
                registers: step.caller,
                how: How::Cfi,
            });
        }
        // At the entry of a function without any description the return address is still on top.
        let top = frame.registers.rsp().and_then(|sp| word(memory, sp));
        if frame.is_exact && top.is_some_and(|pc| self.follows_call(pc, memory)) {
            return self.return_address_at_top(frame, memory);
        }
        self.by_frame_pointer(frame, memory)
            .or_else(|| self.by_scan(frame, memory))
    }

    fn return_address_at_top(&self, frame: &mut RawFrame, memory: &dyn Memory) -> Option<Caller> {
        let sp = frame.registers.rsp()?;
        let pc = word(memory, sp)?;
        let cfa = sp.checked_add(8)?;
        frame.cfa = Some(cfa);
        let mut registers = frame.registers.preserved();
        registers.set(RIP, Some(pc));
        registers.set(RSP, Some(cfa));
        Some(Caller {
            registers,
            how: How::ReturnAddressAtTop,
        })
    }

    fn by_frame_pointer(&self, frame: &mut RawFrame, memory: &dyn Memory) -> Option<Caller> {
        let (sp, bp) = (frame.registers.rsp()?, frame.registers.rbp()?);
        if bp < sp || bp - sp > LARGEST_FRAME || bp % 8 != 0 {
            return None;
        }
        let saved = word(memory, bp)?;
        let pc = word(memory, bp.checked_add(8)?)?;
        if !self.follows_call(pc, memory) {
            return None;
        }
        let cfa = bp.checked_add(16)?;
        frame.cfa = Some(cfa);
        // Which other registers the function saved is unknown, so none of them can be trusted.
        let mut registers = KnownRegisters::default();
        registers.set(RIP, Some(pc));
        registers.set(RSP, Some(cfa));
        registers.set(RBP, Some(saved));
        Some(Caller {
            registers,
            how: How::FramePointer,
        })
    }

    fn by_scan(&self, frame: &mut RawFrame, memory: &dyn Memory) -> Option<Caller> {
        let start = frame.registers.rsp()?.checked_add(7)? & !7;
        for index in 0..SCAN_WORDS {
            let at = start.checked_add(index * 8)?;
            let pc = word(memory, at)?;
            if !self.follows_call(pc, memory) {
                continue;
            }
            let cfa = at.checked_add(8)?;
            let mut registers = KnownRegisters::default();
            registers.set(RIP, Some(pc));
            registers.set(RSP, Some(cfa));
            // The frame pointer may still be right; the next step verifies it before use.
            registers.set(RBP, frame.registers.rbp());
            return Some(Caller {
                registers,
                how: How::Scan,
            });
        }
        None
    }

    /// Whether an address is code and the instruction before it is a call.
    fn follows_call(&self, pc: u64, memory: &dyn Memory) -> bool {
        if !self.is_code(pc) {
            return false;
        }
        let mut before = [0u8; 7];
        let Some(start) = pc.checked_sub(before.len() as u64) else {
            return false;
        };
        memory.read(start, &mut before) && ends_in_call(&before)
    }
}

/// Whether these seven bytes can end in a call: `call rel32`, or `call` through a register or
/// memory operand, whose length its ModRM byte tells.
fn ends_in_call(bytes: &[u8; 7]) -> bool {
    if bytes[2] == 0xe8 {
        return true;
    }
    (2..=7).any(|length| {
        let code = &bytes[7 - length..];
        if code[0] != 0xff || (code[1] >> 3) & 7 != 2 {
            return false;
        }
        let (mode, operand) = (code[1] >> 6, code[1] & 7);
        let index_byte = usize::from(mode != 3 && operand == 4);
        let displacement = match (mode, operand) {
            (0, 5) | (2, _) => 4,
            (0, 4) if code.len() > 2 && code[2] & 7 == 5 => 4,
            (1, _) => 1,
            _ => 0,
        };
        length == 2 + index_byte + displacement
    })
}

fn word(memory: &dyn Memory, address: u64) -> Option<u64> {
    let mut bytes = [0u8; 8];
    memory
        .read(address, &mut bytes)
        .then(|| u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::ends_in_call;

    #[track_caller]
    fn check(tail: &[u8], expected: bool) {
        let mut bytes = [0x90; 7];
        bytes[7 - tail.len()..].copy_from_slice(tail);
        assert_eq!(ends_in_call(&bytes), expected, "{tail:x?}");
    }

    #[test]
    fn calls_are_recognised_by_their_tail() {
        check(&[0xe8, 1, 2, 3, 4], true); // call rel32
        check(&[0xff, 0xd0], true); // call *%rax
        check(&[0x41, 0xff, 0xd4], true); // call *%r12
        check(&[0xff, 0x15, 1, 2, 3, 4], true); // call *rel(%rip)
        check(&[0xff, 0x50, 0x18], true); // call *0x18(%rax)
        check(&[0xff, 0x14, 0xc3], true); // call *(%rbx,%rax,8)
        check(&[0xff, 0x94, 0xc3, 1, 2, 3, 4], true); // call *disp(%rbx,%rax,8)
        check(&[0xff, 0xe0], false); // jmp *%rax
        check(&[0x90, 0x90], false);
    }
}
