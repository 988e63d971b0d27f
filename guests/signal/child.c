//! Hears of its children's ends through SIGCHLD and reaps them.
#include "guest.h"
#include <sys/wait.h>

static volatile sig_atomic_t heard;
static void handler(int signal)
{
    (void)signal;
    heard++;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    sigset_t block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGCHLD);
    must(sigaction(SIGCHLD, &action, NULL) == 0 && sigprocmask(SIG_BLOCK, &block, &old) == 0);
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        must(child >= 0);
        if (child == 0) {
            if (i == 3)
                raise(SIGKILL);
            _exit(i * 10);
        }
        int before = heard, status;
        while (heard == before)
            sigsuspend(&old);
        must(waitpid(-1, &status, 0) == child);
        if (WIFEXITED(status))
            printf("exited %d\n", WEXITSTATUS(status));
        else
            printf("killed by %s\n", sigabbrev_np(WTERMSIG(status)));
    }
    must(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    return 0;
}
