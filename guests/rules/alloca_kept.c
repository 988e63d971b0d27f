//! Keeps a pointer to memory of a function's stack, and reads through it when the function has returned.
#include "guest.h"
#include <alloca.h>

static char *kept;

static __attribute__((noinline)) size_t greet(int times)
{
    char *greeting = alloca(6 * times + 1);
    *greeting = 0;
    while (times--)
        strcat(greeting, "hello ");
    kept = greeting; // MARK: cause
    return strlen(greeting);
}

int main(int argc, char **argv)
{
    (void)argv;
    size_t length = greet(3 + (argc > 0));
    if (argc > 1)
        kept = "hello";
    printf("%zu %c\n", length, *kept); // MARK: fault
    return 0;
}
