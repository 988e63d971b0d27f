//! OpenMP draws the Mandelbrot set, rows handed out as they are asked for.
//! flags: -fopenmp
//! libs: -lm
#include "guest.h"

enum { N = 1400 };

int main(void)
{
    long sum = 0;
#pragma omp parallel for num_threads(4) schedule(dynamic, 8) reduction(+ : sum)
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++) {
            double cr = 2.0 * x / N - 1.5, ci = 2.0 * y / N - 1.0, zr = 0, zi = 0;
            int n = 0;
            while (n < 200 && zr * zr + zi * zi < 4) {
                double t = zr * zr - zi * zi + cr;
                zi = 2 * zr * zi + ci;
                zr = t;
                n++;
            }
            sum += n;
        }
    printf("%ld\n", sum);
    return 0;
}
