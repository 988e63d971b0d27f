//! A child and its parent write to the same standard output in turn.
//! children: child
#include "guest.h"
#include <sys/wait.h>

int main(void)
{
    say("parent before");
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        say("child");
        fprintf(stderr, "child to stderr\n");
        _exit(3);
    }
    int status;
    must(waitpid(child, &status, 0) == child);
    printf("parent after %d\n", WEXITSTATUS(status));
    return 0;
}
