//! Two variables of an optimised function have the same place on the stack, one after the other; and a thread that
//! ends gives memory back that was freed and kept for it. Nothing here is wrong.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>

struct large {
    char bytes[160];
};

struct small {
    char bytes[56];
};

__attribute__((noipa)) static int sum(const char *bytes, int n)
{
    int all = 0;
    for (int i = 0; i < n; i++)
        all += bytes[i];
    return all;
}

static inline __attribute__((always_inline)) int first(int c)
{
    struct large large;
    memset(&large, c, sizeof large);
    return sum(large.bytes, sizeof large);
}

__attribute__((noipa)) static int both(int c)
{
    struct small small;
    int all = first(c);
    memset(&small, c + 1, sizeof small);
    return all + sum(small.bytes, sizeof small);
}

static void *frees(void *argument)
{
    void *blocks[3];
    for (int i = 0; i < 3; i++)
        blocks[i] = malloc(20);
    for (int i = 0; i < 3; i++)
        free(blocks[i]);
    return argument;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, frees, NULL);
    pthread_join(thread, NULL);
    printf("%d\n", both(1));
    return 0;
}
