//! Thread-local storage: initialised, zeroed, by key with destructors, and errno.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>
#include <sched.h>

static __thread int initialised = 7;
static __thread long zeroed[100];
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int destroyed, made;

static void destroy(void *value)
{
    __atomic_fetch_add(&destroyed, *(int *)value, __ATOMIC_SEQ_CST);
    free(value);
}

static void make(void)
{
    made++;
    must(pthread_key_create(&key, destroy) == 0);
}

static void *work(void *argument)
{
    int self = (int)(intptr_t)argument;
    pthread_once(&once, make);
    must(initialised == 7 && zeroed[99] == 0);
    int *value = malloc(sizeof *value);
    *value = self;
    must(pthread_setspecific(key, value) == 0);
    errno = 1000 + self;
    for (int i = 0; i < 2000; i++) {
        initialised += self;
        zeroed[i % 100] += i;
        if (i % 500 == 0)
            sched_yield();
    }
    must(errno == 1000 + self);
    must(initialised == 7 + 2000 * self);
    must(*(int *)pthread_getspecific(key) == self);
    return (void *)zeroed[99];
}

int main(void)
{
    pthread_t threads[8];
    long sum = 0;
    for (intptr_t i = 0; i < 8; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < 8; i++) {
        void *result;
        must(pthread_join(threads[i], &result) == 0);
        sum += (long)result;
    }
    printf("%d %d %d %ld\n", initialised, made, destroyed, sum);
    return 0;
}
