//! An instruction rewrites the one right after it, in the same straight line of code.
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(page != MAP_FAILED);
    const unsigned char code[] = {
        0x40, 0x88, 0x3d, 0x01, 0, 0, 0, // mov %dil, 1(%rip): the immediate below
        0xb8, 0x11, 0, 0, 0,             // mov $0x11, %eax
        0x83, 0xc0, 0x01,                // add $1, %eax
        0xc3,                            // ret
    };
    memcpy(page, code, sizeof code);
    int (*function)(int) = (int (*)(int))(uintptr_t)page;
    uint64_t sum = MIX_START;
    for (int i = 0; i < 100; i++) {
        must(function(i) == i + 1);
        sum = mix(sum, (uint64_t)function(i ^ 0x5a));
    }
    printf("%016lx\n", sum);
    return 0;
}
