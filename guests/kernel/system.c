//! Runs shell commands with system and decodes their status.
//! children: in the shell
#include "guest.h"
#include <sys/wait.h>

int main(void)
{
    printf("%d\n", system(NULL) != 0);
    fflush(stdout);
    int status = system("echo in the shell");
    printf("%d\n", status);
    status = system("exit 12");
    printf("%d\n", WEXITSTATUS(status));
    status = system("kill -9 $$");
    printf("%d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -1);
    return 0;
}
