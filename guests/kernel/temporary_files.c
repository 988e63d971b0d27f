//! Creates, writes, renames, links, truncates and removes files in a temporary directory.
#include "guest.h"
#include <fcntl.h>
#include <sys/stat.h>

int main(void)
{
    char directory[] = "tmp.XXXXXX", path[64], other[64];
    must(mkdtemp(directory) != NULL);
    int at = open(directory, O_RDONLY | O_DIRECTORY);
    must(at >= 0);
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "file%d", i);
        int fd = openat(at, path, O_WRONLY | O_CREAT, 0600);
        must(fd >= 0 && dprintf(fd, "contents %d\n", i) > 0 && close(fd) == 0);
        snprintf(other, sizeof other, "renamed%d", i / 2);
        must(renameat(at, path, at, other) == 0);
    }
    must(renameat2(at, "renamed0", at, "renamed1", 2) == 0);
    struct stat s;
    must(fstatat(at, "renamed9", &s, 0) == 0 && fstatat(at, "file3", &s, 0) == -1);
    int fd = openat(at, "renamed0", O_RDONLY);
    char text[32] = {0};
    must(read(fd, text, sizeof text - 1) > 0);
    fputs(text, stdout);
    close(fd);
    for (int i = 0; i < 10; i++) {
        snprintf(other, sizeof other, "renamed%d", i);
        must(unlinkat(at, other, 0) == 0);
    }
    FILE *unnamed = tmpfile();
    must(unnamed != NULL && fputs("gone", unnamed) >= 0);
    fclose(unnamed);
    must(close(at) == 0 && rmdir(directory) == 0);
    puts("clean");
    return 0;
}
