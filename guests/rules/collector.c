//! A collector that marks living blocks in their lowest bit forgets one.
#include "guest.h"

enum { BLOCKS = 4 };
static long *blocks[BLOCKS];

__attribute__((noinline)) void gc(int right)
{
    for (int i = 0; i < BLOCKS; i++)
        if (right || i != 2)
            *blocks[i] |= 1; // MARK: cause
} // MARK: fault

int main(int argc, char **argv)
{
    (void)argv;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(sizeof(long));
        *blocks[i] = 16 * i;
    }
    gc(argc > 1);
    return 0;
}
