//! Reads a variable of a function that has returned.
#include "guest.h"

static int *kept;

static __attribute__((noinline)) void keep(int *p)
{
    kept = p; // MARK: cause
}

static __attribute__((noinline)) int work(int n)
{
    int local[4] = {n, n + 1, n + 2, n + 3};
    keep(local);
    return kept[1];
}

static __attribute__((noinline)) int look(void)
{
    return kept[2]; // MARK: fault
}

int main(int argc, char **argv)
{
    (void)argv;
    int own[4] = {1, 2, 3, 4};
    int sum = work(argc);
    if (argc > 1)
        keep(own);
    sum += look();
    printf("%d\n", sum != 0);
    return 0;
}
