//! Reads, sets, replaces and removes environment variables.
//! env: FRUIT=apple EMPTY=
#include "guest.h"

extern char **environ;

int main(void)
{
    printf("FRUIT=%s EMPTY=[%s]\n", getenv("FRUIT"), getenv("EMPTY"));
    must(getenv("NOT_SET_ANYWHERE") == NULL);
    must(setenv("FRUIT", "pear", 1) == 0 && setenv("FRUIT", "plum", 0) == 0);
    must(unsetenv("EMPTY") == 0 && setenv("ADDED", "yes", 1) == 0);
    uint64_t sum = 0;
    int count = 0;
    for (char **e = environ; *e; e++, count++)
        sum += mix_bytes(MIX_START, *e, strlen(*e));
    printf("FRUIT=%s ADDED=%s EMPTY=%s\n", getenv("FRUIT"), getenv("ADDED"),
           getenv("EMPTY") ? "set" : "unset");
    printf("%d variables, sum %016lx\n", count, sum);
    return 0;
}
