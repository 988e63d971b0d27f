//! A file that was not written for long, mapped to be read; then it is written after all, by this process and by others.
#include "guest.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 5, SIZE = PAGES * 4096 };

static void put(int fd, off_t at, char byte)
{
    must(pwrite(fd, &byte, 1, at) == 1);
}

int main(void)
{
    char name[] = "mmap_still_XXXXXX";
    int fd = mkstemp(name);
    must(fd >= 0);
    for (int i = 0; i < PAGES; i++)
        put(fd, i * 4096 + 4095, (char)('a' + i));
    const struct timespec long_ago[2] = {{1000000000, 0}, {1000000000, 0}};
    must(futimens(fd, long_ago) == 0);
    int other = open(name, O_RDONLY);
    must(other >= 0);
    const volatile char *seen = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, other, 0);
    must(seen != MAP_FAILED);
    uint64_t sum = MIX_START;
    for (int i = 0; i < PAGES; i++)
        sum = mix(sum, (uint64_t)seen[i * 4096 + 4095] + (uint64_t)(getppid() > 0));
    put(fd, 4096, 'x');
    must(seen[4096] == 'x' && seen[0] == 0);
    for (int i = 0; i < 3; i++) {
        must(futimens(fd, long_ago) == 0);
        pid_t child = fork();
        must(child >= 0);
        if (child == 0) {
            put(fd, i, (char)('p' + i));
            _exit(0);
        }
        must(waitpid(child, NULL, 0) == child);
        must(seen[i] == 'p' + i);
        sum = mix(sum, (uint64_t)seen[i]);
    }
    char *own = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(own != MAP_FAILED);
    own[8192] = 'o';
    must(futimens(fd, long_ago) == 0);
    own[8193] = 'w';
    must(seen[8192] == 'o' && seen[8193] == 'w');
    must(unlink(name) == 0);
    printf("%016lx\n", mix(sum, (uint64_t)seen[8193]));
    return 0;
}
