//! OpenMP: loops, reductions, critical and ordered parts, tasks.
//! flags: -fopenmp
//! link: dynamic
//! env: OMP_NUM_THREADS=4
#include "guest.h"
#include <omp.h>

static long fib(int n)
{
    long a, b;
    if (n < 2)
        return n;
#pragma omp task shared(a) if (n > 12)
    a = fib(n - 1);
#pragma omp task shared(b) if (n > 12)
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(void)
{
    long sum = 0, count = 0, result = 0;
    uint64_t order = MIX_START;
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 16)
    for (int i = 0; i < 20000; i++)
        sum += (long)i * i % 7;
#pragma omp parallel
    {
#pragma omp critical
        count += omp_get_num_threads();
#pragma omp barrier
#pragma omp for ordered
        for (int i = 0; i < 64; i++)
#pragma omp ordered
            order = mix(order, (uint64_t)i);
#pragma omp single
        result = fib(17);
    }
    printf("%ld %ld %ld %016lx\n", sum, count, result, order);
    return 0;
}
