//! Closes a descriptor twice. Others had the same number before, and came about in all the ways there are.
#include "guest.h"
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    (void)argv;
    int two[2], one = open("/dev/null", O_RDONLY);
    int other = fcntl(one, F_DUPFD, 0);
    close(one);
    close(other);
    must(pipe(two) == 0 && two[0] == one);
    close(two[0]);
    close(two[1]);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, two) == 0 && two[0] == one);
    close(two[0]);
    close(two[1]);
    one = epoll_create1(0);
    close(one);
    one = eventfd(0, 0);
    close(one);
    close(-1);
    close(-1);
    one = open("/dev/null", O_RDONLY);
    close(one); // MARK: before
    if (argc > 1)
        one = open("/dev/null", O_RDONLY); // MARK: cause
    close(one); // MARK: fault
    return 0;
}
