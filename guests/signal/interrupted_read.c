//! A read from a pipe fails with EINTR after a handler installed without SA_RESTART.
#include "guest.h"
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t ticks;
static void tick(int signal)
{
    (void)signal;
    ticks++;
}

int main(void)
{
    int ends[2];
    must(pipe(ends) == 0);
    struct sigaction action = {.sa_handler = tick};
    must(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &every, NULL) == 0);
    char byte;
    for (int i = 0; i < 3; i++)
        must(read(ends[0], &byte, 1) == -1 && errno == EINTR);
    must(setitimer(ITIMER_REAL, &never, NULL) == 0);
    struct timespec nap = {0, 1000000}, left;
    must(nanosleep(&nap, &left) == 0);
    must(write(ends[1], "x", 1) == 1 && read(ends[0], &byte, 1) == 1);
    printf("%c\n", byte);
    return 0;
}
