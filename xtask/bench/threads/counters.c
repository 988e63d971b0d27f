//! Four threads count words in a hash table, with a lock for each bucket and atomics besides.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>
#include <stdatomic.h>

enum { COUNT = 4, ROUNDS = 400000, BUCKETS = 256 };
static pthread_mutex_t locks[BUCKETS];
static uint64_t cells[BUCKETS];
static atomic_ulong total;

static void *work(void *argument)
{
    uint64_t state = (uint64_t)(intptr_t)argument + 1;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t word = 0;
        for (int k = 0; k < 40; k++)
            word = mix(word, draw(&state));
        unsigned bucket = word % BUCKETS;
        pthread_mutex_lock(&locks[bucket]);
        cells[bucket] += word >> 40;
        pthread_mutex_unlock(&locks[bucket]);
        if (i % 4 == 0)
            atomic_fetch_add(&total, word >> 50);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[COUNT];
    uint64_t sum = MIX_START;
    for (int i = 0; i < BUCKETS; i++)
        pthread_mutex_init(&locks[i], NULL);
    for (intptr_t i = 0; i < COUNT; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < COUNT; i++)
        must(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < BUCKETS; i++)
        sum = mix(sum, cells[i]);
    printf("%lx %lu\n", sum, total);
    return 0;
}
