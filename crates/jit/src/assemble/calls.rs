//! Functions that are entered and left.
//!
//! What they mean is not for code to know. It says what they were called with and what they return, and whoever runs it
//! answers whether it may go on.

use super::late::Late;
use super::{Maker, call_alone, field};
use crate::emit::*;
use crate::run::{RETURN, at};
use crate::ways::{Call, FIRST_VALUE, Op, Quick};

impl Maker<'_> {
    /// What is left of a record inside of a function that is not looked into.
    pub(super) fn rest_closed(&mut self, shape: u32) {
        let back = self.a.label();
        if let Some((slot, result)) = self.way.returns {
            self.returns(slot, result, back);
            self.quick(rax, result);
            self.a.mov(field(at::INNER), rax);
        }
        self.a.set(back);
        self.next(shape)
    }

    /// Asks about a function that is entered before an instruction. Goes on if nothing inside of it is looked at.
    pub(super) fn enter(&mut self, call: &Call, insn: u8, handed: Label) {
        let told = call.arguments.into_iter().enumerate();
        let told = told.map(|(n, q)| (at::ARGUMENTS + 8 * n, q));
        for (to, value) in told.chain([(at::CALL_SLOT, call.slot)]) {
            self.quick(rax, value);
            self.a.mov(field(to), rax);
        }
        self.a.mov(rax, call.pc as i64);
        self.a.mov(field(at::CALL_PC), rax);
        self.a.mov(dword(rbx + at::FUNCTION), call.function);
        // Those of the record that its first parameters are, which most often point to something.
        let first = call.arguments[..2].iter().filter_map(|q| {
            let n = usize::from(q.at).checked_sub(FIRST_VALUE)?;
            (n < 32).then_some(1u32 << n)
        });
        let values = first.fold(0, |mask, n| mask | n);
        call_alone(&mut self.a, self.exits.wide, at::ENTERS, |a| {
            a.mov(rdi, rbx);
            a.mov(esi, u32::from(insn));
            a.mov(rdx, rbp);
            a.mov(ecx, values)
        });
        self.a.test(rax, rax);
        self.a.jne(handed)
    }

    /// Asks about a return if it is of interest, and goes on at `back` then.
    pub(super) fn returns(&mut self, slot: Quick, result: Quick, back: Label) {
        let out = self.out(RETURN, self.way.more.len());
        let late = self.late(Late::Leave { result, out, back });
        self.returns_to(slot, late)
    }

    pub(super) fn returns_to(&mut self, slot: Quick, out: Label) {
        self.quick(rax, slot);
        self.a.cmp(rax, field(at::SLOT));
        self.a.jae(out)
    }

    /// A function is asked for by name.
    pub(super) fn name(&mut self, op: &Op) {
        self.address(op);
        self.a.mov(dword(rbx + at::NAMED), op.checked);
        self.a.mov(field(at::NAMED_AT), rcx)
    }
}
