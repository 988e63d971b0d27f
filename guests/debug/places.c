//! Variables of all kinds that are referred to in many ways: none of it depends on where they are.
#include "guest.h"
#include <string.h>

struct pair {
    int a, b;
};

int table[16];
char name[24] = "initial";
int after = 7;
char *pointer = name;
int *last = &table[15];
static long counter;
struct pair pairs[3] = {{1, 2}, {3, 4}, {5, 6}};
static const char levels[8] = {0, 1, 2, 2, 3, 3, 3, 3};
static const struct pair nothing = {-1, -1};

__attribute__((noinline)) static int sum(void)
{
    int s = 0;
    for (int *p = table; p < table + 16; p++)
        s += *p;
    for (struct pair *p = pairs; p != pairs + 3; p++)
        s += p->a * p->b;
    return s;
}

__attribute__((noinline)) static int find(int x)
{
    for (int i = 0; i < 16; i++)
        if (table[i] == x)
            return i;
    return -1;
}

__attribute__((noinline)) static const struct pair *pair(int a)
{
    for (int i = 0; i < 3; i++)
        if (pairs[i].a == a)
            return &pairs[i];
    return &nothing;
}

__attribute__((noinline)) static int level(int c)
{
    return levels[c - '0'];
}

__attribute__((noinline)) static int previous(int i)
{
    static int seen[10];
    seen[i] = i * 3;
    return i > 0 ? seen[i - 1] : -1;
}

__attribute__((noinline, noclone)) static int locals(const char *text, int n)
{
    char small[16];
    int numbers[8];
    long total = 0;
    struct pair p = {n, n + 1};
    for (int i = 0; i < 8; i++)
        numbers[i] = i * n;
    strncpy(small, text, sizeof small - 1);
    small[15] = 0;
    for (int i = 1; i < 8; i++)
        total += numbers[i] - numbers[i - 1];
    int *q = &numbers[3];
    *q += p.a + p.b;
    printf("%s %ld %d %d\n", small, total, *q, (int)strlen(small));
    return n > 0 ? locals(text, n - 1) + (int)total : 0;
}

int main(int argc, char **argv)
{
    for (int i = 0; i < 16; i++)
        table[i] = i * i + argc;
    counter += find(table[7]) + pairs[1].b;
    strcpy(name, "changed");
    *last += 3;
    after++;
    printf("%d %s %s %d %ld %d\n", sum(), name, pointer, after, counter, *last);
    for (int i = 0; i < 10; i++)
        printf("%d ", previous(i));
    printf("%d %d %d %d\n", pair(3)->b, pair(4) == &nothing, level('2'), level('5'));
    printf("%d\n", locals(argc > 1 ? argv[1] : "hello", 3));
    return 0;
}
