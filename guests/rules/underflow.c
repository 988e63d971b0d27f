//! Reads the element before the first.
#include "guest.h"

static __attribute__((noinline)) int last(const int *items, int count)
{
    return items[count - 1]; // MARK: fault
}

int main(int argc, char **argv)
{
    (void)argv;
    int *items = calloc(4, sizeof *items);
    printf("%d\n", last(items, argc > 1) == 12345); // MARK: cause
    free(items);
    return 0;
}
