//! Reserves far more than it touches, and touches it sparsely.
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
    size_t size = 1ul << 36;
    char *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(area != MAP_FAILED);
    uint64_t sum = MIX_START;
    for (size_t at = 4095; at < size; at += size / 200)
        area[at] = (char)(at >> 20);
    for (size_t at = 4095; at < size; at += size / 200)
        sum = mix(sum, (unsigned char)area[at] + (unsigned char)area[at - 1]);
    must(munmap(area, size) == 0);
    char *block = malloc(64 << 20);
    must(block != NULL);
    memset(block, 1, 64 << 20);
    block = realloc(block, 96 << 20);
    must(block != NULL && block[(64 << 20) - 1] == 1);
    free(block);
    volatile size_t absurd = ~0ul / 2 - 4096;
    must(malloc(absurd) == NULL && errno == ENOMEM);
    printf("%016lx\n", sum);
    return 0;
}
