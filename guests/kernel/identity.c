//! Prints its ids, randomness, limits and addresses: the replay must be told the same.
//! nondeterministic: process ids, random bytes and address layout differ from run to run
#include "guest.h"
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sched.h>

int main(void)
{
    unsigned char random[16];
    must(getrandom(random, sizeof random, 0) == sizeof random);
    printf("%d %d %d %d %u %u\n", getpid(), getppid(), getpgrp(), gettid(), getuid(), getgid());
    for (int i = 0; i < 16; i++)
        printf("%02x", random[i]);
    const unsigned char *seed = (const unsigned char *)getauxval(AT_RANDOM);
    printf(" %02x%02x%02x\n", seed[0], seed[1], seed[15]);
    struct utsname name;
    must(uname(&name) == 0);
    struct rlimit limit;
    must(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    struct sysinfo info;
    must(sysinfo(&info) == 0);
    printf("%s %s %lu %ld %d %ld\n", name.sysname, name.release, (unsigned long)limit.rlim_cur, info.uptime,
           sched_getcpu() >= 0, sysconf(_SC_NPROCESSORS_ONLN));
    int local;
    void *heap = malloc(10);
    printf("%p %p %p %p\n", (void *)&local, heap, (void *)(uintptr_t)main, (void *)(uintptr_t)printf);
    free(heap);
    return 0;
}
