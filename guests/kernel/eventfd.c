//! Counters behind descriptors: plain, semaphore and non-blocking.
#include "guest.h"
#include <sys/eventfd.h>

int main(void)
{
    int plain = eventfd(3, EFD_NONBLOCK), semaphore = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK);
    eventfd_t value;
    must(plain >= 0 && semaphore >= 0);
    must(eventfd_write(plain, 40) == 0 && eventfd_read(plain, &value) == 0);
    printf("%lu\n", value);
    must(eventfd_read(plain, &value) == -1 && errno == EAGAIN);
    while (eventfd_read(semaphore, &value) == 0)
        printf("%lu\n", value);
    must(errno == EAGAIN && write(plain, "short", 5) == -1 && errno == EINVAL);
    return 0;
}
