//! A transaction leaves a block behind that is reachable, and so no leak for others.
#include "guest.h"

static char *last;

__attribute__((noinline)) void transaction(int n, int tidy)
{
    char *text = malloc(20 + n); // MARK: fault
    sprintf(text, "%d", n);
    last = text;
    if (tidy)
        free(text);
}

int main(int argc, char **argv)
{
    (void)argv;
    char *early = malloc(10);
    for (int i = 0; i < 3; i++)
        transaction(i, argc > 1 || i != 1); // MARK: cause
    free(early);
    return last == NULL;
}
