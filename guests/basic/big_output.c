//! Writes more than a pipe holds, to both streams.
#include "guest.h"

int main(void)
{
    uint64_t state = 88172645463325252ul;
    for (int i = 0; i < 20000; i++)
        printf("%6d %016lx\n", i, draw(&state));
    for (int i = 0; i < 500; i++)
        fprintf(stderr, "%d %016lx\n", i, draw(&state));
    return 0;
}
