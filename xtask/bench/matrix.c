//! Matrix multiplication in double precision.
#include "guest.h"

enum { N = 700 };
static double a[N][N], b[N][N], c[N][N];

int main(int argc, char **argv)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            a[i][j] = i * 0.5 + j, b[i][j] = i - j * 0.25;
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < reduced(N, argc, argv); i++)
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++)
                    c[i][j] += a[i][k] * b[k][j];
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += c[i][(i * 7) % N];
    printf("%.6e\n", sum);
    return 0;
}
