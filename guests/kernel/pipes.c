//! Fills and drains a pipe without blocking, splices, and sees end of file.
#include "guest.h"
#include <fcntl.h>
#include <sys/ioctl.h>

int main(void)
{
    int ends[2], others[2];
    must(pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0 && pipe(others) == 0);
    char block[4096];
    memset(block, 'b', sizeof block);
    long total = 0;
    ssize_t wrote;
    while ((wrote = write(ends[1], block, sizeof block)) > 0)
        total += wrote;
    must(errno == EAGAIN);
    int waiting;
    must(ioctl(ends[0], FIONREAD, &waiting) == 0);
    printf("%ld %d %d\n", total, waiting, fcntl(ends[0], F_GETPIPE_SZ));
    must(splice(ends[0], NULL, others[1], NULL, 5000, 0) == 5000);
    must(tee(ends[0], others[1], 100, 0) == 100);
    must(close(ends[1]) == 0);
    long drained = 0;
    ssize_t got;
    while ((got = read(ends[0], block, sizeof block)) > 0)
        drained += got;
    must(got == 0 && ioctl(others[0], FIONREAD, &waiting) == 0);
    printf("%ld %d\n", drained, waiting);
    return 0;
}
