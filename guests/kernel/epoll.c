//! Waits on many descriptors with epoll, level and edge triggered, one shot; the data words come back.
#include "guest.h"
#include <sys/epoll.h>

int main(void)
{
    int poll = epoll_create1(EPOLL_CLOEXEC), ends[3][2];
    must(poll >= 0);
    const unsigned kinds[] = {EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT};
    for (unsigned i = 0; i < 3; i++) {
        must(pipe(ends[i]) == 0);
        struct epoll_event event = {.events = kinds[i], .data.u64 = 0xabc000 + i};
        must(epoll_ctl(poll, EPOLL_CTL_ADD, ends[i][0], &event) == 0);
        must(write(ends[i][1], "z", 1) == 1);
    }
    for (int round = 0; round < 3; round++) {
        struct epoll_event got[8];
        int count = epoll_wait(poll, got, 8, 0);
        printf("%d:", count);
        uint64_t seen = 0;
        for (int i = 0; i < count; i++)
            seen |= 1ul << (got[i].data.u64 & 7);
        printf(" %lx\n", seen);
    }
    must(epoll_ctl(poll, EPOLL_CTL_DEL, ends[0][0], NULL) == 0);
    struct epoll_event none;
    printf("%d\n", epoll_pwait(poll, &none, 1, 1, NULL));
    must(epoll_ctl(poll, EPOLL_CTL_DEL, ends[0][0], NULL) == -1 && errno == ENOENT);
    return 0;
}
