//! Two hundred threads at a time, each of which waits for the one before it.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>

enum { COUNT = 200 };

static int ends[COUNT + 1][2];

static void *work(void *argument)
{
    intptr_t self = (intptr_t)argument;
    uint64_t sum;
    must(read(ends[self][0], &sum, sizeof sum) == sizeof sum);
    sum = mix(sum, (uint64_t)self);
    must(write(ends[self + 1][1], &sum, sizeof sum) == sizeof sum);
    return NULL;
}

int main(void)
{
    pthread_t threads[COUNT];
    for (int i = 0; i <= COUNT; i++)
        must(pipe(ends[i]) == 0);
    for (intptr_t i = 0; i < COUNT; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    uint64_t sum = MIX_START;
    must(write(ends[0][1], &sum, sizeof sum) == sizeof sum);
    must(read(ends[COUNT][0], &sum, sizeof sum) == sizeof sum);
    for (int i = 0; i < COUNT; i++)
        must(pthread_join(threads[i], NULL) == 0);
    printf("%016lx\n", sum);
    return 0;
}
