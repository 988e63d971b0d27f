//! Replaces itself by itself three times, handing on arguments, environment, a descriptor and ignored signals.
//! exit: 33
#include "guest.h"
#include <fcntl.h>

extern char **environ;

int main(int argc, char **argv)
{
    int round = argc > 1 ? atoi(argv[1]) : 0;
    if (round == 0) {
        int fd = open("log.txt", O_RDWR | O_CREAT | O_TRUNC, 0600), gone = open("/dev/null", O_RDONLY | O_CLOEXEC);
        must(fd == 3 && gone == 4 && write(fd, "start\n", 6) == 6);
        signal(SIGUSR1, SIG_IGN);
    } else {
        must(fcntl(4, F_GETFD) == -1);
        must(raise(SIGUSR1) == 0);
        dprintf(3, "round %d %s\n", round, getenv("ROUND"));
    }
    printf("round %d\n", round);
    fflush(stdout);
    if (round == 3) {
        char text[128] = {0};
        must(pread(3, text, sizeof text - 1, 0) > 0);
        fputs(text, stdout);
        must(unlink("log.txt") == 0);
        return 33;
    }
    char number[16], variable[32];
    snprintf(number, sizeof number, "%d", round + 1);
    snprintf(variable, sizeof variable, "ROUND=%d", round + 1);
    must(execl("/no/such/program", "x", NULL) == -1 && errno == ENOENT);
    char *const args[] = {argv[0], number, NULL}, *const env[] = {variable, NULL};
    execve("/proc/self/exe", args, env);
    must(0);
}
