//! Ends while a block is still there, though a pointer to it is too.
#include "guest.h"

static char *volatile kept;

int main(int argc, char **argv)
{
    (void)argv;
    kept = malloc(40); // MARK: fault
    strcpy(kept, "kept");
    if (argc > 1)
        free(kept);
    return 0;
}
