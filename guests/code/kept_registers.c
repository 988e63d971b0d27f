//! rcx and rdx after calls and returns: read late, read in part, overwritten in part or not at all, faulted on.
#include "guest.h"
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

/// Calls a function that returns at once, and goes on with one instruction. What rcx and rdx were is in the result.
#define AFTER_CALL(name, insns)                                                              \
    uint64_t name(uint64_t, uint64_t);                                                       \
    asm(".pushsection .text\n" #name ": mov %rdi, %rcx\n mov %rsi, %rdx\n xor %eax, %eax\n"  \
        " call 9f\n" insns "\n lea (%rcx,%rdx,2), %rax\n ret\n9: ret\n.popsection")

AFTER_CALL(untouched, "");
AFTER_CALL(no_bit, "bsf %rax, %rcx");
AFTER_CALL(no_shadow_stack, "rdsspq %rdx");
AFTER_CALL(low_byte, "mov $7, %cl");
AFTER_CALL(low_half, "mov %dx, %cx");
AFTER_CALL(whole, "mov %eax, %ecx");
AFTER_CALL(not_moved, "test %eax, %eax\n cmovne %rax, %rdx");
AFTER_CALL(way_out, "test %eax, %eax\n je 1f\n mov $1, %ecx\n1:");
AFTER_CALL(other_way, "test %eax, %eax\n jne 1f\n xchg %rcx, %rdx\n1:");
AFTER_CALL(again, "call 9f\n call 9f");
AFTER_CALL(faults, "mov (%rax), %rcx");

static sigjmp_buf back;
static uint64_t seen;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    const greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    seen = mix(regs[REG_RCX], regs[REG_RDX]);
    siglongjmp(back, 1);
}

int main(void)
{
    uint64_t (*const all[])(uint64_t, uint64_t) = {untouched, no_bit, no_shadow_stack, low_byte,  low_half,
                                                   whole,     not_moved, way_out,      other_way, again};
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSEGV, &action, NULL) == 0);
    uint64_t state = 1;
    for (int round = 0; round < 50; round++) {
        uint64_t a = draw(&state), b = draw(&state), sum = MIX_START;
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
            sum = mix(sum, all[i](a, b));
        must(untouched(a, b) == a + 2 * b && no_bit(a, b) == a + 2 * b && again(a, b) == a + 2 * b);
        if (sigsetjmp(back, 1) == 0)
            faults(a, b);
        must(seen == mix(a, b));
        printf("%016lx %016lx\n", sum, seen);
    }
    return 0;
}
