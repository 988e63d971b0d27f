//! Threads that wait by spinning, with pause and with sched_yield.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>
#include <sched.h>

enum { ROUNDS = 150 };
static int turn;
static uint64_t sum = MIX_START;

static void *work(void *argument)
{
    int self = (int)(intptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) % 3 != self) {
            if (self == 1)
                sched_yield();
            else
                __builtin_ia32_pause();
        }
        sum = mix(sum, (uint64_t)(i + self));
        __atomic_fetch_add(&turn, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    for (intptr_t i = 0; i < 3; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < 3; i++)
        must(pthread_join(threads[i], NULL) == 0);
    printf("%d %016lx\n", turn, sum);
    return 0;
}
