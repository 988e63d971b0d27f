//! Reaches code that was declared unreachable.
//! signal: SIGILL
#include "guest.h"

int main(int argc, char **argv)
{
    (void)argv;
    say("trapping");
    if (argc > 0)
        __builtin_trap();
    return 0;
}
