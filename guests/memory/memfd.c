//! An anonymous file, mapped twice, sealed, and read back.
#include "guest.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
    int fd = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    must(fd >= 0 && ftruncate(fd, 8192) == 0);
    char *a = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *b = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);
    must(a != MAP_FAILED && b != MAP_FAILED);
    strcpy(a + 4096, "through the other view");
    puts(b);
    must(munmap(a, 8192) == 0 && munmap(b, 4096) == 0);
    must(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SHRINK) == 0);
    must(write(fd, "x", 1) == -1 && errno == EPERM);
    must(ftruncate(fd, 1 << 20) == -1 && errno == EPERM);
    char text[8] = {0};
    must(pread(fd, text, 7, 4096) == 7);
    puts(text);
    return 0;
}
