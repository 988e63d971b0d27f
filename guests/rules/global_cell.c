//! Writes a column of a global table, with one row too many.
#include "guest.h"

struct cell {
    short row;
    short column;
};

struct cell cells[6][4];
int after[16];

static __attribute__((noinline)) void number(int rows)
{
    for (int i = 0; i < rows; i++)
        cells[i][2].column = (short)(i + 1); // MARK: fault
}

int main(int argc, char **argv)
{
    (void)argv;
    number(argc > 1 ? 6 : 7); // MARK: cause
    printf("%d %d\n", cells[5][2].column, after[2]);
    return 0;
}
