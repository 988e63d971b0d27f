//! Where indirect branches arrive.
//!
//! They come through a table that knows only some bits of their target, so the code there begins by comparing all of
//! it.

use std::sync::LazyLock;

use super::Routines;
use super::emit::{Code, Gpr};
use crate::layout::slot;

/// The prologue alone, for a block that is already translated: checks and jumps to `entry`.
pub(crate) fn thunk(pc: u64, entry: u64, host: u64, routines: Routines) -> Vec<u8> {
    let mut code = Code::at(host);
    check_target(&mut code, pc, routines);
    code.load(Gpr::RDX, slot::RDX);
    code.load(Gpr::RCX, slot::RCX);
    code.jump(entry);
    code.bytes
}

/// Goes on if the target of an indirect branch, in rcx, is `pc`. The entry is [`LANDING`] bytes further; before it stands
/// what is done on a mismatch: rcx gets the target back, and the miss routine looks further.
pub(super) fn check_target(code: &mut Code, pc: u64, routines: Routines) {
    compare(code, pc, routines, Check::here());
}

fn compare(code: &mut Code, pc: u64, routines: Routines, check: Check) {
    code.raw(&[0xcc; LANDING as usize - MISMATCH as usize]);
    code.imm64(Gpr::RDX, pc);
    code.add_rcx_rdx();
    code.jump(routines.miss);
    match check {
        Check::Loop => {
            code.imm64(Gpr::RDX, 1u64.wrapping_sub(pc));
            code.add_rcx_rdx();
            code.loop_back(MISMATCH + 10 + 4 + 2);
        }
        Check::Jrcxz => {
            code.imm64(Gpr::RDX, pc.wrapping_neg());
            code.add_rcx_rdx();
            code.jrcxz(2);
            code.jump_back(MISMATCH + 10 + 4 + 2 + 2);
        }
    }
}

/// Where in a superblock with a prologue indirect branches enter.
pub(crate) const LANDING: u8 = 32;
/// Bytes of code for a mismatch.
const MISMATCH: u8 = 10 + 4 + 5;

/// How the prologue compares, which must leave the flags alone: `loop`, which goes straight on if there is no
/// difference, is a quick instruction on AMD's processors (a tenth of the time of programs that call much) and a slow
/// one on Intel's.
#[derive(Clone, Copy, Debug)]
enum Check {
    Loop,
    Jrcxz,
}

impl Check {
    fn here() -> Check {
        static AMD: LazyLock<bool> = LazyLock::new(|| {
            let id = std::arch::x86_64::__cpuid(0);
            let name = [id.ebx, id.edx, id.ecx].map(u32::to_le_bytes).concat();
            name == b"AuthenticAMD" || name == b"HygonGenuine"
        });
        match *AMD {
            true => Check::Loop,
            false => Check::Jrcxz,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Entries;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    use super::*;

    #[test]
    fn a_landing_goes_on_or_back() {
        let routines = Routines {
            miss: 0x9000,
            syscall: 0,
            measure: Entries {
                byte: 0,
                folded: 0,
                wide: 0,
                list: 0,
            },
        };
        for check in [Check::Loop, Check::Jrcxz] {
            let mut code = Code::at(0x1000);
            compare(&mut code, 0x5555_5555_1234, routines, check);
            let entry = 0x1000 + u64::from(LANDING);
            let mismatch = entry - u64::from(MISMATCH);
            let at = |from: u64| {
                let bytes = &code.bytes[(from - 0x1000) as usize..];
                let list = Decoder::with_ip(64, bytes, from, DecoderOptions::NONE);
                list.into_iter().collect::<Vec<_>>()
            };
            let before = at(mismatch);
            assert_eq!(before[2].near_branch_target(), routines.miss);
            assert_eq!(before[3].ip(), entry);
            let back = at(entry).pop().expect("the last one leads back");
            assert_eq!(back.near_branch_target(), mismatch, "{check:?}");
            if let Check::Jrcxz = check {
                let over = at(entry)[2];
                assert_eq!(over.mnemonic(), Mnemonic::Jrcxz);
                assert_eq!(over.near_branch_target(), back.next_ip());
            }
        }
    }
}
