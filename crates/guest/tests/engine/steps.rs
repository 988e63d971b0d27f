//! Step counts, program counters and registers against single-stepping.

use crate::chance::Chance;
use crate::oracle::trace;
use crate::scene::{FREE, Program, STATIC, visible};
use guest::{Halt, Until};

/// Every instruction of a window, and registers at many places, are those of single-stepping.
#[track_caller]
fn check(program: &Program, window: u64) {
    let recorded = program.record();
    let mut replay = recorded.replay();
    let native = trace(program, &replay);
    assert_eq!(
        recorded.steps,
        native[native.len() - 1].step + 1,
        "instructions in all"
    );
    let first = |step| native.partition_point(|s| s.step < step);
    let mut chance = Chance::new(recorded.steps);
    let last = recorded.steps - 1;
    let begin = last.saturating_sub(window) / 3;
    let mut wanted: Vec<u64> = (begin..=(begin + window).min(last)).collect();
    wanted.extend((0..150).map(|_| chance.below(last + 1)));
    wanted.push(last);
    wanted.sort_unstable();
    wanted.dedup();
    for step in wanted {
        let halt = replay.run(&Until::step(step)).expect("the replay runs");
        assert_eq!(halt, Halt::Step, "to step {step}");
        let (mut here, mut there) = (replay.regs(), native[first(step)].regs);
        // A system call leaves the flags in r11, and with them that it was single-stepped.
        (here.r11, there.r11) = (here.r11 & !0x100, there.r11 & !0x100);
        let (here, there) = (visible(&here), visible(&there));
        assert_eq!(
            here, there,
            "registers at step {step} of {last}: {here:x?} {there:x?}"
        );
    }
    let halt = replay.run(&Until::end()).expect("the replay runs");
    assert_eq!(halt, Halt::Ended(recorded.end));
    assert_eq!(replay.step().expect("a step"), recorded.steps);
}

pub(crate) const BRANCHES: &str = "
.globl _start
_start:
    lea rsp, [rip + stack]
    xor r12d, r12d
    mov ecx, 1000
round:
    mov eax, ecx
    imul eax, eax, 77
    test eax, 4
    jz even
    call odd
even:
    push rcx
    mov ecx, eax
    and ecx, 7
    jrcxz none
    lea rsi, [rip + text]
    lea rdi, [rip + room]
    rep movsb
none:
    lea rdx, [rip + places]
    and eax, 3
    mov rax, [rdx + rax * 8]
    call rax
    pop rcx
    loop round
    mov edi, r12d
    and edi, 127
    mov eax, 231
    syscall
odd:
    add r12d, eax
    adc r12d, 3
    ret
one: inc r12
    ret
two: jmp one
three:
    push 5
    pop rdx
same: dec rdx
    jnz same
    ret
four: ret
.data
places: .quad one, two, three, four
text: .ascii \"abcdefgh\"
room: .skip 64
.bss
.skip 4096
stack:
";

#[test]
fn branches_and_strings() {
    check(&Program::asm(BRANCHES), 3000);
}

pub(crate) const SIGNALS: &str = "
.globl _start
_start:
    mov eax, 13
    mov edi, 11
    lea rsi, [rip + action]
    xor edx, edx
    mov r10d, 8
    syscall
    mov ebx, 50
again:
    mov rax, [0]
    nop
    dec ebx
    jnz again
    mov edi, ebx
    mov eax, 231
    syscall
handler:
    inc dword ptr [rip + count]
    add qword ptr [rdx + 40 + 16 * 8], 8
    ret
restorer:
    mov eax, 15
    syscall
.data
count: .quad 0
action: .quad handler, 0x4000004, restorer, 0
";

#[test]
fn handlers_of_faults() {
    check(&Program::asm(SIGNALS), 2000);
}

#[test]
fn c_without_a_library() {
    let text = "
static long call(long n, long a, long b, long c) {
    long r;
    __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(n), \"D\"(a), \"S\"(b), \"d\"(c) : \"rcx\", \"r11\", \"memory\");
    return r;
}
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static unsigned sieve[2000];
void _start(void) {
    unsigned sum = 0;
    for (unsigned i = 2; i < 2000; i++) {
        if (!sieve[i]) sum += i;
        for (unsigned j = i * i; j < 2000; j += i) sieve[j] = 1;
    }
    volatile double x = 1;
    for (int i = 0; i < 500; i++) x = x * 1.01 + i / x;
    call(231, (fib(17) + sum + (unsigned)x) & 127, 0, 0);
    __builtin_unreachable();
}";
    check(&Program::c(text, FREE), 2000);
}

#[test]
fn whole_static_programs() {
    for name in [
        "basic/hello.c",
        "control/loop_instructions.c",
        "signal/fpe.c",
    ] {
        check(&Program::guest(name, STATIC), 500);
    }
}
