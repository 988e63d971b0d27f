//! The futex call itself: bit sets, requeueing, wake with an operation, and what it refuses.
//! flags: -pthread
#include "guest.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

static uint32_t a, b, c;
static int woken[6], arrived;

static long futex(uint32_t *word, int op, uint32_t value, unsigned long second, uint32_t *other,
                  uint32_t third)
{
    return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, second, other, third);
}

static void *waits(void *argument)
{
    int self = (int)(intptr_t)argument;
    __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
    must(futex(&a, FUTEX_WAIT_BITSET, 0, 0, NULL, 1u << self) == 0);
    __atomic_store_n(&woken[self], 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static int count(void)
{
    int n = 0;
    for (int i = 0; i < 6; i++)
        n += __atomic_load_n(&woken[i], __ATOMIC_SEQ_CST);
    return n;
}

int main(void)
{
    pthread_t threads[6];
    for (intptr_t i = 0; i < 6; i++)
        must(pthread_create(&threads[i], NULL, waits, (void *)i) == 0);
    while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 6)
        usleep(100);
    usleep(5000);
    must(futex(&a, FUTEX_WAIT, 1, 0, NULL, 0) == -1 && errno == EAGAIN);
    must(futex(&a, FUTEX_WAIT_BITSET, 0, 0, NULL, 0) == -1 && errno == EINVAL);
    must(futex((uint32_t *)((char *)&a + 1), FUTEX_WAKE, 1, 0, NULL, 0) == -1 && errno == EINVAL);
    must(futex((uint32_t *)16, FUTEX_WAIT, 1, 0, NULL, 0) == -1 && errno == EFAULT);
    struct timespec soon = {.tv_nsec = 1000000}, wrong = {.tv_nsec = -1};
    must(futex(&b, FUTEX_WAIT, 0, (unsigned long)&soon, NULL, 0) == -1 && errno == ETIMEDOUT);
    must(futex(&b, FUTEX_WAIT, 0, (unsigned long)&wrong, NULL, 0) == -1 && errno == EINVAL);
    // Only the thread with that bit.
    must(futex(&a, FUTEX_WAKE_BITSET, 6, 0, NULL, 1 << 4) == 1);
    must(pthread_join(threads[4], NULL) == 0);
    must(woken[4] && count() == 1);
    // One is woken, two move, two stay.
    must(futex(&a, FUTEX_CMP_REQUEUE, 1, 2, &b, 1) == -1 && errno == EAGAIN);
    must(futex(&a, FUTEX_CMP_REQUEUE, 1, 2, &b, 0) == 3);
    must(futex(&b, FUTEX_WAKE, 9, 0, NULL, 0) == 2);
    // Adds 3 to c, and wakes on c only if c was 0.
    int op = FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 0);
    must(futex(&a, FUTEX_WAKE_OP, 1, 1, &c, op) == 1);
    must(c == 3);
    must(futex(&a, FUTEX_WAKE, 9, 0, NULL, 0) == 1);
    for (int i = 0; i < 6; i++)
        if (i != 4)
            must(pthread_join(threads[i], NULL) == 0);
    printf("%d\n", count());
    return 0;
}
