//! Recurses without end.
//! signal: SIGSEGV
//! flags: -fno-optimize-sibling-calls
#include "guest.h"
#include <sys/resource.h>

static __attribute__((noinline)) int sink(volatile int *depth)
{
    volatile char room[2000];
    room[*depth % 2000] = 1;
    ++*depth;
    if (*depth < 0)
        return 0;
    return sink(depth) + room[0];
}

int main(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    must(setrlimit(RLIMIT_STACK, &limit) == 0);
    volatile int depth = 0;
    say("down");
    return sink(&depth);
}
