//! The program ends while its other threads are blocked in all kinds of calls.
//! flags: -pthread
//! exit: 5
#include "guest.h"
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t ready;
static int ends[2];

static void *blocked(void *argument)
{
    char byte;
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    sem_post(&ready);
    switch ((intptr_t)argument) {
    case 0: pthread_mutex_lock(&lock); break;
    case 1: must(read(ends[0], &byte, 1) == 1); break;
    case 2: poll(&fd, 1, -1); break;
    case 3: sleep(1000); break;
    case 4: pause(); break;
    case 5:
        for (;;)
            ;
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    sem_init(&ready, 0, 0);
    must(pipe(ends) == 0);
    pthread_mutex_lock(&lock);
    for (intptr_t i = 0; i < 6; i++) {
        must(pthread_create(&thread, NULL, blocked, (void *)i) == 0);
        sem_wait(&ready);
    }
    puts("leaving");
    exit(5);
}
