//! Puts different code at the same address again and again, by mprotect and by unmapping.
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(page != MAP_FAILED);
    uint64_t sum = MIX_START;
    for (int round = 0; round < 200; round++) {
        unsigned char *at = page;
        *at++ = 0x89, *at++ = 0xf8; // mov %edi, %eax
        for (int i = 0; i < round % 17; i++)
            *at++ = 0x83, *at++ = i % 2 ? 0xc0 : 0xf0, *at++ = (unsigned char)(round & 0x7f); // add or xor
        *at++ = 0xc3;
        must(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
        for (int i = 0; i < 20; i++)
            sum = mix(sum, (uint64_t)((int (*)(int))(uintptr_t)page)(i * 7));
        if (round % 2) {
            must(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
        } else {
            must(munmap(page, 4096) == 0);
            must(mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
        }
    }
    printf("%016lx\n", sum);
    return 0;
}
