//! Forks children that compute and exit; collects status, usage and order with every wait call.
#include "guest.h"
#include <sys/resource.h>
#include <sys/wait.h>

int main(void)
{
    int shared_state = 5;
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        must(child >= 0);
        if (child == 0) {
            shared_state += i;
            uint64_t sum = MIX_START;
            for (uint64_t n = 0; n < 100000; n++)
                sum = mix(sum, n);
            if (i == 4)
                abort();
            _exit((int)(sum % 50) + shared_state);
        }
        int status;
        struct rusage usage;
        siginfo_t info;
        if (i == 0)
            must(waitpid(child, &status, 0) == child);
        else if (i == 1)
            must(wait(&status) == child);
        else if (i == 2)
            must(wait4(-1, &status, 0, &usage) == child);
        else {
            must(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
            must(info.si_pid == child && waitpid(-1, &status, WNOHANG) == child);
            printf("code %d ", info.si_code);
        }
        printf("%d %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    printf("%d\n", shared_state);
    return 0;
}
