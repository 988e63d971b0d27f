//! Reads through a null pointer three calls deep.
//! signal: SIGSEGV
#include "guest.h"

struct node { int value; struct node *next; };

static __attribute__((noinline)) int last(const struct node *node)
{
    while (node->next->value >= 0) // MARK: fault
        node = node->next;
    return node->value;
}

int main(void)
{
    struct node b = {2, NULL}, a = {1, &b};
    say("walking");
    printf("%d\n", last(&a));
    return 0;
}
