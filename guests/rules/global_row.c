//! Copies a name to the last row of a global table, and on into what is behind the table.
#include "guest.h"

char names[4][8];
char after[16] = "next";

static __attribute__((noinline)) void set(char *row, const char *name)
{
    strcpy(row, name); // MARK: fault
}

int main(int argc, char **argv)
{
    (void)argv;
    set(names[1], "one");
    set(names[3], argc > 1 ? "seven: " : "eleven: ..."); // MARK: cause
    printf("%s %s\n", names[3], after);
    return 0;
}
