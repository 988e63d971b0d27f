//! Moves the stack pointer by amounts known only at run time.
#include "guest.h"
#include <alloca.h>

static __attribute__((noinline)) uint64_t fill(size_t size, int depth)
{
    unsigned char *bytes = alloca(size);
    int row[size % 50 + 1];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * 31 + (size_t)depth);
    for (size_t i = 0; i < size % 50 + 1; i++)
        row[i] = (int)i - depth;
    uint64_t sum = depth ? fill(size * 3 % 5000 + 1, depth - 1) : MIX_START;
    sum = mix_bytes(sum, bytes, size);
    return mix_bytes(sum, row, (size % 50 + 1) * sizeof *row);
}

int main(void)
{
    printf("%016lx\n", fill(17, 60));
    return 0;
}
