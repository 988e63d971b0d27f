//! A file name is copied to an array that is too short for it, over the return address.
//! flags: -fno-stack-protector -U_FORTIFY_SOURCE -fcf-protection=none -fno-builtin -fno-inline
//! args: short a_name_that_is_much_longer_than_the_array_which_is_to_hold_it_for_a_while
//! signal: SIGSEGV
#include "guest.h"
#include <string.h>

static int files;

static int compress(const char *fileptr)
{
    char tempname[24];
    strcpy(tempname, fileptr); // MARK: cause
    files++;
    return tempname[0] != 0; // MARK: fault
} // MARK: return

int main(int argc, char **argv)
{
    int done = 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') // MARK: predicate
            done += compress(argv[i]); // MARK: call
    }
    printf("%d\n", done);
    return 0;
}
