//! Prints how far a busy loop came before each signal: the replay must be interrupted at the same steps.
//! nondeterministic: the loop counts depend on when the timer fires
#include "guest.h"
#include <sys/time.h>

static volatile sig_atomic_t ticks;
static volatile unsigned long spins, seen[8];
static void tick(int signal)
{
    (void)signal;
    if (ticks < 8)
        seen[ticks] = spins;
    ticks++;
}

int main(void)
{
    struct sigaction action = {.sa_handler = tick};
    must(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &every, NULL) == 0);
    while (ticks < 8)
        spins++;
    must(setitimer(ITIMER_REAL, &never, NULL) == 0);
    for (int i = 0; i < 8; i++)
        printf("%lu\n", seen[i]);
    return 0;
}
