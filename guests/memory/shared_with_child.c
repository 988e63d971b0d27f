//! A child writes into memory shared with its parent, who waits and reads it.
#include "guest.h"
#include <sys/mman.h>
#include <sys/wait.h>

int main(void)
{
    uint64_t *shared = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED);
    shared[7] = 1;
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        for (uint64_t i = 0; i < 2000; i++)
            shared[i] += i * i;
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 0);
    printf("%016lx %lu\n", mix_bytes(MIX_START, shared, 16384), shared[7]);
    return 0;
}
