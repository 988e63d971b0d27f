//! Sends every signal to a child of its own and reports what became of it.
#include "guest.h"
#include <sys/resource.h>
#include <sys/wait.h>

int main(void)
{
    struct rlimit none = {0, 0};
    must(setrlimit(RLIMIT_CORE, &none) == 0);
    for (int signal = 1; signal < 32; signal++) {
        if (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU)
            continue;
        pid_t child = fork();
        must(child >= 0);
        if (child == 0) {
            raise(signal);
            _exit(0);
        }
        int status;
        must(waitpid(child, &status, 0) == child);
        printf("%s %s\n", sigabbrev_np(signal), WIFSIGNALED(status) ? "kills" : "passes");
    }
    return 0;
}
