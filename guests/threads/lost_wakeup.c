//! A single thread waits for a semaphore that nobody will post.
//! hangs: there is nobody to wake it
#include "guest.h"
#include <semaphore.h>

int main(void)
{
    sem_t never;
    puts("waiting");
    fflush(stdout);
    sem_init(&never, 0, 0);
    sem_wait(&never);
    return 0;
}
