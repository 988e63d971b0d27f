//! Waits that end by themselves: conditions, mutexes, joins, sleeps, polls, with others at work.
//! flags: -pthread
#include "guest.h"
#include <poll.h>
#include <pthread.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int stop;

static void *busy(void *argument)
{
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
        ;
    return argument;
}

static struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

int main(void)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, busy, NULL) == 0);
    struct timespec t;
    must(pthread_mutex_lock(&lock) == 0);
    t = in_ms(CLOCK_REALTIME, 3);
    must(pthread_cond_timedwait(&never, &lock, &t) == ETIMEDOUT);
    t = in_ms(CLOCK_MONOTONIC, 3);
    must(pthread_cond_clockwait(&never, &lock, CLOCK_MONOTONIC, &t) == ETIMEDOUT);
    t = (struct timespec){.tv_sec = 1};
    must(pthread_cond_timedwait(&never, &lock, &t) == ETIMEDOUT);
    t = in_ms(CLOCK_REALTIME, 3);
    must(pthread_mutex_timedlock(&lock, &t) == ETIMEDOUT);
    t = in_ms(CLOCK_REALTIME, 3);
    must(pthread_timedjoin_np(thread, NULL, &t) == ETIMEDOUT);
    must(usleep(1000) == 0);
    must(poll(NULL, 0, 2) == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    must(pthread_join(thread, NULL) == 0);
    puts("all in time");
    return 0;
}
