//! Four threads multiply matrices, each a quarter of the rows.
//! flags: -pthread
#include "guest.h"
#include <pthread.h>

enum { N = 420, COUNT = 4 };
static double a[N][N], b[N][N], c[N][N];

static void *work(void *argument)
{
    int self = (int)(intptr_t)argument;
    for (int i = self * N / COUNT; i < (self + 1) * N / COUNT; i++)
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++)
                c[i][j] += a[i][k] * b[k][j];
    return NULL;
}

int main(void)
{
    pthread_t threads[COUNT];
    for (int i = 0; i < N * N; i++)
        a[i / N][i % N] = i % 7, b[i / N][i % N] = i % 5;
    for (int round = 0; round < 25; round++) {
        for (intptr_t i = 0; i < COUNT; i++)
            must(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
        for (int i = 0; i < COUNT; i++)
            must(pthread_join(threads[i], NULL) == 0);
    }
    double sum = 0;
    for (int i = 0; i < N * N; i++)
        sum += c[i / N][i % N];
    printf("%.0f\n", sum);
    return 0;
}
