//! Whether a program knows that realloc has not moved a block.
//!
//! A pointer into a block is stale when the block has been reallocated, also if it is still where it was: the next
//! time it may not be. But some programs ask, and go on with the old pointers if the old and the new address are
//! the same. That is done right behind the call, so the instructions there are looked at for a comparison of the
//! two.

use guest::{Guest, UserRegs};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use image::effects::RegRange;
use rules::heap::BlockId;

use super::watch::Watched;
use crate::Error;
use crate::trace::register_of;

/// Instructions behind the return of realloc that are looked at: a wrapper may be returned from, and the new address
/// stored.
const SOON: u64 = 300;

/// The program has asked, each time that the block was reallocated before a step, whether it was moved.
pub(super) fn is_known(w: &mut Watched, block: BlockId, before: u64) -> Result<bool, Error> {
    let heap = &w.machine.heap;
    let address = heap.block(block).begin;
    let returns = heap.successors(block).map(|id| heap.block(id).made);
    let returns: Vec<u64> = returns.filter(|step| *step < before).collect();
    for step in returns {
        let soon = step + 1..before.min(step + SOON);
        if !is_compared(w, address, soon)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_compared(w: &mut Watched, address: u64, steps: std::ops::Range<u64>) -> Result<bool, Error> {
    for step in steps {
        w.goto(step)?;
        let guest = w.guest();
        let regs = guest.regs();
        let mut code = [0; 15];
        let n = guest.read(regs.rip, &mut code);
        let insn = Decoder::with_ip(64, &code[..n], regs.rip, DecoderOptions::NONE).decode();
        let compares = matches!(
            insn.mnemonic(),
            Mnemonic::Cmp | Mnemonic::Sub | Mnemonic::Xor
        );
        let is_it = |operand| value(&insn, operand, &regs, guest) == Some(address);
        if compares && is_it(0) && is_it(1) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An operand of eight bytes.
fn value(insn: &Instruction, operand: u32, regs: &UserRegs, guest: &dyn Guest) -> Option<u64> {
    let register = |r: Register| match r {
        Register::FS => Some(regs.fs_base),
        r if r.is_segment_register() => Some(0),
        Register::RIP => Some(regs.rip),
        r if r.is_gpr64() => Some(register_of(regs, RegRange::general(r.number() as u16))),
        _ => None,
    };
    match insn.op_kind(operand) {
        OpKind::Register => register(insn.op_register(operand)),
        OpKind::Memory if insn.memory_size().size() == 8 => {
            let at = insn.virtual_address(operand, 0, |r, _, _| register(r))?;
            let mut word = [0; 8];
            let got = guest.read(at, &mut word);
            (got == 8).then(|| u64::from_le_bytes(word))
        }
        _ => None,
    }
}
