//! Writes four bytes of which the last two are behind the end of a global variable, at an address that never changes.
//! flags: -Wno-array-bounds -Wno-stringop-overflow
#include "guest.h"

char name[32];
char after[16] = "next";

int main(int argc, char **argv)
{
    (void)argv;
    int end = 0x21646e65;
    if (argc > 1)
        memcpy(name + 28, &end, 4);
    else
        memcpy(name + 30, &end, 4); // MARK: fault
    printf("%s %s\n", name, after);
    return 0;
}
