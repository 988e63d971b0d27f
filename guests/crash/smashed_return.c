//! Overflows a buffer over the return address and returns to garbage.
//! signal: SIGSEGV
//! flags: -fno-stack-protector -U_FORTIFY_SOURCE -fcf-protection=none
#include "guest.h"

static __attribute__((noinline)) void fill(volatile char *buffer, int count)
{
    for (int i = 0; i < count; i++)
        buffer[i] = 'A'; // MARK: cause
}

static __attribute__((noinline)) int victim(int count)
{
    volatile char buffer[16];
    fill(buffer, count);
    return buffer[0]; // MARK: fault
}

int main(void)
{
    printf("%d\n", victim(16));
    fflush(stdout);
    return victim(100);
}
