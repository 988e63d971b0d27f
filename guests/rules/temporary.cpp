//! A temporary object has the memory of a variable that is declared later and is smaller; then the variable overflows.
#include "guest.h"

struct Large {
    long a[4];
};

struct Small {
    long a[2];
};

__attribute__((noipa)) long take(const Large &l, const Small *s)
{
    return l.a[0] + l.a[3] + s->a[0];
}

__attribute__((noipa)) void fill(Small *s, int n)
{
    for (int i = 0; i < n; i++)
        s->a[i] = i; // MARK: fault
}

__attribute__((noipa)) long both(int argc)
{
    Small first;
    fill(&first, 2);
    long sum = take(Large{{1, 2, 3, argc}}, &first);
    Small small;
    fill(&small, argc == 1 ? 3 : 2);
    return sum + small.a[1] + first.a[1];
}

int main(int argc, char **argv)
{
    (void)argv;
    printf("%ld\n", both(argc));
    return 0;
}
