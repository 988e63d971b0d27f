//! Leaves through exit with handlers run in reverse order.
//! exit: 42
#include "guest.h"

static void first(void) { puts("first"); }
static void second(void) { puts("second"); }

int main(void)
{
    must(atexit(first) == 0 && atexit(second) == 0);
    exit(42);
}
