//! Tiny loops with short trip counts and data-dependent branches.
#include "guest.h"

int main(int argc, char **argv)
{
    uint64_t longest = 0, at = 0, count = reduced(2000000, argc, argv);
    for (uint64_t start = 1; start < count; start++) {
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
