//! A handler raises another signal, whose handler runs inside; a deferred one waits for the mask.
#include "guest.h"

static volatile int depth;
static void note(const char *what, int signal)
{
    printf("%*s%s %s\n", depth * 2, "", what, sigabbrev_np(signal));
}

static void handler(int signal)
{
    note("enter", signal);
    depth++;
    if (signal == SIGUSR1) {
        raise(SIGUSR2);
        raise(SIGUSR1);
        raise(SIGHUP);
    }
    depth--;
    note("leave", signal);
    if (depth == 0 && signal == SIGUSR1) {
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        sigaction(SIGUSR1, &ignore, NULL);
    }
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    sigaddset(&action.sa_mask, SIGHUP);
    must(sigaction(SIGUSR1, &action, NULL) == 0);
    sigemptyset(&action.sa_mask);
    must(sigaction(SIGUSR2, &action, NULL) == 0 && sigaction(SIGHUP, &action, NULL) == 0);
    must(raise(SIGUSR1) == 0);
    note("done", SIGUSR1);
    struct sigaction once = {.sa_handler = handler, .sa_flags = (int)SA_RESETHAND | SA_NODEFER}, now;
    must(sigaction(SIGWINCH, &once, NULL) == 0 && raise(SIGWINCH) == 0);
    must(sigaction(SIGWINCH, NULL, &now) == 0);
    printf("reset %d\n", now.sa_handler == SIG_DFL);
    return 0;
}
