//! Handles undefined instructions, stepping over each by its length.
#include "guest.h"
#include <ucontext.h>

static volatile int count;
static volatile uintptr_t reported, at;

static void caught(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    ucontext_t *uc = context;
    at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
    reported = (uintptr_t)info->si_addr;
    uc->uc_mcontext.gregs[REG_RIP] += 2;
    count++;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGILL, &action, NULL) == 0);
    uintptr_t expect;
    for (int i = 0; i < 20; i++) {
        __asm__ volatile("lea 1f(%%rip), %0\n 1: ud2" : "=&r"(expect) : : "memory");
        must(at == expect && reported == expect);
    }
    // Two bytes that decode to nothing in 64-bit mode: push %es, twice.
    __asm__ volatile(".byte 0x06, 0x06" : : : "memory");
    printf("%d\n", count);
    return 0;
}
