//! Queues real-time signals with values; they arrive in order, all of them.
#include "guest.h"

static void handler(int signal, siginfo_t *info, void *context)
{
    (void)context;
    printf("%d value %d code %d mine %d\n", signal - SIGRTMIN, info->si_value.sival_int, info->si_code,
           info->si_pid == getpid());
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigset_t block, old;
    sigemptyset(&block);
    for (int i = 0; i < 3; i++) {
        must(sigaction(SIGRTMIN + i, &action, NULL) == 0);
        sigaddset(&block, SIGRTMIN + i);
    }
    must(sigprocmask(SIG_BLOCK, &block, &old) == 0);
    for (int i = 0; i < 9; i++)
        must(sigqueue(getpid(), SIGRTMIN + (i * 2) % 3, (union sigval){.sival_int = 100 + i}) == 0);
    must(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    puts("done");
    return 0;
}
