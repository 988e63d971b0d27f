//! Frees a list whose two heads share a node.
//! signal: SIGABRT
//! flags: -Wno-use-after-free
#include "guest.h"

struct entry { char *name; struct entry *next; };

static __attribute__((noinline)) struct entry *copy(struct entry *from)
{
    struct entry *to = malloc(sizeof *to);
    to->next = NULL;
    to->name = from->name; // MARK: cause
    return to;
}

static __attribute__((noinline)) void drop(struct entry *e)
{
    free(e->name); // MARK: fault
    free(e);
}

int main(int argc, char **argv)
{
    struct entry *a = malloc(sizeof *a);
    a->next = NULL;
    a->name = strdup("shared");
    struct entry *b = copy(a);
    if (argc > 1)
        b->name = strdup(argv[1]);
    drop(a);
    drop(b);
    return 0;
}
