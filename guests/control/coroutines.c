//! Switches between stacks with swapcontext.
#include "guest.h"
#include <ucontext.h>

enum { COUNT = 4, ROUNDS = 300 };
static ucontext_t home, routines[COUNT];
static char stacks[COUNT][64 * 1024] __attribute__((aligned(16)));
static uint64_t sum = MIX_START;

static void routine(int self, int factor)
{
    for (int i = 0; i < ROUNDS; i++) {
        double kept = i * 0.5 * factor;
        sum = mix(sum, (uint64_t)(self * 100000 + i * factor));
        int to = (self + 1 + i % 2) % COUNT;
        if (to == self || i == ROUNDS - 1)
            must(swapcontext(&routines[self], &home) == 0);
        else
            must(swapcontext(&routines[self], &routines[to]) == 0);
        must(kept == i * 0.5 * factor);
    }
}

int main(void)
{
    for (volatile int i = 0; i < COUNT; i++) {
        must(getcontext(&routines[i]) == 0);
        routines[i].uc_stack.ss_sp = stacks[i];
        routines[i].uc_stack.ss_size = sizeof stacks[i];
        routines[i].uc_link = &home;
        makecontext(&routines[i], (void (*)(void))routine, 2, i, i + 3);
    }
    for (volatile int i = 0; i < 3; i++) {
        must(swapcontext(&home, &routines[i]) == 0);
        printf("back %d %016lx\n", i, sum);
    }
    return 0;
}
