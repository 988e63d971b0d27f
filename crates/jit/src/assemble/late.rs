//! What happens seldom.
//!
//! Its code is behind that of the way, so that what happens always is in a row. It either goes on with the way or stops
//! the code.

use super::{Maker, call, call_alone, field, unit};
use crate::cell::Arith;
use crate::emit::*;
use crate::run::{FAILED, at};
use crate::ways::Quick;

pub(super) enum Late {
    /// The code stops, at some record of a trace. What only registers hold is put where it belongs.
    Out {
        why: u32,
        part: usize,
        dirty: Vec<(R64, u16)>,
    },
    /// Bytes at rcx are looked at one by one. If all were written, it goes on with nothing known of them.
    Part { len: u32, fail: Label, back: Label },
    /// Something is unwritten in some register; perhaps in none that is read.
    Tainted { back: Label },
    /// Some bytes of the cell of rcx, which is at rdx, were never written; perhaps not those that are read.
    Exact { len: u32, fail: Label, back: Label },
    /// Nothing is known of bytes from rcx on, which may be in two cells.
    Store { len: u32, back: Label },
    /// Nothing is known of bytes from rcx on, which are in the cell of rdx.
    Erase { len: u32, back: Label },
    /// Bytes from rcx on become unwritten.
    Forget { len: u32, back: Label },
    /// The pointer of a sum is the one of rax and rcx that points somewhere, and rcx does. If both do, it is not known which
    /// is meant.
    Pointer { back: Label },
    /// rax and rcx are both of a block.
    Arith { kind: Arith, back: Label },
    /// It is not known what a pointer to the variable at rcx is; whoever runs the code says it in rax.
    Ask {
        variable: u32,
        insn: u16,
        back: Label,
    },
    /// A function returns through the slot in rax, which is of interest. Whoever runs the code may know how to go on;
    /// otherwise it stops.
    Leave {
        result: Quick,
        out: Label,
        back: Label,
    },
}

/// The arguments of a routine for so many bytes from rcx on.
fn piece(len: u32) -> impl FnOnce(&mut Emit) {
    move |a| {
        a.mov(rdi, rbx);
        a.mov(rsi, rcx);
        a.mov(edx, len)
    }
}

impl Maker<'_> {
    pub(super) fn late(&mut self, late: Late) -> Label {
        let label = self.a.label();
        self.late.push((label, late));
        label
    }

    /// Stops the code at a record of a trace.
    pub(super) fn out(&mut self, why: u32, part: usize) -> Label {
        let dirty = self.held.dirty();
        let same = |(_, l): &&(Label, Late)| matches!(l, Late::Out { why: w, part: p, dirty: d } if (*w, *p) == (why, part) && *d == dirty);
        if let Some((label, _)) = self.late.iter().find(same) {
            return *label;
        }
        self.late(Late::Out { why, part, dirty })
    }

    /// Stops the code before an instruction.
    pub(super) fn fail(&mut self, insn: u16) -> Label {
        self.out(FAILED + u32::from(insn & 0xff), usize::from(insn >> 8))
    }

    /// Takes all that is known of the place in the tape to a record of a trace.
    fn arrive(&mut self, part: usize) {
        if let Some(n) = part.checked_sub(1) {
            let p = self.way.more[n];
            self.stack(Some(p.rsp), Some(p.rbp));
            let before = match n.checked_sub(1) {
                None => self.shape,
                Some(n) => self.way.more[n].shape,
            };
            let (len, steps) = self.way.start(part);
            self.a.mov(dword(rbx + at::LAST), before);
            self.a.add(field(at::STEPS), steps);
            self.a.add(rbp, len as i32);
        }
        if let Some(number) = self.trace {
            self.a.mov(dword(rbx + at::TRACE), number);
            self.a.mov(dword(rbx + at::PART_OF_TRACE), part as u32);
        }
    }

    /// Goes on at `back` unless something is unwritten in a register that is read. What is written over is clean from
    /// there on; where the way is left in its middle, others find out what of this is still so. All of the word is read
    /// and written at once: half of it could not be read before it has come to the caches.
    pub(super) fn tainted(&mut self, back: Label, otherwise: u64) {
        let (reads, cleans, a) = (self.way.reads, self.way.cleans, &mut self.a);
        a.mov(rax, field(at::TAINTED));
        if reads != 0 {
            match i32::try_from(reads) {
                Ok(mask) => a.test(eax, mask),
                Err(_) => {
                    a.mov(rdx, reads as i64);
                    a.test(rax, rdx)
                }
            }
            a.jne(otherwise);
        }
        if cleans != 0 {
            match i32::try_from(!cleans as i64) {
                Ok(mask) => a.and(rax, mask),
                Err(_) => {
                    a.mov(rdx, !cleans as i64);
                    a.and(rax, rdx)
                }
            }
            a.mov(field(at::TAINTED), rax);
            a.jne(back);
            // Nothing is unwritten from there on.
            a.mov(rax, field(at::CLEAN));
            a.mov(field(at::TABLE), rax);
        }
        a.jmp(back)
    }

    pub(super) fn late_code(&mut self, late: Late) {
        let way = self.way;
        let (before, wide) = (self.exits.before, self.exits.wide);
        let a = &mut self.a;
        match late {
            Late::Tainted { back } => self.tainted(back, before),
            Late::Out { why, part, dirty } => {
                for (register, n) in dirty {
                    a.mov(unit(n), register);
                }
                self.arrive(part);
                self.a.mov(eax, why);
                self.a.jmp(self.exits.leave)
            }
            Late::Part { len, fail, back } => {
                let one_by_one = a.label();
                a.mov(rdx, rcx);
                a.and(rdx, r15);
                for cell in [r12 + rdx, r12 + rdx + 8u32] {
                    a.cmp(byte(cell), 0);
                    a.jne(one_by_one);
                }
                a.mov(eax, 0);
                a.jmp(back);
                a.set(one_by_one);
                call(a, wide, at::PART, piece(len));
                a.test(rax, rax);
                // What is not all written is for others.
                a.je(back);
                a.jmp(fail)
            }
            Late::Exact { len, fail, back } => {
                a.movzx(eax, byte(r12 + rdx));
                a.and(ecx, 7);
                a.shr_cl(eax);
                a.test(eax, (1i32 << len) - 1);
                a.je(back);
                a.jmp(fail)
            }
            Late::Store { len, back } => {
                let one_by_one = a.label();
                a.mov(rdx, rcx);
                a.and(rdx, r15);
                a.cmp(qword(r12 + rdx), 0);
                a.jne(one_by_one);
                a.cmp(qword(r12 + rdx + 8u32), 0);
                a.je(back);
                a.set(one_by_one);
                call(a, wide, at::STORE, piece(len));
                a.jmp(back)
            }
            Late::Erase { len, back } => {
                a.and(ecx, 7);
                a.mov(eax, (1u32 << len) - 1);
                a.shl_cl(eax);
                a.xor(eax, 0xff);
                a.movzx(eax, al);
                a.and(qword(r12 + rdx), rax);
                a.jmp(back)
            }
            Late::Forget { len, back } => {
                call(a, wide, at::FORGET, piece(len));
                a.jmp(back)
            }
            Late::Pointer { back } => {
                a.mov(edx, 0);
                a.test(rax, rax);
                a.mov(rax, rcx);
                a.cmov(If::NotZero, rax, rdx);
                a.jmp(back)
            }
            Late::Arith { kind, back } => {
                call(a, wide, at::ARITHMETIC, |a| {
                    a.mov(edi, kind as u32);
                    a.mov(rsi, rax);
                    a.mov(rdx, rcx)
                });
                a.jmp(back)
            }
            Late::Ask {
                variable,
                insn,
                back,
            } => {
                let (_, before) = way.start(usize::from(insn >> 8));
                call(a, wide, at::VARIABLE, |a| {
                    a.mov(rdi, rbx);
                    a.mov(rsi, rcx);
                    a.mov(edx, variable);
                    a.mov(ecx, before + u32::from(insn & 0xff))
                });
                a.jmp(back)
            }
            Late::Leave { result, out, back } => {
                a.mov(field(at::CALL_SLOT), rax);
                self.quick(rax, result);
                self.a.mov(field(at::ARGUMENTS), rax);
                let (_, steps) = way.start(way.more.len() + 1);
                call_alone(&mut self.a, wide, at::LEAVES, |a| {
                    a.mov(rdi, rbx);
                    a.mov(esi, steps.saturating_sub(1))
                });
                self.a.test(rax, rax);
                self.a.je(back);
                self.a.jmp(out)
            }
        }
    }
}
