//! An allocator that the compiler makes part of some functions that call it, and calls in others: a block that was
//! made unseen must not be one that was never made. It reads past the end of one of the C library's.
#include "guest.h"

static char pool[4096];
static size_t used;

static inline void *pool_take(size_t size)
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
    void *(*volatile take)(size_t) = pool_take;
    char *a = take(16);
    char *b = pool_take(16);
    a[0] = b[0] = 1;
    char *volatile whole = calloc(9, 1);
    printf("%d\n", whole[argc > 1 ? 8 : 9]); // MARK: fault
    pool_give(a);
    pool_give(b);
    free(whole);
    return 0;
}
