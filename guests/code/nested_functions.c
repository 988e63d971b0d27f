//! A function in a function, called through code that gcc puts on the stack: again and again that page is executed and
//! written to.
//! flags: -Wl,-z,execstack -Wno-pedantic
#include "guest.h"

static int apply(int (*f)(int), int n)
{
    volatile int before = n;
    return f(before) + before;
}

int main(void)
{
    int sum = 0;
    int add(int n)
    {
        sum += n;
        return sum % 7;
    }
    uint64_t mixed = MIX_START;
    for (int i = 0; i < 15000; i++)
        mixed = mix(mixed, (uint64_t)apply(add, i));
    printf("%016lx %d\n", mixed, sum);
    return 0;
}
