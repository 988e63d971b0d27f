//! A signal frame shows the flags of the alternate stack also where there is none.
//! flags: -pthread
//! nondeterministic: the first thread has those of whoever started the program
#include "guest.h"
#include <pthread.h>
#include <ucontext.h>

static void show(int sig, siginfo_t *info, void *context)
{
    (void)info;
    printf("signal %d, flags %d\n", sig, ((ucontext_t *)context)->uc_stack.ss_flags);
}

static void *work(void *argument)
{
    must(raise(SIGUSR1) == 0);
    return argument;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = show, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGUSR1, &action, NULL) == 0);
    work(NULL);
    pthread_t thread;
    must(pthread_create(&thread, NULL, work, NULL) == 0 && pthread_join(thread, NULL) == 0);
    work(NULL);
    return 0;
}
