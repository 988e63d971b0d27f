//! A handler changes registers, flags and the program counter of what it interrupted.
#include "guest.h"
#include <ucontext.h>

static void handler(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    // Skips the three-byte load through %rax and supplies its result instead.
    regs[REG_RIP] += 3;
    regs[REG_RBX] = regs[REG_RCX] * 2 + 1;
    regs[REG_EFL] ^= 1;
    ((ucontext_t *)context)->uc_mcontext.fpregs->_xmm[3].element[0] += 5;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSEGV, &action, NULL) == 0);
    for (uint64_t i = 0; i < 6; i++) {
        uint64_t out = 0, carry = 0, vector = i;
        __asm__ volatile("movq %2, %%xmm3\n xor %%eax, %%eax\n bt $0, %%rcx\n"
                         ".byte 0x48, 0x8b, 0x18\n" // mov (%rax), %rbx
                         "adc $0, %1\n movq %%xmm3, %2"
                         : "=&b"(out), "+r"(carry), "+r"(vector) : "c"(i) : "rax", "xmm3", "cc", "memory");
        printf("%lu %lu %lu\n", out, carry, vector);
    }
    return 0;
}
