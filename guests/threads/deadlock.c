//! Two threads take two locks in opposite order, and then neither goes on.
//! flags: -pthread
//! hangs: each of the two waits for the other
#include "guest.h"
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static sem_t has_one[2];

static void *forth(void *argument)
{
    pthread_setname_np(pthread_self(), "forth");
    pthread_mutex_lock(&first);
    sem_post(&has_one[0]);
    sem_wait(&has_one[1]);
    pthread_mutex_lock(&second); // MARK: forth
    return argument;
}

static void *back(void *argument)
{
    pthread_mutex_lock(&second);
    sem_post(&has_one[1]);
    sem_wait(&has_one[0]);
    pthread_mutex_lock(&first); // MARK: back
    return argument;
}

int main(void)
{
    pthread_t threads[2];
    sem_init(&has_one[0], 0, 0);
    sem_init(&has_one[1], 0, 0);
    must(pthread_create(&threads[0], NULL, forth, NULL) == 0);
    must(pthread_create(&threads[1], NULL, back, NULL) == 0);
    must(pthread_join(threads[0], NULL) == 0);
    must(pthread_join(threads[1], NULL) == 0);
    puts("not reached");
    return 0;
}
