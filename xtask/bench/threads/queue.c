//! Two producers and two consumers around a queue of 64: little work, many turns.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>

enum { SIZE = 64, EACH = 60000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static uint64_t ring[SIZE];
static int count, head;

static void *produce(void *argument)
{
    uint64_t state = (uint64_t)(intptr_t)argument + 1;
    for (int i = 0; i < EACH; i++) {
        uint64_t value = draw(&state) | 1;
        pthread_mutex_lock(&lock);
        while (count == SIZE)
            pthread_cond_wait(&not_full, &lock);
        ring[(head + count++) % SIZE] = value;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *consume(void *argument)
{
    uint64_t sum = 0;
    for (int i = 0; i < EACH; i++) {
        pthread_mutex_lock(&lock);
        while (count == 0)
            pthread_cond_wait(&not_empty, &lock);
        uint64_t value = ring[head];
        head = (head + 1) % SIZE;
        count--;
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&lock);
        for (int k = 0; k < 50; k++)
            value = value * 0x9e3779b97f4a7c15ul + 1;
        sum += value;
    }
    return (void *)sum;
    (void)argument;
}

int main(void)
{
    pthread_t threads[4];
    uint64_t sum = 0;
    for (intptr_t i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, i % 2 ? consume : produce, (void *)i) == 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        must(pthread_join(threads[i], &result) == 0);
        sum += (uint64_t)result;
    }
    printf("%lx\n", sum);
    return 0;
}
