//! Gives a block that was freed to functions of the C library and to the kernel, which only read it.
//! flags: -fno-builtin -Wno-use-after-free
#include "guest.h"
#include <fcntl.h>

static char *volatile name;
static char copy[64];
static volatile long sink;

int main(int argc, char **argv)
{
    (void)argv;
    int null = open("/dev/null", O_WRONLY);
    name = malloc(40);
    memset(name, 'n', 39);
    name[39] = 0;
    if (argc == 1)
        free(name);
    memcpy(copy, name, 32); // MARK: memcpy
    sink = strcmp(name, "other"); // MARK: strcmp
    sink = strncmp(name, "other", 3); // MARK: strncmp
    sink = strchr(name, 'x') != NULL; // MARK: strchr
    sink = strstr(name, "no") != NULL; // MARK: strstr
    sink = memchr(name, 'x', 20) != NULL; // MARK: memchr
    sink = (long)strlen(name); // MARK: strlen
    strcpy(copy, name); // MARK: strcpy
    strncpy(copy, name, 4); // MARK: strncpy
    sink = write(null, name, 20); // MARK: write
    if (argc > 1)
        free(name);
    return 0;
}
