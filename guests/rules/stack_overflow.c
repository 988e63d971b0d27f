//! Writes past the end of an array on the stack, into another variable.
#include "guest.h"

static __attribute__((noinline)) void fill(char *to, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = (char)(i * 7); // MARK: fault
}

int main(int argc, char **argv)
{
    (void)argv;
    char guard[32];
    char name[16];
    char more[32];
    fill(guard, sizeof guard);
    fill(more, sizeof more);
    fill(name, argc > 1 ? 16 : 17); // MARK: cause
    printf("%d%d%d\n", guard[0], name[0], more[0]);
    return 0;
}
