// What every guest needs: the GNU names, a checksum, and a loud way to fail.
#ifndef GUEST_H
#define GUEST_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Stops the guest when a condition that holds natively does not hold.
#define must(condition)                                                                        \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, \
                    errno);                                                                    \
            exit(99);                                                                          \
        }                                                                                      \
    } while (0)

#define MIX_START 0xcbf29ce484222325ul

// Folds one word into a checksum. Order matters, so a swapped result shows.
static inline uint64_t mix(uint64_t sum, uint64_t word)
{
    sum ^= word;
    sum *= 0x100000001b3ul;
    return sum ^ (sum >> 29);
}

static inline uint64_t mix_bytes(uint64_t sum, const void *bytes, size_t count)
{
    const unsigned char *byte = (const unsigned char *)bytes;
    for (size_t i = 0; i < count; i++)
        sum = mix(sum, byte[i]);
    return sum;
}

// A fixed pseudo-random sequence, the same on every C library.
static inline uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

// The size of a benchmark: `full`, or what is left of it divided by the program's argument.
static inline int reduced(int full, int argc, char **argv)
{
    int size = argc > 1 ? full / atoi(argv[1]) : full;
    return size > 0 ? size : 1;
}

static inline void say(const char *text)
{
    fputs(text, stdout);
    fputc('\n', stdout);
    fflush(stdout);
}
#endif
