//! Dies of SIGTERM sent to itself, with output left in the buffer.
//! signal: SIGTERM
#include "guest.h"

int main(void)
{
    say("before");
    setvbuf(stdout, NULL, _IOFBF, 4096);
    fputs("lost in the buffer\n", stdout);
    signal(SIGTERM, SIG_DFL); // it may be ignored around here
    must(kill(getpid(), SIGTERM) == 0);
    for (;;)
        pause();
}
