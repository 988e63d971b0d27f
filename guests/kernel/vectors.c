//! Scattered reads and gathered writes, whole and partial.
#include "guest.h"
#include <fcntl.h>
#include <sys/uio.h>

int main(void)
{
    int fd = open("vec.bin", O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0);
    char a[] = "alpha", b[] = "", c[] = "gamma-delta";
    struct iovec out[] = {{a, 5}, {b, 0}, {c, 11}};
    must(writev(fd, out, 3) == 16 && pwritev(fd, out, 1, 20) == 5);
    char x[4] = {0}, y[30] = {0}, z[10] = {0};
    struct iovec in[] = {{x, 3}, {y, 20}, {z, 9}};
    must(lseek(fd, 0, SEEK_SET) == 0);
    ssize_t got = readv(fd, in, 3);
    printf("%zd [%s] [%s] [%s] %016lx\n", got, x, y, z, mix_bytes(MIX_START, y, 20));
    printf("%zd\n", preadv(fd, in, 2, 21));
    static struct iovec many[2000];
    struct iovec bad[] = {{x, 2}, {(void *)8, 4}};
    must(preadv(fd, bad, 2, 0) == 2);
    must(writev(fd, many, 2000) == -1 && errno == EINVAL);
    unlink("vec.bin");
    return 0;
}
