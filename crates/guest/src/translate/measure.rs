//! How long strings are.
//!
//! The tape has no values on it, and how far `strcmp` reads is a matter of what is in its strings. So where such a
//! function is entered, translated code works out how far it will have to read ([`Measure`]), and the tape tells that. It is
//! not the function itself that is watched, whose vector loops read more than they need, and each in its own way.
//!
//! Where the arguments of a `va_list` are is told in the same way.
//!
//! The strings may lead into memory that cannot be read: the guest is about to find out. Then the tracer has the routine
//! go on at its end, and the length is [`tape::UNMEASURED`].

use iced_x86::IcedError;
use iced_x86::code_asm::*;
use tape::{Measure, Most, Unit};

use super::Routines;
use super::emit::{Code, Gpr};
use crate::layout::slot;

/// Where the routines begin, one for each [`Unit`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries {
    pub(crate) byte: u64,
    pub(crate) folded: u64,
    pub(crate) wide: u64,
    pub(crate) list: u64,
}

/// Measures a string. The result is in rcx; the guest's rcx is in its slot.
pub(super) fn call(code: &mut Code, measure: &Measure, routines: &Routines) {
    let parameter = |n: u8| match n {
        0 => Gpr(7),
        1 => Gpr(6),
        2 => Gpr::RDX,
        3 => Gpr::RCX,
        n => Gpr(n + 4),
    };
    code.save(parameter(measure.text), slot::TEXT);
    // A string is always like itself.
    code.save(parameter(measure.like.unwrap_or(measure.text)), slot::LIKE);
    code.save(Gpr::RCX, slot::RCX);
    match measure.stop {
        Some(n) => code.save(parameter(n), slot::STOP),
        None => {
            code.imm64(Gpr::RCX, 0);
            code.save(Gpr::RCX, slot::STOP);
        }
    }
    let most = match measure.most {
        Most::Parameter(n) => parameter(n),
        Most::All => {
            code.imm64(Gpr::RCX, u64::MAX);
            Gpr::RCX
        }
        Most::Characters(n) => {
            code.imm64(Gpr::RCX, u64::from(n));
            Gpr::RCX
        }
    };
    code.save(most, slot::MOST);
    let back = code.lea_later(Gpr::RCX);
    code.jump(match measure.unit {
        Unit::Byte => routines.measure.byte,
        Unit::Folded => routines.measure.folded,
        Unit::Wide => routines.measure.wide,
        Unit::List => routines.measure.list,
    });
    code.land(back);
}

/// The routines under construction.
pub(crate) struct Labels {
    byte: CodeLabel,
    folded: CodeLabel,
    wide: CodeLabel,
    list: CodeLabel,
    failed: CodeLabel,
}

/// Where they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) entries: Entries,
    /// A routine goes on here if it cannot read a string, which can be anywhere before.
    pub(crate) failed: u64,
}

impl Labels {
    pub(crate) fn places(&self, result: &CodeAssemblerResult) -> Result<Places, IcedError> {
        Ok(Places {
            entries: Entries {
                byte: result.label_ip(&self.byte)?,
                folded: result.label_ip(&self.folded)?,
                wide: result.label_ip(&self.wide)?,
                list: result.label_ip(&self.list)?,
            },
            failed: result.label_ip(&self.failed)?,
        })
    }
}

impl Places {
    /// A fault there is the string's.
    pub(crate) fn contain(&self, host: u64) -> bool {
        (self.entries.byte..self.failed).contains(&host)
    }
}

const VECTORS: [AsmRegisterXmm; 4] = [xmm0, xmm1, xmm2, xmm3];

fn gs(offset: u32) -> AsmMemoryOperand {
    qword_ptr(u64::from(offset)).gs()
}

/// rcx is where to go on; the arguments are in their slots. Returns in rcx and leaves everything else as it was.
pub(crate) fn assemble(a: &mut CodeAssembler) -> Result<Labels, IcedError> {
    let mut labels = Labels {
        byte: a.create_label(),
        folded: a.create_label(),
        wide: a.create_label(),
        list: a.create_label(),
        failed: a.create_label(),
    };
    let mut out = a.create_label();
    a.set_label(&mut labels.byte)?;
    measure(a, Unit::Byte, out)?;
    a.set_label(&mut labels.folded)?;
    measure(a, Unit::Folded, out)?;
    a.set_label(&mut labels.wide)?;
    measure(a, Unit::Wide, out)?;
    a.set_label(&mut labels.list)?;
    begin(a)?;
    list(a)?;
    a.jmp(out)?;
    a.set_label(&mut labels.failed)?;
    a.mov(rax, tape::UNMEASURED as i64)?;
    a.set_label(&mut out)?;
    for (n, v) in VECTORS.into_iter().enumerate() {
        a.movdqu(v, xmmword_ptr(rsp + 16 * n as u32))?;
    }
    a.add(rsp, 16 * VECTORS.len() as i32)?;
    for r in [r9, r8, rdi, rsi, rdx] {
        a.pop(r)?;
    }
    a.mov(rsp, gs(slot::RSP))?;
    a.mov(rcx, rax)?;
    a.mov(rax, gs(slot::LAHF))?;
    a.add(al, 0x7f)?;
    a.sahf()?;
    a.mov(rax, gs(slot::ANY))?;
    a.jmp(gs(slot::MEASURED))?;
    Ok(labels)
}

/// Frees registers for a routine, which ends by jumping to where they are given back.
fn begin(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(gs(slot::MEASURED), rcx)?;
    a.mov(gs(slot::ANY), rax)?;
    a.lahf()?;
    a.seto(al)?;
    a.mov(gs(slot::LAHF), rax)?;
    a.mov(gs(slot::RSP), rsp)?;
    a.mov(rsp, gs(slot::STACK))?;
    for r in [rdx, rsi, rdi, r8, r9] {
        a.push(r)?;
    }
    a.sub(rsp, 16 * VECTORS.len() as i32)?;
    for (n, v) in VECTORS.into_iter().enumerate() {
        a.movdqu(xmmword_ptr(rsp + 16 * n as u32), v)?;
    }
    a.mov(rdi, gs(slot::TEXT))?;
    a.mov(rsi, gs(slot::LIKE))?;
    a.mov(rdx, gs(slot::MOST))?;
    a.mov(r9, gs(slot::STOP))
}

/// rax = what [`Unit::List`] says, of the structure at rdi and the pointer that is rdx bytes into it.
fn list(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, qword_ptr(rdi + rdx))?;
    a.shl(rax, 8)?;
    // Eight bytes for each general register, and behind six of them sixteen for each vector register.
    a.mov(ecx, dword_ptr(rdi))?;
    a.shr(ecx, 3)?;
    a.and(ecx, 0xf)?;
    a.or(rax, rcx)?;
    a.mov(ecx, dword_ptr(rdi + 4))?;
    a.and(ecx, 0xf0)?;
    a.or(rax, rcx)
}

/// rax = bytes seen, rdi = the string, rsi = the other, rdx = the most that is read, r9 = the character to stop at.
fn measure(a: &mut CodeAssembler, unit: Unit, out: CodeLabel) -> Result<(), IcedError> {
    let size = if unit == Unit::Wide { 4 } else { 1 };
    begin(a)?;
    a.movd(xmm2, r9d)?;
    if unit == Unit::Wide {
        a.mov(r9d, r9d)?;
        a.mov(rcx, 1i64 << 60)?;
        a.cmp(rdx, rcx)?;
        a.cmova(rdx, rcx)?;
        a.shl(rdx, 2)?;
    } else {
        a.movzx(r9d, r9b)?;
        a.punpcklbw(xmm2, xmm2)?;
        a.punpcklwd(xmm2, xmm2)?;
    }
    a.pshufd(xmm2, xmm2, 0)?;
    a.xor(eax, eax)?;

    let mut next = a.create_label();
    let mut one = a.create_label();
    let equal = |a: &mut CodeAssembler, to, from| match unit {
        Unit::Wide => a.pcmpeqd::<AsmRegisterXmm, AsmRegisterXmm>(to, from),
        _ => a.pcmpeqb::<AsmRegisterXmm, AsmRegisterXmm>(to, from),
    };
    // Sixteen bytes at once, where all of them are in pages that have to be read anyway.
    a.set_label(&mut next)?;
    a.lea(rcx, qword_ptr(rax + 16))?;
    a.cmp(rcx, rdx)?;
    a.ja(one)?;
    for text in [rdi, rsi] {
        a.lea(rcx, qword_ptr(text + rax))?;
        a.and(ecx, 0xfff)?;
        a.cmp(ecx, 0x1000 - 16)?;
        a.ja(one)?;
    }
    a.movdqu(xmm0, xmmword_ptr(rdi + rax))?;
    a.movdqu(xmm1, xmmword_ptr(rsi + rax))?;
    equal(a, xmm1, xmm0)?;
    a.pxor(xmm3, xmm3)?;
    equal(a, xmm3, xmm0)?;
    equal(a, xmm0, xmm2)?;
    a.por(xmm3, xmm0)?;
    a.pmovmskb(ecx, xmm1)?;
    a.xor(ecx, 0xffff)?;
    a.pmovmskb(r8d, xmm3)?;
    a.or(ecx, r8d)?;
    if unit == Unit::Folded {
        a.jnz(one)?;
        a.add(rax, 16)?;
        a.jmp(next)?;
    } else {
        let mut found = a.create_label();
        a.jnz(found)?;
        a.add(rax, 16)?;
        a.jmp(next)?;
        a.set_label(&mut found)?;
        a.bsf(ecx, ecx)?;
        a.lea(rax, qword_ptr(rax + rcx + size))?;
        a.jmp(out)?;
    }

    a.set_label(&mut one)?;
    a.cmp(rax, rdx)?;
    a.jae(out)?;
    if unit == Unit::Wide {
        a.mov(ecx, dword_ptr(rdi + rax))?;
        a.mov(r8d, dword_ptr(rsi + rax))?;
    } else {
        a.movzx(ecx, byte_ptr(rdi + rax))?;
        a.movzx(r8d, byte_ptr(rsi + rax))?;
    }
    a.add(rax, size)?;
    a.test(ecx, ecx)?;
    a.jz(out)?;
    a.cmp(ecx, r9d)?;
    a.je(out)?;
    if unit == Unit::Folded {
        for r in [ecx, r8d] {
            let mut small = a.create_label();
            a.cmp(r, i32::from(b'A'))?;
            a.jb(small)?;
            a.cmp(r, i32::from(b'Z'))?;
            a.ja(small)?;
            a.or(r, 0x20)?;
            a.set_label(&mut small)?;
        }
    }
    a.cmp(ecx, r8d)?;
    a.je(next)?;
    a.jmp(out)
}
