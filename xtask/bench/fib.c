//! Doubly recursive Fibonacci numbers: nothing but calls and returns.
//! flags: -fno-inline -fno-optimize-sibling-calls
#include "guest.h"

static uint64_t fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

int main(int argc, char **argv)
{
    int n = 40;
    // Each number takes 1.6 times as long as the one before.
    for (double rest = reduced(1000, argc, argv); rest < 999; rest *= 1.618)
        n--;
    printf("%lu\n", fib(n));
    return 0;
}
