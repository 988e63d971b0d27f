//! Frees with free what new has made.
//! flags: -Wno-mismatched-new-delete
#include "guest.h"

static __attribute__((noinline)) void drop(void *block, bool right)
{
    if (right)
        delete static_cast<long *>(block);
    else
        free(block); // MARK: fault
    __asm__ volatile(""); // No jump instead of a call.
}

int main(int argc, char **)
{
    long *volatile n = new long(5);
    printf("%ld\n", *n);
    drop(n, argc > 1);
    return 0;
}
