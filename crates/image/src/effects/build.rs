//! Puts an instruction's effects together: what is common to all kinds of instructions, the
//! default for those that no other file knows, and the dispatch.

use std::cell::RefCell;

use iced_x86::{
    EncodingKind, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register, RflagsBits,
};
use smallvec::smallvec;

use super::access::{self, Mask};
use super::file::{self, RegRange, VECTOR};
use super::{Access, Control, Effects, Place, Size, Source, Sources, Transfer};
use super::{general, lanes, shuffle, stack, state, strings, x87};

thread_local! {
    static FACTORY: RefCell<InstructionInfoFactory> = RefCell::new(InstructionInfoFactory::new());
}

pub(super) fn effects(instruction: &Instruction) -> Effects {
    FACTORY.with_borrow_mut(|factory| {
        // Without base and index the tables name the registers that are read as data.
        let mut bare = *instruction;
        if !instruction.is_vsib() {
            bare.set_memory_base(Register::None);
            bare.set_memory_index(Register::None);
        }
        let info = factory.info(&bare);
        let mut b = Builder {
            i: instruction,
            info,
            memory: None,
            out: Effects {
                control: Control::of(instruction),
                ..Effects::default()
            },
        };
        b.find_memory();
        b.instruction();
        b.out
    })
}

/// All of a place, for every lane.
pub(super) fn whole(place: impl Into<Place>) -> Source {
    Source {
        place: place.into(),
        lane: 0,
    }
}

/// A place lane by lane.
pub(super) fn by_lane(place: impl Into<Place>, lane: u16) -> Source {
    Source {
        place: place.into(),
        lane,
    }
}

pub(super) struct Builder<'a> {
    pub(super) i: &'a Instruction,
    pub(super) info: &'a InstructionInfo,
    /// The access of the explicit memory operand.
    pub(super) memory: Option<u8>,
    pub(super) out: Effects,
}

impl Builder<'_> {
    fn instruction(&mut self) {
        if self.i.is_invalid() {
            return;
        }
        let handled = stack::instruction(self)
            || general::instruction(self)
            || strings::instruction(self)
            || shuffle::instruction(self)
            || lanes::instruction(self)
            || x87::instruction(self)
            || state::instruction(self);
        if !handled {
            self.any();
        }
        match self.out.control {
            Control::Branch(_) => self.branch(),
            Control::IndirectJump | Control::IndirectCall => {
                let target = self.operand(0);
                self.out.decided_by.extend(target);
            }
            _ => {}
        }
    }

    fn branch(&mut self) {
        let count = match self.i.mnemonic() {
            Mnemonic::Jcxz => Some(2),
            Mnemonic::Jecxz => Some(4),
            Mnemonic::Jrcxz => Some(8),
            // The count as it is before the instruction; what is tested is one less.
            Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne => {
                Some(if self.i.op0_kind() == OpKind::NearBranch64 {
                    8
                } else {
                    4
                })
            }
            _ => None,
        };
        if let Some(len) = count {
            self.out.decided_by.push(file::RCX.part(0, len).into());
        }
        let flags = self.i.rflags_read();
        for flag in flag_ranges(flags) {
            self.out.decided_by.push(flag.into());
        }
    }

    fn find_memory(&mut self) {
        let Some(n) = (0..self.i.op_count()).find(|n| self.i.op_kind(*n) == OpKind::Memory) else {
            return;
        };
        let (reads, writes) = (self.reads(n), self.writes(n));
        let size = self.i.memory_size().size() as u16;
        if size == 0 || self.i.is_vsib() || !(reads || writes) {
            return;
        }
        let element = self.i.memory_size().element_size() as u16;
        let masked = self.i.has_op_mask() && !self.i.is_broadcast() && element > 0;
        let size = if masked {
            Size::Masked {
                element: element as u8,
                lanes: (size / element) as u8,
                mask: Mask::Bits(range(self.i.op_mask())),
            }
        } else {
            Size::Fixed(size)
        };
        self.memory = Some(self.access(Access {
            address: access::explicit(self.i),
            size,
            reads,
            writes,
        }));
    }

    pub(super) fn access(&mut self, access: Access) -> u8 {
        self.out.accesses.push(access);
        (self.out.accesses.len() - 1) as u8
    }

    /// A fixed access on the stack.
    pub(super) fn stack(&mut self, displacement: i64, len: u16, writes: bool) -> Place {
        let access = self.access(Access {
            address: access::on_stack(displacement),
            size: Size::Fixed(len),
            reads: !writes,
            writes,
        });
        Place::Memory { access, at: 0, len }
    }

    pub(super) fn reads(&self, n: u32) -> bool {
        n < self.i.op_count() && is_read(self.info.op_access(n))
    }

    pub(super) fn writes(&self, n: u32) -> bool {
        n < self.i.op_count() && is_write(self.info.op_access(n))
    }

    /// The register or memory of an operand.
    pub(super) fn operand(&self, n: u32) -> Option<Place> {
        if n >= self.i.op_count() {
            return None;
        }
        match self.i.op_kind(n) {
            OpKind::Register => RegRange::of(self.i.op_register(n)).map(Place::Register),
            OpKind::Memory => {
                let access = self.memory?;
                let len = match self.out.accesses[usize::from(access)].size {
                    Size::Fixed(len) => len,
                    Size::Masked { element, lanes, .. } => u16::from(element) * u16::from(lanes),
                    _ => return Some(Place::Whole(access)),
                };
                Some(Place::Memory { access, at: 0, len })
            }
            _ => None,
        }
    }

    /// The register of an operand, if it is one.
    pub(super) fn register(&self, n: u32) -> Register {
        if n < self.i.op_count() && self.i.op_kind(n) == OpKind::Register {
            self.i.op_register(n)
        } else {
            Register::None
        }
    }

    /// Bytes of an operand that is a register or memory.
    pub(super) fn size(&self, n: u32) -> u16 {
        self.operand(n).and_then(Place::len).unwrap_or(0)
    }

    pub(super) fn set(&mut self, to: impl Into<Place>, lane: u16, from: Sources) {
        let to = to.into();
        if !to.is_empty() {
            self.out.transfers.push(Transfer { to, lane, from });
        }
    }

    /// Copies bytes.
    pub(super) fn copy(&mut self, to: impl Into<Place>, from: impl Into<Place>) {
        self.set(to, 1, smallvec![by_lane(from, 1)]);
    }

    /// Writes an operand. Registers get what the machine does to their other bytes, and a mask
    /// of the instruction is obeyed.
    pub(super) fn put(&mut self, n: u32, lane: u16, mut from: Sources) {
        let Some(to) = self.operand(n) else { return };
        if self.i.has_op_mask() {
            from.push(whole(range(self.i.op_mask())));
            if !self.i.zeroing_masking() && matches!(to, Place::Register(_)) {
                from.push(by_lane(to, lane));
            }
        }
        self.set(to, lane, from);
        self.extend(self.register(n), to.len().unwrap_or(0));
    }

    /// Writes the low `len` bytes of an operand that is a register, or all of it if it is memory.
    pub(super) fn put_low(&mut self, n: u32, len: u16, lane: u16, from: Sources) {
        let Some(to) = self.operand(n) else { return };
        self.set(to.part(0, len), lane, from);
    }

    /// What becomes of a register's bytes past the written ones: zeros, or nothing.
    pub(super) fn extend(&mut self, register: Register, written: u16) {
        let Some(to) = RegRange::of(register) else {
            return;
        };
        if register.is_gpr32() {
            self.set(to.part(4, 4), 0, Sources::new());
        } else if register.is_vector_register() && self.zeroes_rest() {
            self.set(to.part(written, VECTOR - written), 0, Sources::new());
        } else if register.is_mm() {
            self.set(to.part(8, 2), 0, Sources::new());
        }
    }

    /// Whether writing a vector register clears what lies beyond.
    pub(super) fn zeroes_rest(&self) -> bool {
        self.i.encoding() != EncodingKind::Legacy
    }

    /// The operands that are read, each by lanes of its own size.
    pub(super) fn inputs(&self, lane: u16) -> Sources {
        let operands = (0..self.i.op_count()).filter(|n| self.reads(*n));
        operands
            .filter_map(|n| self.operand(n))
            .map(|place| by_lane(place, lane))
            .collect()
    }

    /// The flags, as the tables have them. What is left undefined may also stay as it was.
    pub(super) fn flags(&mut self, from: &Sources) {
        let written = self.i.rflags_written();
        let constant = self.i.rflags_cleared() | self.i.rflags_set();
        let undefined = self.i.rflags_undefined();
        for run in runs(constant) {
            self.set(run, 0, Sources::new());
        }
        for run in runs(written & !constant) {
            self.set(run, 0, whole_of(from));
        }
        for run in runs(undefined & !constant & !written) {
            let mut from = whole_of(from);
            from.push(by_lane(run, 1));
            self.set(run, 1, from);
        }
    }

    /// The flags that are read.
    pub(super) fn flags_read(&self) -> Sources {
        runs(self.i.rflags_read()).map(whole).collect()
    }

    /// Floating point arithmetic obeys the control register and leaves traces in its flags.
    pub(super) fn floating(&mut self, inputs: &Sources) {
        let mut from = whole_of(inputs);
        from.push(whole(file::MXCSR_FLAGS));
        from.push(whole(file::MXCSR_CONTROL));
        self.set(file::MXCSR_FLAGS, 0, from);
    }

    /// Every output from every input, as the tables name them.
    pub(super) fn any(&mut self) {
        let mut from = Sources::new();
        let add = |from: &mut Sources, place: Place| {
            if !from.contains(&whole(place)) {
                from.push(whole(place));
            }
        };
        for used in self.info.used_registers() {
            if is_read(used.access())
                && let Some(range) = RegRange::of(used.register())
            {
                add(&mut from, range.into());
            }
        }
        for n in 0..self.i.op_count() {
            if self.i.op_kind(n) == OpKind::Memory
                && self.reads(n)
                && let Some(place) = self.operand(n)
            {
                add(&mut from, place);
            }
        }
        for flag in self.flags_read() {
            add(&mut from, flag.place);
        }
        if self.floats() {
            from.push(whole(file::MXCSR_CONTROL));
            self.floating(&from);
        }
        for n in 0..self.i.op_count() {
            if !self.writes(n) {
                continue;
            }
            let mut from = from.clone();
            if is_conditional(self.info.op_access(n))
                && let Some(old) = self.operand(n)
            {
                add(&mut from, old);
            }
            self.put(n, 0, from);
        }
        for used in self.info.used_registers() {
            let register = used.register();
            let explicit = (0..self.i.op_count()).any(|n| {
                self.writes(n) && self.register(n).full_register() == register.full_register()
            });
            if explicit || !is_write(used.access()) {
                continue;
            }
            if let Some(range) = RegRange::of(register) {
                let mut from = from.clone();
                if is_conditional(used.access()) {
                    add(&mut from, range.into());
                }
                self.set(range, 0, from);
            }
        }
        self.flags(&from);
    }

    /// Whether the instruction does floating point arithmetic under MXCSR. Not exact: some that
    /// only move are taken in, which costs a dependence on a register that hardly ever changes.
    fn floats(&self) -> bool {
        use iced_x86::CpuidFeature as F;
        let vector = (0..self.i.op_count()).any(|n| self.register(n).is_vector_register());
        let features = self.i.cpuid_features();
        let integer = matches!(features, [F::AES, ..] | [F::SHA, ..] | [F::GFNI, ..]);
        vector && !integer
    }
}

pub(super) fn range(register: Register) -> RegRange {
    RegRange::of(register).unwrap_or(RegRange { at: 0, len: 0 })
}

/// The same inputs, each for every lane.
pub(super) fn whole_of(from: &Sources) -> Sources {
    from.iter().map(|s| whole(s.place)).collect()
}

pub(super) fn is_read(access: OpAccess) -> bool {
    use OpAccess as A;
    matches!(
        access,
        A::Read | A::CondRead | A::ReadWrite | A::ReadCondWrite
    )
}

pub(super) fn is_write(access: OpAccess) -> bool {
    use OpAccess as A;
    matches!(
        access,
        A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite
    )
}

fn is_conditional(access: OpAccess) -> bool {
    matches!(access, OpAccess::CondWrite | OpAccess::ReadCondWrite)
}

const FLAG_BITS: [u32; 8] = [
    RflagsBits::CF,
    RflagsBits::PF,
    RflagsBits::AF,
    RflagsBits::ZF,
    RflagsBits::SF,
    RflagsBits::OF,
    RflagsBits::DF,
    RflagsBits::AC,
];

fn flag_ranges(bits: u32) -> impl Iterator<Item = RegRange> {
    let set = FLAG_BITS
        .iter()
        .enumerate()
        .filter(move |(_, b)| bits & **b != 0);
    set.map(|(n, _)| file::FLAGS.part(n as u16, 1))
}

/// Flags that lie next to each other, as one range each.
pub(super) fn runs(bits: u32) -> impl Iterator<Item = RegRange> {
    let mut out: smallvec::SmallVec<[RegRange; 3]> = smallvec![];
    for flag in flag_ranges(bits) {
        match out.last_mut() {
            Some(last) if last.end() == flag.at => last.len += 1,
            _ => out.push(flag),
        }
    }
    out.into_iter()
}
