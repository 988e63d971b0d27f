//! Calls a function through a pointer that was never set.
//! signal: SIGSEGV
#include "guest.h"

struct handler {
    const char *name;
    int (*run)(int);
};

static int twice(int n)
{
    return 2 * n;
}

static struct handler handlers[2] = {{"twice", twice}};

static __attribute__((noinline)) int (*find(const char *name))(int)
{
    for (int i = 0; i < 2; i++)
        if (handlers[i].name && !strcmp(handlers[i].name, name))
            return handlers[i].run;
    return handlers[1].run; // MARK: cause
}

int main(int argc, char **argv)
{
    (void)argv;
    int (*volatile run)(int) = find(argc > 1 ? "twice" : "thrice");
    int got = run(21); // MARK: fault
    printf("%d\n", got);
    return 0;
}
