//! Copies a text to memory on the stack that has room for half of it.
#include "guest.h"
#include <alloca.h>

static __attribute__((noinline)) size_t doubled(const char *text, size_t room)
{
    char *first = strcpy(alloca(201), text);
    char *copy = alloca(room);
    strcpy(copy, text); // MARK: fault
    for (char *c = copy; *c; c++)
        *c += *c == 'a';
    return strlen(copy) + (size_t)first[1];
}

int main(int argc, char **argv)
{
    (void)argv;
    char text[201];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    printf("%zu\n", doubled(text, argc > 1 ? 201 : 100)); // MARK: cause
    return 0;
}
