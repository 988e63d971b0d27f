//! Handles int3, which reports the address after itself.
#include "guest.h"
#include <ucontext.h>

static volatile int count;
static volatile uintptr_t at;

static void caught(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    at = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    count++;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGTRAP, &action, NULL) == 0);
    uintptr_t expect;
    for (int i = 0; i < 10; i++) {
        __asm__ volatile("lea 1f(%%rip), %0\n int3\n 1:" : "=&r"(expect) : : "memory");
        must(at == expect);
    }
    must(raise(SIGTRAP) == 0);
    printf("%d\n", count);
    return 0;
}
