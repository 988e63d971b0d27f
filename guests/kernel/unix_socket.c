//! A named socket in the working directory: stream and datagram, with the peer's name.
#include "guest.h"
#include <sys/socket.h>
#include <sys/un.h>

int main(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "door"}, peer;
    int server = socket(AF_UNIX, SOCK_SEQPACKET, 0), client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    must(server >= 0 && client >= 0);
    must(connect(client, (struct sockaddr *)&address, sizeof address) == -1 && errno == ENOENT);
    must(bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 1) == 0);
    must(connect(client, (struct sockaddr *)&address, sizeof address) == 0);
    int accepted = accept(server, NULL, NULL);
    must(accepted >= 0 && send(client, "packet one", 10, 0) == 10 && send(client, "two", 3, 0) == 3);
    char text[32];
    ssize_t first = recv(accepted, text, 4, MSG_TRUNC), second = recv(accepted, text, sizeof text, 0);
    printf("%zd %zd %.3s\n", first, second, text);
    socklen_t length = sizeof peer;
    must(getpeername(client, (struct sockaddr *)&peer, &length) == 0);
    int kind;
    socklen_t size = sizeof kind;
    must(getsockopt(client, SOL_SOCKET, SO_TYPE, &kind, &size) == 0);
    printf("%s %d\n", peer.sun_path, kind);
    must(recv(client, text, 1, 0) == -1 && errno == EAGAIN);
    unlink("door");
    return 0;
}
