//! Static objects are built before main in order and destroyed after it in reverse.
#include "guest.h"

struct Noisy {
    const char *name;
    explicit Noisy(const char *n) : name(n) { printf("+%s\n", name); }
    ~Noisy() { printf("-%s\n", name); }
};

static Noisy one("one");
static Noisy two("two");

__attribute__((constructor(101))) static void early() { puts("early"); }
__attribute__((destructor(101))) static void late() { puts("late"); }

static Noisy &lazy()
{
    static Noisy inside("lazy");
    return inside;
}

int main()
{
    puts("main");
    lazy();
    lazy();
    thread_local Noisy local("thread_local");
    puts(local.name);
    return 0;
}
