//! Calls that are run without a stop, at the edges of what may be: sizes that are only asked for, commands that write
//! and commands that do not, and the CPUs that the program may believe in.
#define _GNU_SOURCE
#include "guest.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

int main(void)
{
    char name[] = "/tmp/spot-XXXXXX", value[64];
    int fd = mkstemp(name);
    must(fd >= 0);
    for (int round = 0; round < 3; round++) {
        memset(value, '.', sizeof value);
        int set = fsetxattr(fd, "user.spot", "0123456789", 10, 0) == 0 ? 0 : errno;
        long asked = fgetxattr(fd, "user.spot", value, 0);
        printf("%d %ld %.12s\n", set, asked, value);
        long small = fgetxattr(fd, "user.spot", value, 4);
        printf("%ld %d %.12s\n", small, small < 0 ? errno : 0, value);
        long whole = fgetxattr(fd, "user.spot", value, sizeof value);
        printf("%ld %.12s\n", whole, value);
        printf("%ld\n", flistxattr(fd, NULL, 0) > 0 ? 1L : 0L);

        int flags = fcntl(fd, F_GETFD), copy = fcntl(fd, F_DUPFD_CLOEXEC, 50);
        printf("%d %d %d %d\n", flags, copy, fcntl(copy, F_GETFD), fcntl(fd, F_GETFL) & O_ACCMODE);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 9};
        int got = fcntl(fd, F_GETLK, &lock);
        printf("%d %d %d\n", got, lock.l_type == F_UNLCK, (int)lock.l_start);
        struct f_owner_ex owner = {.type = 77, .pid = 77};
        got = fcntl(fd, F_GETOWN_EX, &owner);
        printf("%d %d %d\n", got, owner.type, (int)owner.pid);
        got = fcntl(fd, 1040, 0);
        printf("%d %d\n", got, errno);
        close(copy);
    }
    must(unlink(name) == 0);

    // The fourth argument is not one of this call.
    cpu_set_t all, one;
    CPU_ZERO(&all);
    must(syscall(SYS_sched_getaffinity, 0, sizeof all, &all, 0L) > 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    must(sched_setaffinity(0, sizeof one, &one) == 0);
    cpu_set_t now;
    CPU_ZERO(&now);
    must(syscall(SYS_sched_getaffinity, 0, sizeof now, &now, 0L) > 0);
    printf("%d CPUs, then %d\n", CPU_COUNT(&all), CPU_COUNT(&now));
    return 0;
}
