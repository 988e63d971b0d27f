//! Threads have names, given by themselves and by others.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>
#include <semaphore.h>

static sem_t go;

static void *work(void *argument)
{
    char name[16];
    if (argument == NULL)
        must(pthread_setname_np(pthread_self(), "by itself") == 0);
    sem_wait(&go);
    must(pthread_getname_np(pthread_self(), name, sizeof name) == 0);
    return argument == NULL ? (void *)(intptr_t)(strcmp(name, "by itself") == 0)
                            : (void *)(intptr_t)(strcmp(name, "by another") == 0);
}

int main(void)
{
    pthread_t first, second;
    sem_init(&go, 0, 0);
    must(pthread_create(&first, NULL, work, NULL) == 0);
    must(pthread_create(&second, NULL, work, &go) == 0);
    must(pthread_setname_np(second, "by another") == 0);
    sem_post(&go);
    sem_post(&go);
    void *right;
    must(pthread_join(first, &right) == 0 && right);
    must(pthread_join(second, &right) == 0 && right);
    puts("named");
    return 0;
}
