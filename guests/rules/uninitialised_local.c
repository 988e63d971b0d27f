//! Decides by a local variable that nobody has written.
//! flags: -Wno-maybe-uninitialized -Wno-uninitialized
#include "guest.h"

static __attribute__((noinline)) void parse(const char *text, int *out)
{
    if (text)
        *out = atoi(text);
}

static __attribute__((noinline)) int run(const char *text)
{
    int level;
    parse(text, &level);
    if (level == 12345) // MARK: fault
        puts("the level is right");
    return 0;
}

int main(int argc, char **argv)
{
    printf("%d\n", run(argc > 1 ? argv[1] : NULL));
    return 0;
}
