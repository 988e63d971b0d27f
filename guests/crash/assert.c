//! A failed assertion names its file and line.
//! signal: SIGABRT
#include "guest.h"
#include <assert.h>

static __attribute__((noinline)) int divide(int a, int b)
{
    assert(b != 0 && "division by zero");
    return a / b;
}

int main(void)
{
    volatile int zero = 0;
    say("dividing");
    return divide(1, zero);
}
