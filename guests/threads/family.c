//! Threads that create threads that create threads; some are detached, one outlives main's.
//! flags: -pthread
//! exit: 3
#include "guest.h"
#include <pthread.h>

static int alive, made;

static void *grow(void *argument)
{
    intptr_t depth = (intptr_t)argument;
    __atomic_fetch_add(&made, 1, __ATOMIC_SEQ_CST);
    if (depth > 0) {
        pthread_t children[3];
        for (int i = 0; i < 3; i++)
            must(pthread_create(&children[i], NULL, grow, (void *)(depth - 1)) == 0);
        for (int i = 0; i < 2; i++)
            must(pthread_join(children[i], NULL) == 0);
        must(pthread_detach(children[2]) == 0);
    }
    __atomic_fetch_add(&alive, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *last(void *argument)
{
    void *result;
    must(pthread_join(*(pthread_t *)argument, &result) == 0);
    must(result == (void *)77);
    while (__atomic_load_n(&alive, __ATOMIC_SEQ_CST) != 1 + 3 + 9 + 27)
        usleep(200);
    printf("%d %d\n", made, alive);
    fflush(stdout);
    exit(3);
}

int main(void)
{
    static pthread_t first;
    pthread_t tree, end;
    first = pthread_self();
    must(pthread_create(&tree, NULL, grow, (void *)3) == 0);
    must(pthread_join(tree, NULL) == 0);
    must(pthread_create(&end, NULL, last, &first) == 0);
    pthread_exit((void *)77);
}
