//! A function in a function writes past the end of a block that the outer one keeps. Their common variables lie side by
//! side in memory that has no name, to which the inner function has a pointer.
//! flags: -Wl,-z,execstack -Wno-pedantic
#include "guest.h"

static __attribute__((noinline)) void each(int n, void (*f)(int))
{
    for (int i = 0; i < n; i++)
        f(i);
}

int main(int argc, char **argv)
{
    (void)argv;
    int sum = 0, squares = 0;
    int *all = malloc(9 * sizeof *all);
    void note(int i)
    {
        sum += i;
        squares += i * i;
        all[i] = i; // MARK: fault
    }
    each(argc > 1 ? 9 : 10, note);
    printf("%d %d\n", sum, squares);
    free(all);
    return 0;
}
