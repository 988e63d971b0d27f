//! Record locks, open-file locks and flock, alone and against a child.
#include "guest.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

int main(void)
{
    int fd = open("lock.txt", O_RDWR | O_CREAT, 0600), other = open("lock.txt", O_RDWR);
    must(fd >= 0 && other >= 0);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
    must(fcntl(fd, F_SETLK, &lock) == 0);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        struct flock probe = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
        if (fcntl(fd, F_SETLK, &probe) != -1 || (errno != EAGAIN && errno != EACCES))
            _exit(1);
        if (fcntl(fd, F_GETLK, &probe) || probe.l_type != F_WRLCK || probe.l_start != 10 || probe.l_pid != getppid())
            _exit(2);
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child);
    printf("child %d\n", WEXITSTATUS(status));
    must(flock(fd, LOCK_EX) == 0 && flock(other, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
    must(flock(fd, LOCK_UN) == 0 && flock(other, LOCK_SH) == 0);
    lock.l_type = F_UNLCK;
    must(fcntl(fd, F_SETLK, &lock) == 0 && fcntl(fd, F_OFD_GETLK, &(struct flock){.l_type = F_WRLCK}) == 0);
    puts("unlocked");
    unlink("lock.txt");
    return 0;
}
