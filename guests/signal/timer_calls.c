//! Signals of a fast timer that arrive around system calls and where flags are pushed, often two close together.
#include "guest.h"
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks;
static void tick(int signal)
{
    (void)signal;
    // A call of the handler's, while the next signal may already be there.
    syscall(SYS_getppid);
    ticks++;
}

int main(void)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    must(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &every, NULL) == 0);
    unsigned long traps = 0;
    while (ticks < 400) {
        syscall(SYS_getppid);
        unsigned long flags;
        // Below the red zone.
        __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tpopq %0\n\tlea 128(%%rsp), %%rsp" : "=r"(flags) : : "cc");
        traps += flags >> 8 & 1;
    }
    must(setitimer(ITIMER_REAL, &never, NULL) == 0);
    printf("ticks: %d, trap flag seen: %lu\n", ticks >= 400, traps);
    return 0;
}
