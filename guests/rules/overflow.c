//! Writes one element past the end of a block.
#include "guest.h"

static __attribute__((noinline)) void fill(int *to, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = i; // MARK: fault
}

int main(int argc, char **argv)
{
    (void)argv;
    int n = 11;
    int *a = malloc(n * sizeof *a);
    int *b = malloc(n * sizeof *b);
    fill(b, n);
    fill(a, argc > 1 ? n : n + 1); // MARK: cause
    printf("%d\n", a[n - 1]);
    printf("%d\n", b[0] < 0);
    free(a);
    free(b);
    return 0;
}
