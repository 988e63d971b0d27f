//! A POSIX timer delivers its value, and a one-shot alarm ends a pause.
#include "guest.h"
#include <time.h>

static volatile sig_atomic_t value, alarms;
static void expired(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    value = info->si_value.sival_int;
}
static void rang(int signal)
{
    (void)signal;
    alarms++;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = expired, .sa_flags = SA_SIGINFO}, bell = {.sa_handler = rang};
    sigset_t block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    sigaddset(&block, SIGALRM);
    must(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGALRM, &bell, NULL) == 0);
    must(sigprocmask(SIG_BLOCK, &block, &old) == 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 77};
    timer_t timer;
    must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec soon = {{0, 0}, {0, 3000000}};
    must(timer_settime(timer, 0, &soon, NULL) == 0);
    while (!value)
        sigsuspend(&old);
    must(timer_delete(timer) == 0);
    ualarm(3000, 0);
    while (!alarms)
        sigsuspend(&old);
    printf("value %d alarms %d\n", (int)value, (int)alarms);
    return 0;
}
