//! Dies of SIGQUIT sent to itself, with output left in the buffer.
//! signal: SIGQUIT
#include "guest.h"

int main(void)
{
    say("before");
    setvbuf(stdout, NULL, _IOFBF, 4096);
    fputs("lost in the buffer\n", stdout);
    signal(SIGQUIT, SIG_DFL); // it may be ignored around here
    must(kill(getpid(), SIGQUIT) == 0);
    for (;;)
        pause();
}
