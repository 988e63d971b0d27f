//! Maps a file shared and private; writes reach the file, or do not, and are seen by read.
//! file: data.bin 0123456789
#include "guest.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
    int fd = open("data.bin", O_RDWR);
    must(fd >= 0 && ftruncate(fd, 10000) == 0);
    char *shared = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *private = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    must(shared != MAP_FAILED && private != MAP_FAILED);
    private[0] = 'P';
    shared[1] = 'S';
    char text[11] = {0};
    must(pread(fd, text, 10, 0) == 10);
    printf("file %s, private %.10s\n", text, private);
    must(pwrite(fd, "W", 1, 2) == 1 && pwrite(fd, "far", 3, 8192) == 3);
    printf("shared %.10s %s\n", shared, shared + 8192);
    must(msync(shared, 10000, MS_SYNC) == 0 && munmap(shared, 10000) == 0);
    printf("%016lx\n", mix_bytes(MIX_START, private, 10000));
    close(fd);
    return 0;
}
