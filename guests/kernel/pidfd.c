//! Watches a child through a descriptor, signals it, and reaps it by descriptor.
#include "guest.h"
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

int main(void)
{
    pid_t child = fork();
    must(child >= 0);
    if (child == 0)
        for (;;)
            pause();
    int fd = (int)syscall(SYS_pidfd_open, child, 0);
    must(fd >= 0);
    struct pollfd wait = {fd, POLLIN, 0};
    must(poll(&wait, 1, 0) == 0);
    must(syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0);
    must(poll(&wait, 1, -1) == 1);
    siginfo_t info;
    must(waitid((idtype_t)3 /* P_PIDFD */, (id_t)fd, &info, WEXITED) == 0);
    printf("%d %d %d\n", info.si_pid == child, info.si_code, info.si_status);
    return 0;
}
