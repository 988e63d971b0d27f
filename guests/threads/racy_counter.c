//! A counter without a lock: increments get lost, other ones in each run.
//! flags: -pthread
//! nondeterministic: the race decides
#include "guest.h"
#include <pthread.h>

static volatile long counter;

static void *work(void *argument)
{
    for (int i = 0; i < 200000; i++)
        counter = counter + 1; // MARK: race
    return argument;
}

int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 4; i++)
        must(pthread_join(threads[i], NULL) == 0);
    printf("%ld\n", counter);
    return 0;
}
