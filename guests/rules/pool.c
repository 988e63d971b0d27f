//! A pool hands out pieces of a block that it got from malloc, the first of them at its very beginning; one piece
//! is given back twice.
#include "guest.h"

#ifndef APART
#define APART noipa
#endif

struct pool {
    char *base;
    size_t used;
    void *given;
};

static __attribute__((APART)) void *pool_take(struct pool *pool, size_t size)
{
    void *out = pool->given;
    if (out) {
        pool->given = *(void **)out;
        return out;
    }
    out = pool->base + pool->used;
    pool->used += (size + 15) & ~15ul;
    return out;
}

static __attribute__((APART)) void pool_give(struct pool *pool, void *piece)
{
    *(void **)piece = pool->given; // MARK: inside
    pool->given = piece;
}

int main(int argc, char **argv)
{
    (void)argv;
    struct pool pool = {malloc(4096), 0, NULL};
    char *volatile first = pool_take(&pool, 16); // MARK: cause
    char *volatile second = pool_take(&pool, 16);
    strcpy(second, "second");
    pool_give(&pool, first);
    if (argc > 1)
        first = pool_take(&pool, 16);
    pool_give(&pool, first); // MARK: fault
    puts(second);
    free(pool.base);
    return 0;
}
