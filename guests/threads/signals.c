//! Signals to one thread: blocked in some, waited for in one, and cutting a wait short.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>

static __thread volatile int handled;
static sem_t ready, done;
static pid_t tids[3];

static void handler(int signal)
{
    handled += signal;
}

static void *in_semaphore(void *argument)
{
    sem_t never;
    sem_init(&never, 0, 0);
    tids[0] = gettid();
    sem_post(&ready);
    must(sem_wait(&never) == -1 && errno == EINTR);
    return (void *)(intptr_t)handled;
    (void)argument;
}

static void *in_loop(void *argument)
{
    tids[1] = gettid();
    sem_post(&ready);
    while (!handled)
        ;
    return (void *)(intptr_t)handled;
    (void)argument;
}

static void *in_sigwait(void *argument)
{
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    must(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    tids[2] = gettid();
    sem_post(&ready);
    must(sigwait(&set, &signal) == 0 && signal == SIGUSR2);
    must(handled == 0);
    return (void *)(intptr_t)signal;
    (void)argument;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    must(sigaction(SIGUSR1, &action, NULL) == 0);
    must(sigaction(SIGUSR2, &action, NULL) == 0);
    sem_init(&ready, 0, 0);
    sem_init(&done, 0, 0);
    void *(*const work[])(void *) = {in_semaphore, in_loop, in_sigwait};
    const int sent[] = {SIGUSR1, SIGUSR1, SIGUSR2};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        must(pthread_create(&threads[i], NULL, work[i], NULL) == 0);
        must(sem_wait(&ready) == 0);
    }
    usleep(2000);
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            must(syscall(SYS_tgkill, getpid(), tids[i], sent[i]) == 0);
        else
            must(pthread_kill(threads[i], sent[i]) == 0);
        void *result;
        must(pthread_join(threads[i], &result) == 0);
        printf("%d\n", result == (void *)(intptr_t)sent[i]);
    }
    must(handled == 0);
    must(pthread_kill(pthread_self(), SIGUSR1) == 0);
    must(handled == SIGUSR1);
    return 0;
}
