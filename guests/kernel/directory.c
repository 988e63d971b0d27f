//! Lists a directory of many entries, rewinds, and walks a tree.
#include "guest.h"
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
static int visited;
static int visit(const char *path, const struct stat *s, int kind, struct FTW *walk)
{
    (void)s;
    visited++;
    if (kind == FTW_DP)
        return rmdir(path);
    (void)walk;
    return unlink(path);
}

int main(void)
{
    char name[32], *names[300];
    must(mkdir("tree", 0755) == 0);
    for (int i = 0; i < 250; i++) {
        snprintf(name, sizeof name, "tree/f%03d", i);
        int fd = creat(name, 0600);
        must(fd >= 0 && close(fd) == 0);
    }
    must(mkdir("tree/sub", 0755) == 0);
    DIR *dir = opendir("tree");
    must(dir != NULL);
    for (int pass = 0; pass < 2; pass++) {
        int count = 0;
        for (struct dirent *entry; (entry = readdir(dir));)
            names[count++] = strdup(entry->d_name);
        qsort(names, (size_t)count, sizeof *names, by_name);
        uint64_t sum = MIX_START;
        for (int i = 0; i < count; i++)
            sum = mix_bytes(sum, names[i], strlen(names[i]));
        printf("%d %016lx\n", count, sum);
        rewinddir(dir);
    }
    closedir(dir);
    must(nftw("tree", visit, 10, FTW_DEPTH | FTW_PHYS) == 0);
    printf("visited %d\n", visited);
    return 0;
}
