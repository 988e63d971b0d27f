//! A mapping of 200 megabytes, almost all of it a hole, read where write has put something.
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
    const size_t size = 200 << 20;
    int fd = memfd_create("large", 0);
    must(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    char *view = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(view != MAP_FAILED);
    for (size_t i = 1; i < 100; i++) {
        size_t at = i * 2000003 % size;
        char text[32];
        int n = snprintf(text, sizeof text, "record %zu", i);
        if (i % 3 == 0)
            strcpy(view + at, text);
        else if (i % 3 == 1)
            must(pwrite(fd, text, (size_t)n, (off_t)at) == n);
        else
            must(lseek(fd, (off_t)at, SEEK_SET) == (off_t)at && write(fd, text, (size_t)n) == n);
    }
    uint64_t sum = MIX_START;
    for (size_t i = 1; i < 100; i++)
        sum = mix_bytes(sum, view + i * 2000003 % size, 20);
    printf("%016lx\n", sum);
    return 0;
}
