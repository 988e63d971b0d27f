//! Leaves a descriptor open.
#include "guest.h"
#include <fcntl.h>
#include <unistd.h>

static __attribute__((noinline)) int look(const char *path, int tidy)
{
    int file = open(path, O_RDONLY); // MARK: cause
    char byte;
    int n = read(file, &byte, 1);
    if (tidy)
        close(file);
    return n;
}

int main(int argc, char **argv)
{
    (void)argv;
    int n = look("/dev/null", 1) + look("/dev/zero", argc > 1);
    return n != 1;
} // MARK: fault
