//! Recurses sixty thousand frames deep, so that the stack grows and every return is used.
//! flags: -fno-optimize-sibling-calls
#include "guest.h"

static __attribute__((noinline)) uint64_t down(int depth, uint64_t sum)
{
    volatile uint64_t kept = sum + (uint64_t)depth;
    if (depth == 0)
        return sum;
    return mix(down(depth - 1, mix(sum, (uint64_t)depth)), kept);
}

static __attribute__((noinline)) int ackermann(int m, int n)
{
    if (m == 0)
        return n + 1;
    if (n == 0)
        return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

int main(void)
{
    printf("%016lx\n", down(60000, MIX_START));
    printf("%d\n", ackermann(2, 300));
    return 0;
}
