//! Writes one element past the end of a global array, into its neighbour.
#include "guest.h"

static int table[10];
static int limits[4];

static __attribute__((noinline)) void fill(int *to, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = i; // MARK: fault
}

int main(int argc, char **argv)
{
    (void)argv;
    fill(limits, 4);
    fill(table, argc > 1 ? 10 : 11); // MARK: cause
    printf("%d %d\n", table[9], limits[3]);
    return 0;
}
