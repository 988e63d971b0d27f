//! Follows a pointer inside a freed block whose place was taken by other data.
//! signal: SIGSEGV
//! flags: -Wno-use-after-free -Wno-maybe-uninitialized
#include "guest.h"

struct item { struct item *next; long value; };

static __attribute__((noinline)) long total(struct item *item)
{
    long sum = 0;
    for (; item; item = item->next) // MARK: fault
        sum += item->value;
    return sum;
}

int main(void)
{
    struct item *volatile head = malloc(sizeof *head);
    head->next = NULL;
    head->value = 7;
    printf("%ld\n", total(head));
    fflush(stdout);
    free(head); // MARK: cause
    uint64_t *volatile other = malloc(sizeof *head);
    other[0] = 0x4141414141414141;
    other[1] = 1;
    printf("%ld\n", total(head));
    return 0;
}
