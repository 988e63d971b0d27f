//! Threads die while they hold robust mutexes; the next owner is told.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t locks[3];
static sem_t held;

static void *dies(void *argument)
{
    for (int i = 0; i < 3; i++)
        must(pthread_mutex_lock(&locks[i]) == 0);
    sem_post(&held);
    usleep(3000);
    return argument;
}

static void *waits(void *argument)
{
    pthread_mutex_t *lock = argument;
    int r = pthread_mutex_lock(lock);
    must(r == EOWNERDEAD);
    must(pthread_mutex_consistent(lock) == 0);
    must(pthread_mutex_unlock(lock) == 0);
    return NULL;
}

int main(void)
{
    pthread_mutexattr_t attributes;
    pthread_t first, waiter, waiter_pi;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
        must(pthread_mutex_init(&locks[i], &attributes) == 0);
    }
    sem_init(&held, 0, 0);
    must(pthread_create(&first, NULL, dies, NULL) == 0);
    sem_wait(&held);
    must(pthread_create(&waiter, NULL, waits, &locks[0]) == 0);
    must(pthread_create(&waiter_pi, NULL, waits, &locks[2]) == 0);
    must(pthread_join(first, NULL) == 0);
    must(pthread_join(waiter, NULL) == 0);
    must(pthread_join(waiter_pi, NULL) == 0);
    // Nobody waited for this one, and nobody repairs it.
    must(pthread_mutex_lock(&locks[1]) == EOWNERDEAD);
    must(pthread_mutex_unlock(&locks[1]) == 0);
    must(pthread_mutex_lock(&locks[1]) == ENOTRECOVERABLE);
    puts("told");
    return 0;
}
