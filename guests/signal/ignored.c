//! Ignored signals do nothing.
#include "guest.h"

int main(void)
{
    signal(SIGUSR1, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    for (int i = 0; i < 5; i++)
        must(raise(SIGUSR1) == 0 && raise(SIGCHLD) == 0 && raise(SIGURG) == 0 && raise(SIGCONT) == 0);
    sigset_t pending;
    must(sigpending(&pending) == 0 && sigisemptyset(&pending));
    must(signal(SIGKILL, SIG_IGN) == SIG_ERR && errno == EINVAL);
    must(kill(getpid(), 0) == 0 && kill(getpid(), 99) == -1 && errno == EINVAL);
    puts("unmoved");
    return 0;
}
