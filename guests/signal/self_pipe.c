//! A timer that goes off once, soon after the handler before has returned, and whose handler is what the program
//! waits for. Kept back for longer, it would wait for ever.
#include "guest.h"
#include <poll.h>
#include <sys/time.h>
#include <unistd.h>

static int ends[2];
static void tick(int signal)
{
    (void)signal;
    must(write(ends[1], "x", 1) == 1);
}

int main(void)
{
    must(pipe(ends) == 0);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    must(sigaction(SIGALRM, &action, NULL) == 0);
    int by_poll = 0, by_read = 0;
    for (int round = 0; round < 200; round++) {
        struct itimerval once = {{0, 0}, {0, 1 + round % 100}};
        must(setitimer(ITIMER_REAL, &once, NULL) == 0);
        struct pollfd in = {.fd = ends[0], .events = POLLIN};
        char byte = 0;
        if (round % 2)
            while (poll(&in, 1, -1) < 0)
                ;
        must(read(ends[0], &byte, 1) == 1 && byte == 'x');
        *(round % 2 ? &by_poll : &by_read) += 1;
    }
    printf("%d %d\n", by_poll, by_read);
    return 0;
}
