//! One step up the stack by call frame information.
//!
//! Compilers describe, for every instruction, how to find the caller's registers. That table is
//! present even in stripped programs, because exceptions need it, and it is the only exact way up
//! a stack built without frame pointers.
//!
//! `.eh_frame_hdr` offers a sorted index for binary search. It is used when it makes sense;
//! otherwise, and for `.debug_frame`, an index is built by one pass over the section. A file that
//! lost its section table to truncation still names `.eh_frame_hdr` in its program headers.

use std::sync::OnceLock;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, ParsedEhFrameHdr,
    Reader as _, RegisterRule, Section as _, UnwindContext, UnwindSection,
};

use crate::elf::{Bytes, Elf, Warnings};
use crate::evaluate::{Surroundings, number};
use crate::program::Memory;
use crate::registers::{KnownRegisters, RIP, RSP};

type Fde = gimli::FrameDescriptionEntry<Bytes>;

pub(crate) struct Cfi {
    eh_frame: EhFrame<Bytes>,
    header: Option<ParsedEhFrameHdr<Bytes>>,
    eh_frame_vaddr: u64,
    debug_frame: DebugFrame<Bytes>,
    bases: BaseAddresses,
    eh_index: OnceLock<Vec<Covered>>,
    debug_index: OnceLock<Vec<Covered>>,
}

/// The code one frame description covers.
struct Covered {
    begin: u64,
    end: u64,
    offset: usize,
}

/// What call frame information says about a frame.
pub(crate) struct Step {
    pub(crate) cfa: u64,
    /// The caller's registers; without `rip` there is no caller.
    pub(crate) caller: KnownRegisters,
    /// The frame is the kernel's, between a signal handler and what it interrupted.
    pub(crate) is_signal: bool,
}

struct Machine<'a> {
    registers: &'a KnownRegisters,
    memory: &'a dyn Memory,
    bias: u64,
}

impl Surroundings for Machine<'_> {
    fn register(&self, number: u16) -> Option<u64> {
        self.registers.get(number)
    }
    fn memory(&self) -> &dyn Memory {
        self.memory
    }
    fn relocate(&self, vaddr: u64) -> u64 {
        vaddr.wrapping_add(self.bias)
    }
}

impl Cfi {
    pub(crate) fn read(elf: &Elf, debug: Option<&Elf>, warnings: &Warnings) -> Cfi {
        let mut bases = BaseAddresses::default();
        if let Some(text) = elf.section(".text") {
            bases = bases.set_text(text.vaddr);
        }
        if let Some(got) = elf.section(".got") {
            bases = bases.set_got(got.vaddr);
        }
        let mut eh_frame = elf.contents(".eh_frame", warnings);
        let mut eh_frame_vaddr = elf.section(".eh_frame").map_or(0, |s| s.vaddr);
        let mut header = None;
        let header_vaddr = match elf.section(".eh_frame_hdr") {
            Some(section) => Some(section.vaddr),
            None => elf.eh_frame_hdr_segment(),
        };
        if let Some(vaddr) = header_vaddr
            && let Some(bytes) = elf.at_vaddr(vaddr)
        {
            bases = bases.set_eh_frame_hdr(vaddr);
            let parsed = EhFrameHdr::from(bytes).parse(&bases, 8);
            if let Ok(parsed) = parsed {
                if eh_frame.is_empty()
                    && let Ok(vaddr) = parsed.eh_frame_ptr().direct()
                    && let Some(bytes) = elf.at_vaddr(vaddr)
                {
                    eh_frame = bytes;
                    eh_frame_vaddr = vaddr;
                }
                header = Some(parsed);
            }
        }
        bases = bases.set_eh_frame(eh_frame_vaddr);
        let mut frame = EhFrame::from(eh_frame);
        frame.set_address_size(8);
        let debug_frame = match debug {
            Some(debug) => debug.contents(DebugFrame::<Bytes>::section_name(), warnings),
            None => elf.contents(DebugFrame::<Bytes>::section_name(), warnings),
        };
        let mut debug_frame = DebugFrame::from(debug_frame);
        debug_frame.set_address_size(8);
        Cfi {
            eh_frame: frame,
            header,
            eh_frame_vaddr,
            debug_frame,
            bases,
            eh_index: OnceLock::new(),
            debug_index: OnceLock::new(),
        }
    }

    /// The caller of a frame that is at `vaddr` in this file, if there is a description.
    pub(crate) fn step(
        &self,
        vaddr: u64,
        registers: &KnownRegisters,
        memory: &dyn Memory,
        bias: u64,
    ) -> Option<Step> {
        let machine = Machine {
            registers,
            memory,
            bias,
        };
        if let Some(fde) = self.eh_description(vaddr) {
            return self.apply(&self.eh_frame, &fde, vaddr, &machine);
        }
        let index = self
            .debug_index
            .get_or_init(|| self.index(&self.debug_frame));
        let fde = self.find_by_index(&self.debug_frame, index, vaddr)?;
        self.apply(&self.debug_frame, &fde, vaddr, &machine)
    }

    fn eh_description(&self, vaddr: u64) -> Option<Fde> {
        self.find_by_header(vaddr).or_else(|| {
            let index = self.eh_index.get_or_init(|| self.index(&self.eh_frame));
            self.find_by_index(&self.eh_frame, index, vaddr)
        })
    }

    /// The code that one description covers: a function, or a part of one.
    pub(crate) fn extent(&self, vaddr: u64) -> Option<(u64, u64)> {
        let fde = self.eh_description(vaddr).or_else(|| {
            let index = self
                .debug_index
                .get_or_init(|| self.index(&self.debug_frame));
            self.find_by_index(&self.debug_frame, index, vaddr)
        })?;
        let begin = fde.initial_address();
        Some((begin, begin.checked_add(fde.len())?))
    }

    /// Whether the code that begins here continues another function's: a frame exists already.
    pub(crate) fn begins_inside(&self, vaddr: u64) -> bool {
        let Some(fde) = self.eh_description(vaddr) else {
            return false;
        };
        let mut context = UnwindContext::new();
        let row = fde.unwind_info_for_address(&self.eh_frame, &self.bases, &mut context, vaddr);
        let at_entry = CfaRule::RegisterAndOffset {
            register: gimli::Register(RSP),
            offset: 8,
        };
        fde.initial_address() == vaddr && row.is_ok_and(|row| *row.cfa() != at_entry)
    }

    /// Where the function around an address begins, and the address of its table of landing
    /// pads.
    pub(crate) fn exception_table(&self, vaddr: u64) -> Option<(u64, u64)> {
        let fde = self.eh_description(vaddr)?;
        Some((fde.initial_address(), fde.lsda()?.direct().ok()?))
    }

    fn find_by_header(&self, vaddr: u64) -> Option<Fde> {
        let table = self.header.as_ref()?.table()?;
        let pointer = table.lookup(vaddr, &self.bases).ok()?.direct().ok()?;
        let offset = usize::try_from(pointer.checked_sub(self.eh_frame_vaddr)?).ok()?;
        let fde = self
            .eh_frame
            .fde_from_offset(&self.bases, offset.into(), EhFrame::cie_from_offset)
            .ok()?;
        covers(&fde, vaddr).then_some(fde)
    }

    fn find_by_index<S: UnwindSection<Bytes>>(
        &self,
        section: &S,
        index: &[Covered],
        vaddr: u64,
    ) -> Option<Fde> {
        let after = index.partition_point(|c| c.begin <= vaddr);
        let found = index[..after].last().filter(|c| vaddr < c.end)?;
        section
            .fde_from_offset(&self.bases, found.offset.into(), S::cie_from_offset)
            .ok()
    }

    fn index<S: UnwindSection<Bytes>>(&self, section: &S) -> Vec<Covered> {
        let mut out = Vec::new();
        let mut entries = section.entries(&self.bases);
        // A damaged entry ends the pass: where the next one begins is unknown.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let offset = partial.offset();
            let Ok(fde) = partial.parse(S::cie_from_offset) else {
                continue;
            };
            let begin = fde.initial_address();
            let end = begin.saturating_add(fde.len());
            // Code the linker discarded is described at address zero.
            if begin != 0 && begin < end {
                out.push(Covered { begin, end, offset });
            }
        }
        out.sort_by_key(|c| c.begin);
        out
    }

    fn apply<S: UnwindSection<Bytes>>(
        &self,
        section: &S,
        fde: &Fde,
        vaddr: u64,
        machine: &Machine<'_>,
    ) -> Option<Step> {
        let mut context = UnwindContext::new();
        let row = fde
            .unwind_info_for_address(section, &self.bases, &mut context, vaddr)
            .ok()?;
        let encoding = fde.cie().encoding();
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => machine
                .registers
                .get(register.0)?
                .wrapping_add_signed(*offset),
            CfaRule::Expression(expression) => {
                let expression = expression.get(section).ok()?;
                number(expression, encoding, None, machine, 0).ok()?
            }
        };
        let read = |address: u64| {
            let mut word = [0u8; 8];
            machine
                .memory
                .read(address, &mut word)
                .then(|| u64::from_le_bytes(word))
        };
        let mut caller = machine.registers.preserved();
        caller.set(RSP, Some(cfa));
        for (register, rule) in row.registers() {
            let value = match rule {
                RegisterRule::Undefined => None,
                RegisterRule::SameValue => machine.registers.get(register.0),
                RegisterRule::Offset(offset) => read(cfa.wrapping_add_signed(*offset)),
                RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
                RegisterRule::Register(other) => machine.registers.get(other.0),
                RegisterRule::Expression(expression) => expression
                    .get(section)
                    .ok()
                    .and_then(|e| number(e, encoding, Some(cfa), machine, 0).ok())
                    .and_then(read),
                RegisterRule::ValExpression(expression) => expression
                    .get(section)
                    .ok()
                    .and_then(|e| number(e, encoding, Some(cfa), machine, 0).ok()),
                RegisterRule::Constant(value) => Some(*value),
                _ => None,
            };
            caller.set(register.0, value);
        }
        let return_register = fde.cie().return_address_register().0;
        if return_register != RIP {
            caller.set(RIP, caller.get(return_register));
        }
        Some(Step {
            cfa,
            caller,
            is_signal: fde.is_signal_trampoline(),
        })
    }
}

fn covers(fde: &Fde, vaddr: u64) -> bool {
    vaddr >= fde.initial_address() && vaddr - fde.initial_address() < fde.len()
}
