//! Pointers that are made to the middle of one global variable and mean another: correct programs of old make them.
//! flags: -Wno-array-bounds -Wno-stringop-overflow
#include "guest.h"

struct pair {
    int a;
    int b;
};

char before[64];
int from_one[16];
char letters[26];
struct pair pairs[8];
double grid[4][4];
char digits[40];
int after[16];

static __attribute__((noinline)) int of_digit(unsigned char c)
{
    return digits[c - '0'];
}

static __attribute__((noinline)) int of_letter(unsigned char c)
{
    return (letters - 'a')[c];
}

static __attribute__((noinline)) double corner(int row)
{
    return grid[row][-1] + (grid - 1)[row][3];
}

static __attribute__((noinline)) void backward(int *end, int count)
{
    while (count--)
        *--end += count;
}

int main(int argc, char **argv)
{
    (void)argv;
    int *counted = from_one - 1;
    for (int i = 1; i <= 16; i++)
        counted[i] = i * argc;
    memset(counted + 1, 0, 8);
    for (unsigned i = 0; i < 26; i++)
        letters[i] = (char)i;
    for (unsigned i = 0; i < 10; i++)
        digits[i] = (char)i;
    backward(from_one + 16, 16);
    backward(&after[16], 16);
    struct pair *pair = pairs - 2;
    for (int i = 2; i < 10; i++)
        pair[i].b = i;
    for (int i = 1; i < 4; i++)
        grid[i][3] = i;
    int sum = of_digit('0' + argc) + of_letter('z') + (int)corner(1 + argc) + before[argc];
    for (const char *c = "hello"; *c; c++)
        sum += of_letter((unsigned char)*c) + of_digit((unsigned char)('0' + *c % 10));
    printf("%d %d %d\n", sum, from_one[3] + after[15], pairs[7].b);
    return 0;
}
