//! posix_spawn with file actions and attributes, and its ENOENT for a missing program.
#include "guest.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

int main(void)
{
    int ends[2], status;
    must(pipe2(ends, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    char *const argv[] = {"sh", "-c", "read x; echo \"spawned $?\"; exit 4", NULL};
    pid_t child;
    must(posix_spawnp(&child, "sh", &actions, NULL, argv, environ) == 0);
    close(ends[1]);
    char text[64] = {0};
    must(read(ends[0], text, sizeof text - 1) > 0);
    must(waitpid(child, &status, 0) == child);
    printf("%s%d\n", text, WEXITSTATUS(status));
    int error = posix_spawn(&child, "/no/such/program", NULL, NULL, argv, environ);
    printf("%s\n", strerror(error));
    must(waitpid(-1, &status, 0) == -1 && errno == ECHILD);
    posix_spawn_file_actions_destroy(&actions);
    return 0;
}
