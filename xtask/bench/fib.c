//! Doubly recursive Fibonacci numbers: nothing but calls and returns.
//! flags: -fno-inline -fno-optimize-sibling-calls
#include "guest.h"

static uint64_t fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

int main(void)
{
    printf("%lu\n", fib(40));
    return 0;
}
