//! A parent and a forked child talk over pipes in both directions.
#include "guest.h"
#include <sys/wait.h>

int main(void)
{
    int down[2], up[2];
    must(pipe(down) == 0 && pipe(up) == 0);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        close(down[1]), close(up[0]);
        uint64_t x;
        while (read(down[0], &x, sizeof x) == sizeof x) {
            x = x * x + 1;
            if (write(up[1], &x, sizeof x) != sizeof x)
                _exit(1);
        }
        _exit(0);
    }
    close(down[0]), close(up[1]);
    uint64_t sum = MIX_START;
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t x = i * 3;
        must(write(down[1], &x, sizeof x) == sizeof x && read(up[0], &x, sizeof x) == sizeof x);
        sum = mix(sum, x);
    }
    close(down[1]);
    uint64_t rest;
    must(read(up[0], &rest, sizeof rest) == 0);
    int status;
    must(waitpid(child, &status, 0) == child && status == 0);
    printf("%016lx\n", sum);
    return 0;
}
