//! poll and ppoll on pipes: ready, not ready, hung up, bad.
#include "guest.h"
#include <poll.h>

int main(void)
{
    int a[2], b[2];
    must(pipe(a) == 0 && pipe(b) == 0);
    struct pollfd set[] = {{a[0], POLLIN, 0}, {a[1], POLLOUT, 0}, {b[0], POLLIN, 0}, {99, POLLIN, 0}, {-1, POLLIN, 0}};
    printf("%d:", poll(set, 5, 0));
    for (int i = 0; i < 5; i++)
        printf(" %x", (unsigned)set[i].revents);
    must(write(a[1], "x", 1) == 1 && close(b[1]) == 0);
    struct timespec wait = {5, 0};
    printf("\n%d:", ppoll(set, 5, &wait, NULL));
    for (int i = 0; i < 5; i++)
        printf(" %x", (unsigned)set[i].revents);
    char byte;
    must(read(a[0], &byte, 1) == 1 && poll(set, 1, 1) == 0);
    puts("\ntimed out");
    return 0;
}
