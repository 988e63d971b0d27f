//! Names of files, and commands, without an end in their blocks, or in blocks that are gone.
#include "guest.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/vfs.h>

static volatile long sink;
static char *volatile nothing;

// A function of the program that has something else to do than the library's of that name.
__attribute__((noinline)) long utime(const char *eight, long n)
{
    return eight[n % 8];
}

int main(int argc, char **argv)
{
    (void)argv;
    int wrong = argc == 1;
    char buffer[500];
    struct stat about;
    struct statfs files;
    struct statvfs others;
    // The block ends before the text does.
    char *s = malloc(24);
    strcpy(s, "/nothing/is/called/so!");
    if (wrong)
        s = realloc(s, 20);
    // What is behind the beginning of a block that is freed stays as it is.
    char *old = malloc(5000), *gone = old + 1000;
    strcpy(gone, "/nothing/is/called/so");
    if (wrong)
        free(old);

    sink = open(s, O_RDONLY); // MARK: heap_overflow
    sink = open(gone, O_RDONLY); // MARK: dangling_deref
    sink = openat(AT_FDCWD, s, O_RDONLY); // MARK: heap_overflow
    sink = creat(s, 0600); // MARK: heap_overflow
    sink = fopen(s, "r") != NULL; // MARK: heap_overflow
    sink = fopen(gone, "r") != NULL; // MARK: dangling_deref
    sink = opendir(s) != NULL; // MARK: heap_overflow
    sink = stat(s, &about); // MARK: heap_overflow
    sink = lstat(gone, &about); // MARK: dangling_deref
    sink = fstatat(AT_FDCWD, s, &about, 0); // MARK: heap_overflow
    sink = statfs(s, &files); // MARK: heap_overflow
    sink = statvfs(s, &others); // MARK: heap_overflow
    sink = access(s, R_OK); // MARK: heap_overflow
    sink = faccessat(AT_FDCWD, s, R_OK, 0); // MARK: heap_overflow
    sink = readlink(s, buffer, sizeof buffer); // MARK: heap_overflow
    sink = unlink(gone); // MARK: dangling_deref
    sink = remove(s); // MARK: heap_overflow
    sink = rmdir(s); // MARK: heap_overflow
    sink = mkdir(s, 0700); // MARK: heap_overflow
    sink = mkfifo(s, 0600); // MARK: heap_overflow
    sink = chdir(gone); // MARK: dangling_deref
    sink = chmod(s, 0600); // MARK: heap_overflow
    sink = chown(s, -1, -1); // MARK: heap_overflow
    sink = truncate(s, 0); // MARK: heap_overflow
    sink = utimes(s, NULL); // MARK: heap_overflow
    sink = rename("/nothing", s); // MARK: heap_overflow
    sink = rename(gone, "/nothing"); // MARK: dangling_deref
    sink = link(s, "/nothing"); // MARK: heap_overflow
    sink = symlink("to", s); // MARK: heap_overflow
    sink = symlinkat("to", AT_FDCWD, s); // MARK: heap_overflow
    sink = execl(s, s, NULL); // MARK: heap_overflow
    sink = execv(gone, argv); // MARK: dangling_deref

    // No more of a name is read than a name can have.
    char *long_one = malloc(8000);
    memset(long_one, 'x', 8000);
    sink = access(long_one, R_OK);
    sink = access(nothing, R_OK);
    free(long_one);
    char *eight = malloc(8);
    memset(eight, 'x', 8);
    sink = utime(eight, sink & 7);
    free(eight);
    free(s);
    if (!wrong)
        free(old);
    return 0;
}
