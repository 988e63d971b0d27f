//! System calls that read what their arguments point to: more than there is, or what is gone.
#include "guest.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>

// A block with these bytes, which is then too small for them, or gone.
static int wrong;
static void *kept[64];
static int keep;
static void *with(const void *bytes, size_t size)
{
    char *block = memcpy(malloc(size), bytes, size);
    if (wrong)
        block = realloc(block, size - 4);
    kept[keep++] = block;
    return block;
}

static void *stale(const void *bytes, size_t size)
{
    // What is freed has its beginning overwritten.
    char *block = malloc(5000);
    memcpy(block + 1000, bytes, size);
    if (wrong)
        free(block);
    else
        kept[keep++] = block;
    return block + 1000;
}

int main(int argc, char **argv)
{
    (void)argv;
    wrong = argc == 1;
    int one = 1, file = open("/dev/null", O_RDWR), s = socket(AF_INET, SOCK_DGRAM, 0);
    int stream = socket(AF_INET, SOCK_STREAM, 0), own = open("arguments.bin", O_RDWR | O_CREAT, 0600);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in nobody = any;
    nobody.sin_port = htons(1);

    void *p = with(&any, sizeof any);
    must(bind(s, p, sizeof any) == 0); // MARK: heap_overflow
    p = with(&nobody, sizeof nobody);
    must(sendto(s, "text", 4, 0, p, sizeof nobody) == 4); // MARK: heap_overflow
    must(connect(stream, p, sizeof nobody) == -1 && errno == ECONNREFUSED); // MARK: heap_overflow
    // Nobody looks at what was given.
    must(connect(-1, p, sizeof nobody) == -1);
    must(connect(file, p, sizeof nobody) == -1);
    struct pollfd fds[3] = {{file, POLLIN, 0}, {file, POLLOUT, 0}, {s, POLLOUT, 0}};
    p = with(fds, sizeof fds);
    must(poll(p, 3, 0) == 3); // MARK: heap_overflow
    struct timespec moment = {0, 1000};
    p = with(&moment, sizeof moment);
    must(nanosleep(p, NULL) == 0); // MARK: heap_overflow
    struct flock lock = {.l_type = F_WRLCK};
    p = with(&lock, sizeof lock);
    must(fcntl(own, F_SETLK, p) == 0); // MARK: heap_overflow
    struct itimerspec timer = {{0, 0}, {1, 0}};
    p = with(&timer, sizeof timer);
    must(timerfd_settime(timerfd_create(CLOCK_MONOTONIC, 0), 0, p, NULL) == 0); // MARK: heap_overflow
    struct timespec times[2] = {{1, 0}, {2, 0}};
    p = with(times, sizeof times);
    must(futimens(own, p) == 0); // MARK: heap_overflow
    struct iovec list[2] = {{"text", 4}, {"more", 4}};
    p = with(list, sizeof list);
    must(writev(file, p, 2) == 8); // MARK: heap_overflow
    struct msghdr m = {.msg_name = &nobody, .msg_namelen = sizeof nobody, .msg_iov = list, .msg_iovlen = 2};
    p = with(&m, sizeof m);
    must(sendmsg(s, p, 0) == 8); // MARK: heap_overflow

    p = stale(&one, sizeof one);
    must(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, p, sizeof one) == 0); // MARK: dangling_deref
    must(ioctl(s, FIONBIO, p) == 0); // MARK: dangling_deref
    p = stale(&any, sizeof any);
    must(bind(stream, p, sizeof any) == 0); // MARK: dangling_deref
    must(unlink("arguments.bin") == 0);
    while (keep > 0)
        free(kept[--keep]);
    return 0;
}
