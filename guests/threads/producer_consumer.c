//! Two producers and three consumers around a small ring, with two conditions.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>

enum { SIZE = 4, EACH = 600 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static int ring[SIZE], count, head;

static void put(int value)
{
    pthread_mutex_lock(&lock);
    while (count == SIZE)
        pthread_cond_wait(&not_full, &lock);
    ring[(head + count++) % SIZE] = value;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&lock);
}

static int get(void)
{
    pthread_mutex_lock(&lock);
    while (count == 0)
        pthread_cond_wait(&not_empty, &lock);
    int value = ring[head];
    head = (head + 1) % SIZE;
    count--;
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&lock);
    return value;
}

static void *produce(void *argument)
{
    for (int i = 1; i <= EACH; i++)
        put(i * (int)(intptr_t)argument);
    return NULL;
}

static void *consume(void *argument)
{
    long sum = 0, value;
    while ((value = get()) != 0)
        sum += value;
    return (void *)sum;
    (void)argument;
}

int main(void)
{
    pthread_t producers[2], consumers[3];
    for (intptr_t i = 0; i < 3; i++)
        must(pthread_create(&consumers[i], NULL, consume, NULL) == 0);
    for (intptr_t i = 0; i < 2; i++)
        must(pthread_create(&producers[i], NULL, produce, (void *)(i + 1)) == 0);
    for (int i = 0; i < 2; i++)
        must(pthread_join(producers[i], NULL) == 0);
    for (int i = 0; i < 3; i++)
        put(0);
    long sum = 0;
    for (int i = 0; i < 3; i++) {
        void *result;
        must(pthread_join(consumers[i], &result) == 0);
        sum += (long)result;
    }
    printf("%ld\n", sum);
    return 0;
}
