//! Reads an element behind the end of a global array.
#include "guest.h"

int before = 1;
int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
int after = 1;

static __attribute__((noinline)) int length(int month)
{
    return days[month]; // MARK: fault
}

int main(int argc, char **argv)
{
    (void)argv;
    int n = length(argc > 1 ? 11 : 12); // MARK: cause
    printf("%d\n", n > before + after);
    return 0;
}
