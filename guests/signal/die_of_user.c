//! Dies of SIGUSR1 sent to itself, with output left in the buffer.
//! signal: SIGUSR1
#include "guest.h"

int main(void)
{
    say("before");
    setvbuf(stdout, NULL, _IOFBF, 4096);
    fputs("lost in the buffer\n", stdout);
    must(kill(getpid(), SIGUSR1) == 0);
    for (;;)
        pause();
}
