//! Blocks signals, sees them pending, and takes them one by one in sigsuspend.
#include "guest.h"

static volatile sig_atomic_t last;
static void handler(int signal) { last = signal; }

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    sigset_t block, old, wait, pending;
    sigemptyset(&block);
    for (int signal = SIGUSR1; signal <= SIGUSR2; signal += SIGUSR2 - SIGUSR1) {
        must(sigaction(signal, &action, NULL) == 0);
        sigaddset(&block, signal);
    }
    must(sigprocmask(SIG_BLOCK, &block, &old) == 0);
    must(kill(getpid(), SIGUSR2) == 0 && kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGUSR1) == 0);
    must(sigpending(&pending) == 0);
    printf("pending %d %d, last %d\n", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGUSR2), (int)last);
    wait = block;
    sigdelset(&wait, SIGUSR2);
    must(sigsuspend(&wait) == -1 && errno == EINTR);
    printf("%s\n", sigabbrev_np(last));
    siginfo_t info;
    must(sigwaitinfo(&block, &info) == SIGUSR1 && info.si_pid == getpid());
    must(kill(getpid(), SIGUSR2) == 0);
    must(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    printf("%s\n", sigabbrev_np(last));
    return 0;
}
