//! Where the engine's own memory sits in the guest's address space.
//!
//! Translated code reaches three kinds of engine memory: its thread's page (spill slots, the step
//! counter) through GS, which glibc leaves alone; two lookup tables for indirect branches through
//! absolute 32-bit displacements, which therefore lie below 2 GiB; and the code cache itself, in
//! regions of [`REGION_SIZE`] near the code they were translated from, so that rip-relative
//! operands stay within reach.
//!
//! ```text
//! base + 0           thread pages, private: copied with the guest by a checkpoint
//! base + 0x100_0000  table of indirect targets, indexed by the low 16 bits of the address
//! base + 0x110_0000  second table, hashed, complete
//! base + 0x160_0000  what the system-call stub may do by itself, one word a call
//! base + 0x170_0000  ring of system-call results
//! base + 0x1f0_0000  the tape
//! base + 0xbf0_0000  first code region
//! ```

/// Candidates for `base`; the first that is free in the new image is taken.
pub(crate) const BASES: [u64; 4] = [0x7000_0000, 0x6000_0000, 0x5000_0000, 0x3000_0000];

pub(crate) const PRIVATE_SIZE: u64 = 0x100_0000;
pub(crate) const SHARED_SIZE: u64 = 0xf0_0000 + TAPE_SIZE;
/// The more room there is, the more steps are sure not to fill it; hardly any of it is ever touched.
pub(crate) const TAPE_SIZE: u64 = 0xa00_0000;
pub(crate) const REGION_SIZE: u64 = 0x400_0000;

/// Bytes each thread has of the private part.
pub(crate) const THREAD_SIZE: u64 = 0x4000;
pub(crate) const MAX_THREADS: u64 = PRIVATE_SIZE / THREAD_SIZE;

pub(crate) const L2_BITS: u32 = 18;
pub(crate) const L2_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Places of the second table for the addresses in one page of code: a few pages of the table for
/// a program of a few pages, instead of one for each address.
pub(crate) const L2_GROUP_BITS: u32 = 9;

/// The place where the second table is first looked at for `pc`.
pub(crate) fn l2_index(pc: u64) -> u64 {
    let group = (pc >> 12).wrapping_mul(L2_MULTIPLIER) >> (64 - (L2_BITS - L2_GROUP_BITS));
    group << L2_GROUP_BITS | pc >> 3 & ((1 << L2_GROUP_BITS) - 1)
}

/// The engine's addresses in one guest image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) base: u64,
}

impl Layout {
    pub(crate) fn thread(self, slot: u64) -> u64 {
        self.base + slot * THREAD_SIZE
    }
    pub(crate) fn shared(self) -> u64 {
        self.base + PRIVATE_SIZE
    }
    pub(crate) fn table(self) -> u64 {
        self.shared()
    }
    pub(crate) fn l2(self) -> u64 {
        self.shared() + 0x10_0000
    }
    pub(crate) fn classes(self) -> u64 {
        self.shared() + 0x60_0000
    }
    pub(crate) fn ring(self) -> u64 {
        self.shared() + 0x70_0000
    }
    pub(crate) fn ring_size(self) -> u64 {
        0x80_0000
    }
    /// Calls run on the spot have the first half of the ring.
    pub(crate) fn spots_end(self) -> u64 {
        self.beside()
    }
    /// What a tape tells of them beyond that, see [`beside`].
    pub(crate) fn beside(self) -> u64 {
        self.ring() + self.ring_size() / 2
    }
    pub(crate) fn tape(self) -> u64 {
        self.shared() + 0xf0_0000
    }
    pub(crate) fn first_region(self) -> u64 {
        self.shared() + SHARED_SIZE
    }
}

/// Offsets in a thread's page, the GS-relative addresses that translated code uses.
pub(crate) mod slot {
    /// Guest rcx while an annotation uses rcx.
    pub(crate) const RCX: u32 = 0x00;
    /// Guest rdx while an annotation uses rdx.
    pub(crate) const RDX: u32 = 0x08;
    /// Any other register while an annotation uses it.
    pub(crate) const ANY: u32 = 0x10;
    /// Flags as `lahf; seto al` leaves them, in the miss routine.
    pub(crate) const LAHF: u32 = 0x18;
    /// Steps still allowed, negated: count up, and zero stops the guest. There are
    /// several such lanes, each superblock using one of them, so that one addition does not have to
    /// wait for the one before.
    pub(crate) const COUNT: u32 = 0x400;
    pub(crate) const LANES: u32 = 8;
    /// `step = BASE + ` the sum of the lanes.
    pub(crate) const BASE: u32 = COUNT + 8 * LANES;
    /// Where the next record of the tape goes, during a system call.
    pub(crate) const TAPE: u32 = 0x20;
    /// For each general register, the guest's own value while it holds the cursor of the tape.
    pub(crate) const TAPE_REGISTERS: u32 = 0x600;
    /// Answers that a replay offers to system calls: the next one, and where they end.
    pub(crate) const OFFER_AT: u32 = 0x28;
    pub(crate) const OFFER_END: u32 = 0x30;
    /// Where translated code goes on after a system call.
    pub(crate) const CONTINUE: u32 = 0x38;
    pub(crate) const RSP: u32 = 0x40;
    pub(crate) const FLAGS: u32 = 0x48;
    pub(crate) const STACK: u32 = 0x50;
    /// Not zero: stop at the next chance.
    pub(crate) const PREEMPT: u32 = 0x58;
    pub(crate) const RING_AT: u32 = 0x60;
    pub(crate) const RING_END: u32 = 0x68;
    pub(crate) const NR: u32 = 0x70;
    pub(crate) const RESULT: u32 = 0x78;
    pub(crate) const CLASS: u32 = 0x80;
    pub(crate) const NEXT: u32 = 0x88;
    /// The six arguments of the system call in progress.
    pub(crate) const ARGS: u32 = 0x90;
    /// Where the next record of an observed run goes, and room for its memory operand.
    pub(crate) const OBSERVE_AT: u32 = 0xc8;
    pub(crate) const OBSERVED: u32 = 0xd0;
    /// A word that is always zero: sleeping threads wait on it in the kernel.
    pub(crate) const NOBODY: u32 = 0xc0;
    /// The step of the system call in progress.
    pub(crate) const STEP: u32 = 0xd8;
    /// Where what a tape tells of the next call run on the spot goes; 0 without a tape.
    pub(crate) const BESIDE_AT: u32 = 0xe0;
    /// A string that is measured, what it is compared with, where it stops, how much of it is read at most, and where
    /// translated code goes on.
    pub(crate) const TEXT: u32 = 0xe8;
    pub(crate) const LIKE: u32 = 0xf0;
    pub(crate) const STOP: u32 = 0xf8;
    pub(crate) const MOST: u32 = 0x100;
    pub(crate) const MEASURED: u32 = 0x108;
    /// Countdown of each armed stop.
    pub(crate) const STOPS: u32 = 0x1000;
    pub(crate) const MAX_STOPS: u32 = 512;
    /// Strings and small structures of injected system calls.
    pub(crate) const SCRATCH: u32 = 0x2000;
    pub(crate) const SCRATCH_LEN: usize = 0x1800;
    /// The stub's own stack grows down from here.
    pub(crate) const STACK_TOP: u32 = 0x4000;
}

/// One record in the ring: this header, then `len` bytes, padded to 8: the first three arguments
/// of the call and what it wrote.
pub(crate) mod record {
    pub(crate) const NR: u32 = 0;
    pub(crate) const LEN: u32 = 4;
    pub(crate) const STEP: u32 = 8;
    pub(crate) const RESULT: u32 = 16;
    pub(crate) const ARGS: u32 = 24;
    pub(crate) const ARGS_LEN: u32 = 24;
    pub(crate) const SIZE: u32 = ARGS + ARGS_LEN;
}

/// While a tape is written of a guest that is recorded: for each record in the ring, in the same order, what the events
/// file has no use for. There is room for as many as there can be records.
pub(crate) mod beside {
    /// Where the next record of the tape goes.
    pub(crate) const CURSOR: u32 = 0;
    /// The address behind the call.
    pub(crate) const NEXT: u32 = 8;
    /// The last three arguments.
    pub(crate) const ARGS: u32 = 16;
    pub(crate) const SIZE: u32 = 40;
    const _: () = assert!(SIZE <= super::record::SIZE);
}

/// One record of an observed run, in 8-byte words: address, step, memory operand, the general
/// registers by hardware number, and the memory operand after the instruction if that wrote it. In a replay, which runs no call on the spot, the ring holds them.
pub(crate) mod seen {
    pub(crate) const PC: usize = 0;
    pub(crate) const STEP: usize = 1;
    pub(crate) const MEMORY: usize = 2;
    pub(crate) const REGS: usize = 3;
    pub(crate) const AFTER: usize = REGS + 16;
    pub(crate) const WORDS: usize = AFTER + 1;
    pub(crate) const SIZE: usize = WORDS * 8;
    /// The cursor points this far into the record, so that one byte reaches all of it.
    pub(crate) const BIAS: usize = 64;
}

/// The word that tells the system-call stub what it may do with a call: bit 0 it may run it;
/// bits 4..8 the argument that receives memory, 15 for none; bits 8..12 the argument that bounds
/// the number of bytes, 15 for a fixed number; bits 12..16 the argument with the flags of an open, which the tracer
/// wants to see if it is not for reading, 15 for none; bits 16..20 the argument with a command, 15 for none; bits 32..
/// that number of bytes, or which commands.
pub(crate) mod class {
    pub(crate) const FAST: u64 = 1;
    pub(crate) const NONE: u64 = 15;
    /// Larger transfers are left to the tracer.
    pub(crate) const MAX_BYTES: u32 = 0x1_0000;

    /// Commands below this have a bit each, then as many from `COMMAND_BASE` on.
    pub(crate) const COMMANDS: i32 = 16;
    /// Where fcntl(2) begins with what only Linux has.
    pub(crate) const COMMAND_BASE: i32 = 1024;

    const fn word(to: u64, bound: u64, flags: u64, len: u32) -> u64 {
        FAST | to << 4 | bound << 8 | flags << 12 | NONE << 16 | (len as u64) << 32
    }
    /// Only these commands, which are in the argument `arg`, and write nothing.
    pub(crate) fn commands(arg: u8, which: &[i32]) -> u64 {
        let bit = |&command: &i32| match command {
            0..COMMANDS => 1 << command,
            _ => 1 << (command - COMMAND_BASE + COMMANDS),
        };
        let mask = which.iter().map(bit).fold(0, |a: u32, b: u32| a | b);
        word(NONE, NONE, NONE, mask) & !(NONE << 16) | u64::from(arg) << 16
    }
    pub(crate) fn no_writes() -> u64 {
        word(NONE, NONE, NONE, 0)
    }
    pub(crate) fn opens(flags: u8) -> u64 {
        word(NONE, NONE, flags.into(), 0)
    }
    pub(crate) fn fixed(arg: u8, len: u32) -> u64 {
        word(arg.into(), NONE, NONE, len)
    }
    pub(crate) fn returned(arg: u8, bound: u8) -> u64 {
        word(arg.into(), bound.into(), NONE, 0)
    }
}

/// One answer that a replay offers, in the place of the ring: this, then the bytes that the call writes, padded to 8.
pub(crate) mod offer {
    pub(crate) const NR: u32 = 0;
    /// When it is taken: where the next record of the tape goes.
    pub(crate) const CURSOR: u32 = NR;
    pub(crate) const STEP: u32 = 8;
    /// When it is taken: the address behind the call.
    pub(crate) const NEXT: u32 = STEP;
    pub(crate) const RESULT: u32 = 16;
    /// The first three arguments; when it is taken, the other three.
    pub(crate) const ARGS: u32 = 24;
    /// Where the bytes go, and how many there are.
    pub(crate) const TO: u32 = 48;
    pub(crate) const LEN: u32 = 56;
    pub(crate) const SIZE: u32 = 64;
}
