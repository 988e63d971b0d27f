//! Divides by zero.
//! signal: SIGFPE
#include "guest.h"

static __attribute__((noinline)) int average(const int *values, int count)
{
    int total = 0;
    for (int i = 0; i < count; i++)
        total += values[i];
    return total / count; // MARK: fault
}

int main(void)
{
    int values[] = {1, 2, 3};
    volatile int count = 3;
    printf("%d\n", average(values, count));
    fflush(stdout);
    count = 0;
    return average(values, count);
}
