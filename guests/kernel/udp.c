//! Datagrams to itself with sendto, recvfrom, sendmmsg and recvmmsg.
#include "guest.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int main(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
    must(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    socklen_t length = sizeof address;
    must(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    must(sendto(fd, "datagram", 8, 0, (struct sockaddr *)&address, sizeof address) == 8);
    char text[16] = {0};
    length = sizeof from;
    must(recvfrom(fd, text, 4, MSG_TRUNC, (struct sockaddr *)&from, &length) == 8);
    printf("%s %u %d\n", text, length, from.sin_port == address.sin_port);
    must(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    struct mmsghdr batch[2] = {0};
    char one[8] = "one", two[8] = "second";
    struct iovec io[2] = {{one, 3}, {two, 6}};
    for (int i = 0; i < 2; i++)
        batch[i].msg_hdr.msg_iov = &io[i], batch[i].msg_hdr.msg_iovlen = 1;
    must(sendmmsg(fd, batch, 2, 0) == 2);
    memset(one, 0, 8), memset(two, 0, 8);
    io[0].iov_len = io[1].iov_len = 8;
    must(recvmmsg(fd, batch, 2, 0, NULL) == 2);
    printf("%s %u %s %u\n", one, batch[0].msg_len, two, batch[1].msg_len);
    must(recv(fd, text, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    return 0;
}
