//! Reads through a pointer to a block that was freed and handed out again.
//! flags: -Wno-use-after-free
#include "guest.h"

struct list { long *items; size_t count; };

static __attribute__((noinline)) void grow(struct list *l, size_t count)
{
    long *more = malloc(count * sizeof *more);
    memcpy(more, l->items, l->count * sizeof *more);
    free(l->items);
    l->items = more;
    l->count = count;
}

int main(int argc, char **argv)
{
    (void)argv;
    struct list l = {malloc(4 * sizeof(long)), 4};
    for (int i = 0; i < 4; i++)
        l.items[i] = i;
    long *volatile first = &l.items[1]; // MARK: cause
    grow(&l, 8);
    long *volatile other = malloc(4 * sizeof(long));
    memset(other, 0, 4 * sizeof(long));
    long sum = argc > 1 ? l.items[1] : *first; // MARK: fault
    printf("%d\n", sum == 77);
    free(other);
    free(l.items);
    return 0;
}
