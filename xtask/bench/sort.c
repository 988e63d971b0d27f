//! qsort with a comparison callback.
#include "guest.h"

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    int count = reduced(3000000, argc, argv);
    uint64_t *items = malloc(count * sizeof *items), state = 42, sum = MIX_START;
    for (int i = 0; i < count; i++)
        items[i] = draw(&state);
    qsort(items, count, sizeof *items, by_value);
    for (int i = 0; i < count; i += 1000)
        sum = mix(sum, items[i]);
    printf("%016lx\n", sum);
    return 0;
}
