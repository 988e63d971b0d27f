//! Counts interval-timer signals that arrive in the middle of a busy loop.
#include "guest.h"
#include <sys/time.h>

static volatile sig_atomic_t ticks;
static void tick(int signal)
{
    (void)signal;
    ticks++;
}

int main(void)
{
    struct sigaction action = {.sa_handler = tick};
    must(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &every, NULL) == 0);
    volatile unsigned long spins = 0;
    while (ticks < 10)
        spins++;
    must(setitimer(ITIMER_REAL, &never, NULL) == 0);
    printf("at least ten ticks: %d\n", ticks >= 10);
    return 0;
}
