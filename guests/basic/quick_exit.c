//! Leaves through _exit: no handler runs, no buffer is flushed, and only the low byte arrives.
//! exit: 7
#include "guest.h"

static void never(void) { say("never printed"); }

int main(void)
{
    must(atexit(never) == 0);
    say("flushed");
    setvbuf(stdout, NULL, _IOFBF, 4096);
    fputs("lost in the buffer\n", stdout);
    _exit(0x107);
}
