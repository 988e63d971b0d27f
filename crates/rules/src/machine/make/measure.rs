//! Memory that is set aside on the stack while a function runs: arrays whose length is no constant, and `alloca`.
//!
//! The stack pointer is lowered by what is in a register, and right after that a pointer is made of it: by a copy or a
//! `lea`, and then by rounding it, in optimised code with `and`, otherwise by shifts to the right and back. So much is
//! alike in all that GCC makes of it. How many bytes were asked for is not to be seen. The block goes from the
//! new stack pointer to the old one, and what the compiler has added to round it up counts as asked for. If there is
//! anything else in between, it is not such memory: code that touches each page on the way down comes to the
//! same in several steps, of which the last says nothing of the others.

use flow::Step;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use image::effects::Control;
use tape::Term;

use super::super::operands::gpr;
use super::super::plan::*;
use super::Maker;

/// Memory of which the pointer is being made.
pub(super) struct Aside {
    /// What the stack pointer was.
    old: Term,
    pointer: Option<Pointer>,
}

struct Pointer {
    unit: u16,
    /// What was added to the stack pointer for it.
    added: i64,
    rsp: Term,
    rbp: Term,
}

impl Maker<'_> {
    /// Follows the making of such memory; true if what the instruction makes is known by that.
    pub(super) fn sets_aside(
        &mut self,
        i: &Instruction,
        next: Option<&tape::Insn>,
        step: &Step,
        (rsp, rbp): (Option<Term>, Option<Term>),
    ) -> bool {
        let aside = self.aside.take();
        if !self.trackers.variables {
            return false;
        }
        if i.op_count() == 2 && i.op0_register() == Register::RSP {
            let lowers = i.mnemonic() == Mnemonic::Sub && i.op1_kind() == OpKind::Register;
            let pointer = None;
            self.aside = rsp.filter(|_| lowers).map(|old| Aside { old, pointer });
            return false;
        }
        let goes_on = !step.may_branch
            && matches!(step.effects.control, Control::None)
            && i.stack_pointer_increment() == 0;
        let Some(mut aside) = aside.filter(|_| goes_on) else {
            return false;
        };
        let pointer = match aside.pointer.take() {
            None => copied(i)
                .zip(rsp.zip(rbp))
                .map(|((unit, added), (rsp, rbp))| Pointer {
                    unit,
                    added,
                    rsp,
                    rbp,
                }),
            Some(p) => {
                let more = rounded(i, p.unit).unwrap_or(0);
                let added = p.added + more;
                Some(Pointer { added, ..p })
            }
        };
        let Some(p) = pointer else {
            self.aside = Some(aside);
            return false;
        };
        let next =
            next.map(|n| Decoder::with_ip(64, n.code(), n.pc, DecoderOptions::NONE).decode());
        if next.is_some_and(|n| rounded(&n, p.unit).is_some()) {
            aside.pointer = Some(p);
            self.aside = Some(aside);
            return true;
        }
        let Some((base, first)) = self.variables.made_to_measure(i.ip()) else {
            return false;
        };
        let from = |t: Term, by: i64| Term {
            offset: t.offset.wrapping_add(by),
            ..t
        };
        // What is passed on the stack lies below it.
        let (end, base) = (from(aside.old, p.added & !15), from(p.rbp, base));
        for (to, address, local) in [
            (self.scratch(), end, first),
            (self.scratch(), base, first + 1),
            (p.unit, p.rsp, first + 2),
        ] {
            self.op(Op::Local { to, address, local });
        }
        true
    }
}

/// The register that the stack pointer is copied to, and what is added to it.
fn copied(i: &Instruction) -> Option<(u16, i64)> {
    let to = gpr(i.op0_register()).filter(|_| i.op0_register().is_gpr64())?;
    let added = match i.mnemonic() {
        Mnemonic::Mov if i.op1_kind() == OpKind::Register && i.op1_register() == Register::RSP => 0,
        Mnemonic::Lea if i.memory_base() == Register::RSP && i.memory_index() == Register::None => {
            i.memory_displacement64() as i64
        }
        _ => return None,
    };
    (to != RSP && added >= 0).then_some((to, added))
}

/// A step of rounding a pointer in a register, and what it adds.
fn rounded(i: &Instruction, unit: u16) -> Option<i64> {
    let here = i.op_count() == 2 && i.op0_kind() == OpKind::Register;
    let here = here && i.op0_register().is_gpr64() && gpr(i.op0_register()) == Some(unit);
    if !here {
        return None;
    }
    if i.mnemonic() == Mnemonic::Add && i.op1_register() == i.op0_register() {
        return Some(0);
    }
    let by = i.try_immediate(1).ok()? as i64;
    match i.mnemonic() {
        Mnemonic::Add if by >= 0 => Some(by),
        Mnemonic::Shr | Mnemonic::Shl | Mnemonic::Sal | Mnemonic::And => Some(0),
        _ => None,
    }
}
