//! Four threads share a counter under a mutex and hand turns over with a condition variable.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn;
static long counter;
static uint64_t sum = MIX_START;

static void *work(void *argument)
{
    int self = (int)(intptr_t)argument;
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&lock);
        while (turn % 4 != self)
            pthread_cond_wait(&turned, &lock);
        counter++;
        sum = mix(sum, (uint64_t)(self * 1000 + i));
        turn++;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&lock);
    }
    return (void *)(intptr_t)(self * self);
}

int main(void)
{
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    long results = 0;
    for (int i = 0; i < 4; i++) {
        void *result;
        must(pthread_join(threads[i], &result) == 0);
        results += (intptr_t)result;
    }
    printf("%ld %ld %016lx\n", counter, results, sum);
    return 0;
}
