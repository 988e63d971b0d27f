// Two threads take turns at the same memory.
#include <pthread.h>
#include <semaphore.h>

enum { ROUNDS = 40, WORDS = 16 };

static sem_t ping, pong;
static unsigned long shared[WORDS];
volatile unsigned long result;

static unsigned long mix(unsigned long seed, unsigned long round)
{
    for (int i = 0; i < WORDS; i++) {
        if ((seed ^ round) % 3 == 0)
            seed = seed * 31 + shared[(round + i) % WORDS];
        else
            seed ^= shared[i] >> 3;
        shared[(seed + i) % WORDS] += seed + round;
    }
    return seed;
}

static void *other(void *seed)
{
    unsigned long own = (unsigned long)seed;
    for (int round = 0; round < ROUNDS; round++) {
        sem_wait(&ping);
        own = mix(own, round);
        sem_post(&pong);
    }
    return (void *)own;
}

int main(void)
{
    pthread_t thread;
    unsigned long own = 1;
    void *theirs;
    sem_init(&ping, 0, 0);
    sem_init(&pong, 0, 0);
    pthread_create(&thread, 0, other, (void *)7);
    for (int round = 0; round < ROUNDS; round++) {
        sem_post(&ping);
        sem_wait(&pong);
        own = mix(own, round);
    }
    pthread_join(thread, &theirs);
    result = own + (unsigned long)theirs;
    return result % 2;
}
