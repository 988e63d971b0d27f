//! Compares with a string that is not there, as the second of two: vector code reads that under a mask.
//! signal: SIGSEGV
#include "guest.h"
#include <string.h>

int main(int argc, char **argv)
{
    (void)argv;
    const char *volatile known = "known", *volatile name = argc > 1 ? "name" : NULL;
    int (*volatile compare)(const char *, const char *) = strcmp;
    printf("%d\n", compare(known, name) < 0); // MARK: fault
    return 0;
}
