//! abort ends the program even though its signal is handled.
//! signal: SIGABRT
#include "guest.h"

static void handler(int signal)
{
    (void)signal;
    say("handled");
}

int main(void)
{
    signal(SIGABRT, handler);
    must(raise(SIGABRT) == 0);
    say("survived the first");
    abort();
}
