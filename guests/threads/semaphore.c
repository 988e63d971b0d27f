//! Semaphores: a ring of threads that pass a token, a try, and a wait that times out.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

enum { COUNT = 6 };
static sem_t turn[COUNT];
static uint64_t sum = MIX_START;

static void *work(void *argument)
{
    int self = (int)(intptr_t)argument;
    for (int i = 0; i < 100; i++) {
        must(sem_wait(&turn[self]) == 0);
        sum = mix(sum, (uint64_t)(self + i));
        must(sem_post(&turn[(self + 1) % COUNT]) == 0);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++)
        must(sem_init(&turn[i], 0, i == 0) == 0);
    for (intptr_t i = 0; i < COUNT; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < COUNT; i++)
        must(pthread_join(threads[i], NULL) == 0);
    int value;
    must(sem_getvalue(&turn[0], &value) == 0 && value == 1);
    must(sem_trywait(&turn[0]) == 0);
    must(sem_trywait(&turn[0]) == -1 && errno == EAGAIN);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 2000000;
    if (soon.tv_nsec >= 1000000000)
        soon.tv_sec++, soon.tv_nsec -= 1000000000;
    must(sem_timedwait(&turn[0], &soon) == -1 && errno == ETIMEDOUT);
    printf("%016lx\n", sum);
    return 0;
}
