//! A pool hands out its own memory; one of its blocks overflows into the next.
#include "guest.h"

static char pool[4096];
static size_t used;

__attribute__((noinline)) void *pool_take(size_t size)
{
    void *out = pool + used;
    used += (size + 15) & ~15ul;
    return out;
}

__attribute__((noinline)) void pool_give(void *block)
{
    *(char *)block = 0;
}

int main(int argc, char **argv)
{
    (void)argv;
    char *volatile a = pool_take(16);
    char *volatile b = pool_take(16);
    memset(b, 1, 16);
    for (int i = 0; i < 16 + (argc == 1); i++)
        a[i] = (char)i; // MARK: fault
    printf("%d\n", b[0]);
    pool_give(a);
    pool_give(b);
    return 0;
}
