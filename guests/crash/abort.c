//! Gives up by itself.
//! signal: SIGABRT
#include "guest.h"

static __attribute__((noinline)) void check(int x)
{
    if (x > 2)
        abort();
}

int main(void)
{
    for (volatile int i = 0; i < 5; i++) {
        printf("%d\n", i);
        fflush(stdout);
        check(i);
    }
    return 0;
}
