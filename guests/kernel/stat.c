//! stat, lstat, fstat, fstatat, statx, access, readlink and chmod on files, links and directories.
//! file: plain.txt 12345
#include "guest.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static void show(const char *name, const struct stat *s)
{
    printf("%s mode %o size %ld links %ld\n", name, s->st_mode, S_ISDIR(s->st_mode) ? 0 : (long)s->st_size,
           S_ISDIR(s->st_mode) ? 0 : (long)s->st_nlink);
}

int main(void)
{
    struct stat s;
    umask(022);
    must(chmod("plain.txt", 0640) == 0 && stat("plain.txt", &s) == 0);
    show("plain", &s);
    must(symlink("plain.txt", "soft") == 0 && link("plain.txt", "hard") == 0 && mkdir("dir", 0777) == 0);
    must(lstat("soft", &s) == 0);
    show("soft", &s);
    must(stat("soft", &s) == 0);
    show("through soft", &s);
    must(fstatat(AT_FDCWD, "dir", &s, 0) == 0);
    show("dir", &s);
    struct statx x;
    must(statx(AT_FDCWD, "hard", 0, STATX_SIZE | STATX_NLINK, &x) == 0);
    printf("statx %llu %u\n", (unsigned long long)x.stx_size, x.stx_nlink);
    char target[32] = {0};
    must(readlink("soft", target, sizeof target) == 9);
    must(access("plain.txt", F_OK) == 0 && access("nothing", F_OK) == -1);
    struct timespec times[2] = {{1000000, 5}, {2000000, 7}};
    must(utimensat(AT_FDCWD, "hard", times, 0) == 0 && stat("plain.txt", &s) == 0);
    printf("%s %ld.%ld %s\n", target, (long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec, strerror(errno));
    struct statfs fs;
    must(statfs(".", &fs) == 0 && fs.f_bsize > 0);
    must(stat("plain.txt/x", &s) == -1 && errno == ENOTDIR);
    unlink("soft"), unlink("hard"), rmdir("dir");
    return 0;
}
