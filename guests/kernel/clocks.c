//! Prints every clock: the replay must read the same times.
//! nondeterministic: time passes
#include "guest.h"
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

int main(void)
{
    for (int clock = 0; clock < 8; clock++) {
        struct timespec now = {0, 0}, step = {0, 0};
        int result = clock_gettime(clock, &now);
        clock_getres(clock, &step);
        printf("%d: %d %ld.%09ld %ld\n", clock, result, (long)now.tv_sec, now.tv_nsec, step.tv_nsec);
    }
    struct timeval day;
    must(gettimeofday(&day, NULL) == 0);
    struct rusage usage;
    must(getrusage(RUSAGE_SELF, &usage) == 0);
    struct tms ticks;
    clock_t since = times(&ticks);
    printf("%ld.%06ld %ld %ld %ld %ld\n", (long)day.tv_sec, (long)day.tv_usec, (long)time(NULL), (long)clock(),
           (long)usage.ru_utime.tv_usec, (long)since);
    time_t now = time(NULL);
    struct tm parts;
    char text[64];
    strftime(text, sizeof text, "%F %T", localtime_r(&now, &parts));
    puts(text);
    struct timespec nap = {0, 2000000}, before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    must(clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL) == 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    long passed = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
    printf("%ld %d\n", passed, passed >= 2000000);
    return 0;
}
