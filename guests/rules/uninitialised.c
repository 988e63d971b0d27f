//! Decides by a field of a block that nobody has written.
#include "guest.h"

struct options { int verbose; int colour; };

static __attribute__((noinline)) struct options *make(int all)
{
    struct options *o = malloc(sizeof *o); // MARK: cause
    o->verbose = 1;
    if (all)
        o->colour = 0;
    return o;
}

int main(int argc, char **argv)
{
    (void)argv;
    struct options *o = make(argc > 1);
    if (o->colour) // MARK: fault
        puts("colour");
    else
        puts("plain");
    free(o);
    return 0;
}
