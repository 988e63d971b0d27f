//! A timer behind a descriptor, waited for with poll and by a blocking read.
#include "guest.h"
#include <poll.h>
#include <sys/timerfd.h>

int main(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    must(fd >= 0);
    struct itimerspec soon = {{0, 0}, {0, 2000000}}, now;
    must(timerfd_settime(fd, 0, &soon, NULL) == 0);
    uint64_t count;
    must(read(fd, &count, sizeof count) == sizeof count);
    printf("%lu\n", count);
    soon.it_interval.tv_nsec = 1000000;
    must(timerfd_settime(fd, 0, &soon, NULL) == 0);
    struct pollfd wait = {fd, POLLIN, 0};
    must(poll(&wait, 1, -1) == 1 && wait.revents == POLLIN);
    must(read(fd, &count, sizeof count) == sizeof count && count >= 1);
    must(timerfd_gettime(fd, &now) == 0 && now.it_interval.tv_nsec == 1000000);
    puts("ticked");
    return 0;
}
