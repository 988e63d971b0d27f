//! What a debugger is asked about: a function that is called often, memory that is to be kept, a write of long ago.
#include <stdio.h>
#include <stdlib.h>

#define CALLS 100001

volatile long total, marked, taken;

__attribute__((noipa)) void tick(long n)
{
    total += n;
    if (n & 1) // MARK: predicate
        taken++; // MARK: statement
}

__attribute__((noipa)) void begin(void)
{
    marked = 1;
}

__attribute__((noipa)) void done(void)
{
    total++;
}

int main(int argc, char **argv)
{
    size_t size = (argc > 1 ? atol(argv[1]) : 64) << 20;
    char *memory = malloc(size);
    if (!memory)
        return 1;
    for (size_t i = 0; i < size; i += 4096)
        memory[i] = (char)i;
    begin();
    for (long i = 0; i < CALLS; i++)
        tick(i);
    // So that two million steps lie behind the write.
    for (long i = 0; i < 400000; i++)
        total ^= i;
    for (size_t i = 0; i < size / 64; i += 4096)
        memory[i]++;
    done();
    printf("%ld %d\n", total, memory[size / 2]);
    free(memory);
    return 0;
}
