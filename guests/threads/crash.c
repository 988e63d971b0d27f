//! One of several threads dies of a null pointer while the others wait or work.
//! flags: -pthread
//! signal: SIGSEGV
#include "guest.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *waits(void *argument)
{
    pthread_mutex_lock(&lock);
    return argument;
}

static void *dies(void *argument)
{
    pthread_setname_np(pthread_self(), "unlucky");
    volatile int *nowhere = argument;
    *nowhere = 1; // MARK: crash
    return NULL;
}

int main(void)
{
    pthread_t waiting, dying;
    pthread_mutex_lock(&lock);
    must(pthread_create(&waiting, NULL, waits, NULL) == 0);
    must(pthread_create(&dying, NULL, dies, NULL) == 0);
    must(pthread_join(dying, NULL) == 0);
    return 0;
}
