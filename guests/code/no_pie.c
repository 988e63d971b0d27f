//! A dynamically linked program at a fixed low address, with copy relocations and absolute pointers.
//! flags: -no-pie -fno-pic -O3
//! link: dynamic
#include "guest.h"

static int values[64] = {9, 8, 7};
static int *const absolute = values + 1;
extern char **environ;

int main(void)
{
    uint64_t sum = MIX_START;
    for (int i = 0; i < 64; i++)
        values[i] = values[i] * 5 + i;
    for (int i = 0; i < 60; i++)
        sum = mix(sum, (uint64_t)absolute[i]);
    must((uintptr_t)values < 1ul << 31 && (uintptr_t)main < 1ul << 31);
    fprintf(stderr, "to the copied stderr\n");
    printf("%016lx %d\n", sum, environ != NULL);
    return 0;
}
