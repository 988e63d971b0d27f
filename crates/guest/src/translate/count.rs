//! Counting the steps.
//!
//! One `add [count], n` accounts for a whole superblock; ways out before its end
//! correct the count on their side. What costs is not the instruction but the chain of
//! dependences through the counter, so there must be few of them: short loops are unrolled. The
//! `add` destroys the flags, so it is put right before an instruction that overwrites all of them
//! and reads none; nearly every conditional branch has such a `cmp` or `test` before it. Only a
//! superblock without one pays for a sequence of `mov`, `lea` and `jrcxz`, which leave the flags
//! alone. Ways out that lead to such an instruction soon correct the count by an `add` likewise:
//! until then the flags are *blind*, and a fault there shows them as zero in every run, whichever
//! way it came. Lanes count up from below zero, and zero stops the guest: that is how a run to an exact step, a time slice
//! and a prompt signal are made.
//! Counting on every instruction, or in a stolen register, was rejected: the first costs 3x, the
//! second turns every use of that register into memory traffic and every fault into a puzzle.
//!
//! A superblock at whose beginning the flags do not matter counts itself first of all. A way out that has to correct
//! the count and leads there does both in one addition, and enters behind the other.

use super::emit::Gpr;
use super::{Insn, Point, Saved, Translator};
use crate::layout::slot;

/// Condition of a stop: the lane is used up.
pub(super) const NOT_NEGATIVE: u8 = 9;

/// The addition on a way out that corrects the count. One that leads to a superblock which begins by counting itself
/// does both at once, when it is linked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correction {
    /// Where its operands stand: four bytes for the lane, one for the number.
    pub(crate) site: u64,
    pub(crate) lane: u32,
    pub(crate) number: i8,
    /// The point at which the budget may run out there.
    pub(crate) budget: u32,
}

/// How a superblock begins by counting itself: it can be entered behind that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) lane: u32,
    pub(crate) number: i8,
    /// Offset of the code behind it.
    pub(crate) entry: u32,
}

impl Translator<'_> {
    /// The lane that this superblock counts in: a function of its address, and another one for the
    /// superblocks around it.
    pub(super) fn count_slot(&self) -> u32 {
        let pc = self.block.pc;
        let mixed = pc ^ pc >> 3 ^ pc >> 6;
        slot::COUNT + 8 * (mixed as u32 % slot::LANES)
    }

    /// Counts before anything else: nobody needs the flags that the superblock is entered with.
    pub(super) fn count_first(&mut self, n: i32) {
        let block = self.block;
        self.note(block.pc, 0, Saved::default());
        self.count(block.pc, n, 0, block.blind);
        self.counted = Some(Counted {
            lane: self.count_slot(),
            number: n as i8,
            entry: self.code.offset(),
        });
    }

    /// `add [count], n; jns stop`, where the flags are the guest's again after `blind` instructions.
    pub(super) fn count(&mut self, pc: u64, n: i32, done: i32, blind: u8) {
        let count = self.count_slot();
        self.code.add_slot(count, n as i8);
        let site = self.code.jcc_later(NOT_NEGATIVE);
        let p = self.point(Point::Budget {
            pc,
            uncounted: done - n,
            blind,
            saved: self.spilled,
            open: self.open(),
            again: self.again(false),
        });
        self.stubs.push((site, p));
    }

    /// Adds to the counter without touching the flags, rcx being saved; rcx is zero afterwards if the guest must stop. The
    /// top byte of the counter is zero only when it has passed zero, since it starts as a small negative number.
    fn add_in_rcx(&mut self, n: i32) {
        let count = self.count_slot();
        self.code.load(Gpr::RCX, count);
        self.code.add_rcx(n as i8);
        self.code.save(Gpr::RCX, count);
        self.code.load_byte_ecx(count + 7);
    }

    /// Counts without touching the flags.
    pub(super) fn count_keeping_flags(&mut self, pc: u64, n: i32, done: i32) {
        self.note(pc, done, Saved::RCX);
        self.save_rcx();
        self.add_in_rcx(n);
        if self.spilled.rcx() {
            self.code.jrcxz(2);
        } else {
            self.code.jrcxz(9 + 2);
            self.code.load(Gpr::RCX, slot::RCX);
        }
        self.code.raw(&[0xeb, 5]);
        let site = self.code.jump_later();
        let p = self.point(Point::Budget {
            pc,
            uncounted: done - n,
            blind: 0,
            saved: Saved(self.spilled.0 | Saved::RCX.0),
            open: self.open(),
            again: self.again(!self.spilled.rcx()),
        });
        self.stubs.push((site, p));
    }

    /// Counts at an indirect branch, rcx being saved already, if that is still to be done.
    pub(super) fn count_with_rcx_saved(&mut self, pc: u64) -> bool {
        let Some((n, done)) = self.late_count.take() else {
            return false;
        };
        self.note(pc, done, Saved::RCX);
        self.add_in_rcx(n);
        // The stop is reached over a jump that stands right behind the branch.
        self.code.jrcxz(0);
        let p = self.point(Point::Budget {
            pc,
            uncounted: done - n,
            blind: 0,
            saved: Saved(self.spilled.0 | Saved::RCX.0),
            open: self.open(),
            again: None,
        });
        self.island = Some((self.code.offset(), p));
        true
    }
}

/// Where in a superblock the count may be added although it destroys the flags: right before an
/// instruction that overwrites all of them. The earlier the better, since ways out before it have
/// to count for themselves. Among those before the first way out one that cannot fault is
/// preferred: at a fault the guest's flags, dead though they are, would not be the true ones.
pub(super) fn place_to_count(insns: &[Insn]) -> Option<usize> {
    let mut found = None;
    for (i, insn) in insns.iter().enumerate() {
        if insn.sets_all_flags {
            if !insn.may_fault {
                return Some(i);
            }
            found = found.or(Some(i));
        }
        if insn.flow.leaves() && found.is_some() {
            break;
        }
    }
    found
}
