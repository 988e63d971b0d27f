//! The futex call by hand, with nobody else there: mismatch, time-out, wake of none.
#include "guest.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

int main(void)
{
    static uint32_t word = 7;
    struct timespec little = {0, 1000000};
    must(syscall(SYS_futex, &word, FUTEX_WAIT, 8, NULL, NULL, 0) == -1 && errno == EAGAIN);
    must(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 7, &little, NULL, 0) == -1 && errno == ETIMEDOUT);
    must(syscall(SYS_futex, &word, FUTEX_WAKE, 5, NULL, NULL, 0) == 0);
    must(syscall(SYS_futex, (char *)&word + 1, FUTEX_WAKE, 1, NULL, NULL, 0) == -1 && errno == EINVAL);
    must(syscall(SYS_set_tid_address, &word) == gettid());
    puts("nobody came");
    return 0;
}
