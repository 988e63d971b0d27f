//! Eight threads sort a part each, then merge pairwise.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>

enum { COUNT = 8, EACH = 120000 };
static uint32_t data[COUNT * EACH], out[COUNT * EACH];

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void *sort(void *argument)
{
    qsort(data + (intptr_t)argument * EACH, EACH, sizeof *data, compare);
    return NULL;
}

static int width;

static void *merge(void *argument)
{
    size_t from = (size_t)argument * 2 * width, middle = from + width, end = middle + width;
    for (size_t i = from, j = middle, k = from; k < end; k++)
        out[k] = j >= end || (i < middle && data[i] <= data[j]) ? data[i++] : data[j++];
    memcpy(data + from, out + from, (end - from) * sizeof *data);
    return NULL;
}

static void all(void *(*work)(void *), intptr_t count)
{
    pthread_t threads[COUNT];
    for (intptr_t i = 0; i < count; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (intptr_t i = 0; i < count; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

int main(void)
{
    uint64_t state = 1;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < COUNT * EACH; i++)
            data[i] = (uint32_t)draw(&state);
        all(sort, COUNT);
        for (width = EACH; width < COUNT * EACH; width *= 2)
            all(merge, COUNT * EACH / width / 2);
    }
    printf("%u %u\n", data[1000], data[COUNT * EACH - 1]);
    return 0;
}
