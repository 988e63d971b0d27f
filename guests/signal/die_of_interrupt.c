//! Dies of SIGINT sent to itself, with output left in the buffer.
//! signal: SIGINT
#include "guest.h"

int main(void)
{
    say("before");
    setvbuf(stdout, NULL, _IOFBF, 4096);
    fputs("lost in the buffer\n", stdout);
    signal(SIGINT, SIG_DFL); // it may be ignored around here
    must(kill(getpid(), SIGINT) == 0);
    for (;;)
        pause();
}
