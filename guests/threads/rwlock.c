//! Readers and writers: no reader sees half of a write.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long left, right;
static long reads;

static void *write_pairs(void *argument)
{
    (void)argument;
    for (int i = 0; i < 400; i++) {
        must(pthread_rwlock_wrlock(&lock) == 0);
        left += 3;
        for (volatile int spin = 0; spin < 50; spin++)
            ;
        right += 3;
        must(pthread_rwlock_unlock(&lock) == 0);
    }
    return NULL;
}

static void *read_pairs(void *argument)
{
    (void)argument;
    for (int i = 0; i < 400; i++) {
        must(pthread_rwlock_rdlock(&lock) == 0);
        must(left == right);
        __atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED);
        must(pthread_rwlock_unlock(&lock) == 0);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        must(pthread_create(&threads[i], NULL, i % 3 ? read_pairs : write_pairs, NULL) == 0);
    for (int i = 0; i < 6; i++)
        must(pthread_join(threads[i], NULL) == 0);
    must(pthread_rwlock_trywrlock(&lock) == 0);
    must(pthread_rwlock_tryrdlock(&lock) == EBUSY);
    printf("%ld %ld %ld\n", left, right, reads);
    return 0;
}
