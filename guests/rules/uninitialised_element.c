//! Decides by the sum of an array of which one element was never written: the others were, each by itself, and they
//! come from a variable of which the sum knows nothing.
//! flags: -fno-tree-vectorize
#include "guest.h"

enum { MANY = 300, ODD = 207 };

__attribute__((noipa)) static int *fill(int all)
{
    int *values = malloc(MANY * sizeof *values); // MARK: cause
    for (int i = 0; i < MANY; i++)
        if (all || i != ODD)
            values[i] = i * 3;
    return values;
}

__attribute__((noipa)) static int sum(const int *values)
{
    int all = 0;
    for (int i = 0; i < MANY; i++)
        all += values[i]; // MARK: sum
    return all;
}

int main(int argc, char **argv)
{
    (void)argv;
    int *values = fill(argc > 1);
    int all = sum(values);
    if (all > 1000) // MARK: fault
        puts("much");
    free(values);
    return 0;
}
