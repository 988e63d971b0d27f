//! Runs code of a mapped file that it rewrites with pwrite, and through views that come and go.
#include "guest.h"
#include <sys/mman.h>

static size_t returning(unsigned char *code, unsigned value)
{
    const unsigned char bytes[] = {0xb8, (unsigned char)value, (unsigned char)(value >> 8), 0, 0, 0xc3};
    memcpy(code, bytes, sizeof bytes);
    return sizeof bytes;
}

int main(void)
{
    int fd = memfd_create("code", 0);
    must(fd >= 0 && ftruncate(fd, 8192) == 0);
    unsigned char *runnable = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 4096);
    must(runnable != MAP_FAILED);
    int (*function)(void) = (int (*)(void))(uintptr_t)runnable;
    uint64_t sum = MIX_START;
    for (unsigned i = 0; i < 40; i++) {
        unsigned char code[8];
        size_t n = returning(code, i);
        must(pwrite(fd, code, n, 4096) == (ssize_t)n);
        must(function() == (int)i);
        sum = mix(sum, (uint64_t)function());
    }
    for (unsigned i = 0; i < 40; i++) {
        unsigned char *view = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        must(view != MAP_FAILED);
        returning(view + 4096, 100 + i);
        must(function() == (int)(100 + i));
        returning(view + 4096, 200 + i);
        sum = mix(sum, (uint64_t)function());
        must(munmap(view, 8192) == 0);
    }
    unsigned char *view = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    must(view != MAP_FAILED);
    for (unsigned i = 0; i < 40; i++) {
        must(mprotect(view + 4096, 4096, PROT_READ | PROT_WRITE) == 0);
        returning(view + 4096, 300 + i);
        must(function() == (int)(300 + i));
        must(mprotect(view + 4096, 4096, PROT_READ) == 0);
        sum = mix(sum, (uint64_t)function());
    }
    printf("%016lx\n", sum);
    return 0;
}
