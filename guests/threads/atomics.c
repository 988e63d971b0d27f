//! Threads add to atomics and keep thread-local state.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>
#include <stdatomic.h>

static atomic_long total;
static _Thread_local long own;

static void *work(void *argument)
{
    for (long i = 0; i < 20000; i++) {
        own += i;
        atomic_fetch_add(&total, (intptr_t)argument);
    }
    return (void *)own;
}

int main(void)
{
    pthread_t threads[3];
    for (intptr_t i = 0; i < 3; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < 3; i++) {
        void *result;
        must(pthread_join(threads[i], &result) == 0);
        printf("%ld\n", (long)result);
    }
    printf("%ld %ld\n", total, own);
    return 0;
}
