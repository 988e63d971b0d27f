//! Maps ends of a file that is mostly a hole, and larger than many disks.
#include "guest.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
    const off_t size = 1l << 42;
    int fd = open("sparse.bin", O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && ftruncate(fd, size) == 0);
    must(pwrite(fd, "first", 5, 100) == 5 && pwrite(fd, "middle", 6, (5l << 32) + 4094) == 6);
    must(pwrite(fd, "last", 4, size - 4) == 4);
    const char *head = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
    const char *middle = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 5l << 32);
    const char *tail = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, size - 4096);
    must(head != MAP_FAILED && middle != MAP_FAILED && tail != MAP_FAILED);
    printf("%s %.6s %.4s %d\n", head + 100, middle + 4094, tail + 4092, head[4096] + middle[0] + tail[0]);
    must(unlink("sparse.bin") == 0);
    return 0;
}
