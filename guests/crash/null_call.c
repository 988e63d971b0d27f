//! Calls a function pointer that nobody set.
//! signal: SIGSEGV
#include "guest.h"

struct handler { const char *name; int (*run)(int); };
static int twice(int x) { return 2 * x; }
static struct handler handlers[] = {{"twice", twice}, {"absent", NULL}};

int main(void)
{
    volatile int count = 2;
    for (int i = 0; i < count; i++) {
        say(handlers[i].name);
        printf("%d\n", handlers[i].run(i + 4)); // MARK: fault
        fflush(stdout);
    }
    return 0;
}
