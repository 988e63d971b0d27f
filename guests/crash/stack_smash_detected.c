//! Overflows a buffer under the stack protector, which aborts.
//! signal: SIGABRT
//! flags: -fstack-protector-all -U_FORTIFY_SOURCE
#include "guest.h"

static __attribute__((noinline)) int victim(int count)
{
    volatile char buffer[16];
    for (int i = 0; i < count; i++)
        ((volatile char *)buffer)[i] = 'A';
    return buffer[0];
}

int main(void)
{
    volatile int count = 40;
    say("smashing");
    return victim(count);
}
