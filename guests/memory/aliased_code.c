//! Runs code through an executable view of memory that it rewrites through a writable one.
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
    int fd = memfd_create("code", 0);
    must(fd >= 0 && ftruncate(fd, 4096) == 0);
    unsigned char *writable = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    unsigned char *runnable = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    must(writable != MAP_FAILED && runnable != MAP_FAILED);
    uint64_t sum = MIX_START;
    for (unsigned i = 0; i < 300; i++) {
        const unsigned char code[] = {0xb8, (unsigned char)i, (unsigned char)(i >> 8), 0, 0, 0xc3};
        memcpy(writable + i % 3 * 64, code, sizeof code);
        int (*function)(void) = (int (*)(void))(uintptr_t)(runnable + i % 3 * 64);
        must(function() == (int)i);
        sum = mix(sum, (uint64_t)function());
    }
    printf("%016lx\n", sum);
    return 0;
}
