//! Copies a name to the last row of a global table, and on into what is behind the table.
#include "guest.h"

char names[4][8];
char after[16] = "next";

static __attribute__((noinline)) size_t set(char *row, const char *name)
{
    strcpy(row, name); // MARK: fault
    return strlen(row);
}

int main(int argc, char **argv)
{
    (void)argv;
    size_t sum = set(names[1], "one");
    sum += set(names[3], argc > 1 ? "seven: " : "eleven: ..."); // MARK: cause
    printf("%zu %s %s\n", sum, names[3], after);
    return 0;
}
