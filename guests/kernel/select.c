//! select and pselect: the sets are rewritten to what is ready.
#include "guest.h"
#include <sys/select.h>

int main(void)
{
    int a[2], b[2];
    must(pipe(a) == 0 && pipe(b) == 0 && write(b[1], "y", 1) == 1);
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(a[0], &in);
    FD_SET(b[0], &in);
    FD_SET(a[1], &out);
    struct timeval none = {0, 0};
    int ready = select(b[1] + 1, &in, &out, NULL, &none);
    printf("%d %d %d %d\n", ready, FD_ISSET(a[0], &in), FD_ISSET(b[0], &in), FD_ISSET(a[1], &out));
    FD_ZERO(&in);
    FD_SET(a[0], &in);
    struct timespec little = {0, 1000000};
    printf("%d %d\n", pselect(a[0] + 1, &in, NULL, NULL, &little, NULL), FD_ISSET(a[0], &in));
    FD_SET(77, &in);
    int bad = select(78, &in, NULL, NULL, &none);
    printf("%d %s\n", bad, strerror(errno));
    return 0;
}
