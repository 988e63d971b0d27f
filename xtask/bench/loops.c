//! Tiny loops with short trip counts and data-dependent branches.
#include "guest.h"

int main(void)
{
    uint64_t longest = 0, at = 0;
    for (uint64_t start = 1; start < 2000000; start++) {
        uint64_t n = start, steps = 0;
        while (n != 1) {
            n = n & 1 ? 3 * n + 1 : n / 2;
            steps++;
        }
        if (steps > longest)
            longest = steps, at = start;
    }
    printf("%lu %lu\n", longest, at);
    return 0;
}
