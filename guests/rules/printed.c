//! Prints a number into a block that is too small for it, which the C library does in several places.
#include "guest.h"

int main(int argc, char **argv)
{
    (void)argv;
    char *volatile text = malloc(8);
    sprintf(text, "%d", argc == 1 ? 123456789 : 12345); // MARK: fault
    free(text);
    return 0;
}
