//! Overwrites the size of the next block; the C library notices later, in free.
//! signal: SIGABRT
//! flags: -U_FORTIFY_SOURCE -Wno-array-bounds -Wno-stringop-overflow
#include "guest.h"

int main(void)
{
    volatile char *volatile first = malloc(24), *volatile second = malloc(3000), *volatile third = malloc(24);
    say("overflowing");
    for (int i = 24; i < 30; i++)
        first[i] = (char)0x5b; // MARK: cause
    free((void *)third);
    free((void *)second); // MARK: fault
    free((void *)first);
    return 0;
}
