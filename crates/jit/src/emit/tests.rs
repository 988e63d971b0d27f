//! Each form is decoded back, with registers that are encoded in all the ways there are.

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

use super::*;

const START: u64 = 0x10_0000;

/// What these bytes are in assembly.
fn decoded(bytes: &[u8]) -> Vec<String> {
    let mut formatter = IntelFormatter::new();
    formatter
        .options_mut()
        .set_small_hex_numbers_in_decimal(true);
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter
        .options_mut()
        .set_space_after_operand_separator(true);
    let decoder = Decoder::with_ip(64, bytes, START, DecoderOptions::NONE);
    decoder
        .into_iter()
        .map(|instruction| {
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            text
        })
        .collect()
}

#[track_caller]
fn check(make: impl FnOnce(&mut Emit), expected: &[&str]) {
    let mut emit = Emit::at(START);
    make(&mut emit);
    let bytes = emit.finish().expect("all labels are set");
    assert_eq!(decoded(&bytes), expected);
}

#[test]
fn addresses() {
    let bases = [
        (rax, "rax"),
        (rsp, "rsp"),
        (rbp, "rbp"),
        (r8, "r8"),
        (r12, "r12"),
        (r13, "r13"),
    ];
    for (base, name) in bases {
        for (offset, sum) in [(0, ""), (8, "+8"), (-8, "-8"), (4096, "+1000h")] {
            let expected = format!("mov r9, [{name}{sum}]");
            check(|a| a.mov(r9, qword(base + offset)), &[&expected]);
        }
        for (index, other) in [(rax, "rax"), (rbp, "rbp"), (r12, "r12"), (r13, "r13")] {
            let expected = format!("mov [{name}+{other}*4], rdx");
            check(|a| a.mov(qword(base + index * 4), rdx), &[&expected]);
            let expected = format!("lea rdi, [{name}+{other}+10]");
            check(
                |a| a.lea(rdi, base + index + 10),
                &[&expected.replace("+10]", "+0Ah]")],
            );
        }
    }
}

#[test]
fn moves() {
    check(
        |a| {
            a.mov(r13, rax);
            a.mov(ecx, edx);
            a.mov(esi, dword(rbp + 0));
            a.mov(qword(rbx + 8), -1);
            a.mov(dword(rbx + 8), 7);
            a.mov(rax, 0);
            a.mov(r9, 1i64 << 31);
            a.mov(r9, -5);
            a.mov(r10, 1i64 << 40);
            a.movzx(esi, sil);
            a.movzx(esi, byte(r12 + rdx));
            a.cmov(If::Zero, rdx, rcx);
            a.cmov(If::NotZero, r8, r15);
        },
        &[
            "mov r13, rax",
            "mov ecx, edx",
            "mov esi, [rbp]",
            "mov qword ptr [rbx+8], 0FFFFFFFFFFFFFFFFh",
            "mov dword ptr [rbx+8], 7",
            "mov eax, 0",
            "mov r9d, 80000000h",
            "mov r9, 0FFFFFFFFFFFFFFFBh",
            "mov r10, 10000000000h",
            "movzx esi, sil",
            "movzx esi, byte ptr [r12+rdx]",
            "cmove rdx, rcx",
            "cmovne r8, r15",
        ],
    );
}

#[test]
fn arithmetic() {
    check(
        |a| {
            a.add(rbp, 44);
            a.add(qword(rbx + 8), 300);
            a.add(rax, qword(rbx + 8));
            a.sub(rdx, qword(rax + 0));
            a.and(rcx, r15);
            a.and(ecx, 7);
            a.and(qword(r12 + rdx), rsi);
            a.and(dword(rbx + 4), !4u32);
            a.or(dword(rbx + 4), 1u32 << 31);
            a.or(rcx, rax);
            a.xor(edx, edx);
            a.xor(esi, 0xff);
            a.cmp(qword(rbx + 8), 0);
            a.cmp(byte(r12 + rdx), 0);
            a.cmp(eax, dword(rbx + 8));
            a.cmp(rbp, qword(rbx + 8));
            a.shr(rax, 4);
            a.shr_cl(esi);
            a.shl_cl(esi);
        },
        &[
            "add rbp, 2Ch",
            "add qword ptr [rbx+8], 12Ch",
            "add rax, [rbx+8]",
            "sub rdx, [rax]",
            "and rcx, r15",
            "and ecx, 7",
            "and [r12+rdx], rsi",
            "and dword ptr [rbx+4], 0FFFFFFFBh",
            "or dword ptr [rbx+4], 80000000h",
            "or rcx, rax",
            "xor edx, edx",
            "xor esi, 0FFh",
            "cmp qword ptr [rbx+8], 0",
            "cmp byte ptr [r12+rdx], 0",
            "cmp eax, [rbx+8]",
            "cmp rbp, [rbx+8]",
            "shr rax, 4",
            "shr esi, cl",
            "shl esi, cl",
        ],
    );
}

#[test]
fn tests_of_bits() {
    check(
        |a| {
            a.test(rax, rax);
            a.test(esi, esi);
            a.test(al, al);
            a.test(cl, 7);
            a.test(sil, 1);
            a.test(esi, 0xff);
            a.test(byte(r8 + 8), 0xf0);
            a.test(dword(rbx + 8), 1u32 << 20);
        },
        &[
            "test rax, rax",
            "test esi, esi",
            "test al, al",
            "test cl, 7",
            "test sil, 1",
            "test esi, 0FFh",
            "test byte ptr [r8+8], 0F0h",
            "test dword ptr [rbx+8], 100000h",
        ],
    );
}

#[test]
fn the_rest() {
    check(
        |a| {
            a.push(rbx);
            a.push(r12);
            a.pop(r12);
            a.pop(rbx);
            a.load_xmm0(rbx + 8);
            a.store_xmm0(r12 + rcx + 16);
            a.load_ymm0(rbx + 8);
            a.store_ymm0(r12 + rcx + 16);
            a.store_low_ymm0(rcx + r9 + 16);
            a.store_ymm0(r8 + 32);
            a.store_ymm1(r9 + 64);
            a.store_low_ymm1(rdi + 8);
            a.test_ymm0(r11 + 32);
            a.test_low_ymm0(rcx + r9 + 16);
            a.zero_ymm1();
            a.vzeroupper();
            a.prefetch(rbp + 1536usize);
            a.call_through(rbx + 8);
            a.jmp_through(rcx + rax * 8);
            a.ret();
        },
        &[
            "push rbx",
            "push r12",
            "pop r12",
            "pop rbx",
            "movups xmm0, [rbx+8]",
            "movups [r12+rcx+10h], xmm0",
            "vmovups ymm0, [rbx+8]",
            "vmovups [r12+rcx+10h], ymm0",
            "vmovups [rcx+r9+10h], xmm0",
            "vmovups [r8+20h], ymm0",
            "vmovups [r9+40h], ymm1",
            "vmovups [rdi+8], xmm1",
            "vptest ymm0, [r11+20h]",
            "vptest xmm0, [rcx+r9+10h]",
            "vxorps xmm1, xmm1, xmm1",
            "vzeroupper",
            "prefetcht0 [rbp+600h]",
            "call qword ptr [rbx+8]",
            "jmp qword ptr [rcx+rax*8]",
            "ret",
        ],
    );
}

#[test]
fn jumps() {
    check(
        |a| {
            let (before, after) = (a.label(), a.label());
            a.set(before);
            a.hop(If::Zero, after);
            a.ja(after);
            a.jb(before);
            a.jmp(START + 0x1000);
            a.jae(START - 0x1000);
            a.set(after);
            a.je(before);
            a.jne(before);
        },
        &[
            "je short 100019h",
            "ja 100019h",
            "jb 100000h",
            "jmp 101000h",
            "jae 0FF000h",
            "je 100000h",
            "jne 100000h",
        ],
    );
}

/// A jump that does not reach is an error, and so is one to nowhere.
#[test]
fn out_of_reach() {
    let mut a = Emit::at(START);
    let label = a.label();
    a.hop(If::Zero, label);
    assert!(
        Emit {
            bytes: a.bytes.clone(),
            labels: a.labels.clone(),
            open: a.open.clone(),
            ..a
        }
        .finish()
        .is_none()
    );
    let mut a = Emit::at(START);
    let label = a.label();
    a.hop(If::Zero, label);
    for _ in 0..128 {
        a.ret();
    }
    a.set(label);
    assert!(a.finish().is_none());
}
