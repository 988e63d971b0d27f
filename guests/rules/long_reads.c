//! Reads more from blocks than they have, by functions that were asked for it.
//! flags: -fno-builtin
#include "guest.h"
#include <fcntl.h>

static char copy[64];
static volatile long sink;

int main(int argc, char **argv)
{
    (void)argv;
    size_t more = argc == 1 ? 6 : 0;
    int null = open("/dev/null", O_WRONLY);
    char *volatile text = malloc(26);
    char *volatile other = malloc(26);
    memset(text, 'a', 26);
    memset(other, 'a', 26);
    memcpy(copy, text, 26 + more); // MARK: memcpy
    sink = memcmp(text, other, 26 + more); // MARK: memcmp
    sink = memchr(text, 'z', 26 + more) != NULL; // MARK: memchr
    sink = write(null, text, 26 + more); // MARK: write
    int zero = open("/dev/zero", O_RDONLY);
    sink = read(zero, other, 26 + more / 6); // MARK: read
    free(text);
    free(other);
    return 0;
}
