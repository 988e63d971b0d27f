//! Has memory at two addresses of which the lower bits are the same, and pointers in both.
#include "guest.h"
#include <sys/mman.h>

static void **memory_at(uintptr_t at)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    void **out = mmap((void *)at, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    must(out == (void **)at);
    return out;
}

int main(void)
{
    void **one = memory_at(0x10000000000);
    char *volatile small = malloc(8);
    *one = small;
    void **other = memory_at(0x50000000000);
    char *volatile large = malloc(800);
    *other = large;
    // Through the pointer that is in the one, and then through that in the other.
    memset(*one, 1, 8);
    ((char *volatile)*other)[799] = 2;
    printf("%d %d\n", small[7], large[799]);
    free(small);
    free(large);
    return 0;
}
