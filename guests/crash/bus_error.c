//! Touches a mapped file beyond its end.
//! signal: SIGBUS
//! file: small.txt tiny
#include "guest.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
    int fd = open("small.txt", O_RDONLY);
    must(fd >= 0);
    volatile char *map = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
    must(map != MAP_FAILED);
    printf("%c\n", map[0]);
    fflush(stdout);
    return map[5000];
}
