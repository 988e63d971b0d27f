//! Writes past the end of an array whose length is no constant.
#include "guest.h"

static __attribute__((noinline)) void fill(short *to, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = (short)(i * 7); // MARK: fault
}

static __attribute__((noinline)) int last(int count, int filled)
{
    int guard[8];
    short list[count];
    fill(list, filled); // MARK: cause
    memset(guard, 0, sizeof guard);
    return list[count - 1] + guard[count % 8];
}

int main(int argc, char **argv)
{
    (void)argv;
    int sum = 0;
    for (int count = 8; count < 100; count += 8)
        sum += last(count, count);
    printf("%d\n", sum + last(24, argc > 1 ? 24 : 25));
    return 0;
}
