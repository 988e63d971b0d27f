//! Grows, shrinks and moves a mapping; its contents come along.
#include "guest.h"
#include <sys/mman.h>

enum { PAGE = 4096 };

int main(void)
{
    uint64_t sum = MIX_START;
    size_t size = PAGE;
    unsigned char *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(area != MAP_FAILED);
    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < size; i += 64)
            area[i] = (unsigned char)(area[i] + i / 64 + (size_t)round);
        size_t wanted = round % 5 == 4 ? size / 2 : size + (size_t)(round % 3 + 1) * 3 * PAGE;
        wanted = (wanted + PAGE - 1) / PAGE * PAGE;
        area = mremap(area, size, wanted, MREMAP_MAYMOVE);
        must(area != MAP_FAILED);
        size = wanted;
        sum = mix_bytes(mix(sum, size), area, size);
    }
    unsigned char *target = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(target != MAP_FAILED && target != area);
    must(mremap(area, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
    printf("%zu %016lx %016lx\n", size, sum, mix_bytes(sum, target, size));
    return 0;
}
