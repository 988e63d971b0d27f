//! Sends descriptors and credentials over a socket pair, peeks, and shuts down one way.
#include "guest.h"
#include <fcntl.h>
#include <sys/socket.h>

int main(void)
{
    int pair[2], ends[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(ends) == 0);
    must(write(ends[1], "through a passed descriptor", 27) == 27);
    char text[64] = "with data", control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec io = {text, 9};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &ends[0], sizeof(int));
    must(sendmsg(pair[0], &message, 0) == 9);
    must(recv(pair[1], text, 4, MSG_PEEK) == 4);
    memset(text, 0, sizeof text);
    memset(control, 0, sizeof control);
    io.iov_len = sizeof text;
    ssize_t got = recvmsg(pair[1], &message, MSG_CMSG_CLOEXEC);
    header = CMSG_FIRSTHDR(&message);
    int passed;
    memcpy(&passed, CMSG_DATA(header), sizeof passed);
    must(passed > 2 && passed != ends[0] && (fcntl(passed, F_GETFD) & FD_CLOEXEC));
    printf("%zd %s type %d\n", got, text, header->cmsg_type);
    must(read(passed, text, sizeof text) == 27);
    printf("%.27s\n", text);
    struct ucred who;
    socklen_t length = sizeof who;
    must(getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.pid == getpid());
    must(shutdown(pair[0], SHUT_WR) == 0 && read(pair[1], text, 1) == 0);
    must(send(pair[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    return 0;
}
