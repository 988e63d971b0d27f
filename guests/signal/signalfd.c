//! Reads signals from a descriptor.
#include "guest.h"
#include <sys/signalfd.h>

int main(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN);
    must(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    must(fd >= 0);
    struct signalfd_siginfo info;
    must(read(fd, &info, sizeof info) == -1 && errno == EAGAIN);
    must(raise(SIGUSR1) == 0 && sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 5}) == 0);
    for (int i = 0; i < 2; i++) {
        must(read(fd, &info, sizeof info) == sizeof info);
        printf("%u %d\n", info.ssi_signo, info.ssi_int);
    }
    return 0;
}
