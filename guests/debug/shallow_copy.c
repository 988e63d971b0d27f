//! A deep copy that forgets one field: what it points to is freed twice.
//! flags: -fno-inline
//! signal: SIGABRT
#include "guest.h"
#include <stdlib.h>
#include <string.h>

struct attribute { char *name; char *php; };

static struct attribute *duplicate(const struct attribute *from)
{
    struct attribute *copy = malloc(sizeof *copy);
    *copy = *from; // MARK: cause
    copy->name = strdup(from->name);
    return copy;
}

static void discard(struct attribute *a)
{
    if (a->php) // MARK: predicate
        free(a->php); // MARK: free
    free(a->name);
    free(a);
}

int main(void)
{
    struct attribute *first = calloc(1, sizeof *first);
    first->name = strdup("colour");
    first->php = strdup("red, or so it seemed at the time when it was written");
    struct attribute *pushed = duplicate(first);
    discard(pushed); // MARK: first
    discard(first); // MARK: fault
    puts("done");
    return 0;
}
