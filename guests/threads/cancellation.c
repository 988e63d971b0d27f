//! Threads that are cancelled: in a read, in a wait for a condition, and in a loop.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int ends[2];
static int cleaned;

static void clean(void *argument)
{
    __atomic_fetch_add(&cleaned, (int)(intptr_t)argument, __ATOMIC_SEQ_CST);
}

static void unlock(void *argument)
{
    clean((void *)100);
    pthread_mutex_unlock(argument);
}

static void *reads(void *argument)
{
    char byte;
    pthread_cleanup_push(clean, (void *)1);
    must(read(ends[0], &byte, 1) == 1);
    pthread_cleanup_pop(0);
    return argument;
}

static void *waits(void *argument)
{
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(unlock, &lock);
    for (;;)
        pthread_cond_wait(&never, &lock);
    pthread_cleanup_pop(1);
    return argument;
}

static void *loops(void *argument)
{
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    for (volatile long i = 0;; i++)
        ;
    return argument;
}

int main(void)
{
    void *(*const work[])(void *) = {reads, waits, loops};
    must(pipe(ends) == 0);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *result;
        must(pthread_create(&thread, NULL, work[i], NULL) == 0);
        usleep(2000);
        must(pthread_cancel(thread) == 0);
        must(pthread_join(thread, &result) == 0);
        must(result == PTHREAD_CANCELED);
    }
    must(pthread_mutex_trylock(&lock) == 0);
    printf("%d\n", cleaned);
    return 0;
}
