//! Registers that wait in their slots.
//!
//! An indirect branch arrives with its target in rcx and uses rdx to find the way; the guest's own values are in the
//! thread's page then. Most code at such a target, the rest of a function after a call, overwrites these two before it
//! reads them, or comes to the next return without having touched them, which would only put them back where they are.
//! So they are left there until the superblock needs them: an instruction that reads one loads it first, one that
//! overwrites all of it makes the slot meaningless, ways out load what still waits. Wherever the guest stops, the map
//! from host to guest code says which of them to take from the slots.
//!
//! A direct branch to such a superblock stores the two before it goes in.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};

use super::emit::Gpr;
use super::{Counted, Insn, Saved, Translator};
use crate::layout::slot;

const RCX: u8 = Saved::RCX.0;
const RDX: u8 = 2;

impl Translator<'_> {
    /// Where direct branches enter code that finds the two in their slots. Returns the entry.
    pub(super) fn direct_entries(&mut self) -> u32 {
        if let Some(counted) = self.counted {
            let entry = self.direct_entry(counted.entry);
            self.counted = Some(Counted { entry, ..counted });
        }
        let body = self.entered_spilled.expect("an entry of the other kind");
        self.direct_entry(body)
    }

    fn direct_entry(&mut self, body: u32) -> u32 {
        let entry = self.code.offset();
        self.code.save(Gpr::RDX, slot::RDX);
        self.code.save(Gpr::RCX, slot::RCX);
        self.code.jump(self.code.host + u64::from(body));
        entry
    }

    /// Loads all that waits.
    pub(super) fn settle(&mut self) {
        self.load_spilled(self.spilled);
        self.spilled = Saved::default();
    }

    pub(super) fn load_spilled(&mut self, spilled: Saved) {
        if spilled.rdx() {
            self.code.load(Gpr::RDX, slot::RDX);
        }
        if spilled.rcx() {
            self.code.load(Gpr::RCX, slot::RCX);
        }
    }

    /// Loads what the next instruction reads. Returns what it makes meaningless.
    pub(super) fn settle_for(&mut self, insn: &Insn) -> u8 {
        if self.spilled == Saved::default() {
            return 0;
        }
        let factory = self.factory.get_or_insert_with(InstructionInfoFactory::new);
        let (read, written) = uses(&insn.decoded, factory);
        let told = (insn.told >> 1) as u8 & (RCX | RDX);
        let needed = Saved(self.spilled.0 & (read | told));
        self.load_spilled(needed);
        self.spilled.0 &= !needed.0;
        written
    }

    /// Stores rcx, unless its slot has it.
    pub(super) fn save_rcx(&mut self) {
        if !self.spilled.rcx() {
            self.code.save(Gpr::RCX, slot::RCX);
        }
    }

    /// Stores rdx, unless its slot has it.
    pub(super) fn save_rdx(&mut self) {
        if !self.spilled.rdx() {
            self.code.save(Gpr::RDX, slot::RDX);
        }
    }
}

/// Which of the two the instruction reads, as far as that can matter, and which it overwrites as a whole. Only the
/// usual instructions count as overwriting: others may leave their destination alone, as `bsf` does for zero and
/// `rdsspq` on processors that do not know it.
fn uses(insn: &Instruction, factory: &mut InstructionInfoFactory) -> (u8, u8) {
    let overwrites = match insn.mnemonic() {
        Mnemonic::Mov
        | Mnemonic::Movzx
        | Mnemonic::Movsx
        | Mnemonic::Movsxd
        | Mnemonic::Lea
        | Mnemonic::Pop => true,
        Mnemonic::Xor => insn.op0_register() == insn.op1_register(),
        _ => false,
    };
    let (mut read, mut written) = (0, 0);
    for used in factory.info(insn).used_registers() {
        let bit = match used.register().full_register() {
            Register::RCX => RCX,
            Register::RDX => RDX,
            _ => continue,
        };
        let whole = used.register().is_gpr64() || used.register().is_gpr32();
        if overwrites && whole && used.access() == OpAccess::Write {
            written |= bit;
        } else {
            read |= bit;
        }
    }
    (read, written & !read)
}
