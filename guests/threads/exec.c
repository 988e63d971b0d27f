//! Replaces itself by itself while it has several threads: first from the first thread, then from another one. The
//! flags: -pthread
//! exit: 7
#include "guest.h"
#include <pthread.h>

static volatile int started;
static char **arguments;
static int ends[2];

static void *spin(void *argument)
{
    __atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);
    for (volatile uint64_t turns = 0;; turns++)
        ;
    return argument;
}

static void *doze(void *argument)
{
    __atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
    return argument;
}

static void *listen(void *argument)
{
    char byte;
    __atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);
    must(read(ends[0], &byte, 1) == 1);
    return argument;
}

static void *replace(void *round)
{
    while (started < 3)
        usleep(1000);
    must(execl("/no/such/program", "x", NULL) == -1 && errno == ENOENT);
    execl("/proc/self/exe", arguments[0], (char *)round, NULL);
    must(0);
    return NULL;
}

int main(int argc, char **argv)
{
    int round = argc > 1 ? atoi(argv[1]) : 0;
    printf("round %d, thread %s\n", round, gettid() == getpid() ? "first" : "other");
    fflush(stdout);
    if (round == 3)
        return 7;
    arguments = argv;
    must(pipe(ends) == 0);
    void *(*const work[])(void *) = {spin, doze, listen};
    pthread_t threads[3], other;
    for (int i = 0; i < 3; i++)
        must(pthread_create(&threads[i], NULL, work[i], NULL) == 0);
    char number[2] = {(char)('1' + round), 0};
    if (round != 1)
        replace(number);
    must(pthread_create(&other, NULL, replace, number) == 0);
    pthread_join(other, NULL);
    must(0);
}
