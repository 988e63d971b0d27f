//! Loses the only pointer to a block.
#include "guest.h"

static __attribute__((noinline)) char *name(int n)
{
    char *text = malloc(40); // MARK: fault
    sprintf(text, "name %d", n);
    return text;
}

static char *kept;

int main(int argc, char **argv)
{
    (void)argv;
    for (int i = 0; i < 3; i++) {
        if (argc > 1)
            free(kept);
        kept = name(i); // MARK: cause
    }
    puts(kept);
    return 0;
}
