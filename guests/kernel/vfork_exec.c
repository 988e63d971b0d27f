//! vfork and exec: the parent waits until the child is another program; failures come back.
//! children: from the child
#include "guest.h"
#include <sys/wait.h>

static __attribute__((noinline)) int launch(const char *path, char *const argv[])
{
    pid_t child = vfork();
    if (child == 0) {
        execv(path, argv);
        _exit(errno == ENOENT ? 111 : 112);
    }
    int status;
    must(child > 0 && waitpid(child, &status, 0) == child);
    return WEXITSTATUS(status);
}

int main(void)
{
    char *const hello[] = {"sh", "-c", "echo from the child; exit 9", NULL};
    printf("%d\n", launch("/bin/sh", hello));
    printf("%d\n", launch("/no/such/program", hello));
    return 0;
}
