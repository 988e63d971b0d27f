//! Memory that is set aside on the stack in all ways, given back and set aside again: a correct program.
//! flags: -Wno-infinite-recursion
#include "guest.h"
#include <alloca.h>
#include <setjmp.h>

struct wide {
    _Alignas(64) int value;
};

struct list {
    struct list *next;
    char name[24];
};

static jmp_buf out;

static __attribute__((noinline)) long touch(void *memory, size_t size)
{
    memset(memory, 3, size);
    return ((char *)memory)[size - 1];
}

static __attribute__((noinline)) long many(int a, int b, int c, int d, int e, int f, int g, int h, char *memory)
{
    return a + b + c + d + e + f + g + h + *memory;
}

static __attribute__((noinline)) long in_blocks(int count)
{
    long sum = 0;
    for (int i = 1; i < count; i++) {
        short outer[i];
        sum += touch(outer, sizeof outer);
        {
            char inner[2 * i];
            sum += touch(inner, sizeof inner);
        }
        long later[i + 3];
        sum += touch(later, sizeof later) + outer[i - 1] % 5;
    }
    return sum;
}

static __attribute__((noinline)) long chained(int count)
{
    struct list *first = NULL;
    for (int i = 0; i < count; i++) {
        struct list *item = alloca(sizeof *item);
        snprintf(item->name, sizeof item->name, "item %d", i);
        item->next = first;
        first = item;
    }
    long sum = 0;
    for (struct list *l = first; l; l = l->next)
        sum += (long)strlen(l->name);
    return sum;
}

static __attribute__((noinline)) long matrix(int rows, int columns)
{
    struct wide wides[rows];
    double table[rows][columns];
    for (int i = 0; i < rows; i++) {
        wides[i].value = i;
        for (int j = 0; j < columns; j++)
            table[i][j] = i * j;
    }
    char *rest = alloca(rows * columns);
    long sum = many(1, 2, 3, 4, 5, 6, 7, 8, memset(rest, 1, rows * columns));
    return sum + (long)table[rows - 1][columns - 1] + wides[rows - 1].value;
}

static __attribute__((noinline)) long nested(int depth, char *above)
{
    char here[depth + 1];
    touch(here, sizeof here);
    here[0] = above[0] + 1;
    if (depth == 0)
        longjmp(out, here[0]);
    return nested(depth - 1, here) + here[depth];
}

int main(void)
{
    char start = 0;
    int deepest = setjmp(out);
    long sum = in_blocks(40) + chained(200) + matrix(7, 9);
    if (deepest == 0)
        sum += nested(60, &start);
    void *nothing = alloca(sum & 1);
    printf("%ld %d %d\n", sum + in_blocks(20) + chained(20), deepest, nothing != NULL);
    return 0;
}
