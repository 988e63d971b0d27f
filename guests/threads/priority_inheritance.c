//! Mutexes with priority inheritance: contended, tried, timed, and locked twice.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

static pthread_mutex_t lock;
static long counter;

static void *work(void *argument)
{
    for (int i = 0; i < 500; i++) {
        must(pthread_mutex_lock(&lock) == 0);
        long old = counter;
        if (i % 7 == 0)
            sched_yield();
        counter = old + 1;
        must(pthread_mutex_unlock(&lock) == 0);
    }
    return argument;
}

static void *tries(void *argument)
{
    struct timespec soon;
    must(pthread_mutex_trylock(&lock) == EBUSY);
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 2000000;
    if (soon.tv_nsec >= 1000000000)
        soon.tv_sec++, soon.tv_nsec -= 1000000000;
    must(pthread_mutex_timedlock(&lock, &soon) == ETIMEDOUT);
    return argument;
}

int main(void)
{
    pthread_mutexattr_t attributes;
    pthread_t threads[4];
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    must(pthread_mutex_init(&lock, &attributes) == 0);
    for (int i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 4; i++)
        must(pthread_join(threads[i], NULL) == 0);
    must(pthread_mutex_lock(&lock) == 0);
    must(pthread_mutex_lock(&lock) == EDEADLK);
    must(pthread_create(&threads[0], NULL, tries, NULL) == 0);
    must(pthread_join(threads[0], NULL) == 0);
    must(pthread_mutex_unlock(&lock) == 0);
    must(pthread_mutex_unlock(&lock) == EPERM);
    printf("%ld\n", counter);
    return 0;
}
