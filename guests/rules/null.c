//! Follows a pointer that a search returned as NULL, at a distance.
//! signal: SIGSEGV
#include "guest.h"

struct node { long pad[3]; long value; struct node *next; };

static __attribute__((noinline)) struct node *find(struct node *n, long value)
{
    for (; n; n = n->next)
        if (n->value == value)
            return n;
    return NULL; // MARK: cause
}

int main(int argc, char **argv)
{
    (void)argv;
    struct node a = {{0}, 5, NULL};
    struct node *found = find(&a, argc > 1 ? 5 : 6);
    printf("%ld\n", found->value); // MARK: fault
    return 0;
}
