//! Watches a directory while it changes it.
#include "guest.h"
#include <fcntl.h>
#include <sys/inotify.h>

int main(void)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    must(fd >= 0);
    int watch = inotify_add_watch(fd, ".", IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE);
    must(watch >= 0);
    char events[4096] __attribute__((aligned(8)));
    must(read(fd, events, sizeof events) == -1 && errno == EAGAIN);
    int file = creat("watched", 0600);
    must(file >= 0 && write(file, "x", 1) == 1 && close(file) == 0);
    must(rename("watched", "moved") == 0 && unlink("moved") == 0);
    ssize_t got = read(fd, events, sizeof events);
    must(got > 0);
    uint32_t cookie = 0;
    for (char *at = events; at < events + got;) {
        struct inotify_event *event = (struct inotify_event *)(void *)at;
        printf("%x %s pair %d\n", event->mask, event->name, event->cookie && event->cookie == cookie);
        cookie = event->cookie;
        at += sizeof *event + event->len;
    }
    must(inotify_rm_watch(fd, watch) == 0);
    return 0;
}
