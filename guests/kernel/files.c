//! open, read, write, lseek, pread, pwrite, truncate and the errors they give.
//! file: in.txt The quick brown fox\njumps over\nthe lazy dog\n
#include "guest.h"
#include <fcntl.h>

int main(void)
{
    char text[64] = {0};
    void *volatile nowhere = (void *)8;
    int fd = open("in.txt", O_RDONLY);
    must(fd >= 0 && read(fd, text, 9) == 9);
    printf("[%s] %ld\n", text, (long)lseek(fd, 0, SEEK_CUR));
    must(pread(fd, text, 5, 20) == 5 && lseek(fd, -4, SEEK_END) == 40);
    printf("[%.5s] %zd\n", text, read(fd, text + 5, 50));
    must(read(fd, text, 10) == 0 && write(fd, "x", 1) == -1 && errno == EBADF);
    must(open("absent", O_RDONLY) == -1 && errno == ENOENT);
    must(read(fd, nowhere, 10) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    must(read(fd, nowhere, 10) == -1 && errno == EFAULT);
    close(fd);
    must(read(fd, text, 1) == -1 && errno == EBADF);
    fd = open("out.txt", O_RDWR | O_CREAT | O_EXCL, 0600);
    must(fd >= 0 && write(fd, "0123456789", 10) == 10 && pwrite(fd, "AB", 2, 4) == 2);
    must(lseek(fd, 100, SEEK_SET) == 100 && write(fd, "end", 3) == 3 && ftruncate(fd, 102) == 0);
    must(open("out.txt", O_CREAT | O_EXCL, 0600) == -1 && errno == EEXIST);
    char all[200] = {0};
    ssize_t got = pread(fd, all, sizeof all, 0);
    printf("%zd %016lx %.10s\n", got, mix_bytes(MIX_START, all, sizeof all), all);
    must(posix_fallocate(fd, 0, 300) == 0 && lseek(fd, 0, SEEK_END) == 300);
    must(fsync(fd) == 0 && close(fd) == 0 && unlink("out.txt") == 0);
    return 0;
}
