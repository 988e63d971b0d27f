//! Moves the program break up and down; memory given back comes again zeroed.
#include "guest.h"

int main(void)
{
    char *start = sbrk(0);
    must(start != (void *)-1);
    start = (char *)(((uintptr_t)start + 4095) & ~4095ul);
    must(brk(start) == 0);
    uint64_t sum = MIX_START;
    for (int round = 0; round < 20; round++) {
        size_t size = (size_t)(round * 37 % 11 + 1) * 4096;
        must(sbrk((intptr_t)size) == start);
        sum = mix_bytes(sum, start, size);
        memset(start, round + 1, size);
        sum = mix_bytes(sum, start, size);
        must(brk(start) == 0 && sbrk(0) == start);
    }
    must(brk((void *)~0ul) == -1 && errno == ENOMEM);
    must(sbrk(0) == start);
    // Printing needs the heap, which would move the break under our feet.
    char text[32];
    int length = snprintf(text, sizeof text, "%016lx\n", sum);
    must(write(1, text, (size_t)length) == length);
    return 0;
}
