//! Children of vfork and fork write into a file mapping and an anonymous one.
#include "guest.h"
#include <sys/mman.h>
#include <sys/wait.h>

int main(void)
{
    int fd = memfd_create("file", 0);
    must(fd >= 0 && ftruncate(fd, 8192) == 0);
    volatile uint64_t *file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    volatile uint64_t *none = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(file != MAP_FAILED && none != MAP_FAILED);
    for (uint64_t i = 0; i < 10; i++) {
        file[i] = i;
        pid_t child = i % 2 ? vfork() : fork();
        must(child >= 0);
        if (child == 0) {
            file[i + 600] = file[i] * 7;
            none[i] = file[i] + 100;
            _exit(0);
        }
        int status;
        must(waitpid(child, &status, 0) == child && status == 0);
        none[i + 1] = none[i] + file[i + 600];
    }
    for (int i = 0; i < 11; i++)
        printf("%lu %lu\n", file[i + 600], none[i]);
    return 0;
}
