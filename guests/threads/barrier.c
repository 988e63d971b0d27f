//! A sum in rounds, with a barrier between them; one thread of each round is the serial one.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>

enum { COUNT = 5, ROUNDS = 60 };
static pthread_barrier_t barrier;
static uint64_t cells[COUNT], next[COUNT];
static int serial;

static void *work(void *argument)
{
    int self = (int)(intptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        next[self] = mix(cells[(self + 1) % COUNT], cells[self] + (uint64_t)round);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_fetch_add(&serial, 1, __ATOMIC_SEQ_CST);
        cells[self] = next[self];
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[COUNT];
    must(pthread_barrier_init(&barrier, NULL, COUNT) == 0);
    for (intptr_t i = 0; i < COUNT; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < COUNT; i++)
        must(pthread_join(threads[i], NULL) == 0);
    must(pthread_barrier_destroy(&barrier) == 0);
    uint64_t sum = MIX_START;
    for (int i = 0; i < COUNT; i++)
        sum = mix(sum, cells[i]);
    printf("%d %016lx\n", serial, sum);
    return 0;
}
