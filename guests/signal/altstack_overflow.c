//! Overflows the stack, handles it on an alternate one, and goes on.
//! flags: -fno-optimize-sibling-calls
#include "guest.h"
#include <setjmp.h>
#include <sys/resource.h>

static sigjmp_buf back;
static char alternate[64 * 1024];
static volatile int on_alternate;

static void caught(int signal, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    char here;
    on_alternate = (uintptr_t)&here - (uintptr_t)alternate < sizeof alternate;
    siglongjmp(back, signal);
}

static __attribute__((noinline)) int endless(volatile int *deep)
{
    volatile char room[4000];
    room[0] = 1;
    if (*deep < 0)
        return 0;
    ++*deep;
    return endless(deep) + room[0];
}

int main(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    must(setrlimit(RLIMIT_STACK, &limit) == 0);
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    must(sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    must(sigaction(SIGSEGV, &action, NULL) == 0);
    volatile int deep;
    for (volatile int round = 0; round < 3; round++) {
        deep = 0;
        int signal = sigsetjmp(back, 1);
        if (signal == 0)
            endless(&deep);
        else
            printf("%s on alternate %d deep %d\n", sigabbrev_np(signal), on_alternate, deep > 100);
    }
    return 0;
}
