//! Prints its arguments, empty ones and ones with blanks included.
//! args: one "two words" "" -x --long=3
#include "guest.h"

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    printf("%d %s\n", argc, slash ? "path" : "bare");
    for (int i = 1; i < argc; i++)
        printf("[%s]\n", argv[i]);
    must(argv[argc] == NULL);
    return 0;
}
