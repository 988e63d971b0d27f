//! Calls functions with strings that end right before memory that cannot be read, or do not end, and says how far each of
//! them is to be read: the fourth argument, -1 for one that leads out.
#include "guest.h"
#include <sys/mman.h>

#define ROOM 8192
#define APART __attribute__((noipa))
#define LEADS_OUT (-1L)

static const char *ends[2];

static double weigh(double w, double x, double y, double z)
{
    return w + 3 * x + 5 * y + 7 * z;
}

#define FUNCTION(name)                                                                             \
    APART double name(const char *a, const char *b, long n, long expected, double w, double x,    \
                      double y, double z)                                                          \
    {                                                                                              \
        (void)a, (void)b, (void)n, (void)expected;                                                 \
        return weigh(w, x, y, z);                                                                  \
    }
FUNCTION(all_of_first)
FUNCTION(all_of_second)
FUNCTION(some_of_second)
FUNCTION(until_second)
FUNCTION(compared)
FUNCTION(compared_some)
FUNCTION(folded_some)
FUNCTION(at_most_forty)
FUNCTION(wide_until_second)
FUNCTION(wide_compared_some)

typedef double function(const char *, const char *, long, long, double, double, double, double);

static long character(const char *at, int size, int fold)
{
    long c = 0;
    memcpy(&c, at, (size_t)size);
    return fold && c >= 'A' && c <= 'Z' ? c + 32 : c;
}

// One character after the other.
static long plainly(const char *a, int end_a, const char *b, int end_b, long stop, unsigned long most, int size, int fold)
{
    for (unsigned long i = 0;; i++) {
        if (i >= most)
            return (long)i * size;
        const char *at = a + i * (unsigned)size;
        if (at + size > ends[end_a])
            return LEADS_OUT;
        long c = character(at, size, fold);
        if (b != NULL) {
            const char *other = b + i * (unsigned)size;
            if (other + size > ends[end_b])
                return LEADS_OUT;
            if (character(other, size, fold) != c)
                return (long)(i + 1) * size;
        }
        if (c == 0 || c == stop)
            return (long)(i + 1) * size;
    }
}

static unsigned long seed = 88172645463325252ul;

static unsigned long chance(unsigned long below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static char *room(void)
{
    char *at = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED);
    must(mprotect(at + ROOM, 4096, PROT_NONE) == 0);
    return at;
}

int main(void)
{
    char *rooms[2] = { room(), room() };
    ends[0] = rooms[0] + ROOM;
    ends[1] = rooms[1] + ROOM;
    long called = 0, out = 0;
    for (int round = 0; round < 150; round++) {
        int size = chance(3) == 0 ? 4 : 1;
        // Mostly the same in both, so that comparing goes on for a while.
        long whole = (long)chance(chance(4) == 0 ? 2000 : 90) * size + size;
        char *a = rooms[0] + ROOM - whole - (chance(2) ? 0 : chance(60));
        char *b = rooms[1] + ROOM - whole - (chance(2) ? 0 : chance(60));
        for (long i = 0; i < whole / size; i++) {
            long c = (long)(chance(2) ? 'a' : 'B') + (size == 4 ? 0x10000 : 0);
            memcpy(a + i * size, &c, (size_t)size);
            if (chance(400) == 0)
                c ^= 32;
            if (chance(800) == 0)
                c = 'z';
            memcpy(b + i * size, &c, (size_t)size);
        }
        memset(a + whole, chance(2) ? 'x' : 0, (size_t)(ends[0] - a - whole));
        memset(b + whole, chance(2) ? 'x' : 0, (size_t)(ends[1] - b - whole));
        if (chance(3))
            memset(a + (long)chance((unsigned long)(whole / size)) * size, 0, (size_t)size);
        unsigned long n = chance(4) ? chance((unsigned long)(2 * whole)) : ~0ul;
        long stop = "zab"[chance(3)];
        struct {
            function *of;
            const char *second;
            unsigned long n;
            long expected;
        } calls[] = {
            { all_of_first, b, n, plainly(a, 0, NULL, 0, 0, ~0ul, 1, 0) },
            { all_of_second, b, n, plainly(b, 1, NULL, 0, 0, ~0ul, 1, 0) },
            { some_of_second, b, n, plainly(b, 1, NULL, 0, 0, n, 1, 0) },
            { until_second, (char *)stop + 0x7700, n, plainly(a, 0, NULL, 0, stop, ~0ul, 1, 0) },
            { compared, b, n, plainly(a, 0, b, 1, 0, ~0ul, 1, 0) },
            { compared_some, b, n, plainly(a, 0, b, 1, 0, n, 1, 0) },
            { folded_some, b, n, plainly(a, 0, b, 1, 0, n, 1, 1) },
            { at_most_forty, b, n, plainly(a, 0, NULL, 0, 0, 40, 1, 0) },
            { wide_until_second, (char *)0x10061, n, plainly(a, 0, NULL, 0, 0x10061, ~0ul, 4, 0) },
            { wide_compared_some, b, n, plainly(a, 0, b, 1, 0, n, 4, 0) },
        };
        for (unsigned long i = 0; i < sizeof calls / sizeof *calls; i++) {
            double got = calls[i].of(a, calls[i].second, (long)calls[i].n, calls[i].expected, 1.5, 2.25, round, 8.5);
            must(got == weigh(1.5, 2.25, round, 8.5));
            called++;
            out += calls[i].expected == LEADS_OUT;
        }
    }
    printf("%ld calls, %ld lead out\n", called, out);
    return 0;
}
