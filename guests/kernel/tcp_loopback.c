//! Listens, connects to itself, exchanges data both ways, and is refused by a closed port.
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int main(void)
{
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    must(server >= 0 && setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, peer;
    must(bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 4) == 0);
    socklen_t length = sizeof address;
    must(getsockname(server, (struct sockaddr *)&address, &length) == 0 && address.sin_port != 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    must(client >= 0 && connect(client, (struct sockaddr *)&address, sizeof address) == 0);
    length = sizeof peer;
    int accepted = accept4(server, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC);
    must(accepted >= 0);
    must(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    char text[64] = {0};
    must(write(client, "to the server", 13) == 13 && recv(accepted, text, 13, MSG_WAITALL) == 13);
    printf("%s from %s\n", text, inet_ntoa(peer.sin_addr));
    must(send(accepted, "and back", 9, 0) == 9 && recv(client, text, 9, MSG_WAITALL) == 9);
    puts(text);
    must(close(accepted) == 0 && read(client, text, 1) == 0);
    close(client), close(server);
    client = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(client, (struct sockaddr *)&address, sizeof address) == -1);
    puts(strerror(errno));
    return 0;
}
