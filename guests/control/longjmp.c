//! Leaves deep calls through longjmp, repeatedly, with the value that was passed.
#include "guest.h"
#include <setjmp.h>

static jmp_buf outer, inner;

static __attribute__((noinline)) void dive(int depth, int value)
{
    volatile char room[100];
    if (depth < 0)
        return;
    room[depth % 100] = (char)depth;
    if (depth == 0)
        longjmp(value % 2 ? outer : inner, value);
    dive(depth - 1, value);
    room[1]++;
}

int main(void)
{
    volatile int round = 0;
    volatile uint64_t sum = MIX_START;
    int value = setjmp(outer);
    sum = mix(sum, (uint64_t)value);
    while (round < 2000) {
        int again = setjmp(inner);
        if (again)
            sum = mix(sum, 1000 + (uint64_t)again);
        round++;
        dive(round % 37, round);
    }
    printf("%016lx %d\n", sum, round);
    if (setjmp(outer) == 0)
        longjmp(outer, 0);
    puts("zero became one");
    return 0;
}
