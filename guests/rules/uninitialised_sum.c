//! A sum of integers, as compilers make of it when they add several at once. One of them was never written.
#include "guest.h"

int main(int argc, char **argv)
{
    (void)argv;
    int n = 400;
    int *all = malloc((size_t)n * sizeof *all);
    for (int i = 0; i < n; i++)
        if (argc > 1 || i != 250)
            all[i] = i;
    unsigned sum = 0;
    for (int i = 0; i < 400; i++)
        sum += (unsigned)all[i]; // MARK: cause
    if (sum == 79800) // MARK: fault
        puts("all of them");
    free(all);
    return 0;
}
