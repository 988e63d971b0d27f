//! A function with a variable that wants more alignment than the stack has, and more parameters than registers: to find
//! its caller's frame again it keeps a pointer to where its first parameter in memory happens to be.
#include "guest.h"

typedef double wide __attribute__((vector_size(32)));

static __attribute__((noinline)) double total(int a, int b, int c, int d, int e, int f, long many, const double *all)
{
    wide sum = {0};
    wide *volatile kept = &sum;
    for (long i = 0; i < many; i += 4)
        for (int lane = 0; lane < 4; lane++)
            (*kept)[lane] += all[i + lane]; // MARK: fault
    return sum[0] + sum[1] + sum[2] + sum[3] + a + b + c + d + e + f;
}

int main(int argc, char **argv)
{
    (void)argv;
    double *all = malloc(8 * sizeof *all);
    for (int i = 0; i < 8; i++)
        all[i] = i;
    double got = total(1, 2, 3, 4, 5, 6, argc > 1 ? 8 : 12, all);
    printf("%d\n", got > 0);
    free(all);
    return 0;
}
