//! Dies of SIGHUP sent to itself, with output left in the buffer.
//! signal: SIGHUP
#include "guest.h"

int main(void)
{
    say("before");
    setvbuf(stdout, NULL, _IOFBF, 4096);
    fputs("lost in the buffer\n", stdout);
    signal(SIGHUP, SIG_DFL); // it may be ignored around here
    must(kill(getpid(), SIGHUP) == 0);
    for (;;)
        pause();
}
