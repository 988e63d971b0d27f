//! Sorts and searches through comparison callbacks.
#include "guest.h"

static unsigned long compared;

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    compared++;
    return x < y ? -1 : x > y;
}

static int by_tail(const void *a, const void *b, void *shift)
{
    uint64_t x = *(const uint64_t *)a >> *(int *)shift, y = *(const uint64_t *)b >> *(int *)shift;
    return x < y ? 1 : x > y ? -1 : 0;
}

int main(void)
{
    enum { COUNT = 20000 };
    static uint64_t items[COUNT];
    uint64_t state = 42, sum = MIX_START;
    for (int i = 0; i < COUNT; i++)
        items[i] = draw(&state);
    qsort(items, COUNT, sizeof *items, by_value);
    for (int i = 0; i < COUNT; i++)
        sum = mix(sum, items[i]);
    uint64_t key = items[777];
    uint64_t *found = bsearch(&key, items, COUNT, sizeof *items, by_value);
    printf("%016lx %ld %lu\n", sum, (long)(found - items), compared);
    int shift = 3;
    qsort_r(items, COUNT, sizeof *items, by_tail, &shift);
    printf("%016lx\n", mix_bytes(MIX_START, items, sizeof items));
    return 0;
}
