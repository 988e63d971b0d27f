//! A mean of numbers, one of which was never written. The numbers are triples with a gap, so that what is done to
//! several at once touches the gaps too.
#include "guest.h"

struct sample {
    float x, y, z, gap;
    double weight;
};

static __attribute__((noinline)) void take(struct sample *s, int n, int last)
{
    for (int i = 0; i < n; i++) {
        s[i].x = (float)i;
        s[i].y = (float)i / 2;
        s[i].z = 1;
        if (i < last)
            s[i].weight = 1.5 * i; // MARK: cause
    }
}

static __attribute__((noinline)) double total(const struct sample *s, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        struct sample twice = s[i];
        twice.x += twice.x;
        twice.y += twice.y;
        twice.z += twice.z;
        twice.gap += twice.gap;
        sum += s[i].weight * (double)(twice.x + twice.y + twice.z);
    }
    return sum;
}

int main(int argc, char **argv)
{
    (void)argv;
    struct sample *samples = malloc(10 * sizeof *samples);
    take(samples, 10, argc > 1 ? 10 : 9);
    double mean = total(samples, 10) / 10;
    if (mean > 1000) // MARK: fault
        puts("much");
    puts("done");
    free(samples);
    return 0;
}
