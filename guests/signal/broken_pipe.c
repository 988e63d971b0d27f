//! Writes to a pipe nobody reads: first ignored, then handled, then deadly.
//! signal: SIGPIPE
#include "guest.h"

static void handler(int signal) { printf("%s\n", sigabbrev_np(signal)); }

int main(void)
{
    int ends[2];
    must(pipe(ends) == 0 && close(ends[0]) == 0);
    signal(SIGPIPE, SIG_IGN);
    must(write(ends[1], "x", 1) == -1 && errno == EPIPE);
    say("ignored");
    signal(SIGPIPE, handler);
    must(write(ends[1], "x", 1) == -1 && errno == EPIPE);
    say("handled");
    signal(SIGPIPE, SIG_DFL);
    must(write(ends[1], "x", 1) == 1);
    return 0;
}
