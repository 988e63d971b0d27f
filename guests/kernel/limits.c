//! Process attributes: limits, priority, name, umask, affinity, no-new-privileges.
#include "guest.h"
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

int main(void)
{
    struct rlimit limit = {64, 128}, got;
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0 && getrlimit(RLIMIT_NOFILE, &got) == 0);
    printf("%lu %lu\n", (unsigned long)got.rlim_cur, (unsigned long)got.rlim_max);
    int opened = 0, fd;
    while ((fd = dup(0)) >= 0)
        opened++;
    printf("%s after %d\n", strerror(errno), opened > 40 && opened <= 61);
    must(close_range(3, ~0u, 0) == 0);
    must(prctl(PR_SET_NAME, "renamed") == 0);
    char name[16];
    must(prctl(PR_GET_NAME, name) == 0);
    umask(027);
    printf("%s %o\n", name, umask(022));
    cpu_set_t set;
    must(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 1);
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    must(setpriority(PRIO_PROCESS, 0, 1) == 0 && getpriority(PRIO_PROCESS, 0) == 1);
    must(sched_yield() == 0);
    puts("done");
    return 0;
}
