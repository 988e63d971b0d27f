//! Chains of calls in tail position, direct and through pointers.
//! flags: -foptimize-sibling-calls
#include "guest.h"

typedef uint64_t state_fn(uint64_t sum, int left);
static state_fn red, green, blue;
static state_fn *volatile next[] = {red, green, blue};

static __attribute__((noinline)) uint64_t red(uint64_t sum, int left)
{
    if (!left)
        return sum;
    return green(sum * 3 + 1, left - 1);
}
static __attribute__((noinline)) uint64_t green(uint64_t sum, int left)
{
    if (!left)
        return sum;
    return next[sum % 3](sum * 5 + 7 + (sum >> 7), left - 1);
}
static __attribute__((noinline)) uint64_t blue(uint64_t sum, int left)
{
    if (!left)
        return sum;
    return (sum & 1 ? red : green)(sum + 0x9e3779b9, left - 1);
}

int main(void)
{
    printf("%016lx\n", red(1, 30000));
    return 0;
}
