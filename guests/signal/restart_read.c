//! A read from a pipe goes on after a handler installed with SA_RESTART; the handler feeds the pipe.
#include "guest.h"
#include <sys/time.h>

static int ends[2];
static volatile sig_atomic_t ticks;
static void tick(int signal)
{
    (void)signal;
    if (++ticks == 3 && write(ends[1], "fed", 3) != 3)
        _exit(97);
}

int main(void)
{
    must(pipe(ends) == 0);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    must(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &every, NULL) == 0);
    char text[8] = {0};
    must(read(ends[0], text, sizeof text) == 3);
    must(setitimer(ITIMER_REAL, &never, NULL) == 0);
    printf("%s after at least three ticks: %d\n", text, ticks >= 3);
    return 0;
}
