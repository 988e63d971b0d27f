//! The hand-written routines at the head of every code region.
//!
//! `miss` completes an indirect branch that the first table did not know: it searches the second
//! table and, failing that, stops for the tracer. `syscall` carries out a guest system call. Calls
//! that the class table allows are run on the spot and their results logged to the ring, at a
//! fraction of a ptrace stop; in a replay, calls to which the tracer has offered the recorded answer
//! take it on the spot. All others stop for the tracer. How strings are measured is in `translate/measure.rs`. `gadget` is a bare `syscall; int3`
//! for calls that the tracer makes in the guest's name.
//!
//! The routines use only the thread's page and its private stack, never the guest's: the guest's
//! red zone is in use, and rsp may point anywhere.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use crate::layout::{
    L2_BITS, L2_GROUP_BITS, L2_MULTIPLIER, Layout, beside, class, offer, record, slot,
};

use crate::translate::measure::{self, Places};

/// Addresses inside the routines that the tracer recognises when the guest stops there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels {
    pub(crate) miss: u64,
    /// The `int3` of an unsuccessful search.
    pub(crate) miss_stop: u64,
    pub(crate) syscall: u64,
    /// From here to the `syscall` instruction the call can still be left to the tracer, by going
    /// on at `syscall_slow`.
    pub(crate) syscall_saved: u64,
    pub(crate) syscall_slow: u64,
    /// The `int3` of a system call left to the tracer.
    pub(crate) syscall_stop: u64,
    /// The `syscall` instruction of a call run on the spot, and the end of the routine.
    pub(crate) syscall_insn: u64,
    /// The `int3` after a call run on the spot when a stop was asked for.
    pub(crate) syscall_done_stop: u64,
    pub(crate) measure: Places,
    pub(crate) end: u64,
    /// `syscall` of the tracer's gadget; the `int3` follows two bytes later.
    pub(crate) gadget: u64,
}

fn gs(offset: u32) -> AsmMemoryOperand {
    qword_ptr(u64::from(offset)).gs()
}

/// Assembles the routines for address `at`.
pub(crate) fn assemble(layout: Layout, at: u64) -> (Vec<u8>, Labels) {
    try_assemble(layout, at).expect("the routines assemble at any address")
}

fn try_assemble(layout: Layout, at: u64) -> Result<(Vec<u8>, Labels), IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let table = layout.table() as i32;
    let l2 = layout.l2() as i32;

    // Miss: rcx = target; guest rcx and rdx in their slots; the flags are the guest's.
    let mut miss = a.create_label();
    let mut search = a.create_label();
    let mut found = a.create_label();
    let mut absent = a.create_label();
    let mut miss_stop = a.create_label();
    a.set_label(&mut miss)?;
    a.mov(gs(slot::ANY), rax)?;
    a.lahf()?;
    a.seto(al)?;
    a.mov(gs(slot::LAHF), rax)?;
    // `layout::l2_index`
    a.mov(rax, L2_MULTIPLIER)?;
    a.mov(rdx, rcx)?;
    a.shr(rdx, 12)?;
    a.imul_2(rdx, rax)?;
    a.shr(rdx, (64 - (L2_BITS - L2_GROUP_BITS)) as i32)?;
    a.shl(edx, L2_GROUP_BITS as i32)?;
    a.mov(eax, ecx)?;
    a.shr(eax, 3)?;
    a.and(eax, (1 << L2_GROUP_BITS) - 1)?;
    a.or(edx, eax)?;
    a.shl(edx, 4)?;
    a.set_label(&mut search)?;
    a.mov(rax, qword_ptr(rdx + l2))?;
    // Zero is an empty place first: a call of a null pointer must not find it.
    a.test(rax, rax)?;
    a.jz(absent)?;
    a.cmp(rax, rcx)?;
    a.je(found)?;
    a.add(rdx, 16)?;
    a.and(edx, (16 << L2_BITS) - 1)?;
    a.jmp(search)?;
    a.set_label(&mut found)?;
    a.mov(rdx, qword_ptr(rdx + l2 + 8))?;
    a.movzx(eax, cx)?;
    a.mov(qword_ptr(rax * 8 + table), rdx)?;
    a.mov(rax, gs(slot::LAHF))?;
    a.add(al, 0x7f)?;
    a.sahf()?;
    a.mov(rax, gs(slot::ANY))?;
    a.jmp(rdx)?;
    a.set_label(&mut absent)?;
    a.mov(rax, gs(slot::LAHF))?;
    a.add(al, 0x7f)?;
    a.sahf()?;
    a.mov(rax, gs(slot::ANY))?;
    a.set_label(&mut miss_stop)?;
    a.int3()?;

    // System call: rcx = the guest's next instruction, CONTINUE = where that is translated.
    let mut syscall = a.create_label();
    let mut reads = a.create_label();
    let mut command = a.create_label();
    let mut plain = a.create_label();
    let mut sized = a.create_label();
    let mut syscall_insn = a.create_label();
    let mut untaped = a.create_label();
    let mut copy = a.create_label();
    let mut copied = a.create_label();
    let mut slow = a.create_label();
    let mut offered = a.create_label();
    let mut syscall_stop = a.create_label();
    let mut preempted = a.create_label();
    let mut syscall_done_stop = a.create_label();
    a.set_label(&mut syscall)?;
    a.mov(gs(slot::RSP), rsp)?;
    a.mov(rsp, gs(slot::STACK))?;
    a.pushfq()?;
    a.pop(r11)?;
    a.mov(gs(slot::FLAGS), r11)?;
    a.mov(gs(slot::NEXT), rcx)?;
    let mut syscall_saved = a.create_label();
    a.set_label(&mut syscall_saved)?;
    a.cmp(rax, 511)?;
    a.ja(slow)?;
    a.mov(r11, qword_ptr(rax * 8 + layout.classes() as i32))?;
    a.test(r11, r11)?;
    a.jz(offered)?;
    a.mov(gs(slot::NR), rax)?;
    a.mov(gs(slot::CLASS), r11)?;
    for (n, reg) in [rdi, rsi, rdx, r10, r8, r9].into_iter().enumerate() {
        a.mov(gs(slot::ARGS + 8 * n as u32), reg)?;
    }
    // Bits of O_WRONLY and O_RDWR.
    a.mov(ecx, r11d)?;
    a.shr(ecx, 12)?;
    a.and(ecx, 15)?;
    a.cmp(ecx, class::NONE as i32)?;
    a.je(reads)?;
    a.test(byte_ptr(rcx * 8 + slot::ARGS as i32).gs(), libc::O_ACCMODE)?;
    a.jnz(slow)?;
    a.set_label(&mut reads)?;
    a.mov(ecx, r11d)?;
    a.shr(ecx, 16)?;
    a.and(ecx, 15)?;
    a.cmp(ecx, class::NONE as i32)?;
    a.je(plain)?;
    a.mov(ecx, dword_ptr(rcx * 8 + slot::ARGS as i32).gs())?;
    a.cmp(ecx, class::COMMANDS)?;
    a.jb(command)?;
    a.sub(ecx, class::COMMAND_BASE - class::COMMANDS)?;
    a.cmp(ecx, class::COMMANDS)?;
    a.jb(slow)?;
    a.cmp(ecx, 2 * class::COMMANDS)?;
    a.jae(slow)?;
    a.set_label(&mut command)?;
    a.shr(r11, 32)?;
    a.bt(r11, rcx)?;
    a.jnc(slow)?;
    // What is left says that nothing is written.
    a.mov(r11d, dword_ptr(u64::from(slot::CLASS)).gs())?;
    a.set_label(&mut plain)?;
    // r11 = most bytes that the call may write.
    a.mov(rcx, r11)?;
    a.shr(rcx, 8)?;
    a.and(ecx, 15)?;
    a.shr(r11, 32)?;
    a.cmp(ecx, class::NONE as i32)?;
    a.je(sized)?;
    a.mov(r11, qword_ptr(rcx * 8 + slot::ARGS as i32).gs())?;
    a.set_label(&mut sized)?;
    a.cmp(r11, class::MAX_BYTES as i32)?;
    a.ja(slow)?;
    a.add(r11, gs(slot::RING_AT))?;
    a.add(r11, (record::SIZE + 8) as i32)?;
    a.cmp(r11, gs(slot::RING_END))?;
    a.ja(slow)?;
    // The step is added up while the call can still be left to the tracer: one who asks for a stop sets the
    // counters anew, and half a sum of the old would be added to half of the new.
    a.mov(r11, gs(slot::BASE))?;
    for lane in 0..slot::LANES {
        a.add(r11, gs(slot::COUNT + 8 * lane))?;
    }
    a.mov(gs(slot::STEP), r11)?;
    // A signal that has come must not be slept over.
    a.cmp(gs(slot::PREEMPT), 0)?;
    a.jne(slow)?;
    a.set_label(&mut syscall_insn)?;
    a.syscall()?;
    a.mov(gs(slot::RESULT), rax)?;
    a.cld()?;
    a.push(rdi)?;
    a.push(rsi)?;
    // First, so that it is there for every call that has a record.
    a.mov(r11, gs(slot::BESIDE_AT))?;
    a.test(r11, r11)?;
    a.jz(untaped)?;
    a.mov(rcx, gs(slot::TAPE))?;
    a.mov(qword_ptr(r11 + beside::CURSOR), rcx)?;
    a.mov(rcx, gs(slot::NEXT))?;
    a.mov(qword_ptr(r11 + beside::NEXT), rcx)?;
    for n in 0..3 {
        a.mov(rcx, gs(slot::ARGS + 8 * (3 + n)))?;
        a.mov(qword_ptr(r11 + beside::ARGS + 8 * n), rcx)?;
    }
    a.add(r11, beside::SIZE as i32)?;
    a.mov(gs(slot::BESIDE_AT), r11)?;
    a.set_label(&mut untaped)?;
    a.mov(rdi, gs(slot::RING_AT))?;
    a.mov(qword_ptr(rdi + record::RESULT), rax)?;
    a.mov(r11, gs(slot::STEP))?;
    a.mov(qword_ptr(rdi + record::STEP), r11)?;
    a.mov(r11, gs(slot::NR))?;
    a.mov(dword_ptr(rdi + record::NR), r11d)?;
    for n in 0..record::ARGS_LEN / 8 {
        a.mov(r11, gs(slot::ARGS + 8 * n))?;
        a.mov(qword_ptr(rdi + record::ARGS + 8 * n), r11)?;
    }
    // rcx = bytes written: none on failure or without a buffer, else fixed or as returned, as far as there is room.
    a.xor(ecx, ecx)?;
    a.test(rax, rax)?;
    a.js(copy)?;
    a.mov(r11, gs(slot::CLASS))?;
    a.mov(rsi, r11)?;
    a.shr(rsi, 4)?;
    a.and(esi, 15)?;
    a.cmp(esi, class::NONE as i32)?;
    a.je(copy)?;
    a.mov(rsi, qword_ptr(rsi * 8 + slot::ARGS as i32).gs())?;
    a.test(rsi, rsi)?;
    a.jz(copy)?;
    a.mov(rcx, r11)?;
    a.shr(rcx, 32)?;
    a.jnz(copy)?;
    // Some return the size that they would have needed.
    a.shr(r11d, 8)?;
    a.and(r11d, 15)?;
    a.mov(r11, qword_ptr(r11 * 8 + slot::ARGS as i32).gs())?;
    a.mov(rcx, rax)?;
    a.cmp(rcx, r11)?;
    a.cmova(rcx, r11)?;
    a.set_label(&mut copy)?;
    a.lea(r11d, dword_ptr(rcx + record::ARGS_LEN))?;
    a.mov(dword_ptr(rdi + record::LEN), r11d)?;
    a.add(rdi, record::SIZE as i32)?;
    a.test(ecx, ecx)?;
    a.jz(copied)?;
    a.rep().movsb()?;
    a.add(rdi, 7)?;
    a.and(rdi, -8)?;
    a.set_label(&mut copied)?;
    a.mov(gs(slot::RING_AT), rdi)?;
    a.pop(rsi)?;
    a.pop(rdi)?;
    a.cmp(gs(slot::PREEMPT), 0)?;
    a.jne(preempted)?;
    a.mov(r11, gs(slot::FLAGS))?;
    a.push(r11)?;
    a.popfq()?;
    a.mov(rcx, gs(slot::NEXT))?;
    a.mov(rax, gs(slot::RESULT))?;
    a.mov(rsp, gs(slot::RSP))?;
    a.jmp(gs(slot::CONTINUE))?;
    a.set_label(&mut preempted)?;
    a.mov(r11, gs(slot::FLAGS))?;
    a.push(r11)?;
    a.popfq()?;
    a.mov(rcx, gs(slot::NEXT))?;
    a.mov(rax, gs(slot::RESULT))?;
    a.mov(rsp, gs(slot::RSP))?;
    a.set_label(&mut syscall_done_stop)?;
    a.int3()?;
    a.set_label(&mut slow)?;
    a.mov(r11, gs(slot::FLAGS))?;
    a.push(r11)?;
    a.popfq()?;
    a.mov(rcx, gs(slot::NEXT))?;
    a.mov(rsp, gs(slot::RSP))?;
    a.set_label(&mut syscall_stop)?;
    a.int3()?;
    // Is it the call for which there is an answer, at the same step?
    a.set_label(&mut offered)?;
    a.mov(rcx, gs(slot::OFFER_AT))?;
    a.cmp(rcx, gs(slot::OFFER_END))?;
    a.jae(slow)?;
    a.cmp(qword_ptr(rcx + offer::NR), rax)?;
    a.jne(slow)?;
    for (n, reg) in [rdi, rsi, rdx].into_iter().enumerate() {
        a.cmp(qword_ptr(rcx + offer::ARGS + 8 * n as u32), reg)?;
        a.jne(slow)?;
    }
    a.mov(r11, gs(slot::BASE))?;
    for lane in 0..slot::LANES {
        a.add(r11, gs(slot::COUNT + 8 * lane))?;
    }
    a.cmp(qword_ptr(rcx + offer::STEP), r11)?;
    a.jne(slow)?;
    a.mov(r11, gs(slot::TAPE))?;
    a.mov(qword_ptr(rcx + offer::CURSOR), r11)?;
    a.mov(r11, gs(slot::NEXT))?;
    a.mov(qword_ptr(rcx + offer::NEXT), r11)?;
    for (n, reg) in [r10, r8, r9].into_iter().enumerate() {
        a.mov(qword_ptr(rcx + offer::ARGS + 8 * n as u32), reg)?;
    }
    a.mov(rax, qword_ptr(rcx + offer::RESULT))?;
    a.push(rdi)?;
    a.push(rsi)?;
    a.mov(rdi, qword_ptr(rcx + offer::TO))?;
    a.lea(rsi, qword_ptr(rcx + offer::SIZE))?;
    a.mov(rcx, qword_ptr(rcx + offer::LEN))?;
    a.cld()?;
    a.rep().movsb()?;
    a.add(rsi, 7)?;
    a.and(rsi, -8)?;
    a.mov(gs(slot::OFFER_AT), rsi)?;
    a.pop(rsi)?;
    a.pop(rdi)?;
    a.mov(r11, gs(slot::FLAGS))?;
    a.push(r11)?;
    a.popfq()?;
    a.mov(rcx, gs(slot::NEXT))?;
    a.mov(rsp, gs(slot::RSP))?;
    a.jmp(gs(slot::CONTINUE))?;
    let measure = measure::assemble(&mut a)?;
    let mut end = a.create_label();
    a.set_label(&mut end)?;
    a.nop()?;
    let mut gadget = a.create_label();
    a.set_label(&mut gadget)?;
    a.syscall()?;
    a.int3()?;

    let options = iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let result = a.assemble_options(at, options)?;
    let labels = Labels {
        miss: result.label_ip(&miss)?,
        miss_stop: result.label_ip(&miss_stop)?,
        syscall: result.label_ip(&syscall)?,
        syscall_saved: result.label_ip(&syscall_saved)?,
        syscall_slow: result.label_ip(&slow)?,
        syscall_stop: result.label_ip(&syscall_stop)?,
        syscall_insn: result.label_ip(&syscall_insn)?,
        syscall_done_stop: result.label_ip(&syscall_done_stop)?,
        measure: measure.places(&result)?,
        end: result.label_ip(&end)?,
        gadget: result.label_ip(&gadget)?,
    };
    Ok((result.inner.code_buffer, labels))
}
